package postgres

import (
	"context"
	"slices"

	"github.com/nslifecycle/nslifecycle/store"
)

// wait lets a request whose keys somebody holds take its turn apart from all
// others, when they are let go. Its caller may still withdraw it.
func (s *Store) wait(w waiter) {
	s.running.Go(func() {
		ctx, cancel := context.WithCancel(w.request.ctx)
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
		err := s.await(ctx, w)
		switch {
		case err == nil:
		case s.ctx.Err() != nil:
			w.request.done <- answer{err: store.ErrClosed}
		case ctx.Err() != nil:
			w.request.done <- answer{err: context.Cause(w.request.ctx)}
		default:
			w.request.done <- answer{err: explain(err)}
		}
	})
}

// await is nil when the request has been answered.
func (s *Store) await(ctx context.Context, w waiter) error {
	held := slices.Clone(w.keys)
	for failures := 0; ; {
		t, err := s.tryHeld(ctx, w.request, held)
		switch {
		case err == nil && len(t.batch.waiting) > 0: // it met more keys that somebody holds
			s.queue.recall(w.request)
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
		case timedOut(err): // let others have the connection, then queue again
		default:
			if failures++; failures == attempts {
				return err
			}
		}
	}
}

// tryHeld waits for the keys, and for a moment only, so that many requests can
// share few connections; then it takes its turn.
func (s *Store) tryHeld(ctx context.Context, r *request, held []string) (*turn, error) {
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
	return t, t.run(ctx, []*request{r})
}
