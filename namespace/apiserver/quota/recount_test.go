package quota_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/quota"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

func TestRecount(t *testing.T) {
	s := newMemory(t)
	e := newEnvOver(t, s)
	e.limit("a", "configmaps", "2", "example.com/size", "10")
	e.limit("b", "count/configmaps", "9")
	e.limit("c")
	require.NoError(t, e.create(configmaps, named("c1")))
	past := openOver(t, s, false)
	require.NoError(t, past.create(configmaps, named("c2")))
	require.NoError(t, past.create(widgets, widget("w", `{"size":"3"}`)))
	require.NoError(t, past.create(widgets, widget("strange", `{"size":{}}`)))

	_, err := quota.Recount(e.ctx, past.Registry, space)
	require.ErrorIs(t, err, quota.ErrNotInstalled)
	want := []quota.Change{
		{Quota: "a", Name: "configmaps", Was: "1", Is: "2"},
		{Quota: "a", Name: "example.com/size", Was: "0", Is: "3"},
		{Quota: "b", Name: "count/configmaps", Was: "1", Is: "2"},
	}
	changes, err := quota.Recount(e.ctx, e.DryRun(), space)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, changes))
	changes, err = quota.Recount(e.ctx, e.Registry, space)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, changes))
	require.Equal(t, "a: configmaps was 1, is 2", changes[0].String())
	require.Equal(t, "a: x counted: 0", quota.Change{Quota: "a", Name: "x", Is: "0"}.String())
	before := revision(t, s)
	changes, err = quota.Recount(e.ctx, e.Registry, space)
	require.NoError(t, err)
	require.Empty(t, changes)
	require.Equal(t, before, revision(t, s))

	// A figure that the change would make negative is wrong: it is counted again.
	require.NoError(t, past.remove(configmaps, "c1"))
	require.NoError(t, past.remove(configmaps, "c2"))
	for i := range 5 {
		require.NoError(t, past.create(configmaps, named(fmt.Sprint("d", i))))
	}
	for i := range 3 {
		require.NoError(t, e.remove(configmaps, fmt.Sprint("d", i)))
	}
	require.Contains(t, e.status("a"), `"used":{"configmaps":"2",`)
}

// A recount keeps concurrent changes of the quota.
func TestRecountKeepsConcurrentChanges(t *testing.T) {
	s := newMemory(t)
	e := newEnvOver(t, s)
	e.limit("a", "configmaps", "2")
	changed := false
	faulty, err := storetest.Inject(s, func(a storetest.Attempt) storetest.Fault {
		if a.Method == "get" && a.Key == "/registry/resourcequotas/acme/a" && !changed {
			changed = true
			o := limits("a", "count/configmaps", "7")
			o.Labels = map[string]string{"a": "b"}
			_, err := e.content(quota.Resource).Update(e.ctx, space, o)
			require.NoError(t, err)
		}
		return storetest.Fault{}
	})
	require.NoError(t, err)
	changes, err := quota.Recount(e.ctx, openOver(t, faulty, true).Registry, space)
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, []quota.Change{{Quota: "a", Name: "count/configmaps", Is: "0"}}, changes)
	o, err := e.content(quota.Resource).Get(e.ctx, space, "a")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "b"}, o.Labels)
	require.Equal(t, `{"hard":{"count/configmaps":"7"}}`, string(o.Fields["spec"]))
}

// A recount keeps a finalizer that a client added concurrently.
func TestRecountKeepsFinalizers(t *testing.T) {
	s := newMemory(t)
	e := newEnvOver(t, s)
	e.limit("a", "configmaps", "2")
	changed := false
	faulty, err := storetest.Inject(s, func(a storetest.Attempt) storetest.Fault {
		if a.Method == "get" && a.Key == "/registry/resourcequotas/acme/a" && !changed {
			changed = true
			o := limits("a", "configmaps", "2")
			o.Finalizers = named("", "example.com/held").Finalizers
			_, err := e.content(quota.Resource).Update(e.ctx, space, o)
			require.NoError(t, err)
			require.NoError(t, e.remove(quota.Resource, "a"))
		}
		return storetest.Fault{}
	})
	require.NoError(t, err)
	changes, err := quota.Recount(e.ctx, openOver(t, faulty, true).Registry, space)
	require.NoError(t, err)
	require.True(t, changed)
	require.Empty(t, changes)
	require.Equal(t, `{"hard":{"configmaps":"2"}}`, e.status("a"), "the quota still exists")
}

// Impossible figures are counted again.
func TestImpossibleFigures(t *testing.T) {
	for _, used := range []string{`{"configmaps":"1.5"}`, `{"configmaps":"-1"}`, `{"configmaps":{}}`, `[]`, `{"configmaps":"1e1000000000"}`, `{}`} {
		s := newMemory(t)
		e := newEnvOver(t, s)
		e.limit("a", "configmaps", "2", "count/unknown.example.com", "1")
		require.NoError(t, e.create(configmaps, named("c")))
		require.Contains(t, e.status("a"), `"used":{"configmaps":"1","count/unknown.example.com":"0"}`, "undeclared types have no objects")
		o := named("a")
		o.Fields = map[string]json.RawMessage{"status": json.RawMessage(`{"used":` + used + `}`)}
		_, err := openOver(t, s, false).content(quota.Resource).UpdateStatus(e.ctx, space, o)
		require.NoError(t, err)
		require.NoError(t, e.create(configmaps, named("d")))
		require.Contains(t, e.status("a"), `"used":{"configmaps":"2","count/unknown.example.com":"0"}`, used)
		require.ErrorIs(t, e.create(configmaps, named("e")), namespace.ErrForbidden)
	}
}

// The plug-in counts objects of types that only another version of the service declares.
func TestCountsUndeclaredTypes(t *testing.T) {
	s := newMemory(t)
	e := newEnvOver(t, s)
	invoices := registry.Type{Group: "example.com", Version: "v1", Resource: "invoices", Kind: "Invoice", Namespaced: true}
	newer, err := registry.New(s, &registry.Options{Types: []registry.Type{invoices}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, newer.Close()) })
	content, err := newer.Content(invoices.Name())
	require.NoError(t, err)
	for i := range 2 {
		_, err := content.Create(e.ctx, space, named(fmt.Sprint("i", i)))
		require.NoError(t, err)
	}
	e.limit("a", "count/invoices.example.com", "9")
	for _, want := range []quota.Change{
		{Quota: "a", Name: "count/invoices.example.com", Is: "2"},
		{Quota: "a", Name: "count/invoices.example.com", Was: "2", Is: "3"},
	} {
		changes, err := quota.Recount(e.ctx, e.Registry, space)
		require.NoError(t, err)
		require.Equal(t, []quota.Change{want}, changes)
		_, err = content.Create(e.ctx, space, registry.Object{Meta: namespace.Meta{GenerateName: "more-"}})
		require.NoError(t, err)
	}
}

// If a quota outlives its namespace, creating the name again resets its figures: nothing is counted
// in between.
func TestQuotaOutlivesItsNamespace(t *testing.T) {
	e := newEnv(t)
	e.limit("a", "configmaps", "3")
	for _, name := range []string{"c1", "c2", "c3"} {
		require.NoError(t, e.create(configmaps, named(name)))
	}
	require.Contains(t, e.status("a"), `"used":{"configmaps":"3"}`)
	n, err := e.Delete(e.ctx, space, namespace.Preconditions{})
	require.NoError(t, err)
	n.Spec.Finalizers = finalizer.Set{} // as force does
	_, err = e.Finalize(e.ctx, n)
	require.NoError(t, err)
	require.NoError(t, e.remove(configmaps, "c1"))
	require.NoError(t, e.remove(configmaps, "c2"))
	_, err = e.Registry.Create(e.ctx, namespace.Namespace{Meta: namespace.Meta{Name: space}})
	require.NoError(t, err)
	require.NotContains(t, e.status("a"), `"used":{"configmaps":"3"}`)
	require.NoError(t, e.create(configmaps, named("d1")))
	require.Contains(t, e.status("a"), `"used":{"configmaps":"2"}`)
	require.NoError(t, e.create(configmaps, named("d2")))
	require.ErrorContains(t, e.create(configmaps, named("d3")), "exceeded quota: a, requested: configmaps=1, used: configmaps=3, limited: configmaps=3")
	changes, err := quota.Recount(e.ctx, e.Registry, space)
	require.NoError(t, err)
	require.Empty(t, changes)
}
