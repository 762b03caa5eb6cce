package controller_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// The controller does not wait for a fixed period. The removal takes only the time of the
// calls: one deletion and one listing, with all types in parallel.
func TestR12_RemovalTakesTheTimeOfTheCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 60, latency(5*time.Millisecond))
		diary := newDiary()
		run(t, w.host, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks()})
		w.fakes[0].PutMany(w.create(t, "a"), "thing", 500)
		w.delete(t, "a")
		synctest.Wait()
		time.Sleep(time.Second)
		require.Equal(t, []string{"queued", "started", "ended removed", "finalized", "removed"}, diary.story("a"))
		require.Equal(t, 10*time.Millisecond, diary.of("removed", "a")[0].at)
	})
}

// The next pass starts when held content disappears, not when a timer fires.
func TestR12_HeldContentIsNoticed(t *testing.T) {
	for _, held := range []time.Duration{200 * time.Millisecond, 7 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 60, latency(5*time.Millisecond))
			diary := newDiary()
			run(t, w.host, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks()})
			target := w.create(t, "a")
			w.fakes[7].Put(target, contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}, HeldFor: held})
			w.delete(t, "a")
			time.Sleep(2 * held)
			removed := diary.of("removed", "a")
			require.Len(t, removed, 1)
			require.LessOrEqual(t, removed[0].at, held+20*time.Millisecond)
		})
	}
}

// Without a notifier, the estimate determines the time of the next pass.
func TestR12_TheEstimateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, func(int) contenttest.FakeOptions {
			return contenttest.FakeOptions{Unsupported: []deleter.Op{deleter.OpWait}}
		})
		diary := newDiary()
		run(t, w.host, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks()})
		target := w.create(t, "a")
		w.fakes[1].Put(target, contenttest.Object{Name: "graceful", Grace: 30 * time.Second})
		w.delete(t, "a")
		time.Sleep(time.Minute)
		require.Equal(t, []string{"queued", "started", "ended waiting", "retried estimate",
			"queued", "started", "ended removed", "finalized", "removed"}, diary.story("a"))
		require.Equal(t, 30*time.Second, diary.of("removed", "a")[0].at)
	})
}

// The controller retries failures with a backoff from 5 ms to 60 s, so a permanently failing
// namespace costs little. Upstream makes 1,695 requests in the first minute.
func TestR10_StuckNamespacesCostLittle(t *testing.T) {
	broken := errors.New("broken")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 60, failing(broken, 5*time.Millisecond, func(i int) bool { return i == 33 }, "a"))
		diary := newDiary()
		var requests atomic.Int64
		namespaces := &controllertest.Intercept{Namespaces: w.host, Before: func(context.Context, controllertest.Op, string) error {
			requests.Add(1)
			return nil
		}}
		run(t, namespaces, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks()})
		w.create(t, "a")
		w.delete(t, "a")
		time.Sleep(time.Minute)
		t.Logf("%d requests to content and %d for the namespace in the first minute", w.calls(), requests.Load())
		require.LessOrEqual(t, w.calls()+int(requests.Load()), 169)

		retries := diary.of("retried", "a")
		for i, r := range retries {
			require.Equal(t, controller.ReasonFailed, r.reason)
			require.LessOrEqual(t, r.delay, min(5*time.Millisecond<<i, time.Minute)+10*time.Millisecond)
			require.GreaterOrEqual(t, r.delay, min(5*time.Millisecond<<i, time.Minute)*3/4)
		}
		for _, e := range diary.of("ended", "a") {
			require.Equal(t, pass.Failed, e.outcome)
			require.ErrorIs(t, e.err, broken)
		}
		before := len(retries)
		time.Sleep(time.Hour)
		require.LessOrEqual(t, len(diary.of("retried", "a"))-before, 81, "at most one a 45 s")
		require.GreaterOrEqual(t, len(diary.of("retried", "a"))-before, 59, "nothing gives up")
	})
}

// After a source recovers, the controller retries within MaxDelay. Progress resets the
// backoff.
func TestR12_RecoveryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		healed := make(chan struct{})
		w := newWorld(t, 5, func(i int) contenttest.FakeOptions {
			return contenttest.FakeOptions{Fault: func(context.Context, contenttest.Call) error {
				select {
				case <-healed:
					return nil
				default:
				}
				if i == 2 {
					return broken
				}
				return nil
			}}
		})
		diary := newDiary()
		run(t, w.host, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks()})
		target := w.create(t, "a")
		w.fakes[2].Put(target, contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
		w.delete(t, "a")
		time.Sleep(time.Hour)
		failures := len(diary.of("retried", "a"))
		close(healed)
		time.Sleep(time.Minute)
		ended := diary.of("ended", "a")
		require.Equal(t, pass.Waiting, ended[len(ended)-1].outcome)
		retried := diary.of("retried", "a")
		require.Greater(t, retried[failures-1].delay, 40*time.Second)
		require.LessOrEqual(t, retried[failures].delay, 5*time.Millisecond, "it got on")
		w.fakes[2].Release(target, "held")
		synctest.Wait()
		require.True(t, w.gone("a"), "the notice comes at once, although the backoff had grown")
	})
}
