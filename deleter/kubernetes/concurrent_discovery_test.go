package kubernetes_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes/internal/simulated"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// target returns a terminating namespace of the world.
func (w *world) target(tb testing.TB, name string) deleter.Target {
	tb.Helper()
	ns, err := w.Namespaces().Get(tb.Context(), name, metav1.GetOptions{})
	require.NoError(tb, err)
	return deleter.Target{Namespace: ns.Name, UID: string(ns.UID), DeletedAt: ns.DeletionTimestamp.Time}
}

// If the time of a pass has ended when its concurrent discovery shows a new type, the observation
// of the other types is incomplete.
func TestR7_TimeEndsBeforeTheSecondHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withClientDefaults, kubernetes.Options{})
		w.hidden[widgets] = true
		w.warm(t)
		w.create(t, "n")
		w.put(t, "n", ofWidgets, simulated.Object{Name: "w", Finalizers: []string{"example.com/f"}})
		w.delete(t, "n")
		w.set(func() {
			w.hidden[widgets] = false
			w.requests = func(ctx context.Context, r simulated.Request) error {
				if r.Verb == simulated.Version {
					time.Sleep(time.Minute) // ignores the end of its context
				}
				return nil
			}
		})
		result, err := pass.Run(t.Context(), w.cluster.Namespaces(), w.cluster.Deleter(), owner, pass.Request{Name: "n", Patience: time.Second})
		require.ErrorContains(t, err, "did not answer within 1s")
		require.Equal(t, pass.Failed, result.Outcome)
		require.True(t, result.Namespace.Spec.Finalizers.Has(owner.Finalizer))
		require.Equal(t, 1, w.Objects("n"))
	})
}

// over is a context that has ended once it is set, although Done is not closed.
type over struct {
	context.Context
	set atomic.Bool
}

func (o *over) Err() error {
	if o.set.Load() {
		return context.Canceled
	}
	return nil
}

// The same if the discovery succeeds at the moment at which the context ends.
func TestR7_ContextEndsWithTheDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withClientDefaults, kubernetes.Options{})
		w.hidden[widgets] = true
		w.warm(t)
		w.create(t, "n")
		w.put(t, "n", ofWidgets, simulated.Object{Name: "w"})
		w.delete(t, "n")
		ctx := &over{Context: context.Background()}
		w.set(func() {
			w.hidden[widgets] = false
			w.requests = func(_ context.Context, r simulated.Request) error {
				if r.Verb == simulated.Version {
					time.Sleep(time.Second) // the first half is over
					ctx.set.Store(true)
				}
				return nil
			}
		})
		report, err := w.cluster.Deleter().Delete(ctx, w.target(t, "n"), deleter.Report{})
		require.ErrorIs(t, err, context.Canceled)
		require.False(t, report.Empty())
	})
}

// A type that answered 404 and was missing in a discovery was not observed empty. When it is back,
// it is listed again.
func TestR7_TypeThatComesBack(t *testing.T) {
	for name, opts := range map[string]kubernetes.Options{"known": noWait, "discovered anew": {Wait: -1, Expiry: -1}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "", opts)
			w.warm(t)
			w.create(t, "n")
			w.put(t, "n", ofConfigs, simulated.Object{Name: "held", Finalizers: []string{"example.com/f"}})
			w.put(t, "n", ofWidgets, simulated.Object{Name: "w", Finalizers: []string{"example.com/f"}})
			w.delete(t, "n")
			w.set(func() {
				w.hidden[widgets] = true
				w.requests = func(_ context.Context, r simulated.Request) error {
					if r.Resource == widgets {
						return apierrors.NewGenericServerResponse(404, "", schema.GroupResource{}, "", "", 0, true)
					}
					return nil
				}
			})
			report := w.waits(t, "n", deleter.Report{})
			require.NotContains(t, report.Clean, widgets)
			require.Contains(t, report.Clean, pods)
			w.set(func() { w.hidden[widgets] = false; w.requests = nil })
			report = w.waits(t, "n", report)
			w.Release("n", ofConfigs, "held")
			report = w.waits(t, "n", report)
			require.Equal(t, 1, report.Remaining())
			w.Release("n", ofWidgets, "w")
			w.removed(t, "n", report)
		})
	}
}

// A discovery that panics fails.
func TestR10_DiscoveryThatPanics(t *testing.T) {
	for _, warm := range []bool{false, true} {
		w := newWorld(t, "", noWait)
		if warm {
			w.warm(t)
		}
		w.create(t, "n")
		w.put(t, "n", ofConfigs, simulated.Object{Name: "a"})
		w.delete(t, "n")
		w.set(func() {
			w.requests = func(_ context.Context, r simulated.Request) error {
				if r.Verb == simulated.Discover {
					panic("broken")
				}
				return nil
			}
		})
		report, err := w.cluster.Deleter().Delete(t.Context(), w.target(t, "n"), deleter.Report{})
		require.ErrorContains(t, err, "broken")
		require.False(t, report.Empty())
		w.set(func() { w.requests = nil })
		w.removed(t, "n", report.Compact())
	}
}

// While a group cannot be discovered, passes do not wait for their discoveries. They empty the
// known types at once, even if the discovery then fails completely.
func TestR10_PartialDiscoveryDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "", noWait)
		w.failed = groupFailed
		w.create(t, "warm")
		w.delete(t, "warm")
		_, err := w.fails(t, "warm", deleter.Report{})
		require.ErrorContains(t, err, "example.com/v1")
		hang := func(_ context.Context, r simulated.Request) error {
			if r.Verb == simulated.Discover {
				time.Sleep(time.Second)
			}
			return nil
		}
		failing := func(group, why string) error {
			return &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: group, Version: "v1"}: errors.New(why)}}
		}
		for name, c := range map[string]struct {
			fresh error
			says  string // part of the condition
		}{
			"the same":     {groupFailed, "metrics.example.com/v1: down"},
			"other texts":  {failing("metrics.example.com", "port 40123 is closed"), "metrics.example.com/v1: down"},
			"another":      {failing("b.example.com", "down"), "b.example.com/v1: down"},
			"all":          {errors.New("no"), "no"},
			"nothing more": {nil, ""},
		} {
			w.set(func() { w.failed, w.requests = groupFailed, nil })
			_, err := w.fails(t, "warm", deleter.Report{}) // fills the catalog
			require.Error(t, err)
			w.create(t, name)
			w.put(t, name, ofConfigs, simulated.Object{Name: "a"})
			w.delete(t, name)
			w.ResetRequests()
			w.set(func() { w.failed, w.requests = c.fresh, hang })
			go func() {
				time.Sleep(time.Second / 2)
				assert.Zero(t, w.Objects(name), name)
			}()
			if c.fresh == nil {
				w.removed(t, name, deleter.Report{})
			} else {
				report, err := w.cluster.Deleter().Delete(t.Context(), w.target(t, name), deleter.Report{})
				require.Error(t, err, name)
				require.Len(t, report.Discovery, 1, name)
				require.ErrorContains(t, report.Discovery[0], c.says, name)
			}
			require.Equal(t, 3, w.Requests(simulated.List), "a type that was observed empty is not listed again")
			time.Sleep(time.Second)
		}
	})
}

// The condition has only the error of the discovery that failed completely.
func TestR9_DiscoveryFailsAfterItWasPartial(t *testing.T) {
	w := newWorld(t, "", noWait)
	w.failed = groupFailed
	w.create(t, "n")
	w.delete(t, "n")
	report, _ := w.fails(t, "n", deleter.Report{})
	refused := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
	w.set(func() { w.failed = refused })
	result, err := w.pass(t, "n", report)
	require.ErrorIs(t, err, refused)
	require.Equal(t, "NamespaceDeletionDiscoveryFailure True DiscoveryFailed: "+refused.Error(),
		messages(t, result.Namespace)[0])
}

// A failed discovery causes another pass soon, however long the wait for late creates still takes.
func TestFailedDiscoveryIsNotFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, stock, kubernetes.Options{})
		w.create(t, "warm")
		w.delete(t, "warm")
		w.waits(t, "warm", deleter.Report{})
		w.create(t, "n")
		w.delete(t, "n")
		w.set(func() { w.failed = errors.New("down") })
		report, err := w.cluster.Deleter().Delete(t.Context(), w.target(t, "n"), deleter.Report{})
		require.ErrorContains(t, err, "down")
		require.Zero(t, report.Provisional)
	})
}

// The wait counts from the call that names the namespace, not from the discovery of the types.
func TestWaitBeginsWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, stock, kubernetes.Options{})
		w.requests = func(_ context.Context, r simulated.Request) error {
			if r.Verb == simulated.Discover {
				time.Sleep(time.Second)
			}
			return nil
		}
		w.create(t, "n")
		w.delete(t, "n")
		began := time.Now()
		report, err := w.cluster.Deleter().Delete(t.Context(), w.target(t, "n"), deleter.Report{})
		require.NoError(t, err)
		require.Positive(t, time.Since(began))
		require.Equal(t, 5*time.Second-time.Since(began), report.Provisional)
	})
}

// The report of another incarnation does not replace the discovery of a first pass.
func TestR7_ReportOfAnotherIncarnation(t *testing.T) {
	w := newWorld(t, stock, kubernetes.Options{})
	w.hidden[widgets] = true
	w.create(t, "warm")
	w.delete(t, "warm")
	w.waits(t, "warm", deleter.Report{})
	w.create(t, "n")
	w.put(t, "n", ofWidgets, simulated.Object{Name: "a", Finalizers: []string{"example.com/f"}})
	w.delete(t, "n")
	w.set(func() { w.hidden[widgets] = false })
	other := deleter.Report{UID: "another", Clean: []namespace.ResourceType{configs, pods, widgets}}
	report, err := w.cluster.Deleter().Delete(t.Context(), w.target(t, "n"), other)
	require.NoError(t, err)
	require.Equal(t, 1, report.Remaining())
	require.NotContains(t, report.Clean, widgets)
}
