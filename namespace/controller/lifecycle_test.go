package controller_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

func TestBadInput(t *testing.T) {
	w := newWorld(t, 1, nil)
	for _, c := range []struct {
		name       string
		namespaces controller.Namespaces
		deleter    deleter.Deleter
		party      namespace.Party
		opts       *controller.Options
		want       string
	}{
		{"no namespaces", nil, w.deleter, kubernetes, nil, "needs namespaces"},
		{"no deleter", w.host, nil, kubernetes, nil, "a deleter"},
		{"no party", w.host, w.deleter, namespace.Party{}, nil, "finalizer"},
		{"path in party", w.host, w.deleter, namespace.Party{Finalizer: "../x"}, nil, "finalizer"},
		{"party not UTF-8", w.host, w.deleter, namespace.Party{Finalizer: "example.com/\xff"}, nil, "finalizer"},
		{"oversized party", w.host, w.deleter, namespace.Party{Finalizer: finalizer.Name("example.com/" + strings.Repeat("x", 1000))}, nil, "finalizer"},
		{"negative workers", w.host, w.deleter, kubernetes, &controller.Options{Workers: -1}, "Options.Workers is -1: it must be at least 1"},
		{"too few slow workers", w.host, w.deleter, kubernetes, &controller.Options{SlowWorkers: 2}, "Options.SlowWorkers is 2"},
		{"patience the wrong way round", w.host, w.deleter, kubernetes, &controller.Options{Patience: 2, MaxPatience: 1}, "Options.MaxPatience is 1ns: it must be at least Patience (2ns)"},
		{"negative waits", w.host, w.deleter, kubernetes, &controller.Options{Waits: -1}, "Options.Waits"},
		{"negative long", w.host, w.deleter, kubernetes, &controller.Options{Long: -1}, "Options.Long is -1ns: it must not be negative"},
		{"negative patience", w.host, w.deleter, kubernetes, &controller.Options{Patience: -1}, "Options.Patience"},
		{"negative first delay", w.host, w.deleter, kubernetes, &controller.Options{MinDelay: -1}, "Options.MinDelay"},
		{"negative longest delay", w.host, w.deleter, kubernetes, &controller.Options{MaxDelay: -1}, "Options.MaxDelay"},
		{"delays the wrong way round", w.host, w.deleter, kubernetes, &controller.Options{MinDelay: 2, MaxDelay: 1}, "Options.MaxDelay is 1ns: it must be at least MinDelay (2ns)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := controller.New(c.namespaces, c.deleter, c.party, c.opts)
			require.Nil(t, got)
			require.ErrorContains(t, err, c.want)
		})
	}
	c, err := controller.New(w.host, w.deleter, kubernetes, nil)
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, c.Run(ended))
}

func TestOptionsAreNotChanged(t *testing.T) {
	w := newWorld(t, 1, nil)
	var opts controller.Options
	_, err := controller.New(w.host, w.deleter, kubernetes, &opts)
	require.NoError(t, err)
	require.Zero(t, opts.Workers)
	require.Zero(t, opts.MaxDelay)
}

// Run leaves no goroutines behind. A caller may run the controller again, but not
// concurrently.
func TestRunEndsAndBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 5, latency(5*time.Millisecond))
		var running atomic.Int64
		var stopped atomic.Bool
		namespaces := &controllertest.Intercept{Namespaces: w.host, Before: func(_ context.Context, op controllertest.Op, _ string) error {
			if stopped.Load() {
				t.Errorf("%s after the end of Run", op)
			}
			return nil
		}}
		d := deleterFunc(func(ctx context.Context, target deleter.Target, previous deleter.Report) (deleter.Report, error) {
			running.Add(1)
			defer running.Add(-1)
			if target.Namespace == "hangs" {
				<-ctx.Done()
				time.Sleep(3 * time.Second) // the deleter is slow to stop
				return deleter.Report{}, ctx.Err()
			}
			return w.deleter.Delete(ctx, target, previous)
		})
		c, err := controller.New(namespaces, d, kubernetes, nil)
		require.NoError(t, err)
		for _, name := range []string{"hangs", "held"} {
			target := w.create(t, name)
			w.fakes[0].Put(target, contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
			w.delete(t, name)
		}
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- c.Run(ctx) }()
			time.Sleep(time.Second)
			require.EqualValues(t, 1, running.Load())
			require.ErrorIs(t, c.Run(ctx), controller.ErrRunning)
			began := time.Now()
			cancel()
			require.NoError(t, <-ended)
			require.Equal(t, 3*time.Second, time.Since(began), "it waits for running passes")
			require.Zero(t, running.Load())
			stopped.Store(true)
			time.Sleep(time.Hour)
			stopped.Store(false)
		}
	})
}

// An event during a pass causes another pass.
func TestR12_EventsDuringAPassAreNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		looks := 0
		d := deleterFunc(func(context.Context, deleter.Target, deleter.Report) (deleter.Report, error) {
			looks++
			time.Sleep(10 * time.Millisecond)
			return deleter.Report{}, nil
		})
		diary := newDiary()
		run(t, w.host, d, origin, controller.Options{Hooks: diary.hooks()})
		w.create(t, "a")
		w.delete(t, "a")
		synctest.Wait()
		require.Equal(t, []string{"queued", "started", "ended no finalizer"}, diary.story("a"))
		require.Zero(t, looks)

		w.setFinalizers(t, "a", "kubernetes", origin.Finalizer) // adds the late party's finalizer
		time.Sleep(5 * time.Millisecond)                        // during the pass
		w.setFinalizers(t, "a", "kubernetes", origin.Finalizer, "example.com/other")
		time.Sleep(time.Second)
		require.Equal(t, []string{"queued", "started", "ended finalized", "finalized", "queued", "started", "ended no finalizer"}, diary.story("a")[3:])
		require.Equal(t, 1, looks)
	})
}

// An incarnation that appears during a pass for its predecessor gets its own pass
// afterwards. The predecessor's pass does not affect it.
func TestR8_ReplacedDuringAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		var targets []string
		d := deleterFunc(func(_ context.Context, target deleter.Target, previous deleter.Report) (deleter.Report, error) {
			targets = append(targets, target.UID)
			if previous.UID != "" {
				require.Equal(t, target.UID, previous.UID, "the report of another incarnation")
			}
			time.Sleep(10 * time.Millisecond)
			return deleter.Report{UID: target.UID, Clean: []namespace.ResourceType{resource(0)}}, nil
		})
		diary := newDiary()
		run(t, w.host, d, kubernetes, controller.Options{Hooks: diary.hooks()})
		first := w.create(t, "a")
		w.delete(t, "a")
		time.Sleep(5 * time.Millisecond)
		w.setFinalizers(t, "a") // another client removes it
		second := w.create(t, "a", "example.com/late")
		w.delete(t, "a")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{first.UID, second.UID}, targets)
		require.Equal(t, []string{"queued", "started", "ended replaced", "removed", "queued", "started", "ended finalized", "finalized"}, diary.story("a"))
		require.Equal(t, first.UID, diary.of("removed", "a")[0].ref.UID)
		w.setFinalizers(t, "a")
		synctest.Wait()
		require.Len(t, diary.of("removed", "a"), 2)
		require.Equal(t, second.UID, diary.of("removed", "a")[1].ref.UID)
	})
}

// Panics in hooks, in the deleter, in its waits and in the namespace storage count as
// ordinary failures.
func TestR10_PanicsDoNotEndIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, nil)
		d := &panicking{Composed: w.deleter, until: time.Now().Add(time.Minute)}
		boom := func() {
			if time.Now().Before(d.until) {
				panic("boom")
			}
		}
		namespaces := &controllertest.Intercept{Namespaces: w.host}
		panics := 0
		namespaces.Before = func(_ context.Context, op controllertest.Op, name string) error {
			if op == controllertest.OpWatch && panics < 3 {
				panics++
				panic("boom")
			}
			if name == "c" {
				boom()
			}
			return nil
		}
		var log journal
		removed := map[string]bool{}
		run(t, namespaces, d, kubernetes, controller.Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Hooks: []controller.Hooks{{
				Queued:      func(namespace.Ref) { panic("boom") },
				PassStarted: func(context.Context, namespace.Ref) context.Context { panic("boom") },
				PassEnded:   func(context.Context, namespace.Ref, pass.Result, error, time.Duration) { panic("boom") },
				Retried:     func(namespace.Ref, time.Duration, controller.Reason) { panic("boom") },
				Finalized:   func(namespace.Ref) { panic("boom") },
				Removed:     func(ref namespace.Ref) { removed[ref.Name] = true; panic("boom") },
			}}})
		for _, name := range []string{"a", "b", "c"} {
			w.fakes[0].Put(w.create(t, name), contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}, HeldFor: 90 * time.Second})
			w.delete(t, name)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		require.Equal(t, map[string]bool{"a": true, "b": true, "c": true}, removed)
		require.Equal(t, 6, strings.Count(log.String(), "a hook of the namespace controller panicked"), "once for each hook:\n%s", log.String())
		require.Equal(t, 3, panics)
	})
}

// panicking panics in Delete for namespace a until a time, and always in Wait for namespace
// b.
type panicking struct {
	*deleter.Composed
	until time.Time
}

func (p *panicking) Delete(ctx context.Context, target deleter.Target, previous deleter.Report) (deleter.Report, error) {
	if target.Namespace == "a" && time.Now().Before(p.until) {
		panic(errors.New("boom"))
	}
	return p.Composed.Delete(ctx, target, previous)
}

func (p *panicking) Wait(ctx context.Context, target deleter.Target, report deleter.Report) error {
	if target.Namespace == "b" {
		panic("boom")
	}
	return p.Composed.Wait(ctx, target, report)
}

// Over a day of retries, the log has one line for each change of state, not for each pass.
func TestLogReportsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		w := newWorld(t, 3, failing(broken, time.Millisecond, func(i int) bool { return i == 0 }, "a"))
		var log journal
		diary := newDiary()
		stop := run(t, w.host, w.deleter, kubernetes, controller.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Hooks: diary.hooks()})
		w.create(t, "a")
		target := w.create(t, "b")
		w.fakes[1].Put(target, contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
		w.delete(t, "a")
		w.delete(t, "b")
		time.Sleep(24 * time.Hour)
		w.fakes[1].Release(target, "held")
		synctest.Wait()
		time.Sleep(time.Second)
		stop()
		require.Greater(t, len(diary.of("ended", "")), 2*1440)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		require.Len(t, lines, 5, "a: terminating, failing; b: terminating, waiting, removed:\n%s", log.String())
		require.Contains(t, log.String(), `msg="namespace removed" namespace=b`)
	})
}

// At most Options.Waits waits run at once. The controller retries the other namespaces by
// timer.
func TestWaitsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		d := &countingWaits{Composed: w.deleter}
		diary := newDiary()
		run(t, w.host, d, kubernetes, controller.Options{Waits: 3, Hooks: diary.hooks()})
		all := names("held", 20)
		targets := map[string]deleter.Target{}
		for _, name := range all {
			targets[name] = w.create(t, name)
			w.fakes[0].Put(targets[name], contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
			w.delete(t, name)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		require.LessOrEqual(t, d.most, 3)
		require.Positive(t, d.most)
		for _, name := range all {
			w.fakes[0].Release(targets[name], "held")
		}
		time.Sleep(time.Minute)
		require.Len(t, diary.of("removed", ""), 20)
		synctest.Wait()
		require.Zero(t, d.now)
	})
}

// countingWaits counts the running waits.
type countingWaits struct {
	*deleter.Composed
	now, most int
	always    bool // Wait returns at once, even if no content has disappeared
	mu        sync.Mutex
}

func (c *countingWaits) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += n
	c.most = max(c.most, c.now)
}

func (c *countingWaits) Wait(ctx context.Context, target deleter.Target, report deleter.Report) error {
	if c.always {
		return nil
	}
	c.add(1)
	defer c.add(-1)
	return c.Composed.Wait(ctx, target, report)
}

// Notices without any change of content do not make the controller spin.
func TestR10_FutileNoticesAreNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		diary := newDiary()
		run(t, w.host, &countingWaits{Composed: w.deleter, always: true}, kubernetes, controller.Options{Hooks: diary.hooks()})
		w.fakes[0].Put(w.create(t, "a"), contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
		w.delete(t, "a")
		time.Sleep(time.Minute)
		require.LessOrEqual(t, len(diary.of("ended", "a")), 20)
		require.Greater(t, len(diary.of("ended", "a")), 10)
	})
}
