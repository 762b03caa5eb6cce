package deleter_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// simulated returns n types that answer after a fixed time, each with an object.
func simulated(n int, latency time.Duration) ([]deleter.Source, []*contenttest.Fake) {
	sources := make([]deleter.Source, n)
	fakes := make([]*contenttest.Fake, n)
	for i := range sources {
		fakes[i] = fake(&contenttest.FakeOptions{Latency: latency}, contenttest.Object{Name: "x"})
		sources[i] = source(fmt.Sprintf("type%03d", i), fakes[i])
	}
	return sources, fakes
}

func discovering(t testing.TB, latency time.Duration, sources []deleter.Source) *deleter.Composed {
	d, err := deleter.Discovering(func(context.Context) ([]deleter.Source, error) {
		time.Sleep(latency)
		return sources, nil
	}, nil)
	require.NoError(t, err)
	return d
}

// The time of a pass grows with the number of types divided by the parallelism, not with the
// sum of their latencies.
func TestPassTakesAFewCallsTime(t *testing.T) {
	for _, tt := range []struct {
		types   int
		latency time.Duration
		first   time.Duration // with an object of each type
		second  time.Duration // of another namespace, without any
		goal    time.Duration
	}{
		{types: 1, latency: 5 * time.Millisecond, first: 15 * time.Millisecond, second: 15 * time.Millisecond, goal: 30 * time.Millisecond},
		{types: 60, latency: 5 * time.Millisecond, first: 15 * time.Millisecond, second: 15 * time.Millisecond, goal: 30 * time.Millisecond},
		{types: 200, latency: 20 * time.Millisecond, first: 100 * time.Millisecond, second: 100 * time.Millisecond, goal: 150 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(tt.types), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sources, _ := simulated(tt.types, tt.latency)
				d := discovering(t, tt.latency, sources)
				for i, want := range []time.Duration{tt.first, tt.second} {
					start := time.Now()
					report, err := d.Delete(t.Context(), targetOf([]string{"development", "other"}[i]), deleter.Report{})
					require.NoError(t, err)
					require.True(t, report.Empty())
					require.Equal(t, want, time.Since(start))
					require.LessOrEqual(t, want, tt.goal)
				}
			})
		})
	}
}

// A source starts once all types in After are empty, and waits for no other.
func TestChainsDoNotWaitForOneAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		begun := map[string]time.Duration{}
		timed := func(name string, latency time.Duration, after ...string) deleter.Source {
			f := fake(&contenttest.FakeOptions{Fault: func(context.Context, contenttest.Call) error {
				mu.Lock()
				if _, ok := begun[name]; !ok {
					begun[name] = time.Since(start)
				}
				mu.Unlock()
				time.Sleep(latency)
				return nil
			}}, contenttest.Object{Name: "x"})
			return source(name, f, after...)
		}
		d := compose(t, nil,
			timed("slow", time.Second),
			timed("slow-next", time.Second, "slow"),
			timed("quick", time.Millisecond),
			timed("quick-next", time.Millisecond, "quick"),
			timed("quick-last", time.Millisecond, "quick-next", "quick"),
			timed("both", time.Millisecond, "slow", "quick"),
		)
		report, err := d.Delete(t.Context(), target(), deleter.Report{})
		require.NoError(t, err)
		require.True(t, report.Empty())
		require.Equal(t, map[string]time.Duration{
			"slow": 0, "quick": 0,
			"quick-next": 2 * time.Millisecond, "quick-last": 4 * time.Millisecond,
			"slow-next": 2 * time.Second, "both": 2 * time.Second,
		}, begun)
		require.Equal(t, 4*time.Second, time.Since(start))
	})
}

// The bounds hold over all sources of a pass, and within one.
func TestParallelismIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name            string
		opts            deleter.Options
		sources, object int
		want            int
	}{
		{"sources", deleter.Options{Parallelism: 7}, 40, 1, 7},
		{"objects", deleter.Options{ObjectParallelism: 3}, 1, 40, 3},
		{"both", deleter.Options{Parallelism: 5, ObjectParallelism: 3}, 4, 40, 5},
		{"one", deleter.Options{Parallelism: 1}, 4, 4, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				running, most := 0, 0
				fault := func(context.Context, contenttest.Call) error {
					mu.Lock()
					running++
					most = max(most, running)
					mu.Unlock()
					time.Sleep(time.Millisecond)
					mu.Lock()
					running--
					mu.Unlock()
					return nil
				}
				var sources []deleter.Source
				for i := range tt.sources {
					f := contenttest.NewFake(&contenttest.FakeOptions{Fault: fault})
					f.PutMany(target(), "x", tt.object)
					sources = append(sources, source(fmt.Sprint("type", i), plain{f}))
				}
				report, err := compose(t, &tt.opts, sources...).Delete(t.Context(), target(), deleter.Report{})
				require.NoError(t, err)
				require.True(t, report.Empty())
				require.Equal(t, tt.want, most)
			})
		})
	}
}

// A type that is too large for one pass makes progress in each, and delays no other.
func TestHugeTypeMakesSteadyProgress(t *testing.T) {
	for name, wrap := range map[string]func(*contenttest.Fake) deleter.Content{
		"collections": func(f *contenttest.Fake) deleter.Content { return f },
		"one by one":  func(f *contenttest.Fake) deleter.Content { return plain{f} },
	} {
		t.Run(name, func(t *testing.T) {
			const objects = 25_000
			huge := contenttest.NewFake(&contenttest.FakeOptions{Batch: 700})
			huge.PutMany(target(), "x", objects)
			small := fake(nil, contenttest.Object{Name: "a"})
			d := compose(t, nil, source("huge", wrap(huge)), source("small", small))
			var report deleter.Report
			left := []int{}
			for !report.Empty() || len(left) == 0 {
				var err error
				report, err = d.Delete(t.Context(), target(), report)
				require.NoError(t, err)
				require.Empty(t, small.Names(target()))
				require.Equal(t, len(huge.Names(target())), report.Remaining(), "the fake counts the objects beyond a page")
				require.Equal(t, report.Remaining() > 0, report.More())
				left = append(left, report.Remaining())
			}
			require.Len(t, left, 3, "10,000 objects a pass: %v", left)
		})
	}
}

// R7: a source after a clean type also waits for the sources before that type.
func TestR7_CleanTypesDoNotBreakTheChain(t *testing.T) {
	first, last := fake(nil), fake(nil)
	a, b, c := source("a", first), source("b", fake(nil), "a"), source("c", last, "b")
	a.Final, c.Final = false, false
	d := compose(t, nil, a, b, c)
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.NoError(t, err)
	require.Equal(t, []namespace.ResourceType{core("b")}, report.Clean)

	first.Put(target(), contenttest.Object{Name: "late", Finalizers: []string{"example.com/hold"}})
	last.Put(target(), contenttest.Object{Name: "late"})
	report, err = d.Delete(t.Context(), target(), report)
	require.NoError(t, err)
	require.True(t, result(t, report, "c").Waiting, "c comes after a, through b")
	require.Equal(t, []string{"late"}, last.Names(target()))
}

// R10: one source does not delay sources that are independent of it.
func TestR10_OneFailingSourceDoesNotDelayOthers(t *testing.T) {
	hangs := func(ctx context.Context, _ contenttest.Call) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	for name, fault := range map[string]func(context.Context, contenttest.Call) error{
		"fails":  func(context.Context, contenttest.Call) error { return errBoom },
		"panics": panics,
		"hangs":  hangs,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const latency = 5 * time.Millisecond
				start := time.Now()
				var mu sync.Mutex
				var over time.Duration
				sick := fake(&contenttest.FakeOptions{Latency: latency, Fault: fault}, contenttest.Object{Name: "a"})
				sources := []deleter.Source{source("sick", sick)}
				for _, pair := range [][2]string{{"a1", "a2"}, {"b1", "b2"}, {"c1", "c2"}} {
					first := fake(&contenttest.FakeOptions{Latency: latency}, contenttest.Object{Name: "x"})
					last := fake(&contenttest.FakeOptions{Latency: latency, Fault: func(context.Context, contenttest.Call) error {
						mu.Lock()
						defer mu.Unlock()
						over = time.Since(start)
						return nil
					}}, contenttest.Object{Name: "x"})
					sources = append(sources, source(pair[0], first), source(pair[1], last, pair[0]))
				}
				d := compose(t, &deleter.Options{CallTimeout: time.Second}, sources...)
				report, err := d.Delete(t.Context(), target(), deleter.Report{})
				require.Error(t, err)
				require.Len(t, report.Clean, 6)
				require.Equal(t, 4*latency, over, "two calls each, one source after the other")
				require.LessOrEqual(t, time.Since(start), 2*time.Second+latency, "a source that hangs must be given up")
			})
		})
	}
}
