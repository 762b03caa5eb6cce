package kubernetes

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// runs counts runs; each takes a second of virtual time and returns its number.
type runs struct{ begun, on, most atomic.Int32 }

func (r *runs) run(ctx context.Context) (int32, error) {
	n := r.begun.Add(1)
	r.most.Store(max(r.most.Load(), r.on.Add(1)))
	defer r.on.Add(-1)
	if err := sleep(ctx, time.Second); err != nil {
		return 0, err
	}
	return n, nil
}

// Those who come while a run is on do not get its outcome, which may be older than
// their question; all of them share the next.
func TestFlightIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flight[int32]
		var r runs
		var group sync.WaitGroup
		group.Go(func() {
			n, err := f.do(t.Context(), r.run)
			require.NoError(t, err)
			require.EqualValues(t, 1, n)
		})
		time.Sleep(time.Millisecond)
		for range 100 {
			group.Go(func() {
				n, err := f.do(t.Context(), r.run)
				require.NoError(t, err)
				require.EqualValues(t, 2, n)
			})
		}
		group.Wait()
		require.EqualValues(t, 2, r.begun.Load())
		require.EqualValues(t, 1, r.most.Load())
	})
}

// A caller that gives up takes nobody with it: the others share another run.
func TestFlightOutlivesTheCallerThatMadeIt(t *testing.T) {
	gaveUp := errors.New("gave up")
	for what, give := range map[string]func(cancel context.CancelCauseFunc){
		"its context ends": func(cancel context.CancelCauseFunc) { cancel(gaveUp) },
		"it panics":        func(context.CancelCauseFunc) { panic(gaveUp) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f flight[int32]
				var r runs
				var group sync.WaitGroup
				var lost atomic.Int32
				group.Go(func() { _, _ = f.do(t.Context(), r.run) })
				synctest.Wait()
				for range 5 {
					group.Go(func() {
						defer func() {
							if recover() != nil {
								lost.Add(1)
							}
						}()
						ctx, cancel := context.WithCancelCause(t.Context())
						defer cancel(nil)
						n, err := f.do(ctx, func(ctx context.Context) (int32, error) {
							n, err := r.run(ctx)
							if n == 2 {
								give(cancel)
								return 0, context.Cause(ctx)
							}
							return n, err
						})
						if err != nil {
							require.ErrorIs(t, err, gaveUp)
							lost.Add(1)
							return
						}
						require.EqualValues(t, 3, n)
					})
				}
				group.Wait()
				require.EqualValues(t, 1, lost.Load())
				require.EqualValues(t, 3, r.begun.Load())
			})
		})
	}
}

// Failures are shared as well, but not the end of another's context.
func TestFlightSharesFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flight[int]
		refused := errors.New("refused")
		calls := 0
		var group sync.WaitGroup
		release := make(chan struct{})
		group.Go(func() {
			_, _ = f.do(t.Context(), func(context.Context) (int, error) { <-release; return 0, nil })
		})
		synctest.Wait()
		for range 5 {
			group.Go(func() {
				_, err := f.do(t.Context(), func(context.Context) (int, error) { calls++; return 0, refused })
				require.ErrorIs(t, err, refused)
			})
		}
		synctest.Wait()
		close(release)
		group.Wait()
		require.Equal(t, 1, calls)
	})
}

func TestFlightReturnsWhenTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flight[int32]
		var r runs
		var group sync.WaitGroup
		group.Go(func() { _, _ = f.do(t.Context(), r.run) })
		time.Sleep(time.Millisecond)
		stopped := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		group.Go(func() {
			began := time.Now()
			_, err := f.do(ctx, r.run)
			require.ErrorIs(t, err, stopped)
			require.Zero(t, time.Since(began), "it waited for another's run")
		})
		synctest.Wait()
		cancel(stopped)
		group.Wait()
		_, err := f.do(ctx, r.run)
		require.ErrorIs(t, err, stopped)
		require.EqualValues(t, 1, r.begun.Load())
	})
}

// A run that panics does not block those that come after it.
func TestFlightSurvivesPanics(t *testing.T) {
	var f flight[int]
	require.Panics(t, func() {
		_, _ = f.do(t.Context(), func(context.Context) (int, error) { panic("broken") })
	})
	n, err := f.do(t.Context(), func(context.Context) (int, error) { return 7, nil })
	require.NoError(t, err)
	require.Equal(t, 7, n)
}

// Whatever the interleaving: one run at a time, and none that began before the call.
func TestFlightUnderLoad(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var f flight[int64]
	var clock, on atomic.Int64
	var group sync.WaitGroup
	for i := range 8 {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		group.Go(func() {
			for range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(4) == 0 {
					go cancel()
				}
				called := clock.Add(1)
				began, err := f.do(ctx, func(ctx context.Context) (int64, error) {
					if on.Add(1) != 1 {
						t.Error("two runs at once")
					}
					defer on.Add(-1)
					return clock.Add(1), ctx.Err()
				})
				if err == nil && began <= called {
					t.Errorf("called at %d, answered by the run that began at %d", called, began)
				}
				if err != nil && ctx.Err() == nil {
					t.Errorf("another's context: %v", err)
				}
				cancel()
			}
		})
	}
	group.Wait()
}
