package flow_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/flow"
)

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := flow.NewBudget(100)
		soon := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			t.Cleanup(cancel)
			return ctx
		}
		a := b.Lease("a")
		require.ErrorIs(t, a.Grow(soon(), 51), flow.ErrTooHeavy)
		require.NoError(t, a.Grow(soon(), 30))
		require.NoError(t, a.Grow(soon(), 20), "it has that")

		again := b.Lease("a")
		start := time.Now()
		require.ErrorIs(t, again.Grow(soon(), 21), flow.ErrTooMany, "more than the share of the client")
		require.Equal(t, time.Second, time.Since(start), "it waited")
		require.NoError(t, again.Grow(soon(), 20))
		start = time.Now()
		require.ErrorIs(t, again.Grow(soon(), 21), flow.ErrTooMany)
		require.Zero(t, time.Since(start), "a lease that holds something does not wait")

		other := b.Lease("b")
		require.NoError(t, other.Grow(soon(), 50))
		third := b.Lease("c")
		require.ErrorIs(t, third.Grow(soon(), 1), flow.ErrTooMany, "all is taken")
		shrunk := make(chan struct{})
		time.AfterFunc(time.Millisecond, func() {
			a.Shrink(10)
			close(shrunk)
		})
		require.NoError(t, third.Grow(soon(), 20), "it waited for what was given back")
		<-shrunk
		for _, l := range []*flow.Lease{a, again, other, third} {
			l.Release()
		}
		whole := []*flow.Lease{b.Lease("a"), b.Lease("b")}
		for _, l := range whole {
			require.NoError(t, l.Grow(soon(), 50), "all was given back")
			l.Release()
		}
	})
}

// A lease that holds something grows while there is room, whoever waits: so requests that
// have begun come to their end, and give back what others wait for.
func TestBudgetGrowsPastTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := flow.NewBudget(100)
		begun, other := b.Lease("a"), b.Lease("b")
		require.NoError(t, begun.Grow(t.Context(), 30))
		require.NoError(t, other.Grow(t.Context(), 50))
		ctx, cancel := context.WithCancel(t.Context())
		heavy, light, same := b.Lease("c"), b.Lease("d"), b.Lease("a")
		results := make(chan error, 3)
		go func() { results <- heavy.Grow(ctx, 30) }()
		synctest.Wait()
		go func() { results <- light.Grow(t.Context(), 10) }()
		synctest.Wait()
		go func() { results <- same.Grow(t.Context(), 40) }()
		synctest.Wait()
		require.NoError(t, begun.Grow(t.Context(), 35))
		require.Empty(t, results, "all wait in their turn")
		cancel()
		require.ErrorIs(t, <-results, flow.ErrTooMany)
		require.NoError(t, <-results, "it waited for the one before it only")
		begun.Release()
		require.NoError(t, <-results)
		for _, l := range []*flow.Lease{other, heavy, light, same} {
			l.Release()
		}
		whole := b.Lease("a")
		require.NoError(t, whole.Grow(t.Context(), 50))
	})
}

// Whatever the interleaving, no more is held than there is, and all is given back.
func TestBudgetUnderLoad(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	b := flow.NewBudget(100)
	var held atomic.Int64
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			for range 200 {
				l := b.Lease(string(rune('a' + random.IntN(3))))
				var mine int64
				for range 3 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(500))*time.Microsecond)
					if want := mine + random.Int64N(30); l.Grow(ctx, want) == nil && want > mine {
						if held.Add(want-mine) > 100 {
							t.Error("more is held than there is")
						}
						mine = want
					}
					cancel()
				}
				held.Add(-mine)
				l.Release()
			}
		})
	}
	running.Wait()
	for _, client := range []string{"x", "y"} {
		l := b.Lease(client)
		require.NoError(t, l.Grow(t.Context(), 50))
		defer l.Release()
	}
}
