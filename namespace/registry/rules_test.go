package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// A namespace is removed when it is terminating and nothing holds it, in the write
// that made it so, whichever write that is.
func TestR1_RemovedByTheLastWrite(t *testing.T) {
	type write struct {
		name string
		do   func(e *env) error
	}
	terminate := write{"delete", func(e *env) error { _, err := e.Delete(e.ctx, "x", anyVersion); return err }}
	finalize := write{"finalize", func(e *env) error { _, err := e.Finalize(e.ctx, named("x")); return err }}
	update := write{"update", func(e *env) error { _, err := e.Update(e.ctx, named("x")); return err }}
	for _, order := range [][]write{
		{terminate, finalize, update}, {terminate, update, finalize}, {finalize, terminate, update},
		{finalize, update, terminate}, {update, terminate, finalize}, {update, finalize, terminate},
	} {
		e := newEnv(t)
		n := named("x", "example.com/agent")
		n.Finalizers = finalizer.NewSet("example.com/own")
		_, err := e.Create(e.ctx, n)
		require.NoError(t, err)
		for i, w := range order {
			before := e.revision()
			require.NoError(t, w.do(e))
			_, err := e.Get(e.ctx, "x")
			if i < len(order)-1 {
				require.NoError(t, err, "%s of %v: something holds it yet", w.name, order)
				continue
			}
			require.ErrorIs(t, err, namespace.ErrNotFound, "%s was the last", w.name)
			require.Equal(t, before+1, e.revision(), "in that very write")
		}
		page, err := e.store.List(e.ctx, store.Query{Prefix: "/"})
		require.NoError(t, err)
		require.Len(t, page.Entries, 1, "only the format is left")
	}
}

// The phase follows from the deletion timestamp, in the store and in results, regardless
// of the client's request.
func TestR2_PhaseIsDerived(t *testing.T) {
	e := newEnv(t)
	sent := named("x")
	sent.Status.Phase = phase.Terminating
	sent.DeletionTimestamp = phase.At(time.Now())
	n, err := e.Create(e.ctx, sent)
	require.NoError(t, err)
	require.Equal(t, phase.Active, n.Status.Phase)
	require.True(t, n.DeletionTimestamp.IsZero())
	n.DeletionTimestamp = phase.At(time.Now())
	n.Labels = map[string]string{"a": "b"}
	for _, write := range writes(e) {
		n.Status.Phase = ""
		answer, err := write(e.ctx, n)
		require.NoError(t, err)
		require.Equal(t, phase.Active, answer.Status.Phase)
		require.Equal(t, phase.Active, e.get("x").Phase())
		n.ResourceVersion = answer.ResourceVersion
	}
	e.terminate("x")
	n = e.get("x")
	n.Status.Phase, n.DeletionTimestamp = phase.Active, phase.Time{}
	_, err = e.UpdateStatus(e.ctx, n)
	require.ErrorIs(t, err, namespace.ErrInvalid)
	n.Status.Phase = ""
	n, err = e.UpdateStatus(e.ctx, n)
	require.NoError(t, err)
	require.Equal(t, phase.Terminating, n.Status.Phase)
}

func TestR3_DeletionTimestampNeverChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.create("x", "example.com/agent")
		first := e.terminate("x").DeletionTimestamp
		require.Equal(t, phase.At(time.Now()), first)
		for range 3 {
			time.Sleep(time.Hour)
			before := e.revision()
			e.terminate("x")
			require.Equal(t, before, e.revision(), "a second deletion writes nothing")
			for _, write := range writes(e) {
				n := named("x", "example.com/agent")
				n.Annotations = map[string]string{"at": time.Now().String()}
				n.DeletionTimestamp = phase.At(time.Now())
				n, err := write(e.ctx, n)
				require.NoError(t, err)
				require.Equal(t, first, n.DeletionTimestamp)
			}
		}
		require.Equal(t, first, e.get("x").DeletionTimestamp)
	})
}

func TestR4_OnlyFinalizeChangesFinalizers(t *testing.T) {
	for _, terminating := range []bool{false, true} {
		e := newEnv(t)
		e.create("x", "example.com/agent")
		if terminating {
			e.terminate("x")
		}
		want := finalizer.NewSet("example.com/agent", finalizer.Kubernetes)
		for _, asked := range []finalizer.Set{{}, finalizer.NewSet("example.com/other"), want.With("example.com/other")} {
			n := e.get("x")
			n.Spec.Finalizers = asked
			n.Annotations = map[string]string{"v": n.ResourceVersion}
			n, err := e.Update(e.ctx, n)
			require.NoError(t, err)
			require.Equal(t, want, n.Spec.Finalizers, "silently")
			n.Spec.Finalizers = asked
			n, err = e.UpdateStatus(e.ctx, n)
			require.NoError(t, err)
			require.Equal(t, want, n.Spec.Finalizers)
		}
		n := e.get("x")
		n.Spec.Finalizers = want.With("example.com/other")
		n.Labels = map[string]string{"a": "b"}
		n, err := e.Finalize(e.ctx, n)
		require.NoError(t, err)
		require.Equal(t, want.With("example.com/other"), n.Spec.Finalizers)
		require.Empty(t, n.Labels["a"], "finalize changes nothing else")
	}
}

func TestR5_DefaultFinalizerIsAdded(t *testing.T) {
	for _, tc := range []struct{ sent, want []finalizer.Name }{
		{nil, []finalizer.Name{"kubernetes"}},
		{[]finalizer.Name{"example.com/a"}, []finalizer.Name{"example.com/a", "kubernetes"}},
		{[]finalizer.Name{"kubernetes", "example.com/a"}, []finalizer.Name{"kubernetes", "example.com/a"}},
	} {
		require.Equal(t, tc.want, newEnv(t).create("x", tc.sent...).Spec.Finalizers.Names())
	}
}

// The create and the check of the gate are one commit: whatever happens between
// the request and its commit, nothing is created in a namespace that is not Active.
func TestR6_GateIsPartOfTheCommit(t *testing.T) {
	e := newEnv(t)
	late := &lateStore{Store: e.store}
	l := newEnvOver(t, late)
	w := l.content(widgets)
	for _, row := range []struct {
		name      string
		meanwhile func()
		want      error
	}{
		{"it is terminating", func() { e.terminate("x") }, namespace.ErrTerminating},
		{"it is gone", func() { require.NoError(t, e.removeAll(e.ctx, "x")) }, namespace.ErrNotFound},
		{"it is Active again", func() {
			require.NoError(t, e.removeAll(e.ctx, "x"))
			e.create("x")
		}, nil},
	} {
		e.create("x")
		l.put(widgets, "x", object("first")) // it has seen the gate
		require.Zero(t, late.reads, "nothing is read when all is well")
		late.before = row.meanwhile
		_, err := w.Create(e.ctx, "x", object("a"))
		require.ErrorIs(t, err, row.want, row.name)
		require.NoError(t, e.removeAll(e.ctx, "x"))
	}
}

// A pass that read the fence before its incarnation went, and the content after,
// deletes nothing of the next one, and lists nothing of it.
func TestR8_FenceAndContentAreOfOneIncarnation(t *testing.T) {
	e := newEnv(t)
	late := &lateStore{Store: e.store}
	l := newEnvOver(t, late)
	e.create("x")
	first := e.put(widgets, "x", object("a"))
	old := e.terminate("x")
	remake := func() {
		require.NoError(t, e.removeAll(e.ctx, "x"))
		e.create("x")
		e.put(widgets, "x", object("b"))
		e.terminate("x")
	}
	late.listing = map[int]func(){1: remake} // between the fence and the content
	page, err := l.source().List(e.ctx, targetOf(old), 0, "")
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	require.Equal(t, first.UID, page.Items[0].UID, "the object of that incarnation")

	old = e.get("x")
	late.lists, late.listing = 0, map[int]func(){0: remake}
	_, _, err = l.source().DeleteCollection(e.ctx, targetOf(old))
	require.ErrorIs(t, err, deleter.ErrIncarnation)
	require.True(t, e.hasWidget("x", "b"))
}

// A page that takes several reads of the store is of one snapshot all the same.
func TestPageIsOneSnapshot(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	for i := range 1200 {
		o := object(fmt.Sprintf("o%04d", i))
		o.Labels = map[string]string{"third": fmt.Sprint(i%3 == 0)}
		e.put(widgets, "x", o)
	}
	before := e.revision()
	late := &lateStore{Store: e.store, listing: map[int]func(){1: func() {
		last := object("o1199-a")
		last.Labels = map[string]string{"third": "true"}
		e.put(widgets, "x", last)
	}}}
	l := newEnvOver(t, late)
	list, err := l.content(widgets).List(e.ctx, "x", registry.ListOptions{Labels: labels(t, "third=true"), Limit: 450})
	require.NoError(t, err)
	require.Greater(t, late.lists, 1)
	require.Len(t, list.Items, 400)
	require.Equal(t, fmt.Sprint(before), list.ResourceVersion)
}

// lateStore lets something happen just before a commit, or before the listing of a
// number.
type lateStore struct {
	store.Store
	before  func()
	listing map[int]func()
	reads   int // since the last commit
	total   int // reads
	lists   int
}

func (s *lateStore) List(ctx context.Context, q store.Query) (store.Page, error) {
	if before := s.listing[s.lists]; before != nil {
		before()
	}
	s.lists++
	return s.Store.List(ctx, q)
}

func (s *lateStore) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	s.reads = 0
	return s.Store.Commit(ctx, txn)
}

func (s *lateStore) Get(ctx context.Context, key string) (store.Entry, error) {
	s.reads++
	s.total++
	return s.Store.Get(ctx, key)
}

// Nothing that is done for one incarnation touches another: not content, not
// status, not finalizers.
func TestR8_OtherIncarnationsAreNotTouched(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	e.put(widgets, "x", object("a"))
	old := e.terminate("x")
	_, _, err := e.source().DeleteCollection(e.ctx, targetOf(old))
	require.NoError(t, err)
	e.release("x")
	e.create("x")
	fresh := e.put(widgets, "x", object("a"))
	before := e.revision()

	for _, phase := range []string{"Active", "Terminating"} {
		_, _, err = e.source().DeleteCollection(e.ctx, targetOf(old))
		require.ErrorIs(t, err, deleter.ErrIncarnation, phase)
		require.ErrorIs(t, e.source().Delete(e.ctx, targetOf(old), "a", ""), deleter.ErrIncarnation)
		require.ErrorIs(t, e.source().Delete(e.ctx, targetOf(old), "a", fresh.UID), deleter.ErrIncarnation)
		_, err = e.source().List(e.ctx, targetOf(old), 0, "")
		require.ErrorIs(t, err, deleter.ErrIncarnation)
		for _, write := range writes(e) {
			_, err = write(e.ctx, old)
			require.ErrorIs(t, err, namespace.ErrConflict)
			late := old
			late.ResourceVersion = ""
			_, err = write(e.ctx, late)
			require.ErrorIs(t, err, namespace.ErrConflict)
		}
		_, err = e.Delete(e.ctx, "x", namespace.Preconditions{UID: old.UID})
		require.ErrorIs(t, err, namespace.ErrConflict)
		require.Equal(t, before, e.revision())
		e.terminate("x")
		before = e.revision()
	}
}

// The fence is part of every commit of a pass: a namespace that is removed and
// made again just before it is not touched.
func TestR8_FenceIsPartOfTheCommit(t *testing.T) {
	e := newEnv(t)
	late := &lateStore{Store: e.store}
	l := newEnvOver(t, late)
	e.create("x")
	e.put(widgets, "x", object("a"))
	old := e.terminate("x")
	remake := func() {
		require.NoError(t, e.removeAll(e.ctx, "x"))
		e.create("x")
		e.put(widgets, "x", object("a"))
		e.terminate("x")
	}
	late.before = remake
	_, _, err := l.source().DeleteCollection(e.ctx, targetOf(old))
	require.ErrorIs(t, err, deleter.ErrIncarnation)
	require.True(t, e.hasWidget("x", "a"))
	old = e.get("x")
	late.before = remake
	require.ErrorIs(t, l.source().Delete(e.ctx, targetOf(old), "a", ""), deleter.ErrIncarnation)
	require.True(t, e.hasWidget("x", "a"))
}

// smallStore allows only small transactions.
type smallStore struct {
	store.Store
	limits  store.Limits
	largest int
}

func (s *smallStore) Limits() store.Limits { return s.limits }

func (s *smallStore) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if err := txn.Check(s.limits); err != nil {
		return 0, err
	}
	s.largest = max(s.largest, len(txn.Do))
	return s.Store.Commit(ctx, txn)
}

// Batches use the limits of the store and respect them.
func TestBatchesFitTheStore(t *testing.T) {
	for _, limits := range []store.Limits{{Operations: 3}, {Operations: 10}, {Bytes: 2000}, {Operations: 7, Bytes: 1500}} {
		inner, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, inner.Close()) })
		s := &smallStore{Store: inner, limits: limits}
		e := newEnvOver(t, s)
		e.create("x")
		for i := range 40 {
			o := object(fmt.Sprint("o", i))
			if i%3 == 0 {
				o.Finalizers = finalizer.NewSet("example.com/f")
			}
			e.put(widgets, "x", o)
		}
		n := e.terminateSmall("x", s)
		s.largest = 0
		done, more, err := e.source().DeleteCollection(e.ctx, targetOf(n))
		require.NoError(t, err)
		require.False(t, more)
		require.Equal(t, 40, done)
		if limits.Bytes == 0 {
			require.Equal(t, limits.Operations-1, s.largest)
		} else {
			require.Greater(t, s.largest, 1)
		}
	}
}

// terminateSmall terminates a namespace although the store allows fewer operations
// than that takes.
func (e *env) terminateSmall(name string, s *smallStore) namespace.Namespace {
	limits := s.limits
	s.limits = store.Limits{}
	defer func() { s.limits = limits }()
	return e.terminate(name)
}

// An object that the store accepts can also be deleted: it grows by its deletion
// timestamp, and a namespace by its conditions.
func TestR12_StoredObjectsCanBeDeleted(t *testing.T) {
	for _, limits := range []store.Limits{{Value: 5000}, {Bytes: 5000}, {Value: 6000, Bytes: 5000}, {Value: 5000, Bytes: 11000}} {
		s, err := memory.New(&memory.Options{Limits: limits})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		e := newEnvOver(t, s)
		w := e.content(widgets)
		refused := 0
		for size := 5000; !e.has("x"); size -= 20 {
			n := named("x")
			n.Annotations = map[string]string{"a": strings.Repeat("x", size)}
			if _, err := e.Create(e.ctx, n); err != nil {
				refused++
				requireRefused(t, err, "namespace", namespace.ErrInvalid)
				require.ErrorIs(t, err, store.ErrTooLarge)
			}
		}
		for size := 5000; !e.hasWidget("x", "a"); size-- {
			o := object("a", "example.com/f")
			o.Fields["data"] = json.RawMessage(`"` + strings.Repeat("x", size) + `"`)
			if _, err := w.Create(e.ctx, "x", o); err != nil {
				refused++
				requireRefused(t, err, "object", namespace.ErrInvalid)
				require.ErrorIs(t, err, store.ErrTooLarge)
			}
		}
		require.Greater(t, refused, 10)
		grown, err := w.Get(e.ctx, "x", "a")
		require.NoError(t, err)
		grown.Annotations = map[string]string{"more": "x"}
		_, err = w.Update(e.ctx, "x", grown)
		requireRefused(t, err, "an update", namespace.ErrInvalid)

		n := e.terminate("x")
		n.Status.Conditions = phase.Conditions(nil, phase.Observation{}, "", n.CreationTimestamp.Time)
		_, err = e.UpdateStatus(e.ctx, n)
		require.NoError(t, err)
		done, _, err := e.source().DeleteCollection(e.ctx, targetOf(n))
		require.NoError(t, err)
		require.Equal(t, 1, done)
		require.NoError(t, e.removeAll(e.ctx, "x"))
	}
}

// The largest object can lose its finalizers one by one, although the deletion timestamp makes
// it larger than MaxObject.
func TestR12_LargestObjectLosesItsFinalizers(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	e := newEnvOver(t, s)
	w := e.content(widgets)
	e.create("x")
	fill := func(name string, n int) error {
		o := object(name, "e.com/f", "e.com/g")
		o.Fields["data"] = json.RawMessage(`"` + strings.Repeat("x", n) + `"`)
		_, err := w.Create(e.ctx, "x", o)
		return err
	}
	require.NoError(t, fill("b", 1_000_000))
	stored, err := s.Get(e.ctx, "/registry/widgets.example.com/x/b")
	require.NoError(t, err)
	most := registry.MaxObject - (len(stored.Value) - 1_000_000)
	require.ErrorIs(t, fill("a", most+1), store.ErrTooLarge)
	require.NoError(t, fill("a", most))
	deleted, err := w.Delete(e.ctx, "x", "a", anyVersion)
	require.NoError(t, err)
	deleted.Finalizers = deleted.Finalizers.Without("e.com/f")
	deleted, err = w.Update(e.ctx, "x", deleted)
	require.NoError(t, err)
	deleted.Finalizers = deleted.Finalizers.Without("e.com/g")
	_, err = w.Update(e.ctx, "x", deleted)
	require.NoError(t, err)
	require.False(t, e.hasWidget("x", "a"))
}

// hotStore lets something happen before every commit that deletes a key.
type hotStore struct {
	store.Store
	before func(txn store.Txn)
}

func (s hotStore) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	for _, op := range txn.Do {
		if op.Delete {
			s.before(txn)
			break
		}
	}
	return s.Store.Commit(ctx, txn)
}

// An object that keeps changing blocks neither the others of its collection, nor its own
// deletion once it is unchanged for one commit.
func TestR10_HotObjectBlocksNoOther(t *testing.T) {
	for _, always := range []bool{false, true} {
		e := newEnv(t)
		e.create("x")
		for i := range 100 {
			e.put(widgets, "x", object(fmt.Sprint("o", i)))
		}
		n := e.terminate("x")
		changes := 0
		touch := func(txn store.Txn) {
			if len(txn.Do) == 1 && (!always || !strings.HasSuffix(txn.Do[0].Key, "/o50")) {
				return
			}
			changes++
			o := object("o50")
			o.Labels = map[string]string{"a": fmt.Sprint(changes)}
			if _, err := e.content(widgets).Update(e.ctx, "x", o); !errors.Is(err, namespace.ErrNotFound) {
				require.NoError(t, err)
			}
		}
		done, _, err := newEnvOver(t, hotStore{e.store, touch}).source().DeleteCollection(e.ctx, targetOf(n))
		if !always {
			require.NoError(t, err)
			require.Equal(t, 100, done)
			continue
		}
		requireError(t, err, namespace.ErrConflict, `Operation cannot be fulfilled on widgets.example.com "o50": the object has been modified;`+
			` please apply your changes to the latest version and try again`)
		require.Equal(t, 99, done)
		require.Less(t, changes, 100, "it gives up on it")
		require.True(t, e.hasWidget("x", "o50"))
	}
}

// doubtfulStore does not carry out one commit, says that the outcome is unknown,
// and lets something happen.
type doubtfulStore struct {
	store.Store
	after   func()
	commits int
}

func (s *doubtfulStore) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if s.commits++; s.commits == 1 {
		s.after()
		return 0, store.ErrUnknownOutcome
	}
	return s.Store.Commit(ctx, txn)
}

// A fence that has moved resolves an unknown outcome: the commit did not land, and cannot
// land any more.
func TestR8_FenceResolvesUnknownOutcome(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	e.put(widgets, "x", object("a"))
	n := e.terminate("x")
	late := n
	late.Spec.Finalizers = late.Spec.Finalizers.With("example.com/late")
	s := &doubtfulStore{Store: e.store, after: func() {
		_, err := e.Finalize(e.ctx, late)
		require.NoError(t, err)
	}}
	require.NoError(t, newEnvOver(t, s).source().Delete(e.ctx, targetOf(n), "a", ""))
	require.False(t, e.hasWidget("x", "a"))
	require.Equal(t, 3, s.commits, "in doubt, refused, made")

	e.create("y")
	e.put(widgets, "y", object("a"))
	s = &doubtfulStore{Store: e.store, after: func() {
		require.NoError(t, e.removeAll(e.ctx, "y"))
		e.create("y")
		e.put(widgets, "y", object("a"))
	}}
	require.NoError(t, newEnvOver(t, s).source().Delete(e.ctx, targetOf(e.terminate("y")), "a", ""), "the old object is gone")
	require.True(t, e.hasWidget("y", "a"), "the object of another incarnation")
	require.Equal(t, 1, s.commits)
}

// The token of one listing is none of another, which would begin in its midst.
func TestTokensOfOtherListings(t *testing.T) {
	e := newEnv(t)
	for _, ns := range []string{"a", "b"} {
		e.create(ns)
		for _, name := range []string{"o1", "o2"} {
			e.put(widgets, ns, object(name))
			e.put(configmaps, ns, object(name))
		}
	}
	w := e.content(widgets)
	spaces, err := e.List(e.ctx, registry.ListOptions{Limit: 1})
	require.NoError(t, err)
	all, err := w.List(e.ctx, "", registry.ListOptions{Limit: 1})
	require.NoError(t, err)
	one, err := w.List(e.ctx, "a", registry.ListOptions{Limit: 1})
	require.NoError(t, err)
	n := e.terminate("a")
	page, err := e.source().List(e.ctx, targetOf(n), 1, "")
	require.NoError(t, err)
	for _, token := range []string{spaces.Continue, all.Continue, one.Continue, page.Next, page.Seen} {
		require.NotEmpty(t, token)
		o := registry.ListOptions{Continue: token}
		if token != spaces.Continue {
			_, err = e.List(e.ctx, o)
			requireRefused(t, err, "namespaces", namespace.ErrBadRequest)
		}
		if token != all.Continue {
			_, err = w.List(e.ctx, "", o)
			requireRefused(t, err, "all", namespace.ErrBadRequest)
		}
		_, err = w.List(e.ctx, "b", o)
		requireRefused(t, err, "another namespace", namespace.ErrBadRequest)
		_, err = e.content(configmaps).List(e.ctx, "a", o)
		requireRefused(t, err, "another type", namespace.ErrBadRequest)
		requireRefused(t, last(e.Terminating(e.ctx, token)), "terminating", namespace.ErrBadRequest)
	}
	rest, err := w.List(e.ctx, "a", registry.ListOptions{Continue: one.Continue})
	require.NoError(t, err)
	require.Equal(t, []string{"o2"}, objectNames(rest))
}
