package flow

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Limiter bounds how many requests are served at once. All methods are safe for
// concurrent use. Make one with [New].
//
// A slot that becomes free goes to the clients that wait in turns, to each for one
// request, however many each has waiting. No client has more than its share of the
// slots, so that a newcomer never finds all of them with one client. When the queue
// is full a newcomer takes the place of the latest request of whoever has the most
// waiting.
type Limiter struct {
	o Options

	mu      sync.Mutex
	free    int
	clients map[string]*client // those that have a slot or wait
	turns   list.List          // of *client: they wait, and may have another slot
	waiting int                // of all clients
	ranks   []list.List        // of *client: those with so many waiting
	longest int                // the last rank that is not empty; zero: nobody waits
}

// client is one client that is served or waits.
type client struct {
	name    string
	served  int
	queue   list.List     // of *waiter, oldest first
	turn    *list.Element // in turns; nil: not there
	ranking *list.Element // in ranks[queue.Len()]; nil: nothing waits
}

// waiter is one request that waits.
type waiter struct {
	client *client
	place  *list.Element // in the client's queue; nil: it was answered
	answer chan bool     // gets whether it has a slot, once
}

// Slot is the permission to serve one request. Give it back by Release, once.
type Slot struct {
	limiter *Limiter
	client  *client
}

// New returns a limiter with all slots free.
func New(o Options) *Limiter {
	o = o.withDefaults()
	return &Limiter{o: o, free: o.Slots, clients: map[string]*client{}, ranks: make([]list.List, o.Share+1)}
}

// Acquire returns a slot for a request of a client, at once or after a wait of at
// most Options.Wait. The error is [ErrTooMany], or the cause of ctx when that
// ended first.
func (l *Limiter) Acquire(ctx context.Context, name string) (Slot, error) {
	if ctx.Err() != nil {
		return Slot{}, context.Cause(ctx)
	}
	l.mu.Lock()
	c := l.client(name)
	if l.free > 0 && c.served < l.o.Share { // then nobody waits who could have it
		l.free--
		c.served++
		l.mu.Unlock()
		return Slot{l, c}, nil
	}
	w := l.enqueue(c)
	l.mu.Unlock()
	if w == nil {
		return Slot{}, ErrTooMany
	}
	return l.wait(ctx, w)
}

// Release gives the slot back.
func (s Slot) Release() {
	l := s.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free++
	s.client.served--
	l.arrange(s.client)
	l.serve()
}

// Usage returns how many requests are served, how many wait, and of how many
// clients they are.
func (l *Limiter) Usage() (served, waiting, clients int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.o.Slots - l.free, l.waiting, len(l.clients)
}

// wait waits for the answer to w.
func (l *Limiter) wait(ctx context.Context, w *waiter) (Slot, error) {
	timer := time.NewTimer(l.o.Wait)
	defer timer.Stop()
	err := ErrTooMany
	select {
	case ok := <-w.answer:
		return w.slot(l, ok)
	case <-timer.C:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	l.mu.Lock()
	left := w.place != nil
	if left {
		l.remove(w)
	}
	l.mu.Unlock()
	if left {
		return Slot{}, err
	}
	slot, refused := w.slot(l, <-w.answer) // it came at the same time
	if refused == nil && ctx.Err() != nil {
		slot.Release()
		return Slot{}, context.Cause(ctx)
	}
	return slot, refused
}

func (w *waiter) slot(l *Limiter, ok bool) (Slot, error) {
	if !ok {
		return Slot{}, ErrTooMany
	}
	return Slot{l, w.client}, nil
}

func (l *Limiter) client(name string) *client {
	c := l.clients[name]
	if c == nil {
		c = &client{name: name}
		l.clients[name] = c
	}
	return c
}

// enqueue has a request of c wait, or returns nil when there is no room for it.
func (l *Limiter) enqueue(c *client) *waiter {
	if c.queue.Len() >= l.o.Share || l.waiting >= l.o.Queue && !l.makeRoom(c) {
		l.arrange(c)
		return nil
	}
	w := &waiter{client: c, answer: make(chan bool, 1)}
	l.unrank(c)
	w.place = c.queue.PushBack(w)
	l.waiting++
	l.arrange(c)
	return w
}

// makeRoom refuses the latest request of the client with the most of them, if that
// has more than c would have.
func (l *Limiter) makeRoom(c *client) bool {
	if l.longest <= c.queue.Len()+1 {
		return false
	}
	most := l.ranks[l.longest].Front().Value.(*client)
	w := most.queue.Back().Value.(*waiter)
	l.remove(w)
	w.answer <- false
	return true
}

// serve gives the free slots to those who wait, in turns.
func (l *Limiter) serve() {
	for l.free > 0 && l.turns.Len() > 0 {
		c := l.turns.Front().Value.(*client)
		l.turns.Remove(c.turn) // and to the end of it, if there is more
		c.turn = nil
		w := c.queue.Front().Value.(*waiter)
		l.free--
		c.served++
		l.remove(w)
		w.answer <- true
	}
}

// remove takes w from the queue.
func (l *Limiter) remove(w *waiter) {
	c := w.client
	l.unrank(c)
	c.queue.Remove(w.place)
	w.place = nil
	l.waiting--
	l.arrange(c)
}

// unrank takes c out of its rank, before its queue changes; arrange puts it back.
func (l *Limiter) unrank(c *client) {
	if c.ranking != nil {
		l.ranks[c.queue.Len()].Remove(c.ranking)
		c.ranking = nil
	}
}

// arrange puts c where it belongs after a change of what it has.
func (l *Limiter) arrange(c *client) {
	n := c.queue.Len()
	if n > 0 && c.ranking == nil {
		c.ranking = l.ranks[n].PushBack(c)
		l.longest = max(l.longest, n)
	}
	for l.longest > 0 && l.ranks[l.longest].Len() == 0 { // by one, for each that came
		l.longest--
	}
	switch eligible := n > 0 && c.served < l.o.Share; {
	case eligible && c.turn == nil:
		c.turn = l.turns.PushBack(c)
	case !eligible && c.turn != nil:
		l.turns.Remove(c.turn)
		c.turn = nil
	}
	if n == 0 && c.served == 0 {
		delete(l.clients, c.name)
	}
}
