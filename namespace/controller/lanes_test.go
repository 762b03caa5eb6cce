package controller_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
)

// behaving returns a deleter that does not implement [deleter.Waiter]. Its behavior depends
// on the namespace: for hung-* it hangs, for long-* it makes a call every 100 ms for a
// minute, for waiting-* one object disappears after 30 s, and for others there is no
// content.
func behaving() deleter.Deleter {
	return deleterFunc(func(ctx context.Context, target deleter.Target, _ deleter.Report) (deleter.Report, error) {
		report := deleter.Report{UID: target.UID}
		switch {
		case strings.HasPrefix(target.Namespace, "hung"):
			return report, hang(ctx)
		case strings.HasPrefix(target.Namespace, "long"):
			for range 590 {
				time.Sleep(100 * time.Millisecond)
				if ctx.Err() != nil {
					return report, context.Cause(ctx)
				}
				_ = deleter.TraceCall(ctx, deleter.Call{}, func(context.Context) (int, error) { return 0, nil })
			}
		case strings.HasPrefix(target.Namespace, "waiting"):
			if time.Since(target.DeletedAt) < 30*time.Second {
				report.Results = []deleter.Result{{Resource: resource(0), Remaining: 1, Deleting: 1}}
			}
		}
		return report, nil
	})
}

// Hanging namespaces do not block the workers, even if passes that make progress fill the
// long lane.
func TestR10_HangingBesideManyLongPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		diary := newDiary()
		run(t, w.host, behaving(), kubernetes, controller.Options{Workers: 4, SlowWorkers: 8, Hooks: diary.hooks()})
		for _, name := range append(names("long", 4), names("hung", 20)...) {
			w.create(t, name)
			w.delete(t, name)
			time.Sleep(200 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		for _, name := range names("quick", 10) {
			w.create(t, name)
			began := time.Since(diary.began)
			w.delete(t, name)
			time.Sleep(700 * time.Millisecond)
			require.True(t, w.gone(name), "%s waits for namespaces that hang", name)
			require.LessOrEqual(t, diary.of("removed", name)[0].at-began, 500*time.Millisecond)
		}
		require.Empty(t, diary.of("removed", "long-0"))
		time.Sleep(time.Minute)
		for _, name := range names("long", 4) {
			require.Len(t, diary.of("started", name), 1, "it makes progress")
			require.True(t, w.gone(name))
		}
	})
}

// A namespace whose sources answer does not wait for hanging namespaces. The next pass after
// its content disappears removes it.
func TestR10_WaitingBesideHangingOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		diary := newDiary()
		run(t, w.host, behaving(), kubernetes, controller.Options{Hooks: diary.hooks()})
		for _, name := range names("hung", 1000) {
			w.create(t, name)
			w.delete(t, name)
		}
		time.Sleep(12 * time.Hour)
		w.create(t, "waiting")
		w.delete(t, "waiting")
		time.Sleep(2 * time.Minute)
		require.True(t, w.gone("waiting"))
	})
}

// slowly returns a host whose requests, except watches, each take d.
func slowly(host controller.Namespaces, d time.Duration) controller.Namespaces {
	return &controllertest.Intercept{Namespaces: host, Before: func(ctx context.Context, op controllertest.Op, _ string) error {
		if op == controllertest.OpWatch {
			return nil
		}
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
}

// Answers of the namespace storage count as progress, like answers of sources.
func TestR10_SlowStorageIsNoHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, latency(300*time.Millisecond))
		diary := newDiary()
		run(t, slowly(w.host, 300*time.Millisecond), w.deleter, kubernetes, controller.Options{Workers: 2, SlowWorkers: 4, Hooks: diary.hooks()})
		for _, name := range names("ns", 100) {
			w.create(t, name)
			w.delete(t, name)
		}
		time.Sleep(10 * time.Minute)
		require.Zero(t, w.host.Len())
		require.Empty(t, diary.of("retried", ""))
	})
}

// Even if each request to the namespace storage takes longer than Long, the controller
// removes all namespaces.
func TestR12_SlowStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		slow := slowly(w.host, 3*time.Second)
		run(t, slow, w.deleter, kubernetes, controller.Options{Workers: 2})
		for _, name := range names("ns", 200) {
			w.create(t, name)
			w.delete(t, name)
		}
		time.Sleep(30 * time.Minute)
		require.Zero(t, w.host.Len())
	})
}
