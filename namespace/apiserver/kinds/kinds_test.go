package kinds_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

func builtIn() []kinds.Kind {
	return []kinds.Kind{
		kinds.Namespaces(), kinds.ConfigMaps(), kinds.Secrets(), kinds.ServiceAccounts(), kinds.Events(),
		kinds.ResourceQuotas(), kinds.LimitRanges(), kinds.Leases(),
	}
}

func widgets() kinds.Kind {
	return kinds.Custom(registry.Type{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true})
}

// Built-in kinds have Kubernetes' names and columns.
func TestBuiltInKinds(t *testing.T) {
	type seen struct {
		APIVersion, Kind, Singular string
		ShortNames                 []string
		Namespaced, Status         bool
		Columns, Wide              []string
	}
	want := map[string]seen{
		"namespaces":      {"v1", "Namespace", "namespace", []string{"ns"}, false, false, []string{"Name", "Status", "Age"}, nil},
		"configmaps":      {"v1", "ConfigMap", "configmap", []string{"cm"}, true, false, []string{"Name", "Data", "Age"}, nil},
		"secrets":         {"v1", "Secret", "secret", nil, true, false, []string{"Name", "Type", "Data", "Age"}, nil},
		"serviceaccounts": {"v1", "ServiceAccount", "serviceaccount", []string{"sa"}, true, false, []string{"Name", "Secrets", "Age"}, nil},
		"events": {
			"v1", "Event", "event", []string{"ev"}, true, false,
			[]string{"Last Seen", "Type", "Reason", "Object", "Message"},
			[]string{"Subobject", "Source", "First Seen", "Count", "Name"},
		},
		"resourcequotas": {"v1", "ResourceQuota", "resourcequota", []string{"quota"}, true, true, []string{"Name", "Request", "Limit", "Age"}, nil},
		"limitranges":    {"v1", "LimitRange", "limitrange", []string{"limits"}, true, false, []string{"Name", "Created At"}, nil},
		"leases.coordination.k8s.io": {
			"coordination.k8s.io/v1", "Lease", "lease", nil, true, false, []string{"Name", "Holder", "Age"}, nil,
		},
		"widgets.example.com": {"example.com/v1", "Widget", "widget", nil, true, false, []string{"Name", "Age"}, nil},
	}
	got := map[string]seen{}
	for _, k := range append(builtIn(), widgets()) {
		s := seen{k.APIVersion(), k.Kind, k.SingularName(), k.ShortNames, k.Namespaced, k.Status, nil, nil}
		for _, c := range k.Printed() {
			if c.Priority == 0 {
				s.Columns = append(s.Columns, c.Name)
			} else {
				s.Wide = append(s.Wide, c.Name)
			}
			require.NotEmpty(t, c.Description, "%s of %s", c.Name, k.Kind)
		}
		got[k.Name().String()] = s
	}
	require.Empty(t, cmp.Diff(want, got))
	require.NoError(t, kinds.Check(append(builtIn(), widgets())))
}

func TestRegistryAcceptsTheTypes(t *testing.T) {
	var types []registry.Type
	for _, k := range append(builtIn()[1:], widgets()) {
		types = append(types, k.Type)
	}
	s, err := memory.New(nil)
	require.NoError(t, err)
	defer s.Close()
	r, err := registry.New(s, &registry.Options{Types: types})
	require.NoError(t, err)
	require.NoError(t, r.Close())
}

func object(t *testing.T, document string) registry.Object {
	t.Helper()
	var o registry.Object
	require.NoError(t, json.Unmarshal([]byte(document), &o))
	return o
}

func ago(d time.Duration) string {
	return `"` + time.Now().Add(-d).UTC().Format("2006-01-02T15:04:05.000000Z") + `"`
}

// Cells are Kubernetes'. The ages are in days, so that they do not change during the test.
func TestCells(t *testing.T) {
	created := `"metadata":{"name":"x","creationTimestamp":` + ago(50*time.Hour) + `}`
	const age = "2d2h"
	tests := []struct {
		name, document string
		kind           kinds.Kind
		want           []any
	}{
		{"namespace", `{` + created + `,"status":{"phase":"Active"}}`, kinds.Namespaces(), []any{"x", "Active", age}},
		{"empty namespace", `{"metadata":{"name":"x"}}`, kinds.Namespaces(), []any{"x", "", "<unknown>"}},
		{"configmap", `{` + created + `,"data":{"a":"1","b":"2"},"binaryData":{"c":""}}`, kinds.ConfigMaps(), []any{"x", int64(3), age}},
		{"configmap without data", `{` + created + `,"data":null}`, kinds.ConfigMaps(), []any{"x", int64(0), age}},
		{"secret", `{` + created + `,"type":"Opaque","data":{"a":"MQ=="}}`, kinds.Secrets(), []any{"x", "Opaque", int64(1), age}},
		{"service account", `{` + created + `,"secrets":[{"name":"a"},{"name":"b"}]}`, kinds.ServiceAccounts(), []any{"x", int64(2), age}},
		{"lease", `{` + created + `,"spec":{"holderIdentity":"me"}}`, kinds.Leases(), []any{"x", "me", age}},
		{"free lease", `{` + created + `,"spec":{}}`, kinds.Leases(), []any{"x", "", age}},
		{"limit range", `{"metadata":{"name":"x","creationTimestamp":"2026-01-02T03:04:05Z"}}`, kinds.LimitRanges(), []any{"x", "2026-01-02T03:04:05Z"}},
		{"new limit range", `{"metadata":{"name":"x"}}`, kinds.LimitRanges(), []any{"x", "<unknown>"}},
		{
			"quota", `{` + created + `,"status":{"hard":{"pods":"10","limits.cpu":"2","count/configmaps":"3","limits.memory":"1Gi"},"used":{"pods":"1","limits.cpu":"500m"}}}`,
			kinds.ResourceQuotas(), []any{"x", "count/configmaps: 0/3, pods: 1/10", "limits.cpu: 500m/2, limits.memory: 0/1Gi", age},
		},
		{"quota without status", `{` + created + `,"spec":{"hard":{"pods":"10"}}}`, kinds.ResourceQuotas(), []any{"x", "", "", age}},
		{"custom", `{` + created + `,"spec":{}}`, widgets(), []any{"x", age}},
		{
			"event", `{` + created + `,"type":"Normal","reason":"Made","message":" hello \n","involvedObject":{"kind":"Pod","name":"p","fieldPath":"spec"},
				"source":{"component":"kubelet","host":"node"},"count":4,"firstTimestamp":` + ago(50*time.Hour) + `,"lastTimestamp":` + ago(5*24*time.Hour) + `}`,
			kinds.Events(), []any{"5d", "Normal", "Made", "pod/p", "spec", "kubelet, node", "hello", age, int64(4), "x"},
		},
		{
			"event of the newer API", `{` + created + `,"involvedObject":{"kind":"Pod"},"reportingComponent":"c","reportingInstance":"i","eventTime":` + ago(50*time.Hour) + `,"firstTimestamp":null}`,
			kinds.Events(), []any{age, "", "", "pod", "", "c, i", "", age, int64(1), "x"},
		},
		{
			"series of events", `{` + created + `,"involvedObject":{},"reportingComponent":"c","series":{"count":7,"lastObservedTime":` + ago(3*24*time.Hour) + `},"firstTimestamp":` + ago(50*time.Hour) + `}`,
			kinds.Events(), []any{"3d", "", "", "", "", "c", "", age, int64(7), "x"},
		},
		{"event without times", `{"metadata":{"name":"x"}}`, kinds.Events(), []any{"<unknown>", "", "", "", "", "", "", "<unknown>", int64(1), "x"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := object(t, test.document)
			var got []any
			for _, c := range test.kind.Printed() {
				got = append(got, c.Value(o))
			}
			require.Empty(t, cmp.Diff(test.want, got))
		})
	}
}

// One malformed object must not fail a whole Table.
func TestCellsOfBrokenObjects(t *testing.T) {
	for _, value := range []string{`null`, `5`, `"x"`, `[1]`, `{"a":{"b":[]}}`, ``, `{`} {
		fields := map[string]json.RawMessage{}
		for _, name := range []string{
			"data", "binaryData", "status", "spec", "secrets", "type", "series", "source", "involvedObject", "count", "message",
			"firstTimestamp", "lastTimestamp", "eventTime", "reason", "reportingComponent", "reportingInstance",
		} {
			fields[name] = json.RawMessage(value)
		}
		o := registry.Object{Fields: fields}
		for _, k := range builtIn() {
			for _, c := range k.Printed() {
				require.NotNil(t, c.Value(o), "%s of %s with %s", c.Name, k.Kind, value)
			}
		}
	}
}

func TestBadInput(t *testing.T) {
	with := func(change func(*kinds.Kind)) []kinds.Kind {
		k := widgets()
		change(&k)
		return []kinds.Kind{kinds.ConfigMaps(), k}
	}
	column := func(c kinds.Column) []kinds.Kind {
		return with(func(k *kinds.Kind) { k.Columns = []kinds.Column{kinds.Age(), c} })
	}
	value := func(registry.Object) any { return "" }
	tests := map[string]struct {
		list []kinds.Kind
		want string
	}{
		"zero kind":        {[]kinds.Kind{{}}, `Resource "": `},
		"bad version":      {with(func(k *kinds.Kind) { k.Version = "V 1" }), `kind "widgets.example.com": Version "V 1": `},
		"bad group":        {with(func(k *kinds.Kind) { k.Group = "a/b" }), `Group "a/b": `},
		"no kind":          {with(func(k *kinds.Kind) { k.Kind = "" }), `kind "widgets.example.com": Kind must not be empty`},
		"bad kind":         {with(func(k *kinds.Kind) { k.Kind = "Wid get" }), `Kind "Wid get", in lower case: `},
		"bad short name":   {with(func(k *kinds.Kind) { k.ShortNames = []string{"w/x"} }), `singular, short name or category "w/x": `},
		"invalid UTF-8":    {with(func(k *kinds.Kind) { k.Categories = []string{"\xff"} }), `singular, short name or category "\xff": `},
		"twice":            {[]kinds.Kind{widgets(), widgets()}, `widgets.example.com already declares the kind "Widget" of example.com/v1`},
		"short name taken": {with(func(k *kinds.Kind) { k.Group = ""; k.ShortNames = []string{"cm"} }), `kind "widgets": configmaps already uses the name "cm"`},
		"resource taken":   {with(func(k *kinds.Kind) { k.Group = ""; k.Resource = "configmaps" }), `kind "configmaps": configmaps already uses the name "configmaps"`},
		"namespaces twice": {[]kinds.Kind{kinds.Namespaces(), kinds.Namespaces()}, `namespaces already declares the kind "Namespace" of v1`},
		"namespace's name": {with(func(k *kinds.Kind) { k.Group = ""; k.Singular = "ns" }), `namespaces already uses the name "ns"`},
		"half built in":    {with(func(k *kinds.Kind) { k.Object = &corev1.ConfigMap{} }), `set both Object and List, or neither`},
		"no list":          {with(func(k *kinds.Kind) { k.Object, k.List = &corev1.ConfigMap{}, &corev1.ConfigMap{} }), `List: *v1.ConfigMap is not a list`},
		"no object":        {with(func(k *kinds.Kind) { k.Object, k.List = &corev1.ConfigMapList{}, &corev1.ConfigMapList{} }), `Object: *v1.ConfigMapList has no metadata`},
		"schema and types": {with(func(k *kinds.Kind) {
			k.Object, k.List, k.Schema = &corev1.ConfigMap{}, &corev1.ConfigMapList{}, json.RawMessage(`{}`)
		}), `must have no Schema`},
		"malformed schema":   {with(func(k *kinds.Kind) { k.Schema = json.RawMessage(`{`) }), `Schema must be a JSON object`},
		"schema is a list":   {with(func(k *kinds.Kind) { k.Schema = json.RawMessage(`[]`) }), `Schema must be a JSON object`},
		"schema is null":     {with(func(k *kinds.Kind) { k.Schema = json.RawMessage(`null`) }), `Schema must be a JSON object`},
		"column no name":     {column(kinds.Column{Value: value}), `Columns[1] has no Name`},
		"column no value":    {column(kinds.Column{Name: "X"}), `column "X" has no Value`},
		"column twice":       {column(kinds.Age()), `column "Age" is declared twice`},
		"column bad type":    {column(kinds.Column{Name: "X", Type: "text", Value: value}), `column "X": Type is "text", must be `},
		"column bad priorty": {column(kinds.Column{Name: "X", Priority: -1, Value: value}), `column "X": Priority is -1, must not be negative`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := kinds.Check(test.list)
			require.ErrorContains(t, err, test.want)
		})
	}
	require.NoError(t, kinds.Check(nil))
}
