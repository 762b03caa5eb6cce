package watch

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

// gate blocks a watch after each change.
type gate chan struct{}

func (g gate) pause(store.Change) { <-g }

// open unblocks the watch permanently.
func (g gate) open() { close(g) }

// A watch that overflows loses nothing, reads the log, and is live again.
func TestOverflow(t *testing.T) {
	for _, test := range []struct {
		name    string
		options Options
	}{
		{"changes", Options{Queue: 4}},
		{"bytes", Options{QueueBytes: 600}},
		{"every change too large", Options{QueueBytes: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := open(t, test.options)
				g := make(gate)
				slow := follow(t, l.hub, "a", store.Position{}, g.pause)
				fast := follow(t, l.hub, "a", store.Position{}, nil)
				synctest.Wait()
				for range 100 {
					l.commit("a")
					synctest.Wait()
				}
				require.Equal(t, []int{0}, slow.got())
				require.Equal(t, span(0, 100), fast.got())
				g.open()
				synctest.Wait()
				require.Equal(t, span(0, 100), slow.got())

				before := l.readCalls()
				for range 100 {
					l.commit("a")
					synctest.Wait()
				}
				require.Equal(t, span(0, 200), slow.got())
				require.Equal(t, span(0, 200), fast.got())
				if test.options.QueueBytes != 1 {
					require.Equal(t, before, l.readCalls(), "both are live again")
				}
			})
		})
	}
}

// Events with small keys and values count too, because a transaction of many takes as much memory
// as one of few large values.
func TestSmallEventsCount(t *testing.T) {
	few := store.Change{Events: []store.Event{{Key: "a", Value: make([]byte, 4096)}}}
	many := store.Change{Events: make([]store.Event, 1000)}
	require.Greater(t, sizeOf(many), 10*sizeOf(few))
	require.GreaterOrEqual(t, sizeOf(many), 1000*int(unsafe.Sizeof(store.Event{})))
}

// The queue of a watch is bounded while its caller is busy.
func TestOverflowHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{Queue: 4})
		g := make(gate)
		follow(t, l.hub, "a", store.Position{}, g.pause)
		synctest.Wait()
		w := l.hub.watches.groups["a"].watches[0]
		for i := range 10 {
			l.commit("a")
			if i < 4 {
				require.Len(t, w.queue, i+1)
				require.Equal(t, (i+1)*sizeOf(w.queue[0]), w.bytes)
			} else {
				require.Nil(t, w.queue)
				require.Zero(t, w.bytes)
			}
		}
		g.open()
	})
}

// After a quiet time, a watch that overflows does not need the log from before.
func TestOverflowAfterQuietAndCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{Queue: 2, Bookmarks: time.Hour})
		s := follow(t, l.hub, "a", store.Position{}, nil)
		synctest.Wait()
		for range 50 {
			l.commit("other")
		}
		l.compact(50)
		for range 10 {
			l.write("a")
		}
		l.hub.Publish(l.changes[50:]...) // at once, so that the watch cannot keep up
		synctest.Wait()
		require.Equal(t, append([]int{0}, span(51, 60)...), s.got())
		require.NoError(t, s.failed())
		require.Positive(t, l.readCalls())
	})
}

func TestOverflowPastCompactionIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{Queue: 2})
		g := make(gate)
		s := follow(t, l.hub, "a", store.Position{}, g.pause)
		synctest.Wait()
		for range 10 {
			l.commit("a")
		}
		l.compact(1)
		g.open()
		synctest.Wait()
		require.Equal(t, []int{0}, s.got())
		require.ErrorIs(t, s.failed(), store.ErrGone)
		require.Zero(t, l.hub.watchers())
	})
}

// A second overflow during a replay causes another replay.
func TestOverflowDuringReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{Queue: 2})
		for range 10 {
			l.commit("a")
		}
		bursts := 0
		l.during = func() {
			if bursts++; bursts < 20 {
				for range 4 {
					l.commit("a")
				}
			}
		}
		s := follow(t, l.hub, "a", at(0), nil)
		synctest.Wait()
		want := slices.Insert(span(1, 10+19*4), 10, -10)
		require.Equal(t, want, s.got())
		l.commit("a")
		synctest.Wait()
		require.Equal(t, append(want, 10+19*4+1), s.got())
	})
}

// An idle watch keeps little memory after a burst.
func TestQueueIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{})
		g := make(gate)
		s := follow(t, l.hub, "a", store.Position{}, g.pause)
		synctest.Wait()
		w := l.hub.watches.groups["a"].watches[0]
		for range 500 {
			l.commit("a")
		}
		g.open()
		synctest.Wait()
		require.Equal(t, span(0, 500), s.got())
		require.Zero(t, l.readCalls())
		require.LessOrEqual(t, cap(w.queue)+cap(w.batch), keepQueue)
		require.Zero(t, w.bytes)
	})
}
