package apiserver

import (
	"context"
	"sync"
	"time"
)

// readiness asks the host whether it is ready, once for all who want to know at a
// time: nobody has a slot for that, so that anybody could have the host asked any
// number of times at once.
type readiness struct {
	ask     func(context.Context) error
	timeout time.Duration

	mu      sync.Mutex
	present *asking // nil: nobody asks
}

// asking is one question of the host and its answer.
type asking struct {
	done  chan struct{}
	err   error
	known bool // false: who asked has left
}

// check returns what the host says. It asks in the goroutine of one of the requests;
// when the client of that leaves, another takes over.
func (r *readiness) check(client context.Context) error {
	ctx, cancel := context.WithTimeout(client, r.timeout)
	defer cancel()
	for ctx.Err() == nil {
		r.mu.Lock()
		a := r.present
		if a == nil {
			a = &asking{done: make(chan struct{})}
			r.present = a
			r.mu.Unlock()
			return r.lead(ctx, client, a)
		}
		r.mu.Unlock()
		select {
		case <-a.done:
			if a.known {
				return a.err
			}
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// lead asks for all.
func (r *readiness) lead(ctx, client context.Context, a *asking) error {
	defer func() { // also after a panic
		r.mu.Lock()
		r.present = nil
		r.mu.Unlock()
		close(a.done)
	}()
	a.err = r.ask(ctx)
	a.known = a.err == nil || client.Err() == nil
	return a.err
}
