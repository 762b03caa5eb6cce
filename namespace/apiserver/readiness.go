package apiserver

import (
	"context"
	"sync"
	"time"
)

// readyFor is how long a readiness result is cached.
const readyFor = time.Second

// readiness checks whether the store and the host are ready. Concurrent probes share one
// check, and a result is cached for readyFor: probes take no slot, so a client could send
// any number of them.
type readiness struct {
	ask     func(context.Context) error
	timeout time.Duration

	mu      sync.Mutex
	present *asking // nil: nobody asks
	last    error   // the last answer
	until   time.Time
}

// asking is one question of the host and its answer.
type asking struct {
	done  chan struct{}
	err   error
	known bool // false: who asked has left
}

// check returns the reason why the server is not ready, or nil. One of the waiting requests
// does the check in its goroutine; if its client disconnects, another takes over.
func (r *readiness) check(client context.Context) error {
	ctx, cancel := context.WithTimeout(client, r.timeout)
	defer cancel()
	for ctx.Err() == nil {
		r.mu.Lock()
		if time.Now().Before(r.until) {
			defer r.mu.Unlock()
			return r.last
		}
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
		if r.present = nil; a.known {
			r.last, r.until = a.err, time.Now().Add(readyFor)
		}
		r.mu.Unlock()
		close(a.done)
	}()
	a.err = r.ask(ctx)
	a.known = a.err == nil || client.Err() == nil
	return a.err
}
