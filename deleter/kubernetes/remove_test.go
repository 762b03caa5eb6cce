package kubernetes_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes/internal/simulated"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/force"
)

// The interfaces of package force that a cluster implements.
var (
	_ force.Content = (*kubernetes.Cluster)(nil)
	_ force.Lister  = (*kubernetes.Deleter)(nil)
)

// uid returns the uid of a pod in the world.
func (w *world) uid(tb testing.TB, ns, name string) string {
	tb.Helper()
	m, err := w.Metadata().Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(ns).Get(tb.Context(), name, metav1.GetOptions{})
	require.NoError(tb, err)
	return string(m.UID)
}

// Remove deletes an object by its uid and drops the named finalizers, whatever the phase of its
// namespace is.
func TestRemove(t *testing.T) {
	w := newWorld(t, withClientDefaults, kubernetes.Options{})
	w.create(t, "n")
	w.put(t, "n", ofPods, simulated.Object{Name: "plain"}, simulated.Object{Name: "stays"},
		simulated.Object{Name: "held", Finalizers: []string{"example.com/a", "example.com/b"}})
	release := func(names ...finalizer.Name) []finalizer.Name { return names }

	gone, err := w.cluster.RemoveObject(t.Context(), pods, "n", "plain", w.uid(t, "n", "plain"), nil)
	require.NoError(t, err)
	require.True(t, gone)
	held := w.uid(t, "n", "held")
	for _, names := range [][]finalizer.Name{nil, release("example.com/other"), release("example.com/a", "example.com/other")} {
		gone, err = w.cluster.RemoveObject(t.Context(), pods, "n", "held", held, names)
		require.NoError(t, err)
		require.False(t, gone, "another finalizer blocks it, after %v", names)
	}
	gone, err = w.cluster.RemoveObject(t.Context(), pods, "n", "held", held, release("example.com/b"))
	require.NoError(t, err)
	require.True(t, gone, "the other finalizer was removed before")
	gone, err = w.cluster.RemoveObject(t.Context(), pods, "n", "held", held, nil)
	require.NoError(t, err)
	require.True(t, gone, "an object that is gone already")
	require.Equal(t, 1, w.Objects("n"))
}

// R8: an object with another uid, and its finalizers, are not touched.
func TestR8_RemoveOfAnotherObject(t *testing.T) {
	w := newWorld(t, withClientDefaults, kubernetes.Options{})
	w.create(t, "n")
	w.put(t, "n", ofPods, simulated.Object{Name: "p", Finalizers: []string{"example.com/a"}})
	gone, err := w.cluster.RemoveObject(t.Context(), pods, "n", "p", "another", []finalizer.Name{"example.com/a"})
	require.NoError(t, err)
	require.True(t, gone, "the object with the uid is gone")
	require.Equal(t, 1, w.Objects("n"))
	require.Zero(t, w.Requests(simulated.Patch))
	m, err := w.Metadata().Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace("n").Get(t.Context(), "p", metav1.GetOptions{})
	require.NoError(t, err)
	require.Nil(t, m.DeletionTimestamp)
	require.Equal(t, []string{"example.com/a"}, m.Finalizers)

	gone, err = w.cluster.RemoveObject(t.Context(), pods, "nowhere", "p", "another", nil)
	require.NoError(t, err)
	require.True(t, gone, "the object was removed with its namespace")
}

// R10: if other clients keep changing the finalizers, Remove gives up after a few attempts and
// reports the failure.
func TestRemoveFails(t *testing.T) {
	down := errors.New("down")
	for _, tt := range []struct {
		name     string
		verb     simulated.Verb
		err      error
		requests int
	}{
		{"the deletion", simulated.Delete, down, 1},
		{"a conflict about something else", simulated.Delete, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", down), 1},
		{"the look", simulated.Get, down, 1},
		{"the patch", simulated.Patch, down, 1},
		{"each patch conflicts", simulated.Patch, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", down), 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, withClientDefaults, kubernetes.Options{})
			w.create(t, "n")
			w.put(t, "n", ofPods, simulated.Object{Name: "p", Finalizers: []string{"example.com/a"}})
			uid := w.uid(t, "n", "p")
			w.ResetRequests()
			w.set(func() {
				w.requests = func(_ context.Context, r simulated.Request) error {
					if r.Verb == tt.verb && r.Resource == pods {
						return tt.err
					}
					return nil
				}
			})
			gone, err := w.cluster.RemoveObject(t.Context(), pods, "n", "p", uid, []finalizer.Name{"example.com/a"})
			require.Error(t, err)
			require.False(t, gone)
			require.Equal(t, tt.requests, w.Requests(tt.verb))
			w.set(func() { w.requests = nil })
			gone, err = w.cluster.RemoveObject(t.Context(), pods, "n", "p", uid, []finalizer.Name{"example.com/a"})
			require.NoError(t, err)
			require.True(t, gone, "the same call continues")
		})
	}
}

// A 404 for the path says nothing about the object, so the type is discovered again.
func TestRemoveOfTypesThatMove(t *testing.T) {
	path := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound, Message: "the server could not find the requested resource"}}
	failure := error(path)
	newly := func(t *testing.T) *world {
		w := newWorld(t, withClientDefaults, kubernetes.Options{})
		w.warm(t)
		w.create(t, "n")
		w.put(t, "n", ofWidgets, simulated.Object{Name: "w"})
		w.set(func() {
			w.requests = func(_ context.Context, r simulated.Request) error {
				if r.Resource == widgets {
					return failure
				}
				return nil
			}
		})
		return w
	}
	w := newly(t)
	gone, err := w.cluster.RemoveObject(t.Context(), widgets, "n", "w", "u", nil)
	require.ErrorIs(t, err, path, "discovery still shows it")
	require.False(t, gone)

	failure = apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "w")
	gone, err = newly(t).cluster.RemoveObject(t.Context(), widgets, "n", "w", "u", nil)
	require.ErrorIs(t, err, failure, "a namespace with that name is not the object")
	require.False(t, gone)
	failure = path

	w = newly(t)
	w.set(func() { w.hidden[widgets] = true })
	gone, err = w.cluster.RemoveObject(t.Context(), widgets, "n", "w", "u", nil)
	require.NoError(t, err)
	require.True(t, gone, "a type that does not exist has no objects")

	w = newly(t)
	w.set(func() {
		w.hidden[widgets] = true
		w.failed = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "example.com", Version: "v1"}: errors.New("down")}}
	})
	gone, err = w.cluster.RemoveObject(t.Context(), widgets, "n", "w", "u", nil)
	require.ErrorContains(t, err, "cannot determine")
	require.False(t, gone, "the type may exist although discovery does not show it")
	w.set(func() { w.failed = errors.New("down") })
	gone, err = w.cluster.RemoveObject(t.Context(), widgets, "n", "w", "u", nil)
	require.ErrorContains(t, err, "cannot determine")
	require.False(t, gone)
}

func TestBadInputOfRemove(t *testing.T) {
	w := newWorld(t, withClientDefaults, kubernetes.Options{Except: []namespace.ResourceType{configs}})
	w.create(t, "n")
	w.put(t, "n", ofPods, simulated.Object{Name: "p"})
	uid := w.uid(t, "n", "p")
	w.ResetRequests()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	long := strings.Repeat("a", 2000)
	for _, tt := range []struct {
		name, ns, object, uid string
		ctx                   context.Context
		resource              namespace.ResourceType
		want                  error
	}{
		{"a context that has ended", "n", "p", uid, ended, pods, context.Canceled},
		{"no type", "n", "p", uid, t.Context(), namespace.ResourceType{}, deleter.ErrInvalid},
		{"a type that is left alone", "n", "p", uid, t.Context(), configs, deleter.ErrInvalid},
		{"no namespace", "", "p", uid, t.Context(), pods, deleter.ErrInvalid},
		{"a path", "../n", "p", uid, t.Context(), pods, deleter.ErrInvalid},
		{"no name", "n", "", uid, t.Context(), pods, deleter.ErrInvalid},
		{"a path of a name", "n", "../p", uid, t.Context(), pods, deleter.ErrInvalid},
		{"invalid UTF-8", "n", "p\xff", uid, t.Context(), pods, deleter.ErrInvalid},
		{"oversized", "n", long, uid, t.Context(), pods, deleter.ErrInvalid},
		{"no uid", "n", "p", "", t.Context(), pods, deleter.ErrInvalid},
	} {
		gone, err := w.cluster.RemoveObject(tt.ctx, tt.resource, tt.ns, tt.object, tt.uid, nil)
		require.ErrorIs(t, err, tt.want, tt.name)
		require.False(t, gone, tt.name)
	}
	require.Zero(t, w.Requests())
	require.Equal(t, 1, w.Objects("n"))
}

// If a namespace is removed and recreated during an inventory, the inventory contains nothing of
// the new one, including types that are deleted as collections. A sweep would delete it.
func TestR8_InventoryOfOneIncarnation(t *testing.T) {
	w := newWorld(t, withClientDefaults, kubernetes.Options{})
	w.create(t, "n")
	w.delete(t, "n")
	old := w.cluster.Namespaces()
	ns, err := old.Get(t.Context(), "n")
	require.NoError(t, err)
	w.restart(t, kubernetes.Options{Deleter: deleter.Options{Parallelism: 1}})
	replaced := false
	w.set(func() {
		w.requests = func(_ context.Context, r simulated.Request) error {
			if r.Verb != simulated.List || replaced {
				return nil
			}
			replaced = true
			n := ns.DeepCopy()
			n.Spec.Finalizers = finalizer.Set{}
			_, err := old.Finalize(t.Context(), n)
			require.NoError(t, err)
			w.create(t, "n")
			w.put(t, "n", ofPods, simulated.Object{Name: "new"})
			w.put(t, "n", ofWidgets, simulated.Object{Name: "new"})
			return nil
		}
	})
	inventory, err := w.cluster.Deleter().Inventory(t.Context(), deleter.Target{Namespace: "n", UID: ns.UID, DeletedAt: ns.DeletionTimestamp.Time})
	require.ErrorIs(t, err, deleter.ErrIncarnation)
	require.True(t, replaced)
	require.Empty(t, inventory.Objects)
}
