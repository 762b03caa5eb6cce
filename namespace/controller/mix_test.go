package controller_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
)

var seeds = flag.Uint64("seeds", 100, "how many random mixes of namespaces to schedule")

// hang blocks until ctx ends, like a hanging source.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// The removal of namespaces with a second of content takes the same time beside any number
// of hanging namespaces.
func TestR10_LongPassesBesideHangingOnes(t *testing.T) {
	const healthy = 40
	for _, step := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond} {
		for _, hanging := range []int{0, 16, 400, 2000} {
			t.Run(fmt.Sprintf("%v/%d", step, hanging), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, 1, func(int) contenttest.FakeOptions {
						return contenttest.FakeOptions{Batch: 10, Fault: func(ctx context.Context, call contenttest.Call) error {
							if strings.HasPrefix(call.Target.Namespace, "hung") {
								return hang(ctx)
							}
							time.Sleep(step)
							return nil
						}}
					})
					diary := newDiary()
					run(t, w.host, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks()})
					for _, name := range names("hung", hanging) {
						w.create(t, name)
						w.delete(t, name)
					}
					time.Sleep(30 * time.Second)
					began := time.Since(diary.began)
					for _, name := range names("healthy", healthy) {
						w.fakes[0].PutMany(w.create(t, name), "thing", 10*(int(time.Second/step)-1))
						w.delete(t, name)
					}
					for len(diary.of("removed", "")) < healthy {
						require.Less(t, time.Since(diary.began), time.Hour)
						time.Sleep(100 * time.Millisecond)
					}
					took := diary.of("removed", "")[healthy-1].at - began
					t.Logf("%d namespaces with 1 s of content beside %d that hang: %v", healthy, hanging, took)
					require.Equal(t, time.Second, took)
				})
			})
		}
	}
}

// temper describes a source's behavior for one namespace in a mix.
type temper struct {
	sick  bool // no pass succeeds before the end of the outages
	step  time.Duration
	calls int // calls of a successful pass, which determine the number of objects
	fault func(ctx context.Context) error
	spent time.Duration // time spent in calls
}

var errFlap = errors.New("down for now")

// tempers returns the kinds of namespaces in a mix. The test closes healed at the end of all
// outages.
func tempers(random *rand.Rand, healed <-chan struct{}) map[string]func() *temper {
	up := func() bool {
		select {
		case <-healed:
			return true
		default:
			return false
		}
	}
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(random.Int64N(int64(most-least)))
	}
	return map[string]func() *temper{
		"quick": func() *temper { return &temper{step: between(1, 20*time.Millisecond), calls: 2} },
		"long": func() *temper {
			return &temper{step: between(50*time.Millisecond, 400*time.Millisecond), calls: 5 + random.IntN(40)}
		},
		"failing": func() *temper {
			return &temper{sick: true, step: between(1, time.Second), calls: 2, fault: func(context.Context) error {
				if up() {
					return nil
				}
				return errFlap
			}}
		},
		"hanging": func() *temper {
			return &temper{sick: true, step: time.Millisecond, calls: 2, fault: func(ctx context.Context) error {
				if up() {
					return nil
				}
				return hang(ctx)
			}}
		},
		"deaf": func() *temper { // ignores the end of its context
			return &temper{sick: true, step: time.Millisecond, calls: 2, fault: func(context.Context) error {
				<-healed
				return nil
			}}
		},
		"flapping": func() *temper {
			state := random.Uint64()
			return &temper{step: between(1, 100*time.Millisecond), calls: 2 + random.IntN(20), fault: func(ctx context.Context) error {
				state = state*6364136223846793005 + 1442695040888963407 // calls for one type are sequential
				switch {
				case up() || state>>60 > 5:
					return nil
				case state>>60 > 2:
					return errFlap
				}
				return hang(ctx)
			}}
		},
	}
}

// TestR10_RandomMixes checks the scheduler's guarantee over random mixes. A namespace in the
// ready lane waits only for other namespaces in that lane, at most Long for each. A healthy
// namespace therefore waits at most (others/Workers + 2) * Long, even if other namespaces
// fail, hang, flap or ignore their contexts. After all outages, the controller soon removes
// all namespaces (rule R12).
func TestR10_RandomMixes(t *testing.T) {
	for seed := range *seeds {
		synctest.Test(t, func(t *testing.T) { randomMix(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func randomMix(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	healed := make(chan struct{})
	kinds := tempers(random, healed)
	mix := map[string]*temper{}
	w := newWorld(t, 1, func(int) contenttest.FakeOptions {
		return contenttest.FakeOptions{Batch: 1, Fault: func(ctx context.Context, call contenttest.Call) error {
			mu.Lock()
			of := mix[call.Target.Namespace]
			of.spent += of.step
			mu.Unlock()
			time.Sleep(of.step)
			if of.fault != nil {
				return of.fault(ctx)
			}
			return nil
		}}
	})
	opts := controller.Options{Workers: 1 + random.IntN(8), SlowWorkers: 40 + random.IntN(20)}
	const long = 500 * time.Millisecond // the default
	diary := newDiary()
	opts.Hooks = diary.hooks()
	run(t, w.host, w.deleter, kubernetes, opts)
	deleted := map[string]time.Duration{}
	add := func(kind string, n int) {
		for range n {
			name := fmt.Sprintf("%s-%d", kind, len(mix))
			of := kinds[kind]()
			mu.Lock()
			mix[name] = of
			mu.Unlock()
			w.fakes[0].PutMany(w.create(t, name), "thing", of.calls-1)
			deleted[name] = time.Since(diary.began)
			w.delete(t, name)
			time.Sleep(time.Duration(random.IntN(3)*random.IntN(100)) * time.Millisecond)
		}
	}
	for range 5 + random.IntN(10) { // fewer long namespaces than half of SlowWorkers
		for _, kind := range []string{"hanging", "failing", "deaf", "flapping"} {
			add(kind, random.IntN(2)*random.IntN(10))
		}
		add("quick", random.IntN(5))
		add("long", random.IntN(2))
		time.Sleep(time.Duration(random.IntN(3)*random.IntN(2000)) * time.Millisecond)
	}
	time.Sleep(time.Duration(random.IntN(2)*random.IntN(10)) * time.Minute)
	close(healed)
	over := time.Since(diary.began)
	require.Eventually(t, func() bool { return w.host.Len() == 0 }, time.Duration(len(mix))*10*time.Minute, time.Second)
	require.LessOrEqual(t, time.Since(diary.began)-over, 12*time.Minute, "recovery after an outage")

	for name, of := range mix {
		if of.sick || strings.HasPrefix(name, "flapping") {
			continue
		}
		began, ended := deleted[name], diary.of("removed", name)[0].at
		others, seen := 0, map[string]bool{}
		for _, m := range diary.of("started", "") {
			first := !seen[m.ref.Name]
			seen[m.ref.Name] = true
			if (first || !mix[m.ref.Name].sick) && m.at > began-long && m.at < ended && m.ref.Name != name {
				others++
			}
		}
		bound := of.spent + time.Duration(others/opts.Workers+2)*long
		require.LessOrEqual(t, ended-began, bound, "%s with %v of calls, beside %d of %d others, %d workers", name, of.spent, others, len(mix), opts.Workers)
	}
}
