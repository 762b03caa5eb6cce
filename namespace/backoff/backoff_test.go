package backoff_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/backoff"
)

func TestBound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		min, max time.Duration
		failures int
		want     time.Duration
	}{
		{10, 1000, 0, 10},
		{10, 1000, -1, 10},
		{10, 1000, 1, 20},
		{10, 1000, 6, 640},
		{10, 1000, 7, 1000},
		{10, 1000, math.MaxInt, 1000},
		{10, 10, 3, 10},
		{10, 5, 0, 5},
		{1, math.MaxInt64, 62, 1 << 62},
		{1, math.MaxInt64, 63, math.MaxInt64},
		{3, math.MaxInt64, 62, math.MaxInt64},
	} {
		got := backoff.Exponential{Min: tt.min, Max: tt.max}.Bound(tt.failures)
		require.Equal(t, tt.want, got, "Min %d, Max %d, %d failures", tt.min, tt.max, tt.failures)
	}
}

func TestDelayStaysWithinAQuarterOfBound(t *testing.T) {
	t.Parallel()
	e := backoff.Exponential{Min: time.Nanosecond, Max: time.Minute}
	for failures := range 70 {
		bound, seen := e.Bound(failures), map[time.Duration]bool{}
		for range 100 {
			d := e.Delay(failures)
			require.LessOrEqual(t, d, bound)
			require.GreaterOrEqual(t, d, bound-bound/4)
			seen[d] = true
		}
		if bound > time.Microsecond {
			require.Greater(t, len(seen), 10, "the delay after %d failures is not random", failures)
		}
	}
}

func TestSleepConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		longest := map[int]time.Duration{}
		for attempt := range 12 {
			for range 200 {
				began := time.Now()
				require.NoError(t, backoff.SleepConflict(t.Context(), attempt))
				longest[attempt] = max(longest[attempt], time.Since(began))
			}
		}
		require.Zero(t, longest[0])
		require.Zero(t, longest[1])
		for attempt := 2; attempt < 12; attempt++ {
			bound := min(time.Millisecond<<(attempt-2), 50*time.Millisecond)
			require.Less(t, longest[attempt], bound)
			require.Greater(t, longest[attempt], bound/2)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, backoff.SleepConflict(ctx, 0), context.Canceled)
		require.ErrorIs(t, backoff.SleepConflict(ctx, 9), context.Canceled)
	})
}

func TestSleep(t *testing.T) {
	t.Parallel()
	cause := errors.New("enough")
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, backoff.Sleep(t.Context(), time.Hour))
		require.Equal(t, time.Hour, time.Since(began))

		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(cause) })
		began = time.Now()
		require.ErrorIs(t, backoff.Sleep(ctx, time.Hour), cause)
		require.Equal(t, time.Minute, time.Since(began))
		require.ErrorIs(t, backoff.Sleep(ctx, 0), cause)

		began = time.Now()
		require.NoError(t, backoff.Sleep(t.Context(), 0))
		require.NoError(t, backoff.Sleep(t.Context(), -time.Second))
		require.Zero(t, time.Since(began))
	})
}
