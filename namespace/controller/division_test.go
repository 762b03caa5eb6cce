package controller_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
)

// share is a division that the test can change.
type share struct {
	mu      sync.Mutex
	owns    func(name string) bool
	asked   map[string]int
	changed chan struct{}
}

func newShare(owns func(name string) bool) *share {
	return &share{owns: owns, asked: map[string]int{}, changed: make(chan struct{})}
}

func (s *share) Owns(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[name]++
	return s.owns(name)
}

func (s *share) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *share) set(owns func(name string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owns = owns
	close(s.changed)
	s.changed = make(chan struct{})
}

func all(string) bool  { return true }
func none(string) bool { return false }

// A namespace of another controller gets no queue and no pass; its removal is reported.
func TestR11_AnothersNamespaceIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		mine := func(name string) bool { return strings.HasPrefix(name, "mine") }
		diary, log := newDiary(), new(journal)
		run(t, w.host, w.deleter, kubernetes, controller.Options{
			Division: newShare(mine), Hooks: diary.hooks(), Logger: slog.New(slog.NewTextHandler(log, nil))})
		for _, name := range []string{"mine", "yours"} {
			w.create(t, name)
			w.delete(t, name)
		}
		time.Sleep(time.Hour)
		require.Equal(t, []string{"queued", "started", "ended removed", "finalized", "removed"}, diary.story("mine"))
		require.Empty(t, diary.story("yours"))
		w.setFinalizers(t, "yours", "kubernetes", origin.Finalizer) // an event for it
		w.setFinalizers(t, "yours")                                 // its owner finalizes it
		time.Sleep(time.Hour)
		require.Equal(t, []string{"removed"}, diary.story("yours"))
		require.NotContains(t, log.String(), "yours", "its owner logs it")
	})
}

// After a change of the division, the controller takes its new namespaces in any state and
// releases namespaces that it lost.
func TestR12_DivisionChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		division, log := newShare(none), new(journal)
		diary := newDiary()
		run(t, w.host, w.deleter, kubernetes, controller.Options{
			Division: division, Hooks: diary.hooks(), Logger: slog.New(slog.NewTextHandler(log, nil))})
		target := w.create(t, "held")
		w.fakes[0].Put(target, contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
		w.create(t, "plain")
		w.delete(t, "held")
		w.delete(t, "plain")
		time.Sleep(time.Hour)
		require.Empty(t, diary.of("queued", ""))

		division.set(all)
		synctest.Wait()
		require.True(t, w.gone("plain"))
		require.Equal(t, []string{"queued", "started", "ended waiting", "retried remaining"}, diary.story("held"))

		division.set(none) // while "held" waits with a timer and a deleter wait
		time.Sleep(time.Hour)
		w.fakes[0].Release(target, "held")
		time.Sleep(time.Hour)
		require.Len(t, diary.of("started", "held"), 1, "neither its timer nor its notice was heeded")
		require.False(t, w.gone("held"))

		division.set(all)
		synctest.Wait()
		require.True(t, w.gone("held"))
		require.Equal(t, 3, strings.Count(log.String(), "the division of namespaces changed"), log.String())
		require.Contains(t, log.String(), "taken=2 left=0")
		require.Contains(t, log.String(), "taken=0 left=1")
	})
}

// If the controller loses a namespace, a running pass ends without a retry, and a queued
// pass does not start.
func TestR11_LostWhileItRunsOrQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, latency(10*time.Second)) // two calls a pass
		division, diary := newShare(all), newDiary()
		run(t, w.host, w.deleter, kubernetes, controller.Options{Division: division, Hooks: diary.hooks(), Workers: 2, Long: time.Hour})
		for _, name := range names("a", 3) {
			w.fakes[0].Put(w.create(t, name), contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
			w.delete(t, name)
		}
		time.Sleep(time.Second)
		require.Len(t, diary.of("started", ""), 2)
		division.set(none)
		time.Sleep(time.Hour)
		require.Len(t, diary.of("started", ""), 2)
		require.Len(t, diary.of("ended", ""), 2)
		require.Empty(t, diary.of("retried", ""))

		division.set(all)
		time.Sleep(time.Hour)
		require.Greater(t, len(diary.of("ended", "a-2")), 1, "a namespace that never ran runs now")
		require.Greater(t, len(diary.of("ended", "a-0")), 2, "and one that ran runs again")
	})
}

// The controller asks the division right before each pass. A controller that was suspended
// therefore starts no pass for a namespace that it lost meanwhile.
func TestR11_AskedBeforeEachPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		division, diary := newShare(all), newDiary()
		run(t, w.host, w.deleter, kubernetes, controller.Options{Division: division, Hooks: diary.hooks()})
		w.fakes[0].Put(w.create(t, "a"), contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
		w.delete(t, "a")
		time.Sleep(time.Hour)
		before := len(diary.of("started", "a"))
		require.Positive(t, before)
		division.mu.Lock()
		division.owns = none // without a signal
		division.mu.Unlock()
		time.Sleep(time.Hour)
		require.Len(t, diary.of("started", "a"), before)
	})
}

// The controller follows the removal and replacement of a namespace of another controller.
func TestR8_AnothersNamespaceIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		division, diary := newShare(none), newDiary()
		run(t, w.host, w.deleter, kubernetes, controller.Options{Division: division, Hooks: diary.hooks()})
		first := w.create(t, "a")
		w.delete(t, "a")
		synctest.Wait()
		w.setFinalizers(t, "a")
		second := w.create(t, "a")
		w.delete(t, "a")
		synctest.Wait()
		division.set(all)
		synctest.Wait()
		require.Equal(t, []string{"removed", "queued", "started", "ended removed", "finalized", "removed"}, diary.story("a"))
		require.Equal(t, first.UID, diary.of("removed", "a")[0].ref.UID)
		require.Equal(t, second.UID, diary.of("started", "a")[0].ref.UID)
		division.set(none)
		division.set(all)
		synctest.Wait()
		require.Len(t, diary.of("queued", "a"), 1, "a namespace that is gone is not enqueued")
	})
}

// A namespace that a pass has removed belongs to no controller, even before the watch
// reports the removal.
func TestR11_RemovedBeforeTheWatchReportsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		division, diary := newShare(all), newDiary()
		reported, release := 0, make(chan struct{})
		namespaces := &controllertest.Intercept{Namespaces: w.host, After: func(_ context.Context, op controllertest.Op, name string) error {
			if op == controllertest.OpWatch && name == "a" {
				if reported++; reported == 2 { // the removal
					<-release
				}
			}
			return nil
		}}
		run(t, namespaces, w.deleter, kubernetes, controller.Options{Division: division, Hooks: diary.hooks()})
		w.create(t, "a")
		w.delete(t, "a")
		synctest.Wait()
		for _, owns := range []func(string) bool{none, all} {
			division.set(owns)
			synctest.Wait()
		}
		close(release)
		synctest.Wait()
		require.Equal(t, []string{"queued", "started", "ended removed", "finalized", "removed"}, diary.story("a"))
	})
}

// The controller cancels the wait of a namespace that it loses.
func TestLostNamespaceIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		division, d := newShare(all), &countingWaits{Composed: w.deleter}
		run(t, w.host, d, kubernetes, controller.Options{Division: division})
		w.fakes[0].Put(w.create(t, "a"), contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
		w.delete(t, "a")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, d.now)
		division.set(none)
		synctest.Wait()
		require.Zero(t, d.now)
	})
}

// If a division panics, the controller owns every namespace. Replicas may then duplicate
// work, but no namespace stays stuck.
func TestR12_DivisionPanics(t *testing.T) {
	for name, division := range map[string]controller.Division{
		"owns": &brokenShare{share: newShare(none), owns: true}, "changed": &brokenShare{share: newShare(none)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, nil)
				log := new(journal)
				run(t, w.host, w.deleter, kubernetes, controller.Options{Division: division, Logger: slog.New(slog.NewTextHandler(log, nil))})
				for _, name := range names("a", 3) {
					w.create(t, name)
					w.delete(t, name)
				}
				synctest.Wait()
				require.Zero(t, w.host.Len())
				require.Equal(t, 1, strings.Count(log.String(), "panicked"), log.String())
			})
		})
	}
}

type brokenShare struct {
	*share
	owns bool
}

func (b *brokenShare) Owns(name string) bool {
	if b.owns {
		panic("boom")
	}
	return b.share.Owns(name)
}

func (b *brokenShare) Changed() <-chan struct{} {
	if !b.owns {
		panic("boom")
	}
	return nil
}

// Every namespace is removed, however the division changes.
func TestR12_DivisionChangesAtRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, latency(3*time.Millisecond))
		var shares []*share
		const controllers = 3
		for range controllers {
			s := newShare(none)
			shares = append(shares, s)
			run(t, guarded(t, w.host, w.left, kubernetes), w.deleter, kubernetes, controller.Options{Division: s, Workers: 4})
		}
		targets := map[string]deleter.Target{}
		for i, name := range names("a", 200) {
			targets[name] = w.create(t, name)
			if i%3 == 0 {
				w.fakes[i%2].Put(targets[name], contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}, HeldFor: time.Duration(i+1) * 10 * time.Millisecond})
			}
			w.delete(t, name)
			for j, s := range shares { // at most one owner for each name; the owner changes each time
				s.set(func(name string) bool { return (int(name[len(name)-1])+i)%(controllers+1) == j })
			}
			time.Sleep(time.Millisecond)
		}
		for j, s := range shares {
			s.set(func(name string) bool { return int(name[len(name)-1])%controllers == j })
		}
		time.Sleep(5 * time.Minute)
		require.Zero(t, w.host.Len())
	})
}
