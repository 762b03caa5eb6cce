package kubernetes_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes/internal/simulated"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// active returns an Active namespace of the world.
func (w *world) active(tb testing.TB, name string) deleter.Target {
	tb.Helper()
	ns, err := w.cluster.Namespaces().Get(tb.Context(), name)
	require.NoError(tb, err)
	return deleter.Target{Namespace: name, UID: ns.UID}
}

// An Active namespace can be inspected and listed completely.
func TestInventoryOfActive(t *testing.T) {
	w := newWorld(t, withClientDefaults, kubernetes.Options{Deleter: deleter.Options{PageSize: 2}})
	w.create(t, "n")
	w.put(t, "n", ofPods, simulated.Object{Name: "a"}, simulated.Object{Name: "b"}, simulated.Object{Name: "c", Finalizers: []string{"example.com/f"}})
	w.put(t, "n", ofWidgets, simulated.Object{Name: "w"})
	target := w.active(t, "n")
	inventory, err := w.cluster.Deleter().Inventory(t.Context(), target)
	require.NoError(t, err)
	require.Len(t, inventory.Objects, 4)
	for i, want := range []string{"a", "b", "c", "w"} {
		require.Equal(t, want, inventory.Objects[i].Name)
		require.NotEmpty(t, inventory.Objects[i].UID)
	}
	require.Equal(t, []string{"example.com/f"}, inventory.Objects[2].Finalizers)
	report, err := w.cluster.Deleter().Inspect(t.Context(), target)
	require.NoError(t, err)
	require.Equal(t, 4, report.Remaining())
	require.Equal(t, 4, w.Objects("n"))
	require.Zero(t, w.Requests(simulated.Delete, simulated.DeleteCollection))
	_, err = w.cluster.Deleter().Delete(t.Context(), target, deleter.Report{})
	require.ErrorIs(t, err, deleter.ErrInvalid)

	w.delete(t, "n")
	for _, target := range []deleter.Target{target, w.target(t, "n")} {
		inventory, err = w.cluster.Deleter().Inventory(t.Context(), target)
		require.NoError(t, err)
		require.Len(t, inventory.Objects, 4)
	}
}

// R8: if a namespace is recreated while it is listed, the list shows neither.
func TestR8_ViewWhileReplaced(t *testing.T) {
	w := newWorld(t, withClientDefaults, kubernetes.Options{})
	w.create(t, "n")
	target := w.active(t, "n")
	_, err := w.cluster.Deleter().Inspect(t.Context(), target) // the incarnation was read once
	require.NoError(t, err)
	replaced := false
	w.set(func() {
		w.requests = func(_ context.Context, r simulated.Request) error {
			if r.Verb == simulated.List && !replaced {
				replaced = true
				w.delete(t, "n")
				ns, err := w.Namespaces().Get(t.Context(), "n", metav1.GetOptions{})
				require.NoError(t, err)
				ns.Spec.Finalizers = nil
				_, err = w.Namespaces().Finalize(t.Context(), ns, metav1.UpdateOptions{})
				require.NoError(t, err)
				w.create(t, "n")
				w.put(t, "n", ofPods, simulated.Object{Name: "new"})
			}
			return nil
		}
	})
	w.restart(t, kubernetes.Options{Deleter: deleter.Options{Parallelism: 1}})
	inventory, err := w.cluster.Deleter().Inventory(t.Context(), target)
	require.ErrorIs(t, err, deleter.ErrIncarnation)
	require.Empty(t, inventory.Objects)
	require.True(t, replaced)
}

// R8: a uid that does not exist, or no longer exists, cannot be inspected, even if it was before.
func TestR8_ViewOfAnotherIncarnation(t *testing.T) {
	w := newWorld(t, withClientDefaults, kubernetes.Options{})
	w.create(t, "n")
	w.put(t, "n", ofPods, simulated.Object{Name: "p"})
	target := w.active(t, "n")
	another := target
	another.UID = "another"
	nowhere := deleter.Target{Namespace: "nowhere", UID: target.UID}
	for _, late := range []deleter.Target{another, nowhere} {
		inventory, err := w.cluster.Deleter().Inventory(t.Context(), late)
		require.ErrorIs(t, err, deleter.ErrIncarnation)
		require.Empty(t, inventory.Objects)
	}
	_, err := w.cluster.Deleter().Inspect(t.Context(), target)
	require.NoError(t, err)
	w.delete(t, "n")
	var report deleter.Report
	for range 3 {
		var result pass.Result
		if result, err = w.pass(t, "n", report); result.Outcome == pass.Removed {
			break
		}
		report = result.Report
	}
	require.NoError(t, err)
	inventory, err := w.cluster.Deleter().Inventory(t.Context(), target)
	require.ErrorIs(t, err, deleter.ErrIncarnation, "the namespace was removed")
	require.Empty(t, inventory.Objects)
}

// Inspect shows types that discovery failed to show, if earlier passes saw them.
func TestInspectWithoutDiscovery(t *testing.T) {
	down := errors.New("down")
	w := newWorld(t, withClientDefaults, kubernetes.Options{})
	w.create(t, "n")
	w.set(func() { w.failed = down })
	inventory, err := w.cluster.Deleter().Inventory(t.Context(), w.active(t, "n"))
	require.ErrorIs(t, err, down)
	require.ErrorIs(t, inventory.Report.Err(), down)
}

// waived creates a namespace with a waiver.
func (w *world) waived(tb testing.TB, name, source string) {
	tb.Helper()
	key, value, err := declare.Waiver{Name: "test", Source: source, By: "ada", Reason: "uninstalled", Until: time.Now().Add(time.Hour)}.Annotation()
	require.NoError(tb, err)
	_, err = w.Namespaces().Create(tb.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{key: value}},
	}, metav1.CreateOptions{})
	require.NoError(tb, err)
}

// R7: a group whose discovery fails is waived in namespaces that declare it, unless objects of it
// were seen. All other types are emptied first.
func TestR7_WaivedGroup(t *testing.T) {
	down := errors.New("service unavailable")
	w := newWorld(t, withClientDefaults, kubernetes.Options{Expiry: -1})
	for _, name := range []string{"a", "b", "seen"} {
		if name == "b" {
			w.create(t, name)
		} else {
			w.waived(t, name, "example.com")
		}
		w.put(t, name, ofConfigs, simulated.Object{Name: "c"})
		if name == "seen" {
			w.put(t, name, ofWidgets, simulated.Object{Name: "w", Finalizers: []string{"example.com/f"}})
		}
		w.delete(t, name)
	}
	seen := w.waits(t, "seen", deleter.Report{})
	w.set(func() {
		w.hidden[widgets] = true
		w.failed = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "example.com", Version: "v1"}: down}}
	})
	_, err := w.fails(t, "b", deleter.Report{})
	require.ErrorIs(t, err, down)
	for range 2 {
		seen, err = w.fails(t, "seen", seen)
		require.ErrorIs(t, err, down)
	}
	require.Equal(t, []deleter.ResourceCount{{Resource: widgets, Objects: 1}}, seen.LastSeen)
	w.removed(t, "a", deleter.Report{})

	// A pass that ends early keeps the earlier observations.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	target := w.target(t, "seen")
	report, err := w.cluster.Deleter().Delete(ended, target, seen)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, seen.LastSeen, report.LastSeen)
	w.restart(t, kubernetes.Options{})
	w.set(func() { w.failed = down })
	report, err = w.cluster.Deleter().Delete(t.Context(), target, report)
	require.ErrorIs(t, err, down)
	require.Equal(t, seen.LastSeen, report.LastSeen)
}

// R7: another process, without the reports of earlier passes, refuses the waiver of a group with
// observed objects. It reads them from the status of the namespace.
func TestR7_WaivedGroupAfterRestart(t *testing.T) {
	w := newWorld(t, withClientDefaults, kubernetes.Options{Expiry: -1})
	w.waived(t, "seen", "example.com")
	w.put(t, "seen", ofWidgets, simulated.Object{Name: "w", Finalizers: []string{"example.com/f"}})
	w.delete(t, "seen")
	w.waits(t, "seen", deleter.Report{})
	w.set(func() {
		w.hidden[widgets] = true
		w.failed = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "example.com", Version: "v1"}: errors.New("down")}}
	})
	for range 3 {
		w.restart(t, kubernetes.Options{Expiry: -1})
		report, err := w.fails(t, "seen", deleter.Report{})
		require.ErrorContains(t, err, "not waived: 1 object was left of it")
		require.Equal(t, []deleter.ResourceCount{{Resource: widgets, Objects: 1}}, report.LastSeen)
	}
}
