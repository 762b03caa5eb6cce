package controller_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
)

// A notice during the rest after a pass starts the next pass at the end of the rest. The
// pass does not wait for the end of the backoff.
func TestR12_EarlyNoticesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, latency(100*time.Millisecond))
		diary := newDiary()
		run(t, w.host, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks(), MinDelay: time.Hour, MaxDelay: time.Hour})
		target := w.create(t, "a")
		w.fakes[0].Put(target, contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
		w.delete(t, "a")
		time.Sleep(210 * time.Millisecond) // the pass has just ended
		w.fakes[0].Release(target, "held")
		time.Sleep(time.Second)
		removed := diary.of("removed", "a")
		require.Len(t, removed, 1)
		require.GreaterOrEqual(t, removed[0].at, 400*time.Millisecond, "it rests as long as the pass took")
	})
}

// MaxDelay bounds an estimate that exceeds it.
func TestR10_EstimatesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		d := deleterFunc(func(_ context.Context, target deleter.Target, _ deleter.Report) (deleter.Report, error) {
			return deleter.Report{UID: target.UID, Results: []deleter.Result{
				{Resource: resource(0), Remaining: 1, Deleting: 1, Estimate: 1000 * time.Hour},
			}}, nil
		})
		diary := newDiary()
		run(t, w.host, d, kubernetes, controller.Options{Hooks: diary.hooks()})
		w.create(t, "a")
		w.delete(t, "a")
		time.Sleep(time.Hour - 30*time.Second)
		require.Equal(t, time.Minute, diary.of("retried", "a")[0].delay)
		require.Len(t, diary.of("ended", "a"), 60)
	})
}

// Another listing does not reset the backoff of a known, failing namespace.
func TestR10_ListingsKeepTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		target := w.create(t, "a")
		w.delete(t, "a")
		list := func(yield func(namespace.Event, error) bool) {
			_ = yield(event(namespace.EventPresent, target), nil) &&
				yield(namespace.Event{Type: namespace.EventSynced, Token: "token"}, nil)
			time.Sleep(time.Second)
		}
		watches := make([]func(func(namespace.Event, error) bool), 100)
		for i := range watches {
			watches[i] = list
		}
		d := deleterFunc(func(context.Context, deleter.Target, deleter.Report) (deleter.Report, error) {
			return deleter.Report{}, errors.New("broken")
		})
		diary := newDiary()
		host := &scripted{Namespaces: w.host, watches: watches}
		stop := run(t, host, d, kubernetes, controller.Options{Hooks: diary.hooks()})
		time.Sleep(time.Minute)
		stop()
		require.Greater(t, host.begun, 50, "there must have been listings")
		require.Less(t, len(diary.of("started", "a")), 20)
	})
}
