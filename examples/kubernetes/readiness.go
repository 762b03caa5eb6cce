package main

import "sync"

// readiness is whether the agent does what it is there for. The zero readiness is
// not: it has not begun.
type readiness struct {
	mu     sync.Mutex
	ready  bool
	reason string // why not
}

// set takes up why the agent is not ready, empty: it is. It reports whether that is
// news.
func (r *readiness) set(reason string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	news := r.ready != (reason == "") || alike(r.reason) != alike(reason)
	r.ready, r.reason = reason == "", reason
	return news
}

// get returns why the agent is not ready; empty: it is.
func (r *readiness) get() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ready && r.reason == "" {
		return "it has only begun"
	}
	return r.reason
}
