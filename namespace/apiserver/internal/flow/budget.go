package flow

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"
)

// ErrTooHeavy refuses what is more than one client may ever have.
var ErrTooHeavy = errors.New("the request takes too much memory")

// Budget bounds an amount that clients take for a time, such as bytes of memory. No client
// has more than half of it. All methods are safe for concurrent use. Make one with
// [NewBudget].
type Budget struct {
	share int64
	all   *semaphore.Weighted

	mu      sync.Mutex
	clients map[string]*account
}

// account is the part of a client.
type account struct {
	free *semaphore.Weighted
	uses int // leases that hold it
}

// NewBudget returns a budget of an amount.
func NewBudget(amount int64) *Budget {
	return &Budget{share: max(1, amount/2), all: semaphore.NewWeighted(amount), clients: map[string]*account{}}
}

// Lease returns a lease of a client, which holds nothing yet. Release it at the end.
func (b *Budget) Lease(client string) *Lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.clients[client]
	if a == nil {
		a = &account{free: semaphore.NewWeighted(b.share)}
		b.clients[client] = a
	}
	a.uses++
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
// for it until ctx ends; one that holds something does not wait, because those that it
// would wait for may wait for it. The error is [ErrTooMany] if the budget is taken, and
// [ErrTooHeavy] if the amount is more than the share of a client.
func (l *Lease) Grow(ctx context.Context, amount int64) error {
	more := amount - l.held
	switch {
	case more <= 0:
		return nil
	case amount > l.budget.share:
		return ErrTooHeavy
	case l.held > 0:
		if !l.account.free.TryAcquire(more) {
			return ErrTooMany
		}
		if !l.budget.all.TryAcquire(more) {
			l.account.free.Release(more)
			return ErrTooMany
		}
	default:
		if l.account.free.Acquire(ctx, more) != nil {
			return ErrTooMany
		}
		if l.budget.all.Acquire(ctx, more) != nil {
			l.account.free.Release(more)
			return ErrTooMany
		}
	}
	l.held = amount
	return nil
}

// Shrink gives back all but an amount.
func (l *Lease) Shrink(amount int64) {
	if less := l.held - amount; less > 0 {
		l.account.free.Release(less)
		l.budget.all.Release(less)
		l.held = amount
	}
}

// Release gives everything back, and ends the lease.
func (l *Lease) Release() {
	l.Shrink(0)
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	if l.account.uses--; l.account.uses == 0 {
		delete(l.budget.clients, l.client)
	}
}
