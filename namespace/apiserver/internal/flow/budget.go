package flow

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// ErrTooHeavy refuses an amount that exceeds the share of a client.
var ErrTooHeavy = errors.New("the request takes too much memory")

// Budget bounds an amount that clients take for a time, such as bytes of memory. No client
// has more than half of it. All methods are safe for concurrent use. Make one with
// [NewBudget].
type Budget struct {
	share int64

	mu      sync.Mutex
	free    int64
	clients map[string]*account
	waiting list.List // of *claim, in the order of their arrival
}

// account is the part of a client.
type account struct {
	held   int64
	leases int
}

// claim is a lease that waits for an amount.
type claim struct {
	lease   *Lease
	amount  int64
	granted chan struct{}
}

// NewBudget returns a budget of an amount.
func NewBudget(amount int64) *Budget {
	return &Budget{share: max(1, amount/2), free: amount, clients: map[string]*account{}}
}

// Lease returns a lease of a client, which holds nothing yet. Release it at the end.
func (b *Budget) Lease(client string) *Lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.clients[client]
	if a == nil {
		a = &account{}
		b.clients[client] = a
	}
	a.leases++
	return &Lease{budget: b, client: client, account: a}
}

// Lease is what one request holds of a [Budget]. It is for one goroutine.
type Lease struct {
	budget  *Budget
	client  string
	account *account
	held    int64
}

// Grow lets the lease hold at least an amount in all. A lease that holds nothing waits
// for it in its turn until ctx ends. One that holds something does not wait, because those
// that it would wait for may wait for it; it gets what is free before those that wait. The
// error is [ErrTooMany] if the budget is taken, and [ErrTooHeavy] if the amount is more than
// the share of a client.
func (l *Lease) Grow(ctx context.Context, amount int64) error {
	b := l.budget
	if amount <= l.held {
		return nil
	}
	if amount > b.share {
		return ErrTooHeavy
	}
	b.mu.Lock()
	more := amount - l.held
	fits := l.account.held+more <= b.share && more <= b.free
	switch {
	case fits && (l.held > 0 || b.waiting.Len() == 0):
		l.take(more)
		b.mu.Unlock()
		return nil
	case l.held > 0:
		b.mu.Unlock()
		return ErrTooMany
	}
	c := &claim{lease: l, amount: amount, granted: make(chan struct{})}
	place := b.waiting.PushBack(c)
	b.grant()
	b.mu.Unlock()
	select {
	case <-c.granted:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.held > 0 { // granted meanwhile
		return nil
	}
	b.waiting.Remove(place)
	b.grant() // those behind it
	return ErrTooMany
}

// take moves an amount that is free to the lease. The caller holds the lock.
func (l *Lease) take(amount int64) {
	l.budget.free -= amount
	l.account.held += amount
	l.held += amount
}

// grant gives what is free to those that wait, in their order. A claim that waits for others
// of its client holds up that client only. The caller holds the lock.
func (b *Budget) grant() {
	var blocked map[*account]bool
	for place := b.waiting.Front(); place != nil; {
		c, next := place.Value.(*claim), place.Next()
		a := c.lease.account
		switch {
		case blocked[a]:
		case a.held+c.amount > b.share:
			if blocked == nil {
				blocked = map[*account]bool{}
			}
			blocked[a] = true
		case c.amount > b.free:
			return
		default:
			c.lease.take(c.amount)
			b.waiting.Remove(place)
			close(c.granted)
		}
		place = next
	}
}

// Shrink gives back all but an amount.
func (l *Lease) Shrink(amount int64) {
	if less := l.held - amount; less > 0 {
		l.budget.mu.Lock()
		defer l.budget.mu.Unlock()
		l.take(-less)
		l.budget.grant()
	}
}

// Release gives everything back, and ends the lease.
func (l *Lease) Release() {
	l.Shrink(0)
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	if l.account.leases--; l.account.leases == 0 {
		delete(l.budget.clients, l.client)
	}
}
