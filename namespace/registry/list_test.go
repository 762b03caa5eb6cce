package registry_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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

// A listing of one name reads only that object, and returns the same as a filtered listing
// of all objects.
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

// A listing and a watch of one name ignore other objects, even damaged ones.
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

// A watch of one object gets bookmarks while others change, but not before it has caught
// up.
func TestNarrowedWatchKeepsUp(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	e.put(configmaps, "x", object("a"))
	start := e.revision()
	for i := range 150 {
		e.put(configmaps, "x", object(fmt.Sprint("before", i)))
	}
	caughtUp := e.revision()
	bookmarks := []string{}
	o := registry.WatchOptions{Fields: fields(t, "metadata.name=a"), ResourceVersion: fmt.Sprint(start)}
	for event, err := range e.content(configmaps).Watch(e.ctx, "x", o) {
		require.NoError(t, err)
		require.Equal(t, registry.Bookmark, event.Type)
		if bookmarks = append(bookmarks, event.ResourceVersion); len(bookmarks) == 2 {
			break
		}
		for i := range 100 {
			e.put(configmaps, "x", object(fmt.Sprint("after", i)))
		}
	}
	require.Equal(t, []string{fmt.Sprint(caughtUp), fmt.Sprint(caughtUp + 100)}, bookmarks)
}

// left returns the remainingItemCount of a list, -1 when there is none.
func left(meta namespace.ListMeta) int64 {
	if meta.RemainingItemCount == nil {
		return -1
	}
	return *meta.RemainingItemCount
}

// A page that ends at its limit has the number of objects after it in its snapshot.
func TestRemaining(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	e.create("y")
	w := e.content(widgets)
	for i := range 25 {
		o := object(fmt.Sprint("o-", 10+i))
		o.Labels = map[string]string{"a": "1"}
		e.put(widgets, "x", o)
	}
	e.put(widgets, "y", object("other"))
	o := registry.ListOptions{Limit: 10}
	for page, want := range []int64{15, 5, -1} {
		list, err := w.List(e.ctx, "x", o)
		require.NoError(t, err)
		require.Equal(t, want, left(list.ListMeta), "page %d", page)
		raw, err := w.ListJSON(e.ctx, "x", o)
		require.NoError(t, err)
		require.Equal(t, want, left(raw.ListMeta), "page %d", page)
		o.Continue = list.Continue
		e.put(widgets, "x", object(fmt.Sprint("z-", page))) // not of the snapshot
		_, err = w.Delete(e.ctx, "x", fmt.Sprint("o-", 34-page), anyVersion)
		require.NoError(t, err)
	}
	for _, test := range []struct {
		o    registry.ListOptions
		want int64
	}{
		{registry.ListOptions{}, -1},
		{registry.ListOptions{Limit: 25}, -1},
		{registry.ListOptions{Limit: 24}, 1},
		{registry.ListOptions{Limit: 10, Labels: labels(t, "a=1")}, -1},
		{registry.ListOptions{Limit: 10, Fields: fields(t, "metadata.name!=o-11")}, -1},
	} {
		list, err := w.List(e.ctx, "x", test.o)
		require.NoError(t, err)
		require.Equal(t, test.want, left(list.ListMeta), "%+v", test.o)
	}
	all, err := w.List(e.ctx, "", registry.ListOptions{Limit: 1})
	require.NoError(t, err)
	require.EqualValues(t, 25, left(all.ListMeta), "of all namespaces")
	namespaces, err := e.List(e.ctx, registry.ListOptions{Limit: 1})
	require.NoError(t, err)
	require.EqualValues(t, 1, left(namespaces.ListMeta))
}

// counts is a store whose Count is watched, or fails.
type counts struct {
	store.Store
	asked []store.Query
	err   error
}

func (c *counts) Count(ctx context.Context, q store.Query) (int, error) {
	c.asked = append(c.asked, q)
	if c.err != nil {
		return 0, c.err
	}
	return c.Store.(store.Counter).Count(ctx, q)
}

// uncounted hides that a store can count.
type uncounted struct{ store.Store }

// The count is bounded, and a page does without it when it cannot be had.
func TestRemainingIsBounded(t *testing.T) {
	const most = 10_000
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	counting := &counts{Store: s}
	page := func(s store.Store) int64 {
		r, err := registry.New(s, &registry.Options{Types: types})
		require.NoError(t, err)
		c, err := r.Content(nodes)
		require.NoError(t, err)
		list, err := c.ListJSON(t.Context(), "", registry.ListOptions{Limit: 1})
		require.NoError(t, err)
		require.NotEmpty(t, list.Continue)
		require.NoError(t, r.Close())
		return left(list.ListMeta)
	}
	put := func(i int) store.Operation {
		return store.Put(fmt.Sprintf("/registry/nodes/n%06d", i), storedValue(t, fmt.Sprintf(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"n%06d","uid":"u"}}`, i)))
	}
	for from := 0; from <= most; from += 1000 {
		var txn store.Txn
		for i := from; i < min(from+1000, most+1); i++ {
			txn.Do = append(txn.Do, put(i))
		}
		_, err := s.Commit(t.Context(), txn)
		require.NoError(t, err)
	}
	require.EqualValues(t, most, page(counting))
	require.EqualValues(t, -1, page(uncounted{s}))
	_, err = s.Commit(t.Context(), store.Txn{Do: []store.Operation{put(most + 1)}})
	require.NoError(t, err)
	require.EqualValues(t, -1, page(counting), "more than %d", most)
	for _, q := range counting.asked {
		require.Equal(t, most+1, q.Limit, "no more than that is ever counted")
		require.NotZero(t, q.At.Revision)
	}
	counting.err = errors.New("broken")
	require.EqualValues(t, -1, page(counting))
}

// Objects are counted once for a listing. Further pages take the rest from the token;
// pages with selectors have no count.
func TestRemainingIsCountedOnce(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	counting := &counts{Store: s}
	e := newEnvOver(t, counting)
	e.create("x")
	for i := range 20 {
		e.put(widgets, "x", object(fmt.Sprint("o-", 10+i)))
	}
	w := e.content(widgets)
	o := registry.ListOptions{Limit: 3}
	for _, step := range []struct {
		limit int
		want  int64
	}{{3, 17}, {5, 12}, {1, 11}, {7, 4}, {3, 1}, {1, -1}} {
		o.Limit = step.limit
		list, err := w.ListJSON(e.ctx, "x", o)
		require.NoError(t, err)
		require.Len(t, list.Items, step.limit)
		require.Equal(t, step.want, left(list.ListMeta))
		o.Continue = list.Continue
	}
	require.Empty(t, o.Continue)
	require.Len(t, counting.asked, 1)

	selected := registry.ListOptions{Limit: 2, Labels: labels(t, "!none")}
	for range 2 {
		list, err := w.List(e.ctx, "x", selected)
		require.NoError(t, err)
		require.EqualValues(t, -1, left(list.ListMeta))
		selected.Continue = list.Continue
	}
	list, err := w.List(e.ctx, "x", registry.ListOptions{Limit: 2, Continue: selected.Continue})
	require.NoError(t, err)
	require.EqualValues(t, -1, left(list.ListMeta), "not counted")
	require.Equal(t, "o-14", list.Items[0].Name)
	require.Len(t, counting.asked, 1)
}

// A count that a client has made up is wrong, or a bad token; nothing else.
func TestForgedRemaining(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	for i := range 9 {
		e.put(widgets, "x", object(fmt.Sprint("o-", i)))
	}
	w := e.content(widgets)
	first, err := w.List(e.ctx, "x", registry.ListOptions{Limit: 2})
	require.NoError(t, err)
	data, err := base64.RawURLEncoding.DecodeString(first.Continue)
	require.NoError(t, err)
	for _, row := range []struct {
		count string
		want  int64 // -2: a bad token
	}{{"7", 5}, {"2", -1}, {"1", -1}, {"0", -1}, {"10000", 9998}, {"-1", -2}, {"10001", -2}, {"9223372036854775807", -2}, {"1.5", -2}, {`"7"`, -2}} {
		forged := strings.Replace(string(data), `"n":7`, `"n":`+row.count, 1)
		list, err := w.List(e.ctx, "x", registry.ListOptions{Limit: 2, Continue: base64.RawURLEncoding.EncodeToString([]byte(forged))})
		if row.want == -2 {
			require.ErrorIs(t, err, namespace.ErrBadRequest, row.count)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, row.want, left(list.ListMeta), row.count)
		require.Equal(t, []string{"o-2", "o-3"}, objectNames(list), row.count)
		require.NotEmpty(t, list.Continue)
	}
}

// A version ahead of the store is an error that has the current version.
func TestFutureVersions(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	for _, ahead := range []store.Revision{1, 3} {
		requireFuture(t, e, ahead)
	}
}

func requireFuture(t *testing.T, e *env, ahead store.Revision) {
	w := e.content(widgets)
	current := e.revision()
	version := fmt.Sprint(current + ahead)
	errs := map[string]error{}
	for _, exact := range []bool{false, true} {
		o := registry.ListOptions{ResourceVersion: version, Exact: exact}
		_, errs[fmt.Sprint("namespaces ", exact)] = e.List(e.ctx, o)
		_, errs[fmt.Sprint("namespaces as JSON ", exact)] = e.ListJSON(e.ctx, o)
		_, errs[fmt.Sprint("content ", exact)] = w.List(e.ctx, "x", o)
		_, errs[fmt.Sprint("content as JSON ", exact)] = w.ListJSON(e.ctx, "", o)
	}
	for _, repeat := range []bool{false, true} {
		o := registry.WatchOptions{ResourceVersion: version, Repeat: repeat}
		for _, err := range e.Watch(e.ctx, o) {
			errs[fmt.Sprint("watch of namespaces ", repeat)] = err
		}
		for _, err := range w.Watch(e.ctx, "x", o) {
			errs[fmt.Sprint("watch of content ", repeat)] = err
		}
	}
	for name, err := range errs {
		require.ErrorIs(t, err, store.ErrFuture, name)
		require.ErrorIs(t, err, namespace.ErrBadRequest, name)
		var future *store.FutureError
		require.ErrorAs(t, err, &future, name)
		require.Equal(t, store.FutureError{Asked: current + ahead, Current: current}, *future, name)
	}
}

// A compacted version is gone, for watches and listings.
func TestOldVersions(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	w := e.content(widgets)
	e.put(widgets, "x", object("a"))
	e.put(widgets, "x", object("b"))
	first, err := w.ListJSON(e.ctx, "x", registry.ListOptions{Limit: 1})
	require.NoError(t, err)
	e.put(widgets, "x", object("c"))
	require.NoError(t, e.store.(store.Compactor).Compact(e.ctx, e.revision()))
	for _, o := range []registry.ListOptions{{Continue: first.Continue}, {ResourceVersion: first.ResourceVersion, Exact: true}} {
		_, err = w.ListJSON(e.ctx, "x", o)
		require.ErrorIs(t, err, namespace.ErrGone)
		require.ErrorIs(t, err, store.ErrGone)
		_, err = w.List(e.ctx, "x", o)
		require.ErrorIs(t, err, namespace.ErrGone)
	}
	list, err := w.ListJSON(e.ctx, "x", registry.ListOptions{ResourceVersion: first.ResourceVersion})
	require.NoError(t, err, "at least that new is always to be had")
	require.Len(t, list.Items, 3)
	for _, err := range w.Watch(e.ctx, "x", registry.WatchOptions{ResourceVersion: first.ResourceVersion}) {
		require.ErrorIs(t, err, namespace.ErrGone)
		require.ErrorIs(t, err, store.ErrGone)
	}
}
