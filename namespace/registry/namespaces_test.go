package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/bolt"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

func TestCreateNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		sent := named("x", "openshift.com/origin")
		sent.Labels = map[string]string{"team": "blue"}
		sent.UID, sent.Generation = "mine", 7
		sent.Status.Phase = phase.Terminating
		made, err := e.Create(e.ctx, sent)
		require.NoError(t, err)
		want := namespace.Namespace{
			TypeMeta: namespace.TypeMeta{Kind: "Namespace", APIVersion: "v1"},
			Meta: namespace.Meta{
				Name: "x", UID: made.UID, ResourceVersion: made.ResourceVersion, CreationTimestamp: phase.At(time.Now()),
				Labels: map[string]string{"team": "blue", namespace.NameLabel: "x"},
			},
			Status: namespace.Status{Phase: phase.Active},
		}
		want.Spec.Finalizers = finalizer.NewSet("openshift.com/origin", finalizer.Kubernetes)
		require.Empty(t, cmp.Diff(want, made, cmpopts.EquateEmpty()))
		require.Regexp(t, regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`), made.UID)
		require.Equal(t, fmt.Sprint(e.revision()), made.ResourceVersion)

		got, err := e.Get(e.ctx, "x")
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(made, got))
		got.Labels["team"] = "red"
		again, err := e.Get(e.ctx, "x")
		require.NoError(t, err)
		require.Equal(t, "blue", again.Labels["team"], "results share no memory")
		require.Len(t, sent.Labels, 1, "the argument is unchanged")
	})
}

func TestNamespaceTexts(t *testing.T) {
	e := newEnv(t)
	n := e.create("x")
	e.create("default")
	e.create("dying")
	dying := e.terminate("dying")
	stale := n
	n.Annotations = map[string]string{"a": "1"}
	n, err := e.Update(e.ctx, n)
	require.NoError(t, err)

	_, err = e.Create(e.ctx, named("x"))
	requireError(t, err, namespace.ErrExists, `namespaces "x" already exists`)
	_, err = e.Create(e.ctx, named("dying"))
	requireError(t, err, namespace.ErrExists, `object is being deleted: namespaces "dying" already exists`)
	_, err = e.Create(e.ctx, namespace.Namespace{})
	require.ErrorIs(t, err, namespace.ErrInvalid)
	require.ErrorContains(t, err, "name or generateName is required")
	_, err = e.Create(e.ctx, n)
	requireError(t, err, namespace.ErrBadRequest, "resourceVersion should not be set on objects to be created")

	_, err = e.Get(e.ctx, "none")
	requireError(t, err, namespace.ErrNotFound, `namespaces "none" not found`)
	_, err = e.Update(e.ctx, named("none"))
	requireError(t, err, namespace.ErrNotFound, `namespaces "none" not found`)
	_, err = e.Delete(e.ctx, "none", anyVersion)
	requireError(t, err, namespace.ErrNotFound, `namespaces "none" not found`)

	modified := `Operation cannot be fulfilled on namespaces "x": the object has been modified; please apply your changes to the latest version and try again`
	for _, write := range writes(e) {
		_, err = write(e.ctx, stale)
		requireError(t, err, namespace.ErrConflict, modified)
		other := n
		other.UID = "A"
		_, err = write(e.ctx, other)
		requireError(t, err, namespace.ErrConflict, fmt.Sprintf(
			`Operation cannot be fulfilled on namespaces "x": Precondition failed: UID in precondition: A, UID in object meta: %s`, n.UID))
	}
	_, err = e.Delete(e.ctx, "x", namespace.Preconditions{UID: "A"})
	requireError(t, err, namespace.ErrConflict, fmt.Sprintf(
		`Operation cannot be fulfilled on namespaces "x": Precondition failed: UID in precondition: A, UID in object meta: %s`, n.UID))
	_, err = e.Delete(e.ctx, "x", namespace.Preconditions{ResourceVersion: stale.ResourceVersion})
	requireError(t, err, namespace.ErrConflict, fmt.Sprintf(
		`Operation cannot be fulfilled on namespaces "x": Precondition failed: ResourceVersion in precondition: %s, ResourceVersion in object meta: %s`,
		stale.ResourceVersion, n.ResourceVersion))
	for _, immortal := range []string{"default", "kube-system"} { // one that is there, one that is not
		_, err = e.Delete(e.ctx, immortal, anyVersion)
		requireError(t, err, namespace.ErrForbidden, fmt.Sprintf(`namespaces %q is forbidden: this namespace may not be deleted`, immortal))
	}

	dying.Finalizers = finalizer.NewSet("example.com/new")
	_, err = e.Update(e.ctx, dying)
	require.ErrorIs(t, err, namespace.ErrInvalid)
	require.ErrorContains(t, err, `no new finalizers can be added if the object is being deleted, found new finalizers []string{"example.com/new"}`)
	dying.Finalizers = finalizer.Set{}
	dying.Status.Phase = phase.Active
	_, err = e.UpdateStatus(e.ctx, dying)
	require.ErrorIs(t, err, namespace.ErrInvalid)
	n.Status.Phase = phase.Terminating
	_, err = e.UpdateStatus(e.ctx, n)
	require.ErrorContains(t, err, "may only be 'Active' if `deletionTimestamp` is empty")
}

func TestGenerateName(t *testing.T) {
	e := newEnv(t)
	names := map[string]bool{}
	for range 20 {
		n, err := e.Create(e.ctx, namespace.Namespace{Meta: namespace.Meta{GenerateName: "run-"}})
		require.NoError(t, err)
		require.Regexp(t, `^run-[a-z0-9]{5}$`, n.Name)
		require.Equal(t, "run-", n.GenerateName)
		names[n.Name] = true
	}
	require.Len(t, names, 20)
	long := strings.Repeat("a", 63)
	n, err := e.Create(e.ctx, namespace.Namespace{Meta: namespace.Meta{GenerateName: long}})
	require.NoError(t, err)
	require.Len(t, n.Name, 63)
}

// takenStore says that every name is taken.
type takenStore struct {
	store.Store
	commits int
}

func (s *takenStore) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	s.commits++
	return 0, &store.Error{Op: "commit", Err: &store.ConflictError{
		Condition: txn.If[0], Current: &store.Entry{Key: txn.If[0].Key, Value: []byte(`{"metadata":{"uid":"other"}}`), Revision: 1},
	}}
}

func TestGenerateNameIsBounded(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	taken := &takenStore{Store: s}
	r, err := registry.New(taken, nil)
	require.NoError(t, err)
	_, err = r.Create(t.Context(), namespace.Namespace{Meta: namespace.Meta{GenerateName: "run-"}})
	require.ErrorIs(t, err, namespace.ErrExists)
	require.ErrorContains(t, err, "the server was not able to generate a unique name for the object")
	require.Equal(t, 8, taken.commits)
	_, err = r.Create(t.Context(), named("x"))
	requireError(t, err, namespace.ErrExists, `namespaces "x" already exists`)
	require.Equal(t, 9, taken.commits, "a given name is tried once")
}

func TestUpdateNamespace(t *testing.T) {
	e := newEnv(t)
	n := e.create("x", "example.com/agent")
	asked := n
	asked.Labels = map[string]string{"a": "b"}
	asked.Spec.Finalizers = finalizer.Set{}
	asked.Status = namespace.Status{}
	asked.CreationTimestamp = phase.Time{}
	got, err := e.Update(e.ctx, asked)
	require.NoError(t, err)
	want := n
	want.Labels = map[string]string{"a": "b", namespace.NameLabel: "x"}
	want.ResourceVersion = got.ResourceVersion
	require.Empty(t, cmp.Diff(want, got))
	require.NotEqual(t, n.ResourceVersion, got.ResourceVersion)

	asked.ResourceVersion = "" // unconditional
	asked.Labels = map[string]string{"c": "d"}
	_, err = e.Update(e.ctx, asked)
	require.NoError(t, err)
}

// An update that changes nothing does not change resourceVersion.
func TestUpdateOfNothing(t *testing.T) {
	e := newEnv(t)
	n := e.create("x", "example.com/agent")
	before := e.revision()
	for _, write := range writes(e) {
		same, err := write(e.ctx, n)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(n, same))
	}
	require.Equal(t, before, e.revision())
}

func TestFinalizeAndRemove(t *testing.T) {
	e := newEnv(t)
	n := e.create("x", "openshift.com/origin")
	e.put(widgets, "x", object("a"))
	_, err := e.content(widgets).Delete(e.ctx, "x", "a", anyVersion)
	require.NoError(t, err)
	first := e.terminate("x")
	require.Equal(t, phase.Terminating, first.Status.Phase)
	require.False(t, first.DeletionTimestamp.IsZero())
	second := e.terminate("x")
	require.Empty(t, cmp.Diff(first, second), "a second deletion changes nothing")

	first.Spec.Finalizers = first.Spec.Finalizers.Without(finalizer.Kubernetes)
	held, err := e.Finalize(e.ctx, first)
	require.NoError(t, err)
	require.Equal(t, finalizer.NewSet("openshift.com/origin"), held.Spec.Finalizers)
	held.Spec.Finalizers = finalizer.Set{}
	last, err := e.Finalize(e.ctx, held)
	require.NoError(t, err)
	require.Equal(t, n.UID, last.UID)
	require.True(t, last.Spec.Finalizers.IsZero())
	_, err = e.Get(e.ctx, "x")
	require.ErrorIs(t, err, namespace.ErrNotFound)
	again := e.create("x")
	require.NotEqual(t, n.UID, again.UID)
	_, err = e.Finalize(e.ctx, held)
	require.ErrorIs(t, err, namespace.ErrConflict, "of the earlier incarnation")
}

func TestDeleteRemovesWhatNothingHolds(t *testing.T) {
	e := newEnv(t)
	n := e.create("x")
	e.release("x")
	gone, err := e.Delete(e.ctx, "x", namespace.Preconditions{UID: n.UID})
	require.NoError(t, err)
	require.False(t, gone.DeletionTimestamp.IsZero())
	_, err = e.Get(e.ctx, "x")
	require.ErrorIs(t, err, namespace.ErrNotFound)
}

func TestImmortalNamesAreOptional(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	for _, tc := range []struct {
		immortal []string
		want     error
	}{{nil, namespace.ErrForbidden}, {[]string{}, nil}, {[]string{"main"}, nil}, {[]string{"default"}, namespace.ErrForbidden}} {
		r, err := registry.New(s, &registry.Options{Immortal: tc.immortal})
		require.NoError(t, err)
		_, err = r.Create(t.Context(), named("default"))
		require.NoError(t, err)
		_, err = r.Delete(t.Context(), "default", anyVersion)
		require.ErrorIs(t, err, tc.want)
		r, err = registry.New(s, &registry.Options{Immortal: []string{}})
		require.NoError(t, err)
		_, err = r.Delete(t.Context(), "default", anyVersion)
		require.NoError(t, err)
		_, err = r.Finalize(t.Context(), named("default"))
		require.NoError(t, err)
	}
}

func TestOwnFinalizerAndPrefix(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	r, err := registry.New(s, &registry.Options{Prefix: "tenants/eu", Finalizer: "example.com/host"})
	require.NoError(t, err)
	n, err := r.Create(t.Context(), named("x"))
	require.NoError(t, err)
	require.Equal(t, finalizer.NewSet("example.com/host"), n.Spec.Finalizers)
	page, err := s.List(t.Context(), store.Query{})
	require.NoError(t, err)
	var keys []string
	for _, entry := range page.Entries {
		keys = append(keys, entry.Key)
	}
	require.Equal(t, []string{"/tenants/eu/.format", "/tenants/eu/.gate/x", "/tenants/eu/namespaces/x"}, keys)
}

// Writes in a dry run return the expected result, and change nothing.
func TestDryRun(t *testing.T) {
	e := newEnv(t)
	n := e.create("x")
	e.put(widgets, "x", object("a"))
	e.put(widgets, "x", object("held", "example.com/f"))
	e.create("dying")
	e.terminate("dying")
	before := e.revision()
	dry := e.DryRun()
	w, err := dry.Content(widgets)
	require.NoError(t, err)

	made, err := dry.Create(e.ctx, named("new"))
	require.NoError(t, err)
	require.Empty(t, made.ResourceVersion)
	_, err = dry.Create(e.ctx, named("x"))
	require.ErrorIs(t, err, namespace.ErrExists)
	n.Labels = map[string]string{"a": "b"}
	updated, err := dry.Update(e.ctx, n)
	require.NoError(t, err)
	require.Equal(t, "b", updated.Labels["a"])
	require.Equal(t, n.ResourceVersion, updated.ResourceVersion)
	deleted, err := dry.Delete(e.ctx, "x", anyVersion)
	require.NoError(t, err)
	require.Equal(t, phase.Terminating, deleted.Status.Phase)
	_, err = dry.Finalize(e.ctx, named("dying"))
	require.NoError(t, err)
	o, err := w.Create(e.ctx, "x", object("b"))
	require.NoError(t, err)
	require.NotEmpty(t, o.UID)
	_, err = w.Create(e.ctx, "dying", object("b"))
	require.ErrorIs(t, err, namespace.ErrTerminating)
	_, err = w.Update(e.ctx, "x", object("a"))
	require.NoError(t, err)
	_, err = w.Delete(e.ctx, "x", "a", anyVersion)
	require.NoError(t, err)
	done, err := w.DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
	require.NoError(t, err)
	require.Equal(t, registry.Deletion{Deleted: 1, Marked: 1}, done)
	require.Equal(t, before, e.revision())
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestListNamespaces(t *testing.T) {
	e := newEnv(t)
	for i := range 7 {
		n := named(fmt.Sprintf("n%d", i))
		n.Labels = map[string]string{"even": fmt.Sprint(i%2 == 0)}
		_, err := e.Create(e.ctx, n)
		require.NoError(t, err)
	}
	e.terminate("n3")
	e.terminate("n4")
	for _, tc := range []struct {
		labels, fields string
		want           string
	}{
		{"", "", "n0 n1 n2 n3 n4 n5 n6"},
		{"even=true", "", "n0 n2 n4 n6"},
		{"even=true", "status.phase=Active", "n0 n2 n6"},
		{"", "status.phase=Terminating", "n3 n4"},
		{"", "metadata.name=n2", "n2"},
		{"", "name!=n2,status.phase!=Terminating", "n0 n1 n5 n6"},
		{"", "metadata.name=n", ""},
		{namespace.NameLabel + " in (n1,n6)", "", "n1 n6"},
	} {
		for _, bounds := range [][2]int{{0, 0}, {1, 0}, {2, 0}, {7, 0}, {100, 0}, {0, 1}, {0, 700}, {2, 700}, {0, 1 << 20}} {
			limit := bounds[0]
			o := registry.ListOptions{Labels: labels(t, tc.labels), Fields: fields(t, tc.fields), Limit: limit, Bytes: bounds[1]}
			var names []string
			for pages := 0; ; pages++ {
				require.Less(t, pages, 10, "pages must come to an end")
				list, err := e.List(e.ctx, o)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(e.revision()), list.ResourceVersion)
				if limit > 0 {
					require.LessOrEqual(t, len(list.Items), limit)
				}
				if bounds[1] == 1 {
					require.LessOrEqual(t, len(list.Items), 1)
				}
				for _, n := range list.Items {
					names = append(names, n.Name)
				}
				if o.Continue = list.Continue; o.Continue == "" {
					break
				}
			}
			require.Equal(t, tc.want, strings.Join(names, " "), "%+v limit and bytes %v", tc, bounds)
		}
	}
	_, err := e.List(e.ctx, registry.ListOptions{Fields: fields(t, "spec.x=1")})
	requireError(t, err, namespace.ErrBadRequest, "field label not supported: spec.x")
	data, err := json.Marshal(must(e.List(e.ctx, registry.ListOptions{Fields: fields(t, "name=none")})))
	require.NoError(t, err)
	require.JSONEq(t, fmt.Sprintf(`{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[]}`, e.revision()), string(data))
}

// All pages are of the snapshot of the first one; a token of another history, or
// of one that was compacted, is gone.
func TestPagesPinASnapshot(t *testing.T) {
	e := newEnv(t)
	e.create("a")
	e.create("b")
	first, err := e.List(e.ctx, registry.ListOptions{Limit: 1})
	require.NoError(t, err)
	e.create("aa")
	e.release("b")
	e.terminate("b")
	second, err := e.List(e.ctx, registry.ListOptions{Limit: 1, Continue: first.Continue})
	require.NoError(t, err)
	require.Equal(t, "b", second.Items[0].Name)
	require.Empty(t, second.Continue)
	require.Equal(t, first.ResourceVersion, second.ResourceVersion)

	exact, err := e.List(e.ctx, registry.ListOptions{ResourceVersion: first.ResourceVersion, Exact: true})
	require.NoError(t, err)
	require.Len(t, exact.Items, 2)
	newer, err := e.List(e.ctx, registry.ListOptions{ResourceVersion: first.ResourceVersion})
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(e.revision()), newer.ResourceVersion, "at least that new")
	_, err = e.List(e.ctx, registry.ListOptions{ResourceVersion: fmt.Sprint(e.revision() + 1)})
	require.ErrorIs(t, err, namespace.ErrBadRequest)
	require.ErrorIs(t, err, store.ErrFuture)

	require.NoError(t, e.store.(store.Compactor).Compact(e.ctx, e.revision()))
	_, err = e.List(e.ctx, registry.ListOptions{Limit: 1, Continue: first.Continue})
	require.ErrorIs(t, err, namespace.ErrGone)
	require.ErrorContains(t, err, "The provided continue parameter is too old to display a consistent list result.")
	_, err = e.List(e.ctx, registry.ListOptions{ResourceVersion: first.ResourceVersion, Exact: true})
	require.ErrorIs(t, err, namespace.ErrGone)

	other := newEnv(t)
	other.create("a")
	other.create("b")
	_, err = other.List(e.ctx, registry.ListOptions{Continue: first.Continue})
	require.ErrorIs(t, err, namespace.ErrGone, "the token carries the epoch")
}

// plain hides the optional methods of a store, and counts listings.
type plain struct {
	store.Store
	lists int
}

func (p *plain) List(ctx context.Context, q store.Query) (store.Page, error) {
	p.lists++
	return p.Store.List(ctx, q)
}

func countStores(t *testing.T) map[string]func() store.Store {
	open := func() store.Store {
		s, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}
	return map[string]func() store.Store{
		"a store that counts":     open,
		"a store that only lists": func() store.Store { return &plain{Store: open()} },
	}
}

func TestCount(t *testing.T) {
	for name, open := range countStores(t) {
		t.Run(name, func(t *testing.T) {
			e := newEnvOver(t, open())
			check := func(active, terminating int) {
				t.Helper()
				a, n, err := e.Count(e.ctx)
				require.NoError(t, err)
				require.Equal(t, [2]int{active, terminating}, [2]int{a, n})
			}
			check(0, 0)
			for i := range 7 {
				e.create(fmt.Sprint("n", i))
			}
			e.put(configmaps, "n0", object("one"))
			check(7, 0)
			e.terminate("n3")
			check(6, 1)
			e.terminate("n4")
			e.terminate("n5")
			check(4, 3)
			e.terminate("n5")
			check(4, 3)
			e.release("n4")
			check(4, 2)
			e.release("n3")
			check(4, 1)
			e.create("n3")
			check(5, 1)
		})
	}
}

func TestCountOfMany(t *testing.T) {
	for name, open := range countStores(t) {
		t.Run(name, func(t *testing.T) {
			s := open()
			e := newEnvOver(t, s)
			const many = 2500
			for i := range many {
				e.create(fmt.Sprintf("n%04d", i))
			}
			p, listing := s.(*plain)
			if listing {
				p.lists = 0
			}
			active, terminating, err := e.Count(e.ctx)
			require.NoError(t, err)
			require.Equal(t, [2]int{many, 0}, [2]int{active, terminating})
			if listing {
				require.Greater(t, p.lists, 2, "it was read in one page")
			}
		})
	}
}

func TestCountFails(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	e := newEnvOver(t, s)
	e.create("one")
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	_, _, err = e.Count(ctx)
	require.ErrorIs(t, err, context.Canceled)

	_, _, err = (&env{Registry: newEnvOver(t, &gone{Store: s}).Registry}).Count(e.ctx)
	require.ErrorIs(t, err, namespace.ErrGone)
}

// gone is a store that has compacted the revision before it counts.
type gone struct{ store.Store }

func (g *gone) Count(context.Context, store.Query) (int, error) { return 0, store.ErrGone }

// Every write of a namespace, including dry runs, reports the warnings about its change. A
// write that changes nothing or fails reports none, except a DELETE that finds a hold.
func TestWritesWarn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		var got []string
		ctx := registry.WithWarnings(e.ctx, func(text string) { got = append(got, text) })
		warns := func(n namespace.Namespace, err error) namespace.Namespace {
			t.Helper()
			require.NoError(t, err)
			require.Len(t, got, 1)
			got = nil
			return n
		}
		silent := func(n namespace.Namespace, err error) namespace.Namespace {
			t.Helper()
			require.Empty(t, got)
			return n
		}
		const grace = declare.GraceAnnotation
		warns(e.DryRun().Create(ctx, annotated(named("x"), grace, "1h")))
		n := warns(e.Create(ctx, annotated(named("x"), grace, "1h")))
		silent(e.Create(ctx, annotated(named("x"), grace, "1h")))
		silent(e.Update(ctx, n))
		warns(e.Update(ctx, annotated(n, grace, "2h")))
		silent(e.Update(ctx, annotated(n, grace, "3h"))) // a conflict
		warns(e.DryRun().Delete(ctx, "x", anyVersion))
		warns(e.Delete(ctx, "x", anyVersion))
		n = warns(e.Delete(ctx, "x", anyVersion))
		silent(e.UpdateStatus(ctx, n))
		silent(e.Restore(ctx, "x", namespace.Preconditions{UID: "other"}))
		warns(e.Restore(ctx, "x", anyVersion))
		warns(e.DeleteAfter(ctx, "x", declare.Hold{Until: time.Now().Add(time.Minute)}, anyVersion))
		silent(e.DeleteAfter(ctx, "x", declare.Hold{Until: time.Now().Add(time.Minute)}, anyVersion))
		warns(e.DeleteAfter(ctx, "x", declare.Hold{Until: time.Now().Add(time.Second)}, anyVersion))
		time.Sleep(time.Second)
		n = silent(e.Delete(ctx, "x", anyVersion))
		silent(e.Update(ctx, annotated(n, "nslifecycle.io/deletion-grase", "1h")))
		n.Spec.Finalizers = n.Spec.Finalizers.Without("kubernetes")
		silent(e.Finalize(ctx, n))
	})
}

// WaitRemoved returns at once for an incarnation that is gone, however it went.
func TestWaitRemovedOfWhatIsGone(t *testing.T) {
	e := newEnv(t)
	neighbour := e.create("acme-2")
	for name, prepare := range map[string]func() string{
		"removed by its DELETE": func() string {
			n := e.create("acme")
			e.release("acme")
			e.terminate("acme")
			return n.UID
		},
		"removed by a finalize": func() string {
			n := e.create("acme")
			e.remove("acme")
			return n.UID
		},
		"recreated": func() string {
			n := e.create("acme")
			e.remove("acme")
			e.create("acme")
			return n.UID
		},
		"never there": func() string { return "u" },
	} {
		require.NoError(t, e.WaitRemoved(e.ctx, "acme", prepare()), name)
		require.NoError(t, e.removeAll(e.ctx, "acme"), name)
	}
	ended, cancel := context.WithCancel(e.ctx)
	cancel()
	require.ErrorIs(t, e.WaitRemoved(ended, "acme-2", neighbour.UID), context.Canceled)
}

// waiting starts WaitRemoved for the namespace acme, and returns its answer.
func (e *env) waiting(ctx context.Context, uid string) <-chan error {
	answer := make(chan error, 1)
	go func() { answer <- e.WaitRemoved(ctx, "acme", uid) }()
	synctest.Wait()
	return answer
}

// WaitRemoved waits as long as the incarnation is there, whatever else happens, and
// returns when it is removed, also if the name is taken at once.
func TestWaitRemovedWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		n := e.create("acme")
		answer := e.waiting(e.ctx, n.UID)
		e.create("acme-2")
		e.remove("acme-2")
		e.terminate("acme")
		synctest.Wait()
		require.Empty(t, answer)
		e.release("acme")
		next := e.create("acme")
		require.NoError(t, <-answer)

		cause := errors.New("no longer")
		ctx, cancel := context.WithCancelCause(e.ctx)
		answer = e.waiting(ctx, next.UID)
		cancel(cause)
		err := <-answer
		require.ErrorIs(t, err, cause)
		require.ErrorContains(t, err, `namespace "acme" with uid `+next.UID+" is not removed yet: no longer")
	})
}

// compacting lets something happen before the first watch, and compacts the store then.
type compacting struct {
	*memory.Store
	before func()
}

func (s *compacting) Watch(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		if before := s.before; before != nil {
			s.before = nil
			before()
			page, err := s.List(ctx, store.Query{Limit: 1})
			if err == nil {
				err = s.Compact(ctx, page.Position.Revision)
			}
			if err != nil {
				yield(store.Change{}, err)
				return
			}
		}
		s.Store.Watch(ctx, prefix, after)(yield)
	}
}

// WaitRemoved lists again when its position is compacted.
func TestWaitRemovedOverCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		s := &compacting{Store: m}
		e := newEnvOver(t, s)
		n := e.create("acme")
		s.before = func() { e.remove("acme") }
		require.NoError(t, e.WaitRemoved(e.ctx, "acme", n.UID))
		require.Nil(t, s.before)
	})
}

// WaitRemoved survives an unavailable store, and retries with a backoff.
func TestWaitRemovedBacksOff(t *testing.T) {
	for name, method := range map[string]string{"lists fail": "list", "watches end at once": "watch"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, plan, _ := faultyEnv(t)
				n := e.create("acme")
				var calls atomic.Int64
				p := storetest.Plan(func(a storetest.Attempt) storetest.Fault {
					if a.Method != method {
						return storetest.Fault{}
					}
					calls.Add(1)
					return storetest.Fault{Kind: storetest.Fail}
				})
				plan.Store(&p)
				ctx, cancel := context.WithTimeout(e.ctx, 10*time.Minute)
				defer cancel()
				err := e.WaitRemoved(ctx, "acme", n.UID)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, storetest.ErrInjected, "the last failure")
				require.Less(t, calls.Load(), int64(180))
				require.Greater(t, calls.Load(), int64(120), "the backoff is bounded")

				answer := e.waiting(e.ctx, n.UID)
				time.Sleep(time.Minute)
				plan.Store(nil)
				e.remove("acme")
				healed := time.Now()
				require.NoError(t, <-answer)
				require.LessOrEqual(t, time.Since(healed), 5*time.Second)
			})
		})
	}
}

func TestWaitRemovedIsRefused(t *testing.T) {
	e := newEnv(t)
	n := e.create("acme")
	require.ErrorIs(t, e.WaitRemoved(e.ctx, "acme", ""), namespace.ErrBadRequest)
	require.ErrorIs(t, e.WaitRemoved(e.ctx, "a/b", "u"), namespace.ErrBadRequest)
	require.NoError(t, e.Close())
	require.ErrorIs(t, e.WaitRemoved(e.ctx, "acme", n.UID), registry.ErrClosed)
}

// closedStore answers as a store that was closed.
type closedStore struct{ store.Store }

func (closedStore) List(context.Context, store.Query) (store.Page, error) {
	return store.Page{}, &store.Error{Op: "list", Err: store.ErrClosed}
}

func TestWaitRemovedOfAClosedStore(t *testing.T) {
	e := newEnv(t)
	r, err := registry.New(closedStore{e.store}, nil)
	require.NoError(t, err)
	require.ErrorIs(t, r.WaitRemoved(e.ctx, "acme", "u"), store.ErrClosed)
	require.NoError(t, r.Close())
}

// Creating, terminating, emptying, removing and making again, all at once, by many:
// nothing breaks a rule at any revision, and nothing is left.
func TestR6_Orphans(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	orphans(t, s, 200, 3)
}

func TestR6_OrphansOnAFile(t *testing.T) {
	s, err := bolt.Open(filepath.Join(t.TempDir(), "data"), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	orphans(t, s, 200, 2)
}

// orphans lets 16 creators race the termination of spaces, cycles times over, while
// passes that are late go on for incarnations of before.
func orphans(t *testing.T, s store.Store, spaces, cycles int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	e := newEnvOver(t, s)
	e.create("first")
	start := now(t, s)
	tickets := make(chan struct{}, 64) // each is one attempt to create an object
	invite := func(n int) {
		for range n {
			tickets <- struct{}{}
		}
	}
	var created, refused atomic.Int64
	var creators, terminators, stale sync.WaitGroup
	past := make(chan namespace.Namespace, spaces*cycles)
	for range 2 {
		stale.Go(func() { latePasses(e, past) })
	}
	for creator := range 16 {
		rnd := rand.New(rand.NewPCG(seed, uint64(creator)))
		creators.Go(func() {
			w := e.content([]namespace.ResourceType{widgets, configmaps}[creator%2])
			i := 0
			for range tickets {
				i++
				_, err := w.Create(e.ctx, fmt.Sprint("n", rnd.IntN(spaces)), object(fmt.Sprintf("o-%d-%d", creator, i)))
				if err == nil {
					created.Add(1)
				} else {
					refused.Add(1)
				}
			}
		})
	}
	var names []string
	for i := range spaces {
		names = append(names, fmt.Sprint("n", i))
	}
	for part := range slices.Chunk(names, spaces/4) {
		terminators.Go(func() {
			lives := make([]namespace.Namespace, len(part))
			for range cycles {
				before := slices.Clone(lives)
				for i, name := range part {
					var err error
					if lives[i], err = e.Create(e.ctx, named(name)); err != nil {
						t.Error(err)
						return
					}
				}
				invite(8 * len(part))
				for i, n := range lives {
					invite(8)
					if before[i].UID != "" {
						past <- before[i]
					}
					lives[i] = e.end(n)
				}
			}
		})
	}
	terminators.Wait()
	close(tickets)
	creators.Wait()
	close(past)
	stale.Wait()
	t.Logf("%d objects created, %d refused", created.Load(), refused.Load())
	require.NotZero(t, created.Load())
	require.NotZero(t, refused.Load())
	for _, name := range names {
		require.False(t, e.has(name))
	}
	for _, resource := range []namespace.ResourceType{widgets, configmaps} {
		list, err := e.content(resource).List(e.ctx, "", registry.ListOptions{})
		require.NoError(t, err)
		require.Empty(t, list.Items)
	}
	require.NoError(t, registrytest.Audit(e.ctx, s, "registry", start, e.revision()))
	require.Zero(t, deletedWhileActive(t, s, start, e.revision()), "objects that a pass for another incarnation deleted")
}

// latePasses runs passes for removed incarnations. They must not touch the namespaces that
// have these names now.
func latePasses(e *env, past <-chan namespace.Namespace) {
	for n := range past {
		_, _, err := e.source().DeleteCollection(e.ctx, targetOf(n))
		if !errors.Is(err, deleter.ErrIncarnation) {
			e.t.Errorf("a pass for a life of %s that is over: %v", n.Name, err)
		}
	}
}

// deletedWhileActive counts the objects that were deleted in Active namespaces, which no
// client requested.
func deletedWhileActive(t *testing.T, s store.Store, after store.Position, until store.Revision) int {
	touched, deleted := 0, 0
	gates := map[string]bool{}
	for change, err := range s.Watch(t.Context(), "/registry/", after) {
		require.NoError(t, err)
		for _, e := range change.Events {
			parts := strings.Split(e.Key, "/")
			switch {
			case parts[2] == ".gate":
				gates[parts[3]] = !e.Deleted
			case len(parts) == 5 && e.Deleted:
				deleted++
				if gates[parts[3]] {
					touched++
				}
			}
		}
		if change.Position.Revision >= until {
			break
		}
	}
	require.NotZero(t, deleted)
	return touched
}

// end ends the life of a namespace. A listing of a terminating namespace is final:
// once it is empty, the namespace is removed. It returns the namespace as it was last.
func (e *env) end(n namespace.Namespace) namespace.Namespace {
	name := n.Name
	n, err := e.Delete(e.ctx, name, namespace.Preconditions{UID: n.UID})
	if err != nil {
		e.t.Errorf("delete %s: %v", name, err)
		return n
	}
	sources, err := e.Sources()
	if err != nil {
		e.t.Error(err)
		return n
	}
	for _, source := range sources {
		if _, _, err := source.Content.(deleter.CollectionDeleter).DeleteCollection(e.ctx, targetOf(n)); err != nil {
			e.t.Errorf("empty %s: %v", name, err)
		}
		if page, err := source.Content.List(e.ctx, targetOf(n), 0, ""); err != nil || len(page.Items) > 0 {
			e.t.Errorf("%s has %d %s after it was emptied, error %v", name, len(page.Items), source.Resource, err)
		}
	}
	n.Spec.Finalizers = finalizer.Set{}
	if _, err := e.Finalize(e.ctx, n); err != nil {
		e.t.Errorf("finalize %s: %v", name, err)
	}
	return n
}
