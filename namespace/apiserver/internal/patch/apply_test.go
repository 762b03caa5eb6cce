package patch_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/openapi"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/patch"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// bench has one object, which clients change one after another.
type bench struct {
	t       *testing.T
	p       *patch.Patcher
	kind    kinds.Kind
	current *registry.Object
	now     time.Time
}

func newBench(t *testing.T, k kinds.Kind, stored string) *bench {
	b := &bench{t: t, p: newPatcher(t), kind: k, now: noon}
	if stored != "" {
		o := object(t, stored)
		b.current = &o
	}
	return b
}

func (b *bench) try(manager, body string, force bool) error {
	b.t.Helper()
	b.now = b.now.Add(time.Minute)
	next, _, err := b.p.Apply(b.kind, "", b.current, patch.Request{
		Type: applyPatch, Body: []byte(body), FieldManager: manager, Force: force, Now: b.now,
	})
	if err == nil {
		if next.UID == "" {
			next.UID = "u" // as the registry would
		}
		b.current = &next
	}
	return err
}

func (b *bench) apply(manager, body string) {
	b.t.Helper()
	require.NoError(b.t, b.try(manager, body, false))
}

// other applies a patch other than server-side apply.
func (b *bench) other(manager, contentType, body string) {
	b.t.Helper()
	b.now = b.now.Add(time.Minute)
	next, _, err := b.p.Apply(b.kind, "", b.current, patch.Request{
		Type: types.PatchType(contentType), Body: []byte(body), FieldManager: manager, Now: b.now,
	})
	require.NoError(b.t, err)
	b.current = &next
}

// owners returns the managed fields, one entry per line.
func (b *bench) owners() []string {
	var out []string
	for _, e := range b.current.ManagedFields {
		out = append(out, fmt.Sprintf("%s %s%s %s", e.Manager, e.Operation, e.Subresource, e.FieldsV1))
	}
	return out
}

func (b *bench) field(name, want string) {
	b.t.Helper()
	require.JSONEq(b.t, want, string(b.current.Fields[name]))
}

func cm(data string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: x\ndata: " + data + "\n"
}

func (b *bench) conflict(manager, body string) metav1.Status {
	b.t.Helper()
	var status apierrors.APIStatus
	require.ErrorAs(b.t, b.try(manager, body, false), &status)
	require.EqualValues(b.t, 409, status.Status().Code)
	return status.Status()
}

func TestApplyCreates(t *testing.T) {
	b := newBench(t, kinds.ConfigMaps(), "")
	b.apply("one", cm(`{k: v}`))
	b.field("data", `{"k":"v"}`)
	require.Equal(t, []string{`one Apply {"f:data":{"f:k":{}}}`}, b.owners())
	require.Equal(t, noon.Add(time.Minute), b.current.ManagedFields[0].Time.Time)
	require.Equal(t, "x", b.current.Namespace)
}

func TestApplyOfTwoManagers(t *testing.T) {
	b := newBench(t, kinds.ConfigMaps(), "")
	b.apply("one", cm(`{k: v, shared: s}`))
	b.apply("two", cm(`{l: w, shared: s}`))
	b.field("data", `{"k":"v","l":"w","shared":"s"}`)

	status := b.conflict("two", cm(`{k: other, shared: t}`))
	want := []metav1.StatusCause{
		{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "one"`, Field: ".data.k"},
		{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "one"`, Field: ".data.shared"},
	}
	if diff := cmp.Diff(want, status.Details.Causes); diff != "" {
		t.Error(diff)
	}
	require.Equal(t, "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.k\n- .data.shared", status.Message)

	require.NoError(t, b.try("two", cm(`{k: other, shared: t}`), true))
	b.field("data", `{"k":"other","shared":"t"}`) // l had no owner but two
	require.Equal(t, []string{`two Apply {"f:data":{"f:k":{},"f:shared":{}}}`}, b.owners())

	b.apply("one", cm(`{shared: t}`))
	b.apply("two", cm(`{k: other}`))
	b.field("data", `{"k":"other","shared":"t"}`) // one still applies it
	b.apply("one", cm(`{}`))
	b.field("data", `{"k":"other"}`)
}

// A change without effect keeps the times of the entries.
func TestApplyOfTheSameIsNoChange(t *testing.T) {
	for _, test := range []struct {
		kind kinds.Kind
		body string
	}{
		{kinds.ConfigMaps(), cm(`{k: v}`)},
		{gadgets(), `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a"},"spec":{"z":1,"a":[1.5,{"y":1,"b":2}]}}`},
	} {
		b := newBench(t, test.kind, "")
		b.apply("one", test.body)
		before := b.current.DeepCopy()
		b.apply("one", test.body)
		if diff := cmp.Diff(mustJSON(t, before), mustJSON(t, *b.current)); diff != "" {
			t.Error(diff)
		}
	}
}

// A change of metadata that the registry restores has no effect either.
func TestApplyOfWhatIsKeptIsNoChange(t *testing.T) {
	b := newBench(t, kinds.ConfigMaps(), configMap)
	const body = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","creationTimestamp":null},"data":{"k":"v"}}`
	b.apply("one", body)
	before := b.current.DeepCopy()
	b.apply("one", body)
	if diff := cmp.Diff(mustJSON(t, before), mustJSON(t, *b.current)); diff != "" {
		t.Error(diff)
	}
}

func mustJSON(t *testing.T, o registry.Object) string {
	data, err := json.Marshal(o)
	require.NoError(t, err)
	return string(data)
}

func TestListsByKeyAndSets(t *testing.T) {
	w := func(spec string) string {
		return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":` + spec + `}`
	}
	b := newBench(t, widgets(), "")
	b.apply("one", w(`{"parts":[{"name":"p","count":1}],"tags":["a"]}`))
	b.apply("two", w(`{"parts":[{"name":"q","count":2}],"tags":["b"]}`))
	b.field("spec", `{"parts":[{"name":"p","count":1},{"name":"q","count":2}],"tags":["a","b"]}`)
	status := b.conflict("two", w(`{"parts":[{"name":"p","count":3}]}`))
	require.Equal(t, `Apply failed with 1 conflict: conflict with "one": .spec.parts[name="p"].count`, status.Message)
	b.apply("one", w(`{"tags":["a"]}`))
	b.field("spec", `{"parts":[{"name":"q","count":2}],"tags":["a","b"]}`)

	require.ErrorContains(t, b.try("one", w(`{"parts":[{"name":"p"},{"name":"p"}]}`), false), "duplicate")
	require.ErrorIs(t, b.try("one", w(`{"parts":[{"name":"p"},{"name":"p"}]}`), false), namespace.ErrBadRequest)
	require.ErrorContains(t, b.try("one", w(`{"sise":1}`), false), ".spec.sise: field not declared in schema")
}

// kubectl apply --server-side, then other commands, then apply again.
func TestApplyEditApply(t *testing.T) {
	b := newBench(t, kinds.ConfigMaps(), "")
	b.apply("kubectl", cm(`{k: v}`))
	b.other("kubectl-label", mergePatch, `{"metadata":{"labels":{"app":"web"}}}`)
	require.Equal(t, []string{
		`kubectl Apply {"f:data":{"f:k":{}}}`, `kubectl-label Update {"f:metadata":{"f:labels":{".":{},"f:app":{}}}}`,
	}, b.owners())
	b.other("kubectl-edit", strategic, `{"data":{"k":"edited"}}`)
	status := b.conflict("kubectl", cm(`{k: v}`))
	require.Equal(t, `conflict with "kubectl-edit" using v1`, status.Details.Causes[0].Message)
	require.NoError(t, b.try("kubectl", cm(`{k: v2}`), true))
	b.field("data", `{"k":"v2"}`)
	require.Equal(t, map[string]string{"app": "web"}, b.current.Labels)
	b.apply("kubectl", cm(`{k: v3, l: w}`))
	b.field("data", `{"k":"v3","l":"w"}`)
	b.other("kubectl-edit", jsonPatch, `[{"op":"remove","path":"/data/l"}]`)
	b.apply("kubectl", cm(`{k: v3, l: w}`))
	b.field("data", `{"k":"v3","l":"w"}`)
}

// Tracking begins with the first apply.
func TestBeforeFirstApply(t *testing.T) {
	b := newBench(t, kinds.ConfigMaps(), configMap)
	b.other("editor", mergePatch, `{"data":{"e":"1"}}`)
	require.Empty(t, b.current.ManagedFields)
	status := b.conflict("one", cm(`{k: other, new: x}`))
	require.Equal(t, `conflict with "before-first-apply" using v1`, status.Details.Causes[0].Message)
	b.apply("one", cm(`{k: v, new: x}`))
	b.field("data", `{"e":"1","k":"v","n":"1","new":"x"}`)
	require.Equal(t, []string{
		`one Apply {"f:data":{"f:k":{},"f:new":{}}}`,
		`before-first-apply Update {"f:data":{".":{},"f:e":{},"f:k":{},"f:n":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}`,
	}, b.owners())
	for _, e := range b.current.ManagedFields {
		require.Equal(t, b.now, e.Time.Time)
	}
}

// kubectl apply, then kubectl apply --server-side, of the same file.
func TestFromClientSideApply(t *testing.T) {
	stored := object(t, configMap)
	stored.Annotations = map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{},"name":"a","namespace":"x"},"data":{"k":"v","n":"1"}}`,
	}
	b := newBench(t, kinds.ConfigMaps(), mustJSON(t, stored))
	b.apply("kubectl", cm(`{k: changed, "n": "1"}`))
	b.field("data", `{"k":"changed","n":"1"}`)
	require.Contains(t, b.current.Annotations["kubectl.kubernetes.io/last-applied-configuration"], `"k":"changed"`)
}

func TestApplyOfStatus(t *testing.T) {
	b := newBench(t, widgets(), widget)
	apply := func(sub, body string) registry.Object {
		next, _, err := b.p.Apply(widgets(), sub, b.current, patch.Request{
			Type: applyPatch, Body: []byte(body), FieldManager: "m", Force: true, Now: noon,
		})
		require.NoError(t, err)
		return next
	}
	const body = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":2},"status":{"ready":false}}`
	next := apply("", body)
	require.JSONEq(t, `{"f:spec":{"f:size":{}}}`, string(next.ManagedFields[0].FieldsV1))
	next = apply("status", body)
	require.Equal(t, "status", next.ManagedFields[0].Subresource)
	require.JSONEq(t, `{"f:status":{"f:ready":{}}}`, string(next.ManagedFields[0].FieldsV1))
}

func TestApplyOfNamespaces(t *testing.T) {
	b := newBench(t, kinds.Namespaces(), "")
	b.apply("one", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x","labels":{"a":"b"},"creationTimestamp":null},"spec":{"finalizers":["kubernetes"]}}`)
	require.Equal(t, []string{`one Apply {"f:metadata":{"f:labels":{"f:a":{}}}}`}, b.owners())
	b.field("spec", `{"finalizers":["kubernetes"]}`)
}

func TestRefusedApplies(t *testing.T) {
	for _, test := range []struct {
		name, stored, body string
		refused            error
		message            string
	}{
		{"managed fields", configMap, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","managedFields":[]}}`, namespace.ErrBadRequest, "metadata.managedFields must be nil"},
		{"another kind", configMap, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`, namespace.ErrBadRequest, "invalid object type: /v1, Kind=Secret"},
		{"no kind", configMap, `{"metadata":{"name":"a"}}`, namespace.ErrBadRequest, "invalid object type"},
		{"another version", configMap, `{"apiVersion":"v2","kind":"ConfigMap"}`, namespace.ErrBadRequest, "invalid object type: /v2, Kind=ConfigMap"},
		{"another name", configMap, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`, namespace.ErrBadRequest, "the name of the object (b) does not match the name on the URL (a)"},
		{"another namespace", configMap, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"y"}}`, namespace.ErrBadRequest, "the namespace of the object (y) does not match"},
		{"another incarnation", configMap, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"w"}}`, namespace.ErrConflict, "UID in precondition: w"},
		{"an incarnation that is gone", "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"w"}}`, namespace.ErrConflict, "uid mismatch: the provided object specified uid w, and no existing object was found"},
		{"an unknown field", configMap, `{"apiVersion":"v1","kind":"ConfigMap","dat":{}}`, namespace.ErrBadRequest, ".dat: field not declared in schema"},
		{"a wrong type", configMap, `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":1}}`, namespace.ErrBadRequest, ".data.a: expected string"},
		{"a list", configMap, `[]`, namespace.ErrBadRequest, "error decoding YAML"},
		{"metadata of another type", configMap, `{"apiVersion":"v1","kind":"ConfigMap","metadata":"a"}`, namespace.ErrBadRequest, "metadata is not an object"},
		{"nothing", configMap, ``, namespace.ErrBadRequest, "error decoding YAML"},
		{"no YAML", configMap, "a: [", namespace.ErrBadRequest, "error decoding YAML"},
		{"deep", configMap, strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 600), namespace.ErrBadRequest, "nested more than 500 deep"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, kinds.ConfigMaps(), test.stored)
			err := b.try("one", test.body, true)
			require.ErrorIs(t, err, test.refused)
			require.ErrorContains(t, err, test.message)
		})
	}
}

func TestUpdated(t *testing.T) {
	p := newPatcher(t)
	k := kinds.ConfigMaps()
	entry := namespace.ManagedFieldsEntry{Manager: "m", Operation: "Apply", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: namespace.RawJSON(`{"f:data":{"f:k":{}}}`)}
	live := object(t, configMap)
	changed := object(t, strings.ReplaceAll(configMap, `"k":"v"`, `"k":"w"`))
	tracked := func(o registry.Object, entries ...namespace.ManagedFieldsEntry) registry.Object {
		o.ManagedFields = entries
		return o
	}
	for _, test := range []struct {
		name          string
		sub           string
		live, updated registry.Object
		managers      []string
	}{
		{"never applied", "", live, changed, nil},
		{"a create", "", registry.Object{}, changed, nil},
		{"a create with managed fields", "", registry.Object{}, tracked(changed, entry), []string{"n"}},
		{"nothing changes", "", tracked(live, entry), live, []string{"m"}},
		{"a change", "", tracked(live, entry), changed, []string{"n"}},
		{"the client sends them back", "", tracked(live, entry), tracked(changed, entry), []string{"n"}},
		{"the client sends nonsense", "", tracked(live, entry), tracked(live, namespace.ManagedFieldsEntry{Operation: "x"}), []string{"m"}},

		{"reset by an empty entry", "", tracked(live, entry), tracked(changed, namespace.ManagedFieldsEntry{}), nil},
		{"an unknown sub-resource", "status", tracked(live, entry), changed, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := p.Updated(k, test.sub, test.live, test.updated, "n", noon)
			var managers []string
			for _, e := range got.ManagedFields {
				managers = append(managers, e.Manager)
			}
			require.Equal(t, test.managers, managers)
			require.Equal(t, text(t, test.updated), text(t, got), "nothing else changes")
		})
	}
	reset := tracked(changed)
	reset.ManagedFields = []namespace.ManagedFieldsEntry{}
	require.Nil(t, p.Updated(k, "", tracked(live, entry), reset, "n", noon).ManagedFields)
}

// An object that was stored under an earlier schema can still be changed.
func TestStoredUnderAnotherSchema(t *testing.T) {
	b := newBench(t, widgets(), strings.Replace(widget, `"size":1`, `"size":1,"old":{"a":1}`, 1))
	b.apply("one", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1}}`)
	require.Contains(t, strings.Join(b.owners(), "\n"), `one Apply {"f:spec":{"f:size":{}}}`)
}

func TestAKindWithoutSchema(t *testing.T) {
	list := []kinds.Kind{gadgets()}
	c, err := codec.New(list)
	require.NoError(t, err)
	d, err := openapi.New(list)
	require.NoError(t, err)
	_, err = patch.New(list, c, d)
	require.NoError(t, err)

	b := newBench(t, gadgets(), gadget)
	b.apply("one", "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a}\nspec: {added: [1, 2]}\n")
	b.field("spec", `{"added":[1,2],"big":9007199254740993,"float":1.5,"list":[1,2,3],"o":{"a":{"b":null}}}`)
}
