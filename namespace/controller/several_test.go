package controller_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
)

// guarded is a host that fails the test if a party removes its finalizer while content of
// that party is left.
func guarded(t *testing.T, host controller.Namespaces, contentLeft func(name, uid string) int, party namespace.Party) *controllertest.Intercept {
	return &controllertest.Intercept{Namespaces: &finalizeGuard{host, func(ns namespace.Namespace) {
		if !ns.Spec.Finalizers.Has(party.Finalizer) && contentLeft(ns.Name, ns.UID) > 0 {
			t.Errorf("%s lets go of %s (%s) with content left", party.Finalizer, ns.Name, ns.UID)
		}
	}}}
}

type finalizeGuard struct {
	controller.Namespaces
	check func(ns namespace.Namespace)
}

func (g *finalizeGuard) Finalize(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	g.check(ns)
	return g.Namespaces.Finalize(ctx, ns)
}

func (w *world) left(name, uid string) int {
	n := 0
	for _, f := range w.fakes {
		n += len(f.Names(deleter.Target{Namespace: name, UID: uid}))
	}
	return n
}

// With several controllers of one party and several of another, each namespace is removed,
// and none too early.
func TestR11_SeveralControllers(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				ours := newWorld(t, 4, latency(3*time.Millisecond))
				theirs := newWorld(t, 2, latency(7*time.Millisecond))
				for range 3 {
					run(t, guarded(t, ours.host, ours.left, kubernetes), ours.deleter, kubernetes, controller.Options{Workers: 4})
				}
				for range 2 {
					run(t, guarded(t, ours.host, theirs.left, origin), theirs.deleter, origin, controller.Options{Workers: 4})
				}
				for round := range 3 { // reuse the same names
					for _, name := range names("a", 10) {
						target := ours.create(t, name, origin.Finalizer)
						for _, f := range slices.Concat(ours.fakes, theirs.fakes) {
							f.Put(target) // registers the new incarnation
						}
						for range random.IntN(4) {
							put(random, ours.fakes[random.IntN(4)], target)
							put(random, theirs.fakes[random.IntN(2)], target)
						}
						ours.delete(t, name)
						time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
					}
					time.Sleep(3 * time.Minute)
					require.Zero(t, ours.host.Len(), "round %d", round)
				}
			})
		})
	}
}

func put(random *rand.Rand, f *contenttest.Fake, target deleter.Target) {
	o := contenttest.Object{Name: fmt.Sprint("thing-", random.IntN(100))}
	if random.IntN(2) == 0 {
		o.Finalizers = []string{"example.com/f"}
		o.HeldFor = time.Duration(1+random.IntN(5000)) * time.Millisecond
	}
	f.Put(target, o)
}

// A controller crashes at any call, before or after the effect of the call. Another
// controller then finalizes the namespaces, and none too early.
func TestR11_CrashAtEachCall(t *testing.T) {
	for _, after := range []bool{false, true} {
		for k := int64(1); ; k++ {
			crashed := false
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 3, latency(5*time.Millisecond))
				ctx, crash := context.WithCancel(t.Context())
				var calls atomic.Int64
				step := func(context.Context, controllertest.Op, string) error {
					if calls.Add(1) >= k {
						crash() // all later calls fail too
						return errors.New("crashed")
					}
					return nil
				}
				broken := guarded(t, w.host, w.left, kubernetes)
				if after {
					broken.After = step
				} else {
					broken.Before = step
				}
				c, err := controller.New(broken, w.deleter, kubernetes, nil)
				require.NoError(t, err)
				for _, name := range names("a", 2) {
					target := w.create(t, name, origin.Finalizer)
					w.fakes[0].Put(target, contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}, HeldFor: 50 * time.Millisecond})
					w.fakes[1].PutMany(target, "thing", 3)
					w.delete(t, name)
				}
				ended := make(chan error)
				go func() { ended <- c.Run(ctx) }()
				time.Sleep(time.Second)
				crashed = ctx.Err() != nil
				crash()
				require.NoError(t, <-ended)

				run(t, guarded(t, w.host, w.left, kubernetes), w.deleter, kubernetes, controller.Options{})
				time.Sleep(time.Minute)
				for _, name := range names("a", 2) {
					ns, err := w.host.Get(t.Context(), name)
					require.NoError(t, err)
					require.Equal(t, []string{"openshift.com/origin"}, strs(ns), "crash at call %d", k)
				}
			})
			if !crashed {
				require.Greater(t, k, int64(5))
				break
			}
		}
	}
}

func strs(ns namespace.Namespace) (list []string) {
	for _, n := range ns.Spec.Finalizers.Names() {
		list = append(list, string(n))
	}
	return list
}

// After any failures, if all sources answer and all finalizers are removed, every namespace
// is removed. The seed is in the name of the test.
func TestR12_EverythingGoesAtLast(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 2))
				var odds atomic.Int64 // of failure, in percent
				odds.Store(30)
				flip := func() error {
					if rand.Int64N(100) < odds.Load() {
						return errors.New("bad luck")
					}
					return nil
				}
				w := newWorld(t, 5, func(i int) contenttest.FakeOptions {
					opts := contenttest.FakeOptions{Latency: time.Duration(i) * time.Millisecond, Fault: func(context.Context, contenttest.Call) error { return flip() }}
					if i%2 == 0 {
						opts.Unsupported = []deleter.Op{deleter.OpWait, deleter.OpEstimate}
					}
					return opts
				})
				host := guarded(t, w.host, w.left, kubernetes)
				host.Before = func(context.Context, controllertest.Op, string) error { return flip() }
				host.After = func(context.Context, controllertest.Op, string) error { return flip() }
				stop := run(t, host, w.deleter, kubernetes, controller.Options{Workers: 4, Waits: 2})
				run(t, host, w.deleter, kubernetes, controller.Options{Workers: 8})
				for i := range 100 {
					name := fmt.Sprint("a-", i)
					target := w.create(t, name)
					for range random.IntN(4) {
						put(random, w.fakes[random.IntN(5)], target)
					}
					w.delete(t, name)
					time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
				}
				time.Sleep(time.Minute)
				stop()
				odds.Store(0)
				time.Sleep(5 * time.Minute)
				require.Zero(t, w.host.Len())
			})
		})
	}
}
