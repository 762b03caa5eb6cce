package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// wait lets a request whose keys somebody holds take its turn apart from all
// others, when they are let go. Its caller may still withdraw it.
func (s *Store) wait(w waiter) {
	s.running.Go(func() {
		ctx, cancel := context.WithCancel(w.request.Ctx)
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
		err := s.await(ctx, w)
		switch {
		case err == nil:
		case s.ctx.Err() != nil:
			w.request.Finish(0, store.ErrClosed)
		case ctx.Err() != nil:
			w.request.Finish(0, context.Cause(w.request.Ctx))
		default:
			w.request.Finish(0, refusal(err))
		}
	})
}

// await is nil when the request has been answered.
func (s *Store) await(ctx context.Context, w waiter) error {
	held := slices.Clone(w.keys)
	slice := s.options.times.slice
	for failures := 0; ; {
		t, err := s.tryHeld(ctx, w.request, held, slice)
		switch {
		case err == nil && len(t.batch.waiting) > 0: // it met more keys that somebody holds
			s.queue.Recall(w.request)
			for _, key := range t.batch.waiting[0].keys {
				if !slices.Contains(held, key) {
					held = append(held, key)
				}
			}
		case err == nil:
			s.finish(t)
			return nil
		case t != nil && t.submitted:
			s.refuse([]*request{w.request}, t, err)
			return nil
		case ctx.Err() != nil:
			return err
		case timedOut(err):
			// Let others have the connection, then queue again, for longer: a place in the
			// queue that is given up too early is no use against holds that overlap.
			slice = min(2*slice, longWaits*s.options.times.slice)
		default:
			if failures++; failures == attempts {
				return err
			}
		}
	}
}

// longWaits is how many slices a request waits at a stretch that has waited long.
const longWaits = 64

// tryHeld waits for the keys, and for a slice of time only, so that many requests
// can share few connections; then it takes its turn. There is always a connection
// for those that have not waited long.
func (s *Store) tryHeld(ctx context.Context, r *request, held []string, slice time.Duration) (*turn, error) {
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
	t := s.newTurn(conn.Conn(), held)
	t.slice = slice
	return t, t.run(ctx, []*request{r})
}
