package kubernetes_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes/internal/simulated"
	"github.com/nslifecycle/nslifecycle/namespace"
)

var noWait = kubernetes.Options{Wait: -1}

// warm runs one discovery.
func (w *world) warm(t *testing.T) {
	t.Helper()
	w.create(t, "warm")
	w.delete(t, "warm")
	w.removed(t, "warm", deleter.Report{})
}

// A type that was installed and filled after the latest discovery, just before the namespace was
// deleted, is deleted by the first pass and blocks the namespace.
func TestR7_TypeInstalledAfterTheLastDiscovery(t *testing.T) {
	w := newWorld(t, "", noWait)
	w.hidden[widgets] = true
	w.warm(t)
	for name, objects := range map[string][]simulated.Object{
		"n": {{Name: "a"}}, "held": {{Name: "a", Finalizers: []string{"example.com/f"}}},
	} {
		w.set(func() { w.hidden[widgets] = true })
		w.create(t, "forget"+name)
		w.delete(t, "forget"+name)
		w.removed(t, "forget"+name, deleter.Report{})
		w.create(t, name)
		w.put(t, name, ofConfigs, simulated.Object{Name: "b"})
		w.put(t, name, ofWidgets, objects...)
		w.set(func() { w.hidden[widgets] = false })
		w.delete(t, name)
		if name == "n" {
			w.removed(t, name, deleter.Report{})
			continue
		}
		report := w.waits(t, name, deleter.Report{})
		require.Equal(t, 1, report.Remaining())
		w.Release(name, ofWidgets, "a")
		w.removed(t, name, report)
	}
}

// A type that discovery did not show when the namespace was first seen terminating is searched for
// again at the end, when no create can be in progress any more.
func TestR7_TypeInstalledDuringTheWait(t *testing.T) {
	for name, opts := range map[string]kubernetes.Options{"by time": {}, "quiet twice": {QuietTwice: true}} {
		for _, left := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, "v1.36.0", opts)
					w.hidden[widgets] = true
					w.create(t, "n")
					if left {
						w.put(t, "n", ofConfigs, simulated.Object{Name: "b", Finalizers: []string{"example.com/f"}})
					}
					w.delete(t, "n")
					report := w.waits(t, "n", deleter.Report{})
					w.set(func() { w.hidden[widgets] = false })
					w.put(t, "n", ofWidgets, simulated.Object{Name: "a", Finalizers: []string{"example.com/f"}})
					if left {
						w.Release("n", ofConfigs, "b")
						time.Sleep(5 * time.Second)
					}
					time.Sleep(report.Provisional)
					report = w.waits(t, "n", report)
					require.Equal(t, 1, report.Remaining())
				})
			})
		}
	}
}

// While no discovery succeeds, the namespace is not finalized. Known types are deleted.
func TestR7_NotFinalWithoutDiscovery(t *testing.T) {
	w := newWorld(t, "", noWait)
	w.warm(t)
	w.create(t, "n")
	w.put(t, "n", ofConfigs, simulated.Object{Name: "a"})
	w.delete(t, "n")
	refused := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
	w.set(func() { w.failed = refused })
	report, err := w.fails(t, "n", deleter.Report{})
	require.ErrorIs(t, err, refused)
	require.Zero(t, w.Objects("n"))
	report, err = w.fails(t, "n", report)
	require.ErrorIs(t, err, refused)
	w.set(func() { w.failed = nil })
	w.removed(t, "n", report)
}

// The first pass over an incarnation deletes the content of new types at once, although nothing is
// final yet.
func TestFirstPassDiscovers(t *testing.T) {
	w := newWorld(t, stock, kubernetes.Options{OneByOne: true})
	w.hidden[widgets] = true
	w.create(t, "warm")
	w.delete(t, "warm")
	w.waits(t, "warm", deleter.Report{})
	w.create(t, "n")
	w.put(t, "n", ofConfigs, simulated.Object{Name: "a"})
	w.put(t, "n", ofWidgets, simulated.Object{Name: "a"})
	w.set(func() { w.hidden[widgets] = false })
	w.delete(t, "n")
	result, err := w.pass(t, "n", deleter.Report{})
	require.NoError(t, err)
	require.Zero(t, w.Objects("n"))
	require.Equal(t, 2, result.Report.Deleted(), "by both halves of the pass")
}

func TestNothingDiscovered(t *testing.T) {
	w := newWorld(t, "", noWait)
	w.hidden = map[namespace.ResourceType]bool{pods: true, configs: true, widgets: true}
	w.create(t, "n")
	w.delete(t, "n")
	report, err := w.fails(t, "n", deleter.Report{})
	require.ErrorIs(t, err, deleter.ErrNothingDiscovered)
	w.set(func() { w.hidden = nil })
	w.removed(t, "n", report)
}

// The first pass over each incarnation runs a discovery. Later passes do so only if the known
// types are incomplete or too old.
func TestWhenDiscoveriesAreMade(t *testing.T) {
	for _, tt := range []struct {
		name   string
		expiry time.Duration
		failed error
		pause  time.Duration
		want   []int
	}{
		{name: "once", pause: 15 * time.Second, want: []int{1, 1, 1, 2, 2}},
		{name: "never twice", expiry: time.Hour, pause: 15 * time.Second, want: []int{1, 1, 1, 1, 1}},
		{name: "always", expiry: -1, want: []int{1, 2, 3, 4, 5}},
		{name: "until complete", failed: groupFailed, want: []int{1, 2, 3, 4, 5}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "", kubernetes.Options{Wait: -1, Expiry: tt.expiry})
				w.failed = tt.failed
				w.create(t, "n")
				w.put(t, "n", ofWidgets, simulated.Object{Name: "a", Finalizers: []string{"example.com/f"}})
				w.delete(t, "n")
				var report deleter.Report
				var got []int
				for range tt.want {
					result, _ := w.pass(t, "n", report)
					require.Equal(t, 1, result.Report.Remaining())
					report = result.Report.Compact()
					got = append(got, w.discoveries())
					time.Sleep(tt.pause)
				}
				require.Equal(t, tt.want, got)
			})
		})
	}
}

var groupFailed = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{
	{Group: "metrics.example.com", Version: "v1"}: apierrors.NewServiceUnavailable("down"),
}}

// Concurrent namespaces share discoveries. One in progress is too old for a later request, and all
// later requests share the next.
func TestDiscoveriesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "", noWait)
		w.requests = func(_ context.Context, r simulated.Request) error {
			if r.Verb == simulated.Discover {
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		}
		const many = 50
		var all sync.WaitGroup
		for i := range many {
			name := "n" + string(rune('A'+i))
			w.create(t, name)
			w.put(t, name, ofConfigs, simulated.Object{Name: "a"})
			w.delete(t, name)
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond / many) // all within the first request
				w.removed(t, name, deleter.Report{})
			})
		}
		all.Wait()
		require.Equal(t, 2, w.discoveries())
	})
}

// A removed type does not block the namespace. A type that only answers 404 does.
func TestRemovedType(t *testing.T) {
	for _, shown := range []bool{false, true} {
		w := newWorld(t, "", noWait)
		w.warm(t)
		w.create(t, "n")
		w.delete(t, "n")
		w.set(func() {
			w.hidden[widgets] = !shown
			w.requests = func(_ context.Context, r simulated.Request) error {
				if r.Resource == widgets {
					return apierrors.NewGenericServerResponse(404, "", schema.GroupResource{}, "", "", 0, true)
				}
				return nil
			}
		})
		if shown {
			_, err := w.fails(t, "n", deleter.Report{})
			require.True(t, apierrors.IsNotFound(err), "%v", err)
		} else {
			w.removed(t, "n", deleter.Report{})
		}
	}
}

// kubernetes/kubernetes#75788, #108427: an API that fails does not affect the others, and the
// error contains its failure completely.
func TestOneFailingAPI(t *testing.T) {
	down := apierrors.NewInternalError(errors.New("etcd"))
	w := newWorld(t, "", noWait)
	w.requests = func(_ context.Context, r simulated.Request) error {
		if r.Resource == configs {
			return down
		}
		return nil
	}
	w.create(t, "n")
	w.put(t, "n", ofConfigs, simulated.Object{Name: "a"})
	w.put(t, "n", ofWidgets, simulated.Object{Name: "a"}, simulated.Object{Name: "b"})
	w.delete(t, "n")
	report, err := w.fails(t, "n", deleter.Report{})
	require.Equal(t, 1, w.Objects("n"))
	var status *apierrors.StatusError
	require.ErrorAs(t, err, &status)
	require.Equal(t, down, status)
	var source *deleter.SourceError
	require.ErrorAs(t, err, &source)
	require.Equal(t, configs, source.Resource)
	w.set(func() { w.requests = nil })
	w.removed(t, "n", report)
}

// The same for a group that cannot be discovered, for example because its aggregated API server is
// down.
func TestOneFailingGroup(t *testing.T) {
	for name, warm := range map[string]bool{"from the start": false, "since a complete discovery": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "", noWait)
			if warm {
				w.warm(t)
			}
			oneFailingGroup(t, w)
		})
	}
}

func oneFailingGroup(t *testing.T, w *world) {
	w.set(func() { w.failed = groupFailed })
	w.create(t, "n")
	w.put(t, "n", ofWidgets, simulated.Object{Name: "a"})
	w.delete(t, "n")
	report, err := w.fails(t, "n", deleter.Report{})
	require.Zero(t, w.Objects("n"))
	require.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
	var group deleter.GroupError
	require.ErrorAs(t, err, &group)
	require.Equal(t, "metrics.example.com", group.Group)
	w.set(func() { w.failed = nil })
	w.removed(t, "n", report)
}

// If a function of the host panics, the pass fails, in whichever goroutine the function ran.
func TestPanics(t *testing.T) {
	t.Run("order", func(t *testing.T) {
		w := newWorld(t, "", kubernetes.Options{Wait: -1, After: func(namespace.ResourceType) []namespace.ResourceType { panic("oops") }})
		w.create(t, "n")
		w.delete(t, "n")
		_, err := w.fails(t, "n", deleter.Report{})
		var panicked *deleter.PanicError
		require.ErrorAs(t, err, &panicked)
	})
	t.Run("discovery beside a pass", func(t *testing.T) {
		w := newWorld(t, "", noWait)
		w.warm(t)
		w.requests = func(_ context.Context, r simulated.Request) error {
			if r.Verb == simulated.Discover {
				panic("oops")
			}
			return nil
		}
		w.create(t, "n")
		w.delete(t, "n")
		_, err := w.fails(t, "n", deleter.Report{})
		var panicked *deleter.PanicError
		require.ErrorAs(t, err, &panicked)
	})
}

// When its context ends, a pass ends with all its goroutines; otherwise the bubble would not end.
func TestPassEndsWithItsContext(t *testing.T) {
	stop := errors.New("stop")
	for _, warm := range []bool{false, true} {
		for _, during := range []simulated.Verb{simulated.Discover, simulated.List} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "", noWait)
				if warm {
					w.warm(t)
				}
				w.create(t, "n")
				w.delete(t, "n")
				ctx, cancel := context.WithCancelCause(t.Context())
				w.requests = func(ctx context.Context, r simulated.Request) error {
					if r.Verb != during {
						return nil
					}
					<-ctx.Done()
					return ctx.Err()
				}
				go func() {
					synctest.Wait()
					cancel(stop)
				}()
				ns, err := w.cluster.Namespaces().Get(ctx, "n")
				require.NoError(t, err)
				target := deleter.Target{Namespace: ns.Name, UID: ns.UID, DeletedAt: ns.DeletionTimestamp.Time}
				report, err := w.cluster.Deleter().Delete(ctx, target, deleter.Report{})
				require.ErrorIs(t, err, stop)
				require.ErrorIs(t, report.Failed, stop)
				require.False(t, report.Empty())
			})
		}
	}
}

// Inspect runs a discovery and deletes nothing. A wait ends when an object is gone.
func TestInspectAndWait(t *testing.T) {
	w := newWorld(t, "", noWait)
	w.create(t, "n")
	w.put(t, "n", ofConfigs, simulated.Object{Name: "c"})
	w.put(t, "n", ofWidgets, simulated.Object{Name: "w", Finalizers: []string{"example.com/f"}})
	w.delete(t, "n")
	ns, err := w.cluster.Namespaces().Get(t.Context(), "n")
	require.NoError(t, err)
	target := deleter.Target{Namespace: ns.Name, UID: ns.UID, DeletedAt: ns.DeletionTimestamp.Time}
	d := w.cluster.Deleter()
	require.ErrorIs(t, d.Wait(t.Context(), target, deleter.Report{UID: target.UID}), deleter.ErrNotSupported)

	seen, err := d.Inspect(t.Context(), target)
	require.NoError(t, err)
	require.Equal(t, 2, seen.Remaining())
	require.Equal(t, 2, w.Objects("n"))
	require.Equal(t, 1, w.discoveries())

	report := w.waits(t, "n", deleter.Report{})
	require.Equal(t, 1, report.Remaining())
	go w.Release("n", ofWidgets, "w")
	require.NoError(t, d.Wait(t.Context(), target, report))
	w.removed(t, "n", report)
}
