package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// commitBlocked commits a request in a transaction of its own once its keys are no longer held.
// Its caller may still withdraw it.
func (s *Store) commitBlocked(b blocked) {
	s.running.Go(func() {
		ctx, cancel := context.WithCancel(b.request.Ctx)
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
		err := s.retryBlocked(ctx, b)
		switch {
		case err == nil:
		case s.ctx.Err() != nil:
			b.request.Finish(0, store.ErrClosed)
		case ctx.Err() != nil:
			b.request.Finish(0, context.Cause(b.request.Ctx))
		default:
			b.request.Finish(0, refusal(err))
		}
	})
}

// retryBlocked returns nil if the request is finished.
func (s *Store) retryBlocked(ctx context.Context, b blocked) error {
	held := slices.Clone(b.keys)
	slice := s.options.times.slice
	for failures := 0; ; {
		t, err := s.tryBlocked(ctx, b.request, held, slice)
		switch {
		case err == nil && len(t.batch.waiting) > 0: // it needs more keys that are held
			s.queue.Recall(b.request)
			for _, key := range t.batch.waiting[0].keys {
				if !slices.Contains(held, key) {
					held = append(held, key)
				}
			}
		case err == nil:
			s.finish(t)
			return nil
		case t != nil && t.submitted:
			s.refuse([]*request{b.request}, t, err)
			return nil
		case ctx.Err() != nil:
			return err
		case timedOut(err):
			// Let other requests have the connection, then wait again for longer: the end of a
			// slice gives up the place in the lock queue, which overlapping holds then take.
			slice = min(2*slice, longWaits*s.options.times.slice)
		default:
			if failures++; failures == attempts {
				return err
			}
		}
	}
}

// longWaits is the longest wait, in slices.
const longWaits = 64

// tryBlocked waits for the keys and commits the request. It waits for a slice of time only, so
// that many requests can share few connections. One connection is reserved for short slices.
func (s *Store) tryBlocked(ctx context.Context, r *request, held []string, slice time.Duration) (*writeTx, error) {
	if slice > s.options.times.slice {
		select {
		case s.long <- struct{}{}:
			defer func() { <-s.long }()
		default:
			slice = s.options.times.slice
		}
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.slots }()
	conn, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	t := s.newWriteTx(conn.Conn(), held)
	t.slice = slice
	return t, t.run(ctx, []*request{r})
}
