package controller_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
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

// A panic in the logger does not stop the controller.
func TestR10_PanickingLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		run(t, w.host, w.deleter, kubernetes, controller.Options{
			Logger: slog.New(panickingHandler{}),
			Hooks:  []controller.Hooks{{Queued: func(namespace.Ref) { panic("boom") }}},
		})
		w.create(t, "a")
		w.delete(t, "a")
		synctest.Wait()
		require.True(t, w.gone("a"))
	})
}

type panickingHandler struct{ slog.Handler }

func (panickingHandler) Enabled(context.Context, slog.Level) bool  { return true }
func (panickingHandler) Handle(context.Context, slog.Record) error { panic("boom") }

// scripted yields the test's events, one function for each watch. The last watch lasts until
// its context ends.
type scripted struct {
	controller.Namespaces
	watches []func(yield func(namespace.Event, error) bool)
	begun   int
}

func (s *scripted) Terminating(ctx context.Context, _ string) iter.Seq2[namespace.Event, error] {
	return func(yield func(namespace.Event, error) bool) {
		watch := s.watches[min(s.begun, len(s.watches)-1)]
		s.begun++
		watch(yield)
		if s.begun == len(s.watches) {
			<-ctx.Done()
			yield(namespace.Event{}, context.Cause(ctx))
			return
		}
		yield(namespace.Event{}, namespace.ErrGone)
	}
}

func event(kind namespace.EventType, target deleter.Target) namespace.Event {
	return namespace.Event{Type: kind, Name: target.Namespace, UID: target.UID, Token: "token"}
}

// Each incarnation's removal is reported once, even if the incarnation appears and
// disappears during a pass for its predecessor.
func TestRemovedIsToldOnceOfEachIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		first := deleter.Target{Namespace: "a", UID: "1"}
		second := deleter.Target{Namespace: "a", UID: "2"}
		third := w.create(t, "a")
		host := &scripted{Namespaces: &stubbornHost{w.host}, watches: []func(func(namespace.Event, error) bool){
			func(yield func(namespace.Event, error) bool) {
				_ = yield(namespace.Event{Type: namespace.EventSynced, Token: "token"}, nil) &&
					yield(event(namespace.EventPresent, first), nil) &&
					yield(event(namespace.EventAbsent, first), nil) &&
					yield(event(namespace.EventPresent, second), nil) &&
					yield(event(namespace.EventAbsent, second), nil) &&
					yield(event(namespace.EventPresent, third), nil)
			},
		}}
		w.delete(t, "a")
		diary := newDiary()
		run(t, host, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks()})
		time.Sleep(time.Minute)
		removed := map[string]int{}
		for _, m := range diary.of("removed", "a") {
			removed[m.ref.UID]++
		}
		require.Equal(t, map[string]int{"1": 1, "2": 1, third.UID: 1}, removed)
	})
}

// stubbornHost delays each read by a second.
type stubbornHost struct{ controller.Namespaces }

func (s *stubbornHost) Get(ctx context.Context, name string) (namespace.Namespace, error) {
	time.Sleep(time.Second)
	return s.Namespaces.Get(ctx, name)
}

// A stale listing may lack a namespace during its pass. The controller does not lose the
// later event for the namespace.
func TestR11_StaleListingLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		target := w.create(t, "a")
		w.delete(t, "a")
		synced := namespace.Event{Type: namespace.EventSynced, Token: "token"}
		host := &scripted{Namespaces: w.host, watches: []func(func(namespace.Event, error) bool){
			func(yield func(namespace.Event, error) bool) {
				_ = yield(event(namespace.EventPresent, target), nil) && yield(synced, nil)
			},
			func(yield func(namespace.Event, error) bool) {
				_ = yield(synced, nil) && yield(event(namespace.EventPresent, target), nil)
			},
		}}
		var passes atomic.Int64
		d := deleterFunc(func(ctx context.Context, target deleter.Target, previous deleter.Report) (deleter.Report, error) {
			if passes.Add(1) == 1 {
				time.Sleep(time.Second)
				return deleter.Report{}, errors.New("broken")
			}
			return w.deleter.Delete(ctx, target, previous)
		})
		diary := newDiary()
		run(t, host, d, kubernetes, controller.Options{Hooks: diary.hooks(), Long: time.Hour})
		time.Sleep(time.Minute)
		require.True(t, w.gone("a"))
		require.Len(t, diary.of("removed", "a"), 1)
	})
}

// The watch also backs off if the host takes time to refuse it.
func TestR10_WatchBacksOffFromSlowRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		watches := 0
		broken := &controllertest.Intercept{Namespaces: w.host, Before: func(_ context.Context, op controllertest.Op, _ string) error {
			watches++
			time.Sleep(100 * time.Millisecond)
			return errors.New("refused")
		}}
		stop := run(t, broken, w.deleter, kubernetes, controller.Options{})
		time.Sleep(time.Minute)
		stop()
		require.Less(t, watches, 20)
	})
}

// If the host rejects a token without reporting ErrGone, the controller gives up the token
// and lists again.
func TestR12_BadTokenIsListedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		host := &choking{cuts: &cuts{Host: w.host, cut: make(chan error)}}
		run(t, host, w.deleter, kubernetes, controller.Options{})
		synctest.Wait()
		host.chokes.Store(true)
		host.cut <- errors.New("connection reset")
		synctest.Wait()
		w.create(t, "a")
		w.delete(t, "a")
		time.Sleep(time.Minute)
		require.True(t, w.gone("a"))
	})
}

type choking struct {
	*cuts
	chokes atomic.Bool
}

func (c *choking) Terminating(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
	if after != "" && c.chokes.Load() {
		return func(yield func(namespace.Event, error) bool) {
			yield(namespace.Event{}, errors.New("bad token"))
		}
	}
	return c.cuts.Terminating(ctx, after)
}

// The controller notices the end of content in a later wave as quickly as in the first wave,
// even if the later wave has more objects.
func TestR12_LaterWavesAreNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, latency(time.Millisecond))
		d, err := deleter.New([]deleter.Source{
			{Resource: resource(0), Content: w.fakes[0]},
			{Resource: resource(1), Content: w.fakes[1], After: []namespace.ResourceType{resource(0)}},
		}, nil)
		require.NoError(t, err)
		diary := newDiary()
		run(t, w.host, d, kubernetes, controller.Options{Hooks: diary.hooks()})
		target := w.create(t, "a")
		hold := func(f *contenttest.Fake, name string, held time.Duration) {
			f.Put(target, contenttest.Object{Name: name, Finalizers: []string{"example.com/f"}, HeldFor: held})
		}
		hold(w.fakes[0], "first", time.Second)
		for i, name := range names("second", 100) {
			hold(w.fakes[1], name, time.Duration(i+1)*time.Second)
		}
		w.delete(t, "a")
		time.Sleep(time.Hour)
		require.Len(t, diary.of("removed", "a"), 1)
		require.Less(t, diary.of("removed", "a")[0].at, 102*time.Second)
	})
}

// If content reappears after every deletion, the controller backs off, whether or not
// another source fails.
func TestR10_ContentThatComesBack(t *testing.T) {
	left := deleter.Result{Resource: resource(0), Deleted: 3, Remaining: 3}
	unexplained := left
	unexplained.Err = deleter.ErrUnexpected
	back := deleter.Result{Resource: resource(0), Deleted: 3}
	for name, results := range map[string][]deleter.Result{
		"nothing fails":     {left},
		"nothing holds it":  {unexplained},
		"another one fails": {back, {Resource: resource(1), Err: errors.New("down")}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, nil)
				d := deleterFunc(func(_ context.Context, target deleter.Target, _ deleter.Report) (deleter.Report, error) {
					report := deleter.Report{UID: target.UID, Results: results}
					return report, report.Err()
				})
				diary := newDiary()
				run(t, w.host, d, kubernetes, controller.Options{Hooks: diary.hooks()})
				w.create(t, "a")
				w.delete(t, "a")
				time.Sleep(time.Minute)
				require.Less(t, len(diary.of("ended", "a")), 20)
			})
		})
	}
}

// While one type fails, the deletion of another large type continues without delay.
func TestR12_LargeBesideFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const passes = 50
		w := newWorld(t, 1, nil)
		var asked atomic.Int64
		d := deleterFunc(func(_ context.Context, target deleter.Target, _ deleter.Report) (deleter.Report, error) {
			left := max(passes-int(asked.Add(1)), 0)
			report := deleter.Report{UID: target.UID, Results: []deleter.Result{
				{Resource: resource(0), Deleted: min(left, 1), Remaining: left},
				{Resource: resource(1), Err: errors.New("down")},
			}}
			return report, report.Err()
		})
		run(t, w.host, d, kubernetes, controller.Options{})
		w.create(t, "a")
		w.delete(t, "a")
		time.Sleep(time.Second)
		require.GreaterOrEqual(t, asked.Load(), int64(passes))
	})
}

// Adding the party's finalizer again resets the namespace's backoff.
func TestR12_AddedFinalizerResetsTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, func(int) contenttest.FakeOptions {
			return contenttest.FakeOptions{Unsupported: []deleter.Op{deleter.OpWait}}
		})
		diary := newDiary()
		var left atomic.Int64
		left.Store(1)
		d := deleterFunc(func(_ context.Context, target deleter.Target, _ deleter.Report) (deleter.Report, error) {
			return deleter.Report{UID: target.UID, Results: []deleter.Result{{Resource: resource(0), Remaining: int(left.Load())}}}, nil
		})
		run(t, w.host, d, kubernetes, controller.Options{Hooks: diary.hooks()})
		w.create(t, "a", "example.com/late")
		w.delete(t, "a")
		time.Sleep(time.Hour)
		left.Store(0)
		time.Sleep(2 * time.Minute)
		require.Len(t, diary.of("finalized", "a"), 1)
		before := len(diary.of("retried", "a"))
		left.Store(2)
		w.setFinalizers(t, "a", "kubernetes", "example.com/late")
		synctest.Wait()
		require.LessOrEqual(t, diary.of("retried", "a")[before].delay, 5*time.Millisecond)
	})
}

// If the last pass of a Run removes a namespace, Run reports the removal although the watch
// has ended.
func TestRemovedIsToldAtTheEndOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		ctx, cancel := context.WithCancel(t.Context())
		host := &controllertest.Intercept{Namespaces: w.host, After: func(_ context.Context, op controllertest.Op, _ string) error {
			if op == controllertest.OpFinalize {
				cancel()
				time.Sleep(time.Second)
			}
			return nil
		}}
		diary := newDiary()
		c, err := controller.New(host, w.deleter, kubernetes, &controller.Options{Hooks: diary.hooks()})
		require.NoError(t, err)
		w.create(t, "a")
		w.delete(t, "a")
		require.NoError(t, c.Run(ctx))
		require.Equal(t, []string{"queued", "started", "ended removed", "finalized", "removed"}, diary.story("a"))
	})
}
