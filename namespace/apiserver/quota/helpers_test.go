package quota_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/quota"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

const space = "acme"

var (
	configmaps = namespace.ResourceType{Name: "configmaps"}
	widgets    = namespace.ResourceType{Group: "example.com", Name: "widgets"}

	types = []registry.Type{
		{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true},
		{Version: "v1", Resource: "resourcequotas", Kind: "ResourceQuota", Namespaced: true, Status: true},
		{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true},
		{Version: "v1", Resource: "nodes", Kind: "Node"},
	}
	rule = quota.Rule{Resource: widgets, Sums: map[string]string{
		"example.com/size": "spec.size", "requests.cpu": "spec.parts[*].cpu",
	}}
)

type env struct {
	*registry.Registry
	t     testing.TB
	ctx   context.Context
	store store.Store
}

func newMemory(t testing.TB) store.Store {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// newEnv returns a registry over a memory store with one namespace. The test's cleanup checks every
// revision.
func newEnv(t testing.TB) *env { return newEnvOver(t, newMemory(t)) }

func newEnvOver(t testing.TB, s store.Store) *env {
	e := openOver(t, s, true)
	_, err := e.Registry.Create(e.ctx, namespace.Namespace{Meta: namespace.Meta{Name: space}})
	require.NoError(t, err)
	return e
}

func openOver(t testing.TB, s store.Store, counted bool) *env {
	t.Helper()
	var chain []registry.Admission
	if counted {
		plugin, err := quota.New(rule)
		require.NoError(t, err)
		chain = append(chain, plugin)
	}
	r, err := registry.New(s, &registry.Options{Types: types, Admission: chain})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, registrytest.Check(context.WithoutCancel(t.Context()), s, "registry"))
	})
	return &env{Registry: r, t: t, ctx: t.Context(), store: s}
}

func (e *env) content(resource namespace.ResourceType) *registry.Content {
	c, err := e.Content(resource)
	require.NoError(e.t, err)
	return c
}

// limit creates a quota from pairs of a name and a quantity.
func (e *env) limit(name string, pairs ...string) registry.Object {
	e.t.Helper()
	o, err := e.content(quota.Resource).Create(e.ctx, space, limits(name, pairs...))
	require.NoError(e.t, err)
	return o
}

func limits(name string, pairs ...string) registry.Object {
	hard := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		hard[pairs[i]] = pairs[i+1]
	}
	raw, _ := json.Marshal(map[string]any{"hard": hard})
	return registry.Object{Meta: namespace.Meta{Name: name}, Fields: map[string]json.RawMessage{"spec": raw}}
}

func (e *env) create(resource namespace.ResourceType, o registry.Object) error {
	_, err := e.content(resource).Create(e.ctx, space, o)
	return err
}

func (e *env) remove(resource namespace.ResourceType, name string) error {
	_, err := e.content(resource).Delete(e.ctx, space, name, namespace.Preconditions{})
	return err
}

// status returns the raw status of a quota.
func (e *env) status(name string) string {
	e.t.Helper()
	o, err := e.content(quota.Resource).Get(e.ctx, space, name)
	require.NoError(e.t, err)
	return string(o.Fields["status"])
}

func named(name string, finalizers ...finalizer.Name) registry.Object {
	return registry.Object{Meta: namespace.Meta{Name: name, Finalizers: finalizer.NewSet(finalizers...)}}
}

func widget(name, spec string) registry.Object {
	return registry.Object{Meta: namespace.Meta{Name: name}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(spec)}}
}

// requireError requires the kind and the text of a refusal.
func requireError(t testing.TB, err, kind error, text string) {
	t.Helper()
	require.ErrorIs(t, err, kind)
	require.EqualError(t, err, text)
}

func revision(t testing.TB, s store.Store) store.Position {
	t.Helper()
	page, err := s.List(context.WithoutCancel(t.Context()), store.Query{Prefix: "/", Limit: 1})
	require.NoError(t, err)
	return page.Position
}

// audit replays the history from the position of an empty store. At every revision it requires
// correct figures of every quota in an Active namespace. It returns the number of checked figures.
func audit(t testing.TB, s store.Store, start store.Position) int {
	t.Helper()
	require.NoError(t, registrytest.Audit(t.Context(), s, "registry", start, revision(t, s).Revision))
	entries, seen, until := map[string][]byte{}, 0, revision(t, s).Revision
	for change, err := range s.Watch(t.Context(), "/registry/", start) {
		require.NoError(t, err)
		for _, e := range change.Events {
			if delete(entries, e.Key); !e.Deleted {
				entries[e.Key] = e.Value
			}
		}
		if len(change.Events) > 0 {
			n, wrong := figures(entries)
			require.Empty(t, wrong, "revision %d", change.Position.Revision)
			seen += n
		}
		if change.Position.Revision >= until {
			break
		}
	}
	return seen
}

type document struct {
	Metadata struct{ DeletionTimestamp string }
	Spec     struct {
		Hard  map[string]resource.Quantity
		Size  resource.Quantity
		Parts []struct{ CPU resource.Quantity }
	}
	Status struct{ Hard, Used map[string]resource.Quantity }
}

// figures counts the objects of each namespace independently of the plug-in, and returns the
// differences from the quotas' figures.
func figures(entries map[string][]byte) (seen int, wrong []string) {
	actual, gates, quotas := map[string]*resource.Quantity{}, map[string]bool{}, map[string]document{}
	add := func(ns, name string, q resource.Quantity) {
		if actual[ns+" "+name] == nil {
			actual[ns+" "+name] = &resource.Quantity{}
		}
		actual[ns+" "+name].Add(q)
	}
	for key, value := range entries {
		parts := strings.Split(key, "/")
		var d document
		if parts[2] == ".gate" {
			gates[parts[3]] = true
		}
		if len(parts) != 5 {
			continue
		}
		if err := json.Unmarshal(value, &d); err != nil {
			return seen, append(wrong, err.Error())
		}
		add(parts[3], "count/"+parts[2], resource.MustParse("1"))
		switch parts[2] {
		case "resourcequotas":
			quotas[parts[3]+" "+parts[4]] = d
			fallthrough
		case "configmaps":
			add(parts[3], parts[2], resource.MustParse("1"))
		case "widgets.example.com":
			add(parts[3], "example.com/size", d.Spec.Size)
			for _, part := range d.Spec.Parts {
				add(parts[3], "requests.cpu", part.CPU)
			}
		}
	}
	for key, d := range quotas {
		ns, _, _ := strings.Cut(key, " ")
		if !gates[ns] || d.Metadata.DeletionTimestamp != "" {
			continue
		}
		for name, used := range d.Status.Used {
			seen++
			is := actual[ns+" "+name]
			if is == nil {
				is = &resource.Quantity{}
			}
			if used.Cmp(*is) != 0 {
				wrong = append(wrong, fmt.Sprintf("%s: used %s is %s, want %s", key, name, used.String(), is.String()))
			}
		}
	}
	return seen, wrong
}
