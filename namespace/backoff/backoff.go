// Package backoff computes the delays between retries and waits for them.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Exponential is a delay that doubles with each failure, from Min up to Max. Min must be
// positive. If Max is less than Min, every delay is at most Max.
//
//	e := backoff.Exponential{Min: 10 * time.Millisecond, Max: time.Minute}
//	for failures := 0; ; failures++ {
//		if err := try(ctx); err == nil {
//			return nil
//		}
//		if err := backoff.Sleep(ctx, e.Delay(failures)); err != nil {
//			return err
//		}
//	}
type Exponential struct {
	Min, Max time.Duration
}

// Delay returns the delay after the given number of earlier failures: between three
// quarters of [Exponential.Bound] and Bound, at random so that retries after simultaneous
// failures spread out.
func (e Exponential) Delay(failures int) time.Duration {
	bound := e.Bound(failures)
	return bound - rand.N(bound/4+1)
}

// Bound returns Min doubled once for each failure, at most Max. It does not overflow.
func (e Exponential) Bound(failures int) time.Duration {
	if failures = max(failures, 0); failures > 62 || e.Min > e.Max>>failures {
		return e.Max
	}
	return e.Min << failures
}

// SleepConflict waits before an attempt, counted from zero, of a compare-and-swap whose
// earlier attempts lost against other writers: the first two attempts begin at once, the
// others after a random time of less than 1 ms, 2 ms, 4 ms and so on up to 50 ms. If ctx
// ends first, it returns ctx's cause.
func SleepConflict(ctx context.Context, attempt int) error {
	if attempt < 2 {
		return Sleep(ctx, 0)
	}
	return Sleep(ctx, rand.N(Exponential{Min: time.Millisecond, Max: 50 * time.Millisecond}.Bound(attempt-2)))
}

// Sleep waits for d and returns nil. If ctx ends first, it returns ctx's cause. If d is
// not positive, it returns ctx's cause or nil at once.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
