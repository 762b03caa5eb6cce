package keylock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func (o *Owner) holds(key string) bool {
	return slices.ContainsFunc(o.held, func(h heldLock) bool { return h.key == key })
}

func TestLocksAreFIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locks Locks
		first := locks.Owner()
		require.False(t, first.Waits("x"), "the key is not locked")
		require.NoError(t, first.Lock(t.Context()))
		require.Empty(t, locks.locks)
		require.NoError(t, first.Lock(t.Context(), "x", "y", "z"))
		require.NoError(t, first.Lock(t.Context(), "x"), "Lock is idempotent")
		require.False(t, first.Waits("x"), "it holds the lock itself")
		other := locks.Owner()
		require.True(t, other.Waits("x"))
		require.False(t, other.Waits("w"))
		require.NoError(t, other.Lock(t.Context(), "w"), "each key has its own lock")
		other.Unlock()

		var mu sync.Mutex
		var order []int
		var waiting sync.WaitGroup
		for i := range 4 {
			waiting.Go(func() {
				next := locks.Owner()
				if err := next.Lock(t.Context(), "x"); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				next.Unlock()
			})
			synctest.Wait() // it waits
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("canceled")
		waiting.Go(func() {
			late := locks.Owner()
			if err := late.Lock(ctx, "w", "x"); !errors.Is(err, cause) || !late.holds("w") || late.holds("x") {
				t.Errorf("Lock with a canceled context: %v", err)
			}
			late.Unlock()
		})
		synctest.Wait()
		cancel(cause)
		synctest.Wait()
		require.Empty(t, order, "the first owner still holds the lock")
		first.Unlock()
		waiting.Wait()
		require.Equal(t, []int{0, 1, 2, 3}, order)
		require.Empty(t, locks.locks, "no lock is left")
	})
}

func TestOwnersOfSeveralLocksDoNotDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locks Locks
		var running sync.WaitGroup
		counts := map[string]*int{"a": new(int), "b": new(int), "c": new(int)} // each is guarded by its lock
		for _, keys := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a", "c"}, {"c", "a"}} {
			running.Go(func() {
				for range 50 {
					o := locks.Owner()
					for i, key := range keys {
						if err := o.Lock(t.Context(), key); err != nil {
							t.Error(err)
						}
						time.Sleep(time.Millisecond) // in virtual time: the others run
						for _, key := range keys[:i+1] {
							*counts[key]++
							if !o.holds(key) {
								t.Errorf("the lock of %s is lost", key)
							}
						}
					}
					o.Unlock()
				}
			})
		}
		running.Wait()
		require.Empty(t, locks.locks)
		require.Equal(t, []int{50 * (3 + 1 + 2 + 1), 50 * (2 + 2 + 3), 50 * (1 + 3 + 1 + 2)}, []int{*counts["a"], *counts["b"], *counts["c"]})
	})
}

func TestZeroOwnerNeverWaits(t *testing.T) {
	var zero Owner
	require.NoError(t, zero.Lock(t.Context(), "x"))
	require.Empty(t, zero.held)
	require.False(t, zero.Waits("x"))
	zero.Unlock()
}
