package registry_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

var (
	configmaps = namespace.ResourceType{Name: "configmaps"}
	widgets    = namespace.ResourceType{Group: "example.com", Name: "widgets"}
	nodes      = namespace.ResourceType{Name: "nodes"}

	types = []registry.Type{
		{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true},
		{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true},
		{Version: "v1", Resource: "nodes", Kind: "Node"},
	}
	anyVersion = namespace.Preconditions{}
)

// env is a registry over a store in memory.
type env struct {
	*registry.Registry
	t     testing.TB
	ctx   context.Context
	store store.Store
}

func newEnv(t testing.TB) *env {
	t.Helper()
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return newEnvOver(t, s)
}

// newEnvOver returns a registry over s. The test ends with a check of the rules.
func newEnvOver(t testing.TB, s store.Store) *env {
	t.Helper()
	r, err := registry.New(s, &registry.Options{Types: types})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, registrytest.Check(context.WithoutCancel(t.Context()), s, "registry"))
	})
	return &env{Registry: r, t: t, ctx: t.Context(), store: s}
}

func (e *env) content(resource namespace.ResourceType) *registry.Content {
	e.t.Helper()
	c, err := e.Content(resource)
	require.NoError(e.t, err)
	return c
}

// create creates a namespace with the default finalizer and others.
func (e *env) create(name string, finalizers ...finalizer.Name) namespace.Namespace {
	e.t.Helper()
	n, err := e.Create(e.ctx, named(name, finalizers...))
	require.NoError(e.t, err)
	return n
}

// terminate deletes a namespace.
func (e *env) terminate(name string) namespace.Namespace {
	e.t.Helper()
	n, err := e.Delete(e.ctx, name, anyVersion)
	require.NoError(e.t, err)
	return n
}

// release takes all spec.finalizers off a namespace.
func (e *env) release(name string) namespace.Namespace {
	e.t.Helper()
	n, err := e.Finalize(e.ctx, namespace.Namespace{Meta: namespace.Meta{Name: name}})
	require.NoError(e.t, err)
	return n
}

func (e *env) put(resource namespace.ResourceType, ns string, o registry.Object) registry.Object {
	e.t.Helper()
	o, err := e.content(resource).Create(e.ctx, ns, o)
	require.NoError(e.t, err)
	return o
}

// revision is the present one of the store.
func (e *env) revision() store.Revision {
	e.t.Helper()
	return now(e.t, e.store).Revision
}

func now(t testing.TB, s store.Store) store.Position {
	t.Helper()
	page, err := s.List(context.WithoutCancel(t.Context()), store.Query{Prefix: "/", Limit: 1})
	require.NoError(t, err)
	return page.Position
}

func named(name string, finalizers ...finalizer.Name) namespace.Namespace {
	n := namespace.Namespace{Meta: namespace.Meta{Name: name}}
	n.Spec.Finalizers = finalizer.NewSet(finalizers...)
	return n
}

func object(name string, finalizers ...finalizer.Name) registry.Object {
	return registry.Object{
		Meta:   namespace.Meta{Name: name, Finalizers: finalizer.NewSet(finalizers...)},
		Fields: map[string]json.RawMessage{"spec": json.RawMessage(`{"size":1}`)},
	}
}

func targetOf(n namespace.Namespace) deleter.Target {
	return deleter.Target{Namespace: n.Name, UID: n.UID, DeletedAt: n.DeletionTimestamp.Time}
}

func labels(t testing.TB, text string) selector.Labels {
	t.Helper()
	l, err := selector.ParseLabels(text)
	require.NoError(t, err)
	return l
}

func fields(t testing.TB, text string) selector.Fields {
	t.Helper()
	f, err := selector.ParseFields(text)
	require.NoError(t, err)
	return f
}

// objectNames returns the names of a page.
func objectNames(list registry.ObjectList) []string {
	names := []string{}
	for _, o := range list.Items {
		names = append(names, o.Name)
	}
	return names
}

// requireError holds the kind and the text of a refusal.
func requireError(t testing.TB, err, kind error, text string) {
	t.Helper()
	require.ErrorIs(t, err, kind)
	var typed *namespace.Error
	require.ErrorAs(t, err, &typed)
	require.Equal(t, text, err.Error())
}

// writes are the writes that replace a namespace.
func writes(e *env) []func(context.Context, namespace.Namespace) (namespace.Namespace, error) {
	return []func(context.Context, namespace.Namespace) (namespace.Namespace, error){e.Update, e.UpdateStatus, e.Finalize}
}

// storedValue returns the stored form of an object in JSON form.
func storedValue(t testing.TB, doc string) []byte {
	t.Helper()
	value, err := registrytest.Value([]byte(doc))
	require.NoError(t, err)
	return value
}

// edited returns a stored value with a part of its JSON replaced.
func edited(t testing.TB, value []byte, old, replacement string) []byte {
	t.Helper()
	require.Contains(t, string(value), old)
	return storedValue(t, strings.Replace(string(value), old, replacement, 1))
}
