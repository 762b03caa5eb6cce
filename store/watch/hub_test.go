package watch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

func TestPrefixes(t *testing.T) {
	commits := [][]string{
		{"a"}, {"a/"}, {"a/b"}, {"a0"}, {"b"}, {"a\xff"}, {"\xff"},
		{"a/b", "b", "a/c"}, {"b", "c"}, {"a/b", "a0"},
	}
	for _, prefix := range []string{"", "a", "a/", "a/b", "a/b/", "a0", "b", "\xff", "none"} {
		t.Run(fmt.Sprintf("%q", prefix), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := open(t, Options{})
				live := follow(t, l.hub, prefix, store.Position{}, nil)
				other := follow(t, l.hub, "a/", store.Position{}, nil) // shares the hub, and for one prefix the group
				synctest.Wait()
				var want []store.Change
				for _, keys := range commits {
					l.commit(keys...)
					var kept []store.Event
					for _, key := range keys {
						if strings.HasPrefix(key, prefix) {
							kept = append(kept, store.Event{Key: key, Value: []byte("value")})
						}
					}
					if len(kept) > 0 {
						want = append(want, store.Change{Position: at(len(l.changes)), Events: kept})
					}
				}
				replayed := follow(t, l.hub, prefix, at(0), nil)
				synctest.Wait()
				require.Empty(t, cmp.Diff(slices.Insert(slices.Clone(want), 0, store.Change{Position: at(0)}), live.changes))
				require.Empty(t, cmp.Diff(append(slices.Clone(want), store.Change{Position: at(len(commits))}), replayed.changes))
				require.Equal(t, []int{0, 2, 3, 8, 10}, other.got())
			})
		})
	}
}

func TestEndedWatchIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{})
		prefixes := []string{"", "a", "a", "b", "ab", "a", "abc"}
		stop := make([]chan struct{}, len(prefixes))
		var all sync.WaitGroup
		for i, prefix := range prefixes {
			stop[i] = make(chan struct{})
			all.Go(func() {
				for range l.hub.Watch(t.Context(), prefix, store.Position{}) {
					<-stop[i]
					return
				}
			})
		}
		synctest.Wait()
		for n, i := range []int{2, 0, 6, 1, 3, 5, 4} { // neither first nor last
			require.Equal(t, len(prefixes)-n, l.hub.watchers())
			close(stop[i])
			synctest.Wait()
		}
		all.Wait()
		require.Empty(t, l.hub.watches.groups)
		require.Empty(t, l.hub.watches.lengths)
		l.commit("a")
	})
}

// A driver may publish revisions only. Every watch then reads each change from the log.
func TestAdvance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{})
		g := make(gate)
		slow := follow(t, l.hub, "a", store.Position{}, g.pause)
		all := follow(t, l.hub, "", store.Position{}, nil)
		other := follow(t, l.hub, "b", store.Position{}, nil)
		synctest.Wait()
		for range 5 {
			l.advance("a")
			l.commit("a")
		}
		g.open()
		synctest.Wait()
		require.Equal(t, span(0, 10), slow.got())
		require.Equal(t, span(0, 10), all.got())
		require.Equal(t, []int{0}, other.got())
		time.Sleep(time.Hour)
		require.Equal(t, []int{0, -10}, other.got())
	})
}

func TestEnds(t *testing.T) {
	cause := errors.New("the cause")
	ends := []struct {
		name string
		end  func(h *Hub, cancel context.CancelCauseFunc)
		want error
	}{
		{"cancel", func(_ *Hub, cancel context.CancelCauseFunc) { cancel(cause) }, cause},
		{"close", func(h *Hub, _ context.CancelCauseFunc) { h.Close(); h.Close() }, store.ErrClosed},
	}
	for _, end := range ends {
		// run calls when for each step of a watch, until it ends the watch.
		run := func(name string, want []int, before bool, when func(l *fakeLog, c store.Change) bool) {
			t.Run(end.name+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := open(t, Options{})
					for range 5 {
						l.commit("a")
					}
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					if before {
						end.end(l.hub, cancel)
					}
					var s seen
					began := time.Now()
					for c, err := range l.hub.Watch(ctx, "a", at(0)) {
						s.add(c, err)
						if err == nil && when(l, c) {
							end.end(l.hub, cancel)
						}
						if err == nil && c.Bookmark() && !before {
							time.AfterFunc(time.Minute, func() { end.end(l.hub, cancel) })
						}
					}
					require.Equal(t, want, s.got())
					require.ErrorIs(t, s.failed(), end.want)
					require.LessOrEqual(t, time.Since(began), time.Minute)
					require.Zero(t, l.hub.watchers())
				})
			})
		}
		never := func(*fakeLog, store.Change) bool { return false }
		run("before the loop", []int{}, true, never)
		run("while it waits", []int{1, 2, 3, 4, 5, -5}, false, never)
		run("in a replay", []int{1, 2}, false, func(_ *fakeLog, c store.Change) bool { return c.Position.Revision == 2 })
		run("with changes queued", []int{1, 2, 3, 4, 5, -5, 6, 7}, false, func(l *fakeLog, c store.Change) bool {
			if c.Bookmark() {
				for range 5 {
					l.commit("a")
				}
			}
			return c.Position.Revision == 7
		})
	}
}

func TestLogFails(t *testing.T) {
	l := open(t, Options{})
	l.commit("a")
	broken := errors.New("broken")
	l.err = broken
	for _, err := range l.hub.Watch(t.Context(), "a", at(0)) {
		require.ErrorIs(t, err, broken)
	}
}

// Each loop over one returned value is a watch of its own.
func TestTwoLoops(t *testing.T) {
	l := open(t, Options{})
	watch := l.hub.Watch(t.Context(), "a", store.Position{})
	for i := range 3 {
		for c, err := range watch {
			require.NoError(t, err)
			require.Equal(t, store.Change{Position: at(i)}, c)
			break
		}
		l.commit("a")
	}
}

func TestBadInput(t *testing.T) {
	l := open(t, Options{})
	err := l.hub.Check(store.Position{Epoch: strings.Repeat("epoch", 1000), Revision: 1})
	require.ErrorIs(t, err, store.ErrGone)
	require.Less(t, len(err.Error()), 300, "a token from outside does not flood a log")
	l.hub.Publish()
	require.Equal(t, at(0), l.hub.Position())
}

// TestConcurrent runs committers, and watches of all speeds that start and stop anywhere. It
// compares each watch with the log.
func TestConcurrent(t *testing.T) {
	const commits = 600
	l := open(t, Options{Queue: 8, Bookmarks: time.Millisecond})
	l.chunk = 16
	prefixes := []string{"", "a", "a/", "a/1", "a/2", "b", "c"}
	var all sync.WaitGroup
	for i := range 24 {
		random := rand.New(rand.NewPCG(uint64(i), 1))
		all.Go(func() {
			prefix := prefixes[i%len(prefixes)]
			cursor := at(0)
			var got []store.Change
			for cursor.Revision < commits {
				for c, err := range l.hub.Watch(t.Context(), prefix, cursor) {
					if err != nil {
						t.Error(err)
						return
					}
					if c.Position.Revision < cursor.Revision || (!c.Bookmark() && c.Position.Revision == cursor.Revision) {
						t.Errorf("%v after %v", c.Position, cursor)
					}
					cursor = c.Position
					if !c.Bookmark() {
						got = append(got, c)
					}
					for range random.IntN(1 + i*2) {
						runtime.Gosched()
					}
					if cursor.Revision >= commits || random.IntN(50) == 0 {
						break // resume at once
					}
				}
			}
			var want []store.Change
			for _, c := range l.changes[:commits] { // all writers have ended
				if c, ok := Filter(c, prefix); ok {
					want = append(want, c)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("watch %d of %q:\n%s", i, prefix, diff)
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	keys := []string{"a", "a/1", "a/2", "b", "d"}
	for range commits {
		random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		l.commit(keys[:1+random.IntN(3)]...)
		if random.IntN(4) == 0 {
			runtime.Gosched()
		}
	}
	all.Wait()
	require.Zero(t, l.hub.watchers())
}
