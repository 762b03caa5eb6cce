package controller_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
)

// cuts is a host whose watches the test can cut.
type cuts struct {
	*controllertest.Host
	cut     chan error   // each value ends the running watch
	broken  atomic.Bool  // new watches fail
	each    atomic.Int64 // number of events before a watch ends; zero: unlimited
	mu      sync.Mutex
	resumed []string // the tokens of all watches
}

// watches returns the tokens of all watches.
func (c *cuts) watches() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.resumed)
}

func (c *cuts) Terminating(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
	return func(yield func(namespace.Event, error) bool) {
		c.mu.Lock()
		c.resumed = append(c.resumed, after)
		c.mu.Unlock()
		if c.broken.Load() {
			yield(namespace.Event{}, errors.New("refused"))
			return
		}
		within, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		go func() {
			select {
			case err := <-c.cut:
				cancel(err)
			case <-within.Done():
			}
		}()
		events := int64(0)
		for e, err := range c.Host.Terminating(within, after) {
			if !yield(e, err) || err != nil {
				return
			}
			if events++; events == c.each.Load() {
				return // without an error
			}
		}
	}
}

// A lost watch resumes from its last token. The controller loses no event and does not list
// again.
func TestR12_LostWatchIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		host := &cuts{Host: w.host, cut: make(chan error)}
		var log journal
		diary := newDiary()
		run(t, host, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		synctest.Wait()
		for _, name := range names("a", 5) {
			time.Sleep(time.Minute)
			host.cut <- errors.New("connection reset")
			w.create(t, name)
			w.delete(t, name)
			time.Sleep(5 * time.Millisecond) // the first delay
			require.True(t, w.gone(name))
		}
		require.Len(t, host.watches(), 6)
		require.Equal(t, "", host.watches()[0])
		for _, token := range host.watches()[1:] {
			require.NotEmpty(t, token)
		}
		require.Len(t, diary.of("started", ""), 5, "each namespace once")
		require.Equal(t, 5, strings.Count(log.String(), "watch of terminating namespaces failed"))
		require.Equal(t, 5, strings.Count(log.String(), "watch of terminating namespaces works again"))
	})
}

// The controller retries a failed watch with a backoff and logs the failure once.
func TestR10_WatchBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		host := &cuts{Host: w.host, cut: make(chan error)}
		host.broken.Store(true)
		var log journal
		run(t, host, w.deleter, kubernetes, controller.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		w.create(t, "a")
		w.delete(t, "a")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Less(t, len(host.watches()), 100)
		require.Greater(t, len(host.watches()), 60)
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
		host.broken.Store(false)
		time.Sleep(time.Minute)
		require.True(t, w.gone("a"))
	})
}

// Frequent ends of the watch, even during a listing, lose no namespace and do not make the
// controller spin.
func TestR12_FlappingWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		all := names("a", 10)
		for _, name := range all {
			w.create(t, name, "example.com/late")
			w.delete(t, name)
		}
		host := &cuts{Host: w.host, cut: make(chan error)}
		host.each.Store(3)
		diary := newDiary()
		run(t, host, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks()})
		time.Sleep(time.Minute)
		require.Less(t, len(host.watches()), 20)
		for _, token := range host.watches() {
			require.Empty(t, token, "a listing that was not synced cannot be resumed")
		}
		require.Len(t, diary.of("finalized", ""), 3, "every reported namespace is finalized")
		host.each.Store(12)
		time.Sleep(2 * time.Minute)
		require.Len(t, diary.of("finalized", ""), 10)
		for _, name := range all {
			w.setFinalizers(t, name)
		}
		time.Sleep(5 * time.Minute)
		require.Len(t, diary.of("removed", ""), 10)
	})
}

// If the token has expired, the controller lists again and forgets the removed namespaces.
func TestR12_GoneTokenIsListedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		host := &cuts{Host: w.host, cut: make(chan error)}
		diary := newDiary()
		run(t, host, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks()})
		first := map[string]deleter.Target{}
		for _, name := range []string{"stays", "goes", "again"} {
			first[name] = w.create(t, name, "example.com/late")
			w.delete(t, name)
		}
		time.Sleep(time.Minute)
		host.broken.Store(true)
		host.cut <- errors.New("connection reset")
		w.setFinalizers(t, "goes")
		w.setFinalizers(t, "again")
		again := w.create(t, "again", "example.com/late")
		w.delete(t, "again")
		w.create(t, "new")
		w.delete(t, "new")
		w.setFinalizers(t, "stays", "kubernetes", "example.com/late") // restores the party's finalizer
		require.NoError(t, w.host.Forget(t.Context()))
		w.create(t, "bump")
		time.Sleep(time.Second)
		host.broken.Store(false)
		time.Sleep(time.Minute)
		require.True(t, w.gone("new"))
		removed := map[namespace.Ref]int{}
		for _, m := range diary.of("removed", "") {
			removed[m.ref]++
		}
		require.Equal(t, 1, removed[namespace.Ref{Name: "goes", UID: first["goes"].UID}])
		require.Equal(t, 1, removed[namespace.Ref{Name: "again", UID: first["again"].UID}])
		require.Len(t, removed, 3)
		require.Len(t, diary.of("finalized", "stays"), 2)
		require.Len(t, diary.of("finalized", "again"), 2)
		w.setFinalizers(t, "again")
		synctest.Wait()
		require.Equal(t, namespace.Ref{Name: "again", UID: again.UID}, diary.of("removed", "again")[1].ref)
		require.Contains(t, host.watches()[2:], "", "listed again")
	})
}

// The next listing finds events that the host lost: the controller starts the lost
// termination and drops the removed namespace.
func TestR12_LostEventsAreFoundByResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		var losing atomic.Bool
		host := &forgetful{Host: w.host, losing: &losing}
		diary := newDiary()
		run(t, host, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks(), Resync: 5 * time.Minute})
		w.create(t, "kept", "example.com/late")
		w.delete(t, "kept")
		time.Sleep(time.Minute)
		losing.Store(true)
		w.create(t, "lost")
		w.delete(t, "lost")
		w.setFinalizers(t, "kept")
		time.Sleep(3 * time.Minute)
		losing.Store(false)
		require.False(t, w.gone("lost"))
		require.Empty(t, diary.of("removed", ""))
		time.Sleep(time.Minute + time.Second)
		require.True(t, w.gone("lost"))
		require.Len(t, diary.of("removed", "kept"), 1)
		time.Sleep(time.Hour)
		require.Equal(t, int64(1+65/5), host.listings.Load(), "one at the start, then one in five minutes")
		require.Len(t, diary.of("started", ""), 2)
	})
}

// forgetful drops the events of its watches while losing is set.
type forgetful struct {
	*controllertest.Host
	losing   *atomic.Bool
	listings atomic.Int64
}

func (f *forgetful) Terminating(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
	if after == "" {
		f.listings.Add(1)
	}
	return func(yield func(namespace.Event, error) bool) {
		for e, err := range f.Host.Terminating(ctx, after) {
			if err == nil && f.losing.Load() {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// A resync is not a failure: a watch that is lost afterwards resumes at once.
func TestR12_WatchLostAfterResyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		host := &cuts{Host: w.host, cut: make(chan error)}
		run(t, host, w.deleter, kubernetes, controller.Options{})
		time.Sleep(5*time.Hour + 20*time.Second)
		host.cut <- errors.New("cut")
		synctest.Wait()
		w.create(t, "a")
		w.delete(t, "a")
		time.Sleep(time.Second)
		require.True(t, w.gone("a"))
	})
}

// The controller also lists again if the host ends a watch without the context's cause.
func TestR12_ResyncOfSilentWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		host := &silent{cuts{Host: w.host, cut: make(chan error)}}
		journal := new(journal)
		run(t, host, w.deleter, kubernetes, controller.Options{Logger: slog.New(slog.NewTextHandler(journal, nil))})
		time.Sleep(time.Hour + time.Minute)
		require.Equal(t, make([]string, 7), host.watches(), "one at the start, then one in ten minutes")
		require.NotContains(t, journal.String(), "failed")
	})
}

// silent ends a watch without an error when its context ends.
type silent struct{ cuts }

func (s *silent) Terminating(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
	return func(yield func(namespace.Event, error) bool) {
		for e, err := range s.cuts.Terminating(ctx, after) {
			if ctx.Err() != nil || !yield(e, err) {
				return
			}
		}
	}
}

// A watch that starts and ends at once does not reset the backoff.
func TestR10_WatchThatDiesAtOnceBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		host := &cuts{Host: w.host, cut: make(chan error)}
		host.each.Store(1) // only the synced event
		run(t, host, w.deleter, kubernetes, controller.Options{})
		time.Sleep(time.Hour)
		require.Less(t, len(host.watches()), 100)
		require.Greater(t, len(host.watches()), 60)
	})
}

// If a read contradicts the watch, the controller retries until they agree.
func TestR11_StaleReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		w.create(t, "a")
		active, err := w.host.Get(t.Context(), "a")
		require.NoError(t, err)
		stale := &staleHost{Host: w.host}
		stale.answer.Store(&active)
		diary := newDiary()
		run(t, stale, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks()})
		w.delete(t, "a")
		time.Sleep(time.Second)
		require.False(t, w.gone("a"))
		require.Equal(t, []string{"queued", "started", "ended active", "retried stale"}, diary.story("a")[:4])
		stale.answer.Store(nil)
		time.Sleep(3 * time.Second)
		require.True(t, w.gone("a"))
	})
}

// staleHost answers every Get with an old version while answer is set.
type staleHost struct {
	*controllertest.Host
	answer atomic.Pointer[namespace.Namespace]
}

func (s *staleHost) Get(ctx context.Context, name string) (namespace.Namespace, error) {
	if answer := s.answer.Load(); answer != nil && answer.Name == name {
		return *answer, nil
	}
	return s.Host.Get(ctx, name)
}

// The removal by a pass is reported once, even if the watch reports it late.
func TestRemovedIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		late := &controllertest.Intercept{Namespaces: w.host, After: func(_ context.Context, op controllertest.Op, _ string) error {
			if op == controllertest.OpWatch {
				time.Sleep(time.Second)
			}
			return nil
		}}
		diary := newDiary()
		run(t, late, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks()})
		time.Sleep(time.Minute)
		w.create(t, "a")
		w.delete(t, "a")
		w.setFinalizers(t, "a", "kubernetes", "example.com/late") // the watch reports this after the removal
		w.setFinalizers(t, "a", "kubernetes")
		time.Sleep(1500 * time.Millisecond)
		require.Len(t, diary.of("removed", "a"), 1)
		time.Sleep(time.Minute)
		require.Len(t, diary.of("removed", "a"), 1)
		require.Len(t, diary.of("started", "a"), 1)
		w.create(t, "a")
		w.delete(t, "a")
		time.Sleep(time.Minute)
		require.Len(t, diary.of("removed", "a"), 2)
	})
}
