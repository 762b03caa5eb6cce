package watch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

func TestFirstBookmark(t *testing.T) {
	for _, test := range []struct {
		name  string
		after store.Position
		want  []int
	}{
		{"now", store.Position{}, []int{-4}},
		{"the newest", at(4), []int{-4}},
		{"the beginning", at(0), []int{1, 3, -4}},
		{"between", at(1), []int{3, -4}},
		{"any epoch", store.Position{Revision: 2}, []int{3, -4}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := open(t, Options{})
				for _, key := range []string{"a", "b", "a", "b"} {
					l.commit(key)
				}
				s := follow(t, l.hub, "a", test.after, nil)
				synctest.Wait()
				require.Equal(t, test.want, s.got())
				l.commit("a")
				synctest.Wait()
				require.Equal(t, append(test.want, 5), s.got())
			})
		})
	}
}

// The first bookmark does not wait for commits after the start of the loop.
func TestFirstBookmarkBeforeNewerChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{})
		for range 5 {
			l.commit("a")
		}
		l.chunk = 100
		first := true
		s := follow(t, l.hub, "a", at(0), func(store.Change) {
			if first {
				first = false
				l.commit("a")
			}
		})
		synctest.Wait()
		require.Equal(t, []int{1, 2, 3, 4, 5, -5, 6}, s.got())
	})
}

func TestQuietBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{})
		quiet := follow(t, l.hub, "quiet", store.Position{}, nil)
		busy := follow(t, l.hub, "busy", store.Position{}, nil)
		time.Sleep(time.Hour)
		require.Nil(t, l.hub.bookmark, "nothing ticks in a store without commits")
		for range 40 {
			l.commit("busy")
			time.Sleep(99 * time.Millisecond)
		}
		time.Sleep(time.Hour)
		require.Equal(t, span(0, 40), busy.got(), "its changes have the position")
		require.Equal(t, []int{0, -11, -22, -33, -40}, quiet.got())
		l.commit("quiet")
		time.Sleep(time.Hour)
		require.Equal(t, []int{0, -11, -22, -33, -40, 41}, quiet.got())
		require.Equal(t, append(span(0, 40), -41), busy.got())
	})
}

// A bookmark that falls due while a watch reads the log follows after that.
func TestBookmarkDueWhileBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{Queue: 2})
		g := make(gate)
		s := follow(t, l.hub, "a", store.Position{}, g.pause)
		synctest.Wait()
		for range 4 {
			l.commit("a")
		}
		l.commit("b")
		time.Sleep(time.Hour)
		g.open()
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4, -5}, s.got())
	})
}

// While a watch reads a long quiet part of the log again, it yields bookmarks.
func TestBookmarksDuringReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{Queue: 1})
		g := make(gate)
		s := follow(t, l.hub, "a", store.Position{}, g.pause)
		synctest.Wait()
		l.commit("a")
		l.commit("a")
		for range 7 {
			l.commit("b")
		}
		l.during = func() { // a commit during the slow read of the log
			time.Sleep(700 * time.Millisecond)
			l.commit("b")
		}
		g.open()
		time.Sleep(time.Hour)
		require.Equal(t, []int{0, 1, 2, -6, -12}, s.got())
	})
}

// After a bookmark during a replay another one follows the replay, even without further commits.
// Otherwise the caller would not receive the last position.
func TestBookmarkAfterReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{Queue: 1})
		g := make(gate)
		s := follow(t, l.hub, "a", store.Position{}, g.pause)
		synctest.Wait()
		l.commit("a")
		l.commit("a")
		for range 7 {
			l.commit("b")
		}
		time.Sleep(time.Hour) // the round of bookmarks is over, and there are no further commits
		g.open()
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, -3, -9}, s.got())
	})
}

func TestCloseStopsBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{})
		g := make(gate)
		s := follow(t, l.hub, "a", store.Position{}, g.pause)
		synctest.Wait()
		l.commit("b")
		timer := l.hub.bookmark
		require.NotNil(t, timer)
		l.hub.Close()
		require.False(t, timer.Stop(), "it was stopped")
		l.commit("b") // the watch has not ended yet
		require.Nil(t, l.hub.bookmark)
		g.open()
		synctest.Wait()
		require.Equal(t, []int{0}, s.got())
		require.ErrorIs(t, s.failed(), store.ErrClosed)
		require.Zero(t, l.hub.watchers())
	})
}
