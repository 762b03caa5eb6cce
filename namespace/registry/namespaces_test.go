package registry_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
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
		require.Equal(t, "blue", again.Labels["team"], "what was handed out is nobody else's")
		require.Len(t, sent.Labels, 1, "what was sent is the caller's")
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
	require.Equal(t, []string{"/tenants/eu/.gate/x", "/tenants/eu/namespaces/x"}, keys)
}

// Writes on the dry-run view answer what would be, and change nothing.
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
