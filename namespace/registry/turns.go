package registry

import (
	"context"
	"sync"
)

// turns has writers that get into each other's way go one after another. A write
// takes a turn at its namespace once another has overtaken it at what admission had
// join its commit, and from the start while others stand in line; so writes that
// do not meet pay nothing. It is about speed alone, and about the writers of one
// process: what is right is decided by the conditions of the commit.
type turns struct {
	mu   sync.Mutex
	line map[string]*line // of namespaces that somebody stands in line for
}

type line struct {
	people int           // with the turn or waiting for it
	turn   chan struct{} // holds one value while somebody has the turn
}

// turn is that of one write. The zero turn is never taken.
type turn struct {
	*turns
	namespace string
	held      *line
}

// take waits for the turn, if must says so or others stand in line.
func (t *turn) take(ctx context.Context, must bool) error {
	if t.turns == nil || t.held != nil {
		return nil
	}
	l := t.join(must)
	if l == nil {
		return nil
	}
	select {
	case l.turn <- struct{}{}:
		t.held = l
		return nil
	case <-ctx.Done():
		t.part(l)
		return context.Cause(ctx)
	}
}

// give lets the next one have the turn.
func (t *turn) give() {
	if t.held != nil {
		<-t.held.turn
		t.part(t.held)
		t.held = nil
	}
}

func (t *turn) join(must bool) *line {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.line[t.namespace]
	switch {
	case l == nil && !must:
		return nil
	case l == nil:
		if t.line == nil {
			t.line = map[string]*line{}
		}
		l = &line{turn: make(chan struct{}, 1)}
		t.line[t.namespace] = l
	}
	l.people++
	return l
}

func (t *turn) part(l *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.people--; l.people == 0 {
		delete(t.line, t.namespace)
	}
}
