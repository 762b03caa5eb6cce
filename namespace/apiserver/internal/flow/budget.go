package flow

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// ErrTooHeavy is returned for an amount that exceeds a client's share of a [Budget].
var ErrTooHeavy = errors.New("the request takes too much memory")

// Budget bounds a shared amount that clients hold temporarily, such as bytes of memory. One
// client holds at most half of it. All methods are safe for concurrent use. Use [NewBudget]
// to create one.
type Budget struct {
	share int64

	mu      sync.Mutex
	free    int64
	clients map[string]*account
	waiting list.List // of *claim, in order of arrival
}

// account counts the amount and the leases of one client.
type account struct {
	held   int64
	leases int
}

// claim is a queued [Lease.Grow].
type claim struct {
	lease   *Lease
	amount  int64
	granted chan struct{}
}

// NewBudget returns a Budget of the given amount.
func NewBudget(amount int64) *Budget {
	return &Budget{share: max(1, amount/2), free: amount, clients: map[string]*account{}}
}

// Lease returns an empty lease for client. The caller must release it.
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

// Lease is the part of a [Budget] that one request holds. It must not be used concurrently.
type Lease struct {
	budget  *Budget
	client  string
	account *account
	held    int64
}

// Grow raises the lease to at least amount in total. An empty lease waits in the queue
// until ctx ends. A lease that holds something never waits, since waiting while holding
// could deadlock; it takes precedence over the queue. Grow returns [ErrTooMany] if the
// budget is exhausted, and [ErrTooHeavy] if amount exceeds a client's share.
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
	b.grant() // the removed claim may have blocked later ones
	return ErrTooMany
}

// take moves amount from the free part to the lease. The caller holds the lock.
func (l *Lease) take(amount int64) {
	l.budget.free -= amount
	l.account.held += amount
	l.held += amount
}

// grant serves waiting claims in order from the free part. A claim that waits for its own
// client's share blocks only that client. The caller holds the lock.
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

// Shrink returns everything beyond amount to the budget.
func (l *Lease) Shrink(amount int64) {
	if less := l.held - amount; less > 0 {
		l.budget.mu.Lock()
		defer l.budget.mu.Unlock()
		l.take(-less)
		l.budget.grant()
	}
}

// Release returns everything to the budget and ends the lease.
func (l *Lease) Release() {
	l.Shrink(0)
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	if l.account.leases--; l.account.leases == 0 {
		delete(l.budget.clients, l.client)
	}
}
