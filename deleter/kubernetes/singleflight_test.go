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

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
)

// runs counts runs. Each takes a second of virtual time and returns its number.
type runs struct{ begun, on, most atomic.Int32 }

func (r *runs) run(ctx context.Context) (int32, error) {
	n := r.begun.Add(1)
	r.most.Store(max(r.most.Load(), r.on.Add(1)))
	defer r.on.Add(-1)
	if err := backoff.Sleep(ctx, time.Second); err != nil {
		return 0, err
	}
	return n, nil
}

// Callers that arrive during a run do not get its result, which may be older than their question.
// All of them share the next run.
func TestSingleflightIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f singleflight[int32]
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

// A caller that gives up returns at once. The run continues for the other callers, even if it is
// the caller that started it.
func TestSingleflightOutlivesCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f singleflight[int32]
		var r runs
		var group sync.WaitGroup
		gaveUp := errors.New("gave up")
		ctx, cancel := context.WithCancelCause(t.Context())
		group.Go(func() {
			began := time.Now()
			_, err := f.do(ctx, r.run)
			require.ErrorIs(t, err, gaveUp)
			require.Equal(t, time.Second/2, time.Since(began))
		})
		synctest.Wait() // the run has begun
		for range 5 {
			group.Go(func() {
				began := time.Now()
				n, err := f.do(t.Context(), r.run)
				require.NoError(t, err)
				require.EqualValues(t, 2, n)
				require.Equal(t, 3*time.Second/2, time.Since(began))
			})
		}
		time.Sleep(time.Second / 2)
		synctest.Wait()
		short, stop := context.WithTimeout(t.Context(), time.Second/4)
		defer stop()
		group.Go(func() {
			_, err := f.do(short, r.run)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		cancel(gaveUp)
		group.Wait()
		require.EqualValues(t, 2, r.begun.Load())
	})
}

// If the caller that started a run gives up, the others get the result of that run.
func TestSingleflightOfAnotherCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f singleflight[int32]
		var r runs
		var group sync.WaitGroup
		group.Go(func() { _, _ = f.do(t.Context(), r.run) })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		group.Go(func() {
			_, err := f.do(ctx, func(ctx context.Context) (int32, error) { return 100 + r.begun.Add(1), backoff.Sleep(ctx, time.Second) })
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		group.Go(func() {
			n, err := f.do(t.Context(), r.run)
			require.NoError(t, err)
			require.EqualValues(t, 102, n)
		})
		time.Sleep(3 * time.Second / 2) // the run is in progress
		cancel()
		group.Wait()
		require.EqualValues(t, 2, r.begun.Load())
	})
}

// A patient caller waits for two runs at most, the current one and the next, however many
// impatient callers come before and with it.
func TestSingleflightKeepsRemainingCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f singleflight[int32]
		var r runs
		slow := func(ctx context.Context) (int32, error) {
			if err := backoff.Sleep(ctx, 9*time.Second); err != nil {
				return 0, err
			}
			return r.run(ctx)
		}
		over, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for i := range 20 {
			group.Go(func() {
				time.Sleep(time.Duration(i) * 17 * time.Millisecond)
				for over.Err() == nil {
					ctx, cancel := context.WithTimeout(over, 5*time.Second)
					_, _ = f.do(ctx, slow)
					cancel()
				}
			})
		}
		time.Sleep(time.Minute)
		for range 5 {
			began := time.Now()
			_, err := f.do(t.Context(), slow)
			require.NoError(t, err)
			require.LessOrEqual(t, time.Since(began), 20*time.Second)
		}
		stop()
		group.Wait()
	})
}

// When the last caller gives up, it cancels the run with its own cause and waits for its end.
// Later callers get the next run.
func TestSingleflightEndsWithLastCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var f singleflight[int]
		var group sync.WaitGroup
		stopped := errors.New("stopped")
		ended := false
		run := func(ctx context.Context) (int, error) {
			require.Equal(t, "of the caller that started the run", ctx.Value(key{}))
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), stopped)
			time.Sleep(time.Second) // takes some time to end
			ended = true
			return 0, ctx.Err()
		}
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "of the caller that started the run"))
		group.Go(func() {
			_, err := f.do(ctx, run)
			require.ErrorIs(t, err, stopped)
			require.True(t, ended, "the run outlives its callers")
		})
		synctest.Wait()
		group.Go(func() {
			n, err := f.do(t.Context(), func(context.Context) (int, error) { return 7, nil })
			require.NoError(t, err)
			require.Equal(t, 7, n)
			require.True(t, ended, "two runs at once")
		})
		synctest.Wait()
		cancel(stopped)
		group.Wait()
	})
}

// A run without waiting callers does not begin.
func TestSingleflightWithoutCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f singleflight[int32]
		var r runs
		var group sync.WaitGroup
		group.Go(func() { _, _ = f.do(t.Context(), r.run) })
		synctest.Wait()
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			defer cancel()
			group.Go(func() { _, _ = f.do(ctx, r.run) })
		}
		group.Wait()
		synctest.Wait()
		require.EqualValues(t, 1, r.begun.Load())
		require.Nil(t, f.current)
		require.Nil(t, f.next)
	})
}

// Callers share failures, but not the end of another caller's context.
func TestSingleflightSharesFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f singleflight[int]
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

func TestSingleflightReturnsWhenContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f singleflight[int32]
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
			require.Zero(t, time.Since(began), "the caller waited for the run of another one")
		})
		synctest.Wait()
		cancel(stopped)
		group.Wait()
		_, err := f.do(ctx, r.run)
		require.ErrorIs(t, err, stopped)
		require.EqualValues(t, 1, r.begun.Load())
	})
}

// A run that panics returns an error to all its callers and does not block later runs.
func TestSingleflightSurvivesPanics(t *testing.T) {
	broken := errors.New("broken")
	for what, c := range map[string]struct {
		run  func(context.Context) (int, error)
		want func(*testing.T, error)
	}{
		"panic": {func(context.Context) (int, error) { panic(broken) }, func(t *testing.T, err error) {
			var p *deleter.PanicError
			require.ErrorAs(t, err, &p)
			require.ErrorIs(t, err, broken)
			require.Contains(t, string(p.Stack), "TestSingleflightSurvivesPanics")
		}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f singleflight[int]
				var r runs
				var group sync.WaitGroup
				group.Go(func() {
					_, _ = f.do(t.Context(), func(ctx context.Context) (int, error) { return 0, backoff.Sleep(ctx, time.Second) })
				})
				synctest.Wait()
				for range 5 {
					group.Go(func() {
						_, err := f.do(t.Context(), func(ctx context.Context) (int, error) { r.begun.Add(1); return c.run(ctx) })
						c.want(t, err)
					})
				}
				group.Wait()
				require.EqualValues(t, 1, r.begun.Load())
				n, err := f.do(t.Context(), func(context.Context) (int, error) { return 7, nil })
				require.NoError(t, err)
				require.Equal(t, 7, n)
			})
		})
	}
}

// In any interleaving there is one run at a time, and no caller gets a run that began before its
// call.
func TestSingleflightUnderLoad(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var f singleflight[int64]
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
	if f.current != nil || f.next != nil || on.Load() != 0 {
		t.Error("a run outlives its callers")
	}
}
