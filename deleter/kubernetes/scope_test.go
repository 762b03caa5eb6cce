package kubernetes

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

var (
	pods    = namespace.ResourceType{Name: "pods"}
	secrets = namespace.ResourceType{Name: "secrets"}
	widgets = namespace.ResourceType{Group: "example.com", Name: "widgets"}
	gadgets = namespace.ResourceType{Group: "example.com", Name: "gadgets"}
)

// served returns a list as discovery returns it: "name" is a namespaced type with all verbs,
// "name=a,b" has these verbs, "name!" is cluster-scoped.
func served(groupVersion string, types ...string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: groupVersion}
	for _, t := range types {
		list.APIResources = append(list.APIResources, servedType(t))
	}
	return list
}

func servedType(t string) metav1.APIResource {
	r := metav1.APIResource{Kind: "Kind", Namespaced: true, Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "watch"}}
	name, verbs, chosen := strings.Cut(t, "=")
	if chosen {
		r.Verbs = nil
		for verbs != "" {
			var verb string
			verb, verbs, _ = strings.Cut(verbs, ",")
			r.Verbs = append(r.Verbs, verb)
		}
	}
	if rest, ok := strings.CutSuffix(name, "!"); ok {
		name, r.Namespaced = rest, false
	}
	r.Name = name
	return r
}

var everything = canList | canDelete | canDeleteCollection | canWatch

func TestTypesOfADiscovery(t *testing.T) {
	v1 := func(resource string, v verbs) typeInfo {
		return typeInfo{schema.GroupVersionResource{Version: "v1", Resource: resource}, v}
	}
	example := func(version, resource string, v verbs) typeInfo {
		return typeInfo{schema.GroupVersionResource{Group: "example.com", Version: version, Resource: resource}, v}
	}
	for _, tt := range []struct {
		name  string
		lists []*metav1.APIResourceList
		want  []typeInfo
	}{
		{"sorted by name, then group", []*metav1.APIResourceList{served("example.com/v1", "widgets", "pods"), served("v1", "pods", "configmaps")},
			[]typeInfo{v1("configmaps", everything), v1("pods", everything), example("v1", "pods", everything), example("v1", "widgets", everything)}},
		{"what can be deleted in some way", []*metav1.APIResourceList{served("v1",
			"a=list,delete", "b=deletecollection,list", "c=delete", "d=list,watch,get", "e=create", "f=")},
			[]typeInfo{v1("a", canList|canDelete), v1("b", canDeleteCollection|canList), v1("c", canDelete)}},
		{"neither sub-resources nor types of the cluster", []*metav1.APIResourceList{served("v1", "pods", "pods/status", "pods/eviction=create,delete", "nodes!")},
			[]typeInfo{v1("pods", everything)}},
		{"two versions: the one that was listed first", []*metav1.APIResourceList{
			served("example.com/v2", "widgets=list,delete"), served("example.com/v1", "widgets", "gadgets")},
			[]typeInfo{example("v1", "gadgets", everything), example("v2", "widgets", canList|canDelete)}},
		{"lists of nothing", []*metav1.APIResourceList{nil, {}, served("v1"), served("example.com/v1", "widgets")},
			[]typeInfo{example("v1", "widgets", everything)}},
		{"a list counts, whatever group a type in it claims", []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", Namespaced: true, Group: "other", Version: "v9", Verbs: metav1.Verbs{"delete"}}}}},
			[]typeInfo{v1("pods", canDelete)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			types, failed, err := scope{}.read(tt.lists, nil)
			require.NoError(t, err)
			require.Nil(t, failed)
			require.Empty(t, cmp.Diff(tt.want, types, cmp.AllowUnexported(typeInfo{})))
		})
	}
}

// The first version of each type counts, however many types there are.
func TestFirstVersionOfMany(t *testing.T) {
	first, second := served("example.com/v2"), served("example.com/v1")
	for i := range 100 {
		for _, list := range []*metav1.APIResourceList{first, second} {
			list.APIResources = append(list.APIResources, servedType(fmt.Sprintf("type%03d", i)))
		}
	}
	types, _, err := scope{}.read([]*metav1.APIResourceList{first, second}, nil)
	require.NoError(t, err)
	require.Len(t, types, 100)
	for _, ty := range types {
		require.Equal(t, "v2", ty.gvr.Version)
	}
}

var errDown = apierrors.NewServiceUnavailable("down")

func groupsFailed(groupVersions ...string) *discovery.ErrGroupDiscoveryFailed {
	failed := &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{}}
	for _, text := range groupVersions {
		gv, err := schema.ParseGroupVersion(text)
		if err != nil {
			panic(err)
		}
		failed.Groups[gv] = errDown
	}
	return failed
}

func TestFailuresOfADiscovery(t *testing.T) {
	both := []*metav1.APIResourceList{served("v1", "pods"), served("example.com/v1", "widgets")}
	for _, tt := range []struct {
		name    string
		opts    Options
		lists   []*metav1.APIResourceList
		err     error
		found   int
		groups  []string
		parsing []string
		message string
	}{
		{name: "complete", lists: both, found: 2},
		{name: "one group", lists: both, err: groupsFailed("metrics.k8s.io/v1"), found: 2, groups: []string{"metrics.k8s.io: version v1: down"},
			message: "unable to retrieve the complete list of server APIs: metrics.k8s.io/v1: down"},
		{name: "each version of a group, sorted", lists: both, err: groupsFailed("z/v1", "a/v2", "a/v1"), found: 2,
			groups:  []string{"a: version v1: down", "a: version v2: down", "z: version v1: down"},
			message: "unable to retrieve the complete list of server APIs: a/v1: down, a/v2: down, z/v1: down"},
		{name: "wrapped", lists: both, err: fmt.Errorf("discovery: %w", groupsFailed("a/v1")), found: 2, groups: []string{"a: version v1: down"},
			message: "unable to retrieve the complete list of server APIs: a/v1: down"},
		{name: "the core group, and nothing found", err: groupsFailed("v1"), groups: []string{"core group: version v1: down"},
			message: "unable to retrieve the complete list of server APIs: v1: down"},
		{name: "without a cause", lists: both, err: &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "a", Version: "v1"}: nil}},
			found: 2, groups: []string{"a: version v1: unknown cause"}, message: "unable to retrieve the complete list of server APIs: a/v1: <nil>"},
		{name: "excepted", opts: Options{ExceptGroups: []string{"a"}}, lists: both, err: groupsFailed("a/v1", "a/v2"), found: 2},
		{name: "one of two excepted", opts: Options{ExceptGroups: []string{"a"}}, lists: both, err: groupsFailed("a/v1", "b/v1"), found: 2,
			groups: []string{"b: version v1: down"}, message: "unable to retrieve the complete list of server APIs: b/v1: down"},
		{name: "not in Only", opts: Options{Only: []namespace.ResourceType{widgets}}, lists: both, err: groupsFailed("a/v1"), found: 1},
		{name: "in Only", opts: Options{Only: []namespace.ResourceType{pods, widgets}}, lists: both[:1], err: groupsFailed("a/v1", "example.com/v1"),
			found: 1, groups: []string{"example.com: version v1: down"},
			message: "unable to retrieve the complete list of server APIs: example.com/v1: down"},
		{name: "in Only, and another type in Except", opts: Options{Only: []namespace.ResourceType{pods, widgets}, Except: []namespace.ResourceType{widgets}},
			lists: both, err: groupsFailed("example.com/v1"), found: 1},
		{name: "types excepted say nothing of others in the group", opts: Options{Except: []namespace.ResourceType{widgets}},
			lists: both, err: groupsFailed("example.com/v2"), found: 1, groups: []string{"example.com: version v2: down"},
			message: "unable to retrieve the complete list of server APIs: example.com/v2: down"},
		{name: "an invalid group version", lists: append([]*metav1.APIResourceList{served("a/b/c", "things"), served("d/e/f", "things")}, both...),
			found: 2, parsing: []string{"unexpected GroupVersion string: a/b/c", "unexpected GroupVersion string: d/e/f"}},
		{name: "an invalid group version without deletable types", lists: append([]*metav1.APIResourceList{served("a/b/c", "things=get", "nodes!", "x/status")}, both...), found: 2},
		{name: "an invalid group version of types outside of Only", opts: Options{Only: []namespace.ResourceType{widgets}},
			lists: append([]*metav1.APIResourceList{served("a/b/c", "things")}, both...), found: 1},
		{name: "an invalid group version of a type that may be in Only", opts: Options{Only: []namespace.ResourceType{widgets}},
			lists: append([]*metav1.APIResourceList{served("a/b/c", "widgets")}, both...), found: 1, parsing: []string{"unexpected GroupVersion string: a/b/c"}},
		{name: "both", lists: append([]*metav1.APIResourceList{served("a/b/c", "things")}, both...), err: groupsFailed("a/v1"), found: 2,
			groups: []string{"a: version v1: down"}, parsing: []string{"unexpected GroupVersion string: a/b/c"},
			message: "unable to retrieve the complete list of server APIs: a/v1: down"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := newScope(&tt.opts)
			require.NoError(t, err)
			types, failed, err := s.read(tt.lists, tt.err)
			require.NoError(t, err)
			require.Len(t, types, tt.found)
			var groups, parsing []string
			message := ""
			if failed != nil {
				message = failed.Message
				for _, g := range failed.Groups {
					groups = append(groups, g.Error())
				}
				for _, p := range failed.Parsing {
					parsing = append(parsing, p.Error())
				}
			}
			require.Empty(t, cmp.Diff(tt.groups, groups))
			require.Empty(t, cmp.Diff(tt.parsing, parsing))
			require.Equal(t, tt.message, message)
		})
	}
}

func TestUselessDiscoveries(t *testing.T) {
	boom := errors.New("boom")
	only := Options{Only: []namespace.ResourceType{gadgets}}
	for _, tt := range []struct {
		name  string
		opts  Options
		lists []*metav1.APIResourceList
		err   error
		want  error
	}{
		{name: "nothing", want: deleter.ErrNothingDiscovered},
		{name: "no deletable type", lists: []*metav1.APIResourceList{served("v1", "nodes!", "events=get")}, want: deleter.ErrNothingDiscovered},
		{name: "nothing in Only", opts: only, lists: []*metav1.APIResourceList{served("v1", "pods")}, want: deleter.ErrNothingDiscovered},
		{name: "another error", lists: []*metav1.APIResourceList{served("v1", "pods")}, err: boom, want: boom},
		{name: "another error besides groups", lists: []*metav1.APIResourceList{served("v1", "pods")}, err: errors.Join(groupsFailed("a/v1"), boom), want: boom},
		{name: "unnamed groups", lists: []*metav1.APIResourceList{served("v1", "pods")}, err: groupsFailed(), want: &discovery.ErrGroupDiscoveryFailed{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := newScope(&tt.opts)
			require.NoError(t, err)
			types, failed, err := s.read(tt.lists, tt.err)
			require.ErrorIs(t, err, tt.want)
			require.Empty(t, types)
			require.Nil(t, failed)
		})
	}
}

func TestScope(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts Options
		has  []namespace.ResourceType
	}{
		{"all", Options{}, []namespace.ResourceType{pods, secrets, widgets, gadgets}},
		{"only", Options{Only: []namespace.ResourceType{widgets, pods, pods}}, []namespace.ResourceType{pods, widgets}},
		{"except", Options{Except: []namespace.ResourceType{widgets}}, []namespace.ResourceType{pods, secrets, gadgets}},
		{"except groups", Options{ExceptGroups: []string{"example.com"}}, []namespace.ResourceType{pods, secrets}},
		{"only and except", Options{Only: []namespace.ResourceType{widgets, pods}, Except: []namespace.ResourceType{pods}}, []namespace.ResourceType{widgets}},
		{"except the core group", Options{ExceptGroups: []string{""}}, []namespace.ResourceType{widgets, gadgets}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := newScope(&tt.opts)
			require.NoError(t, err)
			var has []namespace.ResourceType
			for _, r := range []namespace.ResourceType{pods, secrets, widgets, gadgets} {
				if s.has(r) {
					has = append(has, r)
				}
			}
			require.Empty(t, cmp.Diff(tt.has, has))
		})
	}
}
