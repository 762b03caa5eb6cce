package controller_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

const types = 5

// alone is the removal time of a healthy namespace without other namespaces.
const alone = 10 * time.Millisecond

// Any number of permanently failing namespaces does not delay a healthy one. Its removal
// takes as long as without them.
func TestR10_FailingNeighboursCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sick := names("sick", 1000)
		w := newWorld(t, types, failing(errors.New("broken"), 5*time.Millisecond, func(i int) bool { return i == 3 }, sick...))
		diary := newDiary()
		run(t, w.host, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks()})
		for _, name := range sick {
			w.create(t, name)
			w.delete(t, name)
		}
		for _, wait := range []time.Duration{320 * time.Millisecond, 20 * time.Millisecond, time.Second, 10 * time.Second, time.Minute} {
			time.Sleep(wait)
			name := "healthy-" + strconv.Itoa(int(wait/time.Millisecond))
			w.fakes[3].PutMany(w.create(t, name), "thing", 10)
			began := time.Since(diary.began)
			w.delete(t, name)
			time.Sleep(2 * alone)
			require.Len(t, diary.of("removed", name), 1, "after %v", wait)
			require.Equal(t, alone, diary.of("removed", name)[0].at-began)
		}
	})
}

// A burst of failing namespaces delays a later healthy one only by their first passes, not
// by their retries.
func TestR10_FailingBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sick := names("sick", 1000)
		w := newWorld(t, types, failing(errors.New("broken"), 5*time.Millisecond, func(i int) bool { return i == 3 }, sick...))
		diary := newDiary()
		run(t, w.host, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks()})
		for _, name := range append(sick, "healthy") {
			w.create(t, name)
			w.delete(t, name)
		}
		time.Sleep(time.Second)
		first := time.Duration(1000/64+1) * alone
		require.LessOrEqual(t, diary.of("removed", "healthy")[0].at, first+alone)
	})
}

// Namespaces whose sources hang do not take workers from namespaces whose sources answer.
func TestR10_HangingNeighboursCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := names("hung", 1000)
		w := newWorld(t, types, func(i int) contenttest.FakeOptions {
			return contenttest.FakeOptions{Latency: 5 * time.Millisecond, Fault: func(ctx context.Context, call contenttest.Call) error {
				if i == 3 && call.Target.Namespace[:4] == "hung" {
					<-ctx.Done()
					return context.Cause(ctx)
				}
				return nil
			}}
		})
		diary := newDiary()
		run(t, w.host, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks()})
		for _, name := range hung {
			w.create(t, name)
			w.delete(t, name)
		}
		w.create(t, "burst")
		w.delete(t, "burst")
		time.Sleep(8500 * time.Millisecond) // each of the 1,000 namespaces has used one of 64 workers for half a second
		require.Len(t, diary.of("removed", "burst"), 1, "new ones wait for the first half second of those before them only")
		for range 5 {
			time.Sleep(10 * time.Minute)
			w.create(t, "healthy")
			w.delete(t, "healthy")
			began := time.Since(diary.began)
			time.Sleep(2 * alone)
			removed := diary.of("removed", "healthy")
			require.LessOrEqual(t, removed[len(removed)-1].at-began, alone)
		}
		const later = "hung-40" // one of the first 64 passes, which lose their workers to waiting namespaces
		require.Empty(t, diary.of("removed", later))
		retried := diary.of("retried", later)
		require.Equal(t, controller.ReasonInterrupted, retried[0].reason, "the first pass made room")
		require.Zero(t, retried[0].delay)
		counts := map[controller.Reason]int{}
		for _, m := range retried {
			counts[m.reason]++
		}
		t.Logf("%v", counts)
		require.NotZero(t, counts[controller.ReasonFailed], "later ones lasted until the call timed out")
	})
}

// A long pass is not interrupted forever: its allowance grows with each interruption.
func TestR12_LongPassesGetDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := names("slow", 200)
		w := newWorld(t, types, latency(5*time.Second))
		diary := newDiary()
		run(t, w.host, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks(), Workers: 16})
		for _, name := range slow {
			w.create(t, name)
			w.delete(t, name)
		}
		time.Sleep(200/4*10*time.Second + time.Minute)
		require.Len(t, diary.of("removed", ""), 200)
		require.Zero(t, w.host.Len())
	})
}

// A source that is slower than the patience is emptied in the end, because the patience
// grows. Until then the conditions name the source that does not answer.
func TestR12_PatienceGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		asked := 0
		d := deleterFunc(func(ctx context.Context, target deleter.Target, _ deleter.Report) (deleter.Report, error) {
			asked++
			select {
			case <-time.After(9 * time.Minute):
				return deleter.Report{UID: target.UID}, nil
			case <-ctx.Done():
				return deleter.Report{UID: target.UID}, ctx.Err()
			}
		})
		diary := newDiary()
		run(t, w.host, d, kubernetes, controller.Options{Hooks: diary.hooks()})
		w.create(t, "a")
		w.delete(t, "a")
		time.Sleep(time.Hour)
		require.True(t, w.gone("a"))
		require.Equal(t, 4, asked, "2, 4, 8 and 10 minutes")
		var late *pass.PatienceError
		require.ErrorAs(t, diary.of("ended", "a")[2].err, &late)
		require.Equal(t, 8*time.Minute, late.Patience)
	})
}

// After an outage of any duration, the controller removes the namespace within MaxPatience
// and two backoffs, even if the calls of the last pass during the outage never return.
func TestR12_RecoveryAfterLongOutages(t *testing.T) {
	for _, outage := range []time.Duration{10 * time.Minute, 6 * time.Hour, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1, nil)
			over := time.Now().Add(outage)
			d := deleterFunc(func(ctx context.Context, target deleter.Target, previous deleter.Report) (deleter.Report, error) {
				if time.Now().Before(over) {
					<-ctx.Done()
					return deleter.Report{UID: target.UID}, context.Cause(ctx)
				}
				return w.deleter.Delete(ctx, target, previous)
			})
			diary := newDiary()
			run(t, w.host, d, kubernetes, controller.Options{Hooks: diary.hooks()})
			w.create(t, "a")
			w.delete(t, "a")
			time.Sleep(outage + 12*time.Minute)
			require.True(t, w.gone("a"), "after an outage of %v", outage)
			t.Logf("removed %v after the end of an outage of %v", diary.of("removed", "a")[0].at-outage, outage)
		})
	}
}

// At most Workers + SlowWorkers passes run at once, not counting interrupted ones. At most
// one pass runs for each namespace.
func TestPassesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		var mu sync.Mutex
		running, most := map[string]context.Context{}, 0
		d := deleterFunc(func(ctx context.Context, target deleter.Target, _ deleter.Report) (deleter.Report, error) {
			mu.Lock()
			if running[target.Namespace] != nil {
				t.Errorf("two passes for %s", target.Namespace)
			}
			running[target.Namespace] = ctx
			live := 0
			for _, ctx := range running {
				if ctx.Err() == nil {
					live++
				}
			}
			most = max(most, live)
			mu.Unlock()
			select {
			case <-time.After(time.Duration(len(target.Namespace)) * 80 * time.Millisecond):
			case <-ctx.Done():
			}
			mu.Lock()
			defer mu.Unlock()
			delete(running, target.Namespace)
			return deleter.Report{UID: target.UID, Results: []deleter.Result{{Resource: resource(0), Remaining: 1}}}, ctx.Err()
		})
		run(t, w.host, d, kubernetes, controller.Options{Workers: 6, SlowWorkers: 4})
		for _, name := range append(names("a", 50), names("longer", 50)...) {
			w.create(t, name)
			w.delete(t, name)
		}
		for range 100 {
			time.Sleep(time.Second)
			for _, name := range names("a", 10) { // enqueue some namespaces repeatedly
				w.setFinalizers(t, name, "kubernetes")
				w.setFinalizers(t, name, "kubernetes", "example.com/late")
			}
		}
		mu.Lock()
		most, left := most, len(running)
		mu.Unlock()
		require.Equal(t, 10, most, "all places are used, and no more")
		require.LessOrEqual(t, left, 10)
	})
}

// A long pass continues while its lane has a free slot, regardless of the number of other
// namespaces.
func TestLongPassesMoveAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		d := deleterFunc(func(ctx context.Context, target deleter.Target, previous deleter.Report) (deleter.Report, error) {
			if target.Namespace == "long" {
				select {
				case <-time.After(10 * time.Second):
				case <-ctx.Done():
				}
			}
			return w.deleter.Delete(ctx, target, previous)
		})
		diary := newDiary()
		run(t, w.host, d, kubernetes, controller.Options{Workers: 4, Hooks: diary.hooks()})
		w.create(t, "long")
		w.delete(t, "long")
		for range 100 {
			time.Sleep(200 * time.Millisecond)
			for _, name := range names("short", 5) {
				w.create(t, name)
				w.delete(t, name)
			}
		}
		require.Equal(t, []string{"queued", "started", "ended removed", "finalized", "removed"}, diary.story("long"))
		require.Equal(t, 10*time.Second, diary.of("removed", "long")[0].at)
	})
}

// The controller cancels a long pass if another client removes the namespace, before or
// after the pass becomes long.
func TestOrphanedPassesAreEnded(t *testing.T) {
	for _, at := range []time.Duration{100 * time.Millisecond, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1, nil)
			hangs := deleterFunc(func(ctx context.Context, _ deleter.Target, _ deleter.Report) (deleter.Report, error) {
				<-ctx.Done()
				return deleter.Report{}, context.Cause(ctx)
			})
			diary := newDiary()
			run(t, w.host, hangs, kubernetes, controller.Options{Hooks: diary.hooks()})
			w.create(t, "a")
			w.delete(t, "a")
			time.Sleep(at)
			w.setFinalizers(t, "a")
			time.Sleep(time.Second)
			require.Equal(t, []string{"queued", "started", "ended interrupted", "removed"}, diary.story("a"))
			require.LessOrEqual(t, diary.of("removed", "a")[0].at, at+500*time.Millisecond)
		})
	}
}
