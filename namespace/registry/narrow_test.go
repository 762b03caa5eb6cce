package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// metered counts the entries that listings read.
type metered struct {
	store.Store
	read *atomic.Int64
}

func (s metered) List(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := s.Store.List(ctx, q)
	s.read.Add(int64(len(page.Entries)))
	return page, err
}

// narrowed lists in both ways, which agree, and returns the names.
func (e *env) narrowed(ns string, o registry.ListOptions) ([]string, namespace.ListMeta, error) {
	e.t.Helper()
	names := func(items []json.RawMessage) []string {
		found := []string{}
		for _, item := range items {
			var n namespace.Namespace
			require.NoError(e.t, json.Unmarshal(item, &n))
			found = append(found, n.Name)
		}
		return found
	}
	if ns == "-" {
		list, err := e.List(e.ctx, o)
		found := []string{}
		for _, n := range list.Items {
			found = append(found, n.Name)
		}
		raw, rawErr := e.ListJSON(e.ctx, o)
		require.Equal(e.t, err, rawErr)
		require.Empty(e.t, cmp.Diff(list.ListMeta, raw.ListMeta))
		require.Equal(e.t, found, names(raw.Items))
		return found, list.ListMeta, err
	}
	c := e.content(configmaps)
	list, err := c.List(e.ctx, ns, o)
	raw, rawErr := c.ListJSON(e.ctx, ns, o)
	require.Equal(e.t, err, rawErr)
	require.Empty(e.t, cmp.Diff(list.ListMeta, raw.ListMeta))
	require.Equal(e.t, objectNames(list), names(raw.Items))
	return objectNames(list), list.ListMeta, err
}

// A listing that is narrowed to one name reads that one, whatever else is there; and
// what it answers is what a listing of everything would leave of it.
func TestNarrowedListReadsOne(t *testing.T) {
	var read atomic.Int64
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	e := newEnvOver(t, metered{s, &read})
	for i := range 50 {
		e.create(fmt.Sprintf("n%02d", i))
		e.create(fmt.Sprintf("n%02d-a", i))
	}
	for i := range 50 {
		e.put(configmaps, "n00", object(fmt.Sprintf("c%02d", i)))
		e.put(configmaps, "n01", object(fmt.Sprintf("c%02d", i)))
	}
	e.put(configmaps, "n00-a", object("c10"))
	for _, tt := range []struct {
		ns, fields string // "-": the namespaces
		want       []string
	}{
		{"-", "metadata.name=n10", []string{"n10"}},
		{"-", "name=n10", []string{"n10"}},
		{"-", "metadata.name=n10,status.phase=Active", []string{"n10"}},
		{"-", "metadata.name=n10,status.phase=Terminating", []string{}},
		{"-", "metadata.name=n10,metadata.name=n11", []string{}},
		{"-", "metadata.name=n10,name!=n10", []string{}},
		{"-", "metadata.name=n1", []string{}}, // others begin so
		{"-", "metadata.name=n", []string{}},
		{"-", "metadata.name=", []string{}},
		{"-", "metadata.name=.", []string{}},
		{"-", "metadata.name=n10/", []string{}},
		{"-", "metadata.name=../namespaces/n10", []string{}},
		{"n00", "metadata.name=c10", []string{"c10"}},
		{"n00", "metadata.name=c10,metadata.namespace=n00", []string{"c10"}},
		{"n00", "metadata.name=c10,metadata.namespace=n01", []string{}},
		{"n00", "metadata.name=missing", []string{}},
		{"", "metadata.name=c10,metadata.namespace=n01", []string{"c10"}},
		{"", "metadata.name=n01/c10,metadata.namespace=n01", []string{}},
		{"", "metadata.name=c10,metadata.namespace=", []string{}},
	} {
		for _, limit := range []int{0, 1, 2, 1000} {
			read.Store(0)
			o := registry.ListOptions{Fields: fields(t, tt.fields), Limit: limit}
			names, meta, err := e.narrowed(tt.ns, o)
			require.NoError(t, err, tt.fields)
			require.Equal(t, tt.want, names, tt.fields)
			require.Empty(t, meta.Continue)
			require.Nil(t, meta.RemainingItemCount)
			require.Equal(t, fmt.Sprint(e.revision()), meta.ResourceVersion)
			require.LessOrEqual(t, read.Load(), int64(3), "%s: two listings, and where the store is", tt.fields)
		}
	}
	names, _, err := e.narrowed("", registry.ListOptions{Fields: fields(t, "metadata.name=c10")})
	require.NoError(t, err)
	require.Equal(t, []string{"c10", "c10", "c10"}, names, "in every namespace")
}

// It is of the same snapshots, and refused for the same reasons, as any other.
func TestNarrowedListHasTheSnapshot(t *testing.T) {
	e := newEnv(t)
	before := e.revision()
	e.create("a")
	e.create("b")
	at := e.revision()
	page, err := e.List(e.ctx, registry.ListOptions{Limit: 1})
	require.NoError(t, err)
	e.terminate("b")
	e.release("b")
	of := fields(t, "metadata.name=b")
	ofFirst := fields(t, "metadata.name=a")
	for _, tt := range []struct {
		o    registry.ListOptions
		want []string
		at   store.Revision
	}{
		{registry.ListOptions{Fields: of}, []string{}, e.revision()},
		{registry.ListOptions{Fields: of, Exact: true, ResourceVersion: fmt.Sprint(at)}, []string{"b"}, at},
		{registry.ListOptions{Fields: of, Continue: page.Continue}, []string{"b"}, at},
		{registry.ListOptions{Fields: of, Continue: page.Continue, Limit: 1}, []string{"b"}, at},
		{registry.ListOptions{Fields: ofFirst, Continue: page.Continue}, []string{}, at}, // it was on the page before
		{registry.ListOptions{Fields: of, ResourceVersion: fmt.Sprint(at)}, []string{}, e.revision()},
	} {
		names, meta, err := e.narrowed("-", tt.o)
		require.NoError(t, err)
		require.Equal(t, tt.want, names)
		require.Equal(t, fmt.Sprint(tt.at), meta.ResourceVersion)
		require.Empty(t, meta.Continue)
	}
	_, _, err = e.narrowed("-", registry.ListOptions{Fields: of, Limit: -1})
	require.ErrorIs(t, err, namespace.ErrBadRequest)
	_, _, err = e.narrowed("-", registry.ListOptions{Fields: of, Continue: "made-up"})
	require.ErrorIs(t, err, namespace.ErrBadRequest)
	_, _, err = e.narrowed("-", registry.ListOptions{Fields: of, ResourceVersion: fmt.Sprint(e.revision() + 1)})
	require.ErrorIs(t, err, store.ErrFuture)
	require.NoError(t, e.store.(store.Compactor).Compact(e.ctx, e.revision()))
	for _, o := range []registry.ListOptions{
		{Fields: of, Continue: page.Continue}, {Fields: of, Exact: true, ResourceVersion: fmt.Sprint(max(before, 1))},
	} {
		_, _, err = e.narrowed("-", o)
		require.ErrorIs(t, err, namespace.ErrGone)
	}
}

// A listing and a watch that are narrowed to one name do not look at others: not even
// at what cannot be read.
func TestNarrowedSeesOne(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	r, err := registry.New(s, &registry.Options{Types: types})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	e := &env{Registry: r, t: t, ctx: t.Context(), store: s}
	start := fmt.Sprint(e.revision())
	_, err = s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("/registry/namespaces/broken", []byte("{"))}})
	require.NoError(t, err)
	names, _, err := e.narrowed("-", registry.ListOptions{Fields: fields(t, "metadata.name=brok")})
	require.NoError(t, err)
	require.Empty(t, names)
	e.create("a")
	e.create("a-b")
	e.put(configmaps, "a", object("c"))
	e.put(configmaps, "a", object("d"))
	for ev, err := range r.Watch(t.Context(), registry.WatchOptions{Fields: fields(t, "metadata.name=a"), ResourceVersion: start}) {
		require.NoError(t, err)
		if ev.Type == registry.Bookmark {
			continue
		}
		require.Equal(t, "a", ev.Object.Name)
		break
	}
	for ev, err := range e.content(configmaps).Watch(t.Context(), "", registry.WatchOptions{
		Fields: fields(t, "metadata.namespace=a,metadata.name=d"), ResourceVersion: start,
	}) {
		require.NoError(t, err)
		if ev.Type == registry.Bookmark {
			continue
		}
		require.Equal(t, "d", ev.Object.Name)
		break
	}
}

// A watch of one object among many that change is told how far it is, but not
// before it has caught up.
func TestNarrowedWatchKeepsUp(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	e.put(configmaps, "x", object("a"))
	start := e.revision()
	for i := range 150 {
		e.put(configmaps, "x", object(fmt.Sprint("before", i)))
	}
	caughtUp := e.revision()
	told := []string{}
	o := registry.WatchOptions{Fields: fields(t, "metadata.name=a"), ResourceVersion: fmt.Sprint(start)}
	for event, err := range e.content(configmaps).Watch(e.ctx, "x", o) {
		require.NoError(t, err)
		require.Equal(t, registry.Bookmark, event.Type)
		if told = append(told, event.ResourceVersion); len(told) == 2 {
			break
		}
		for i := range 100 {
			e.put(configmaps, "x", object(fmt.Sprint("after", i)))
		}
	}
	require.Equal(t, []string{fmt.Sprint(caughtUp), fmt.Sprint(caughtUp + 100)}, told)
}
