package follow_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/namespace/internal/follow"
)

func present(name, token string) namespace.Event {
	return namespace.Event{Type: namespace.EventPresent, Name: name, Token: token}
}

func synced(token string) namespace.Event {
	return namespace.Event{Type: namespace.EventSynced, Token: token}
}

// step is one watch: it yields events and ends with err, or if block is set with its
// context. Panics replaces err.
type step struct {
	events []namespace.Event
	err    error
	block  bool
	panics bool
}

func TestRun(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	failures := func(n int) []step {
		steps := make([]step, n)
		for i := range steps {
			steps[i].err = broken
		}
		return steps
	}
	for _, tt := range []struct {
		name   string
		steps  []step
		tokens []string // that the watches began after
		want   []string
	}{
		{
			"a listing, then changes",
			[]step{{events: []namespace.Event{present("a", "1"), present("b", ""), synced("3"), present("c", "4")}, block: true}},
			[]string{""},
			[]string{"listing", "item a", "item b", "complete", "change c"},
		}, {
			"resumed from the last token",
			[]step{{events: []namespace.Event{synced("3"), present("a", "4"), present("b", "")}, err: broken}, {events: []namespace.Event{synced("5")}, err: broken}, {block: true}},
			[]string{"", "4", "5"},
			[]string{"listing", "complete", "change a", "change b", "lost broken", "resumed", "lost broken"},
		}, {
			"a partial listing is not resumed",
			[]step{{events: []namespace.Event{present("a", "1")}, err: broken}, {events: []namespace.Event{present("a", "1"), synced("2")}, block: true}},
			[]string{"", ""},
			[]string{"listing", "item a", "lost broken", "listing", "item a", "complete", "resumed"},
		}, {
			"a token that is gone",
			[]step{{events: []namespace.Event{synced("1")}, err: broken}, {err: fmt.Errorf("x: %w", namespace.ErrGone)}, {events: []namespace.Event{synced("9")}, block: true}},
			[]string{"", "1", ""},
			[]string{"listing", "complete", "lost broken", "listing", "complete", "resumed"},
		}, {
			"a token that is refused",
			[]step{{events: []namespace.Event{synced("1")}, err: broken}, {err: namespace.ErrBadRequest}, {block: true}},
			[]string{"", "1", ""},
			[]string{"listing", "complete", "lost broken", "listing"},
		}, {
			"a token that fails too often",
			append(append([]step{{events: []namespace.Event{synced("1")}, err: broken}}, failures(8)...), step{block: true}),
			[]string{"", "1", "1", "1", "1", "1", "1", "1", "1", ""},
			[]string{"listing", "complete", "lost broken", "listing"},
		}, {
			"an end without a reason, and a panic",
			[]step{{}, {panics: true}, {events: []namespace.Event{synced("1")}, block: true}},
			[]string{"", "", ""},
			[]string{"listing", "lost the watch ended", "listing", "listing", "complete", "resumed"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tokens, got := play(t, 0, time.Hour, tt.steps)
				require.Equal(t, tt.tokens, tokens)
				require.Equal(t, tt.want, got)
			})
		})
	}
}

// A resync lists again at once, also while the watch is silent, and reports no loss.
func TestResync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listing := step{events: []namespace.Event{synced("1")}, block: true}
		tokens, got := play(t, time.Minute, 3*time.Minute+time.Second, []step{listing, listing, listing, {block: true}})
		require.Equal(t, []string{"", "", "", ""}, tokens)
		require.Equal(t, []string{"listing", "complete", "listing", "complete", "listing", "complete", "listing"}, got)
	})
}

// A resync is due Resync after the last listing, however often the watch was resumed since.
func TestResyncAfterResume(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tokens, _ := play(t, time.Minute, time.Minute+time.Second, []step{
			{events: []namespace.Event{synced("1")}, err: errors.New("broken")},
			{events: []namespace.Event{synced("2")}, block: true},
			{block: true},
		})
		require.Equal(t, []string{"", "1", ""}, tokens)
	})
}

// The backoff starts over after a watch that lived, and grows with watches that did not.
func TestBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var began []time.Duration
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		follow.Run(ctx, follow.Options{
			Watch: func(context.Context, string) iter.Seq2[namespace.Event, error] {
				began = append(began, time.Since(start).Round(time.Second))
				return func(yield func(namespace.Event, error) bool) {
					if len(began) == 5 {
						yield(synced("1"), nil)
						time.Sleep(20 * time.Second)
					}
				}
			},
			Backoff: backoff.Exponential{Min: time.Second, Max: time.Minute},
		}, drained(ctx))
		for i, bounds := range [][2]time.Duration{{0, 0}, {0, 1}, {2, 3}, {5, 7}, {11, 15}, {31, 36}, {32, 38}} {
			require.GreaterOrEqual(t, began[i], bounds[0]*time.Second, "watch %d of %v", i, began)
			require.LessOrEqual(t, began[i], bounds[1]*time.Second, "watch %d of %v", i, began)
		}
	})
}

// drained returns a channel that is read until ctx ends.
func drained(ctx context.Context) chan<- follow.Update {
	updates := make(chan follow.Update)
	go func() {
		for {
			select {
			case <-updates:
			case <-ctx.Done():
				return
			}
		}
	}()
	return updates
}

// play follows the watches in steps for some time. It returns the tokens after which they
// began, and the updates.
func play(t *testing.T, resync, length time.Duration, steps []step) (tokens, got []string) {
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	updates := make(chan follow.Update)
	done := make(chan struct{})
	go func() {
		defer close(done)
		follow.Run(ctx, follow.Options{
			Watch: func(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
				tokens = append(tokens, after)
				s := steps[len(tokens)-1]
				return func(yield func(namespace.Event, error) bool) {
					for _, e := range s.events {
						if !yield(e, nil) {
							return
						}
					}
					switch {
					case s.panics:
						panic("boom")
					case s.block:
						<-ctx.Done()
						yield(namespace.Event{}, context.Cause(ctx))
					case s.err != nil:
						yield(namespace.Event{}, s.err)
					}
				}
			},
			Backoff: backoff.Exponential{Min: time.Millisecond, Max: time.Second},
			Resync:  resync,
		}, updates)
	}()
	for {
		select {
		case u := <-updates:
			switch u.Kind {
			case follow.Listing:
				got = append(got, "listing")
			case follow.Item:
				got = append(got, "item "+u.Event.Name)
			case follow.Complete:
				got = append(got, "complete")
			case follow.Change:
				got = append(got, "change "+u.Event.Name)
			case follow.Lost:
				got = append(got, "lost "+u.Err.Error())
			case follow.Resumed:
				got = append(got, "resumed")
			}
		case <-done:
			return tokens, got
		}
	}
}
