// Package flow shares limited capacity between clients: slots for requests, bytes of
// memory, open watches. A client that floods the server delays only itself.
package flow

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

var (
	// ErrTooMany reports that no capacity became free in time. The caller may try again later.
	ErrTooMany = errors.New("too many requests")
	// ErrTooHeavy reports an amount that exceeds a client's share.
	ErrTooHeavy = errors.New("the request takes too much memory")
)

// Options configure a [Pool].
type Options struct {
	Amount int64         // capacity for all clients
	Share  int64         // capacity for one client
	Queue  int           // number of claims that may wait; 0: claims never wait
	Wait   time.Duration // how long a claim may wait
}

// Pool is capacity that clients lease for a time. Free capacity goes to the client that
// holds the least, and among equals to the claim that waited longest. A claim beyond the
// length of the queue evicts the newest claim of the client with the most waiting claims,
// which may be itself. All methods are safe for concurrent use.
//
// The semaphores of golang.org/x/sync serve in order of arrival, so one client could fill
// the queue for all others.
type Pool struct {
	o Options

	mu      sync.Mutex
	free    int64
	clients map[string]*client // clients that hold capacity or wait for it
	waiting []*claim           // in order of arrival
}

type client struct {
	name   string
	held   int64
	claims int // waiting
}

type claim struct {
	client *client
	amount int64
	answer chan error // gets one value, after the claim has left the queue
}

// New returns a Pool of unused capacity.
func New(o Options) *Pool {
	return &Pool{o: o, free: o.Amount, clients: map[string]*client{}}
}

// Lease is the capacity that one request holds. The zero Lease is unusable; see
// [Pool.Lease]. It must not be used concurrently.
type Lease struct {
	pool *Pool
	name string
	held int64
	from *client // nil while held is zero
}

// Lease returns an empty lease. The caller must release it after it has grown.
func (p *Pool) Lease(client string) Lease { return Lease{pool: p, name: client} }

// Grow raises the lease to at least amount in total. An empty lease may wait in the queue.
// A lease that holds something never waits, since waiting while holding could deadlock; it
// takes precedence over the queue. Grow returns [ErrTooMany], [ErrTooHeavy] or, if ctx
// ended, its cause.
func (l *Lease) Grow(ctx context.Context, amount int64) error {
	p := l.pool
	switch {
	case amount <= l.held:
		return nil
	case amount > p.o.Share:
		return ErrTooHeavy
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	p.mu.Lock()
	c, more := p.client(l.name), amount-l.held
	switch fits := c.held+more <= p.o.Share && more <= p.free; {
	case fits && (l.held > 0 || len(p.waiting) == 0):
		p.take(c, more)
		p.mu.Unlock()
		l.held, l.from = amount, c
		return nil
	case l.held > 0:
		p.mu.Unlock()
		return ErrTooMany
	}
	waiting := p.enqueue(c, amount)
	p.mu.Unlock()
	err := p.wait(ctx, waiting)
	if err == nil {
		l.held, l.from = amount, c
	}
	return err
}

// Shrink returns the capacity beyond amount to the pool.
func (l *Lease) Shrink(amount int64) {
	less := l.held - amount
	if less <= 0 {
		return
	}
	l.held = amount
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.pool.take(l.from, -less)
	l.pool.grant()
}

// Release returns all capacity of the lease to the pool.
func (l *Lease) Release() { l.Shrink(0) }

// wait returns the answer to c, or withdraws it when its time is over.
func (p *Pool) wait(ctx context.Context, c *claim) error {
	timer := time.NewTimer(p.o.Wait)
	defer timer.Stop()
	var err error
	select {
	case err := <-c.answer:
		return err
	case <-timer.C:
		err = ErrTooMany
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.waiting, c) { // answered meanwhile
		return <-c.answer
	}
	p.remove(c, err)
	p.grant() // c may have blocked later claims
	return err
}

// The methods below require p.mu.

func (p *Pool) client(name string) *client {
	c := p.clients[name]
	if c == nil {
		c = &client{name: name}
		p.clients[name] = c
	}
	return c
}

// take moves free capacity to c.
func (p *Pool) take(c *client, amount int64) {
	p.free -= amount
	c.held += amount
	p.forget(c)
}

func (p *Pool) forget(c *client) {
	if c.held == 0 && c.claims == 0 {
		delete(p.clients, c.name)
	}
}

func (p *Pool) enqueue(c *client, amount int64) *claim {
	added := &claim{client: c, amount: amount, answer: make(chan error, 1)}
	c.claims++
	p.waiting = append(p.waiting, added)
	p.grant()
	if len(p.waiting) > p.o.Queue {
		p.evict(added)
	}
	return added
}

// grant serves as many claims as fit. If the first in line needs more than is free, later
// ones do not overtake it.
func (p *Pool) grant() {
	for {
		var next *claim
		for _, c := range p.waiting {
			if c.client.held+c.amount <= p.o.Share && (next == nil || c.client.held < next.client.held) {
				next = c
			}
		}
		if next == nil || next.amount > p.free {
			return
		}
		p.take(next.client, next.amount)
		p.remove(next, nil)
	}
}

// evict makes room for the newest claim.
func (p *Pool) evict(newest *claim) {
	victim := newest
	for _, c := range p.waiting {
		if c.client == victim.client || c.client.claims > victim.client.claims {
			victim = c
		}
	}
	p.remove(victim, ErrTooMany)
}

// remove takes c out of the queue and answers it.
func (p *Pool) remove(c *claim, answer error) {
	i := slices.Index(p.waiting, c)
	p.waiting = slices.Delete(p.waiting, i, i+1)
	c.client.claims--
	p.forget(c.client)
	c.answer <- answer
}

// Client returns the account of a request: the user, or for an unknown user the address
// of the connection. All addresses of one IPv6 network (64 bits) share an account, since
// one host has all of them.
func Client(user, remoteAddr string) string {
	if user != "" {
		return "user:" + user
	}
	host, _, err := net.SplitHostPort(remoteAddr)
	if err != nil {
		host = remoteAddr
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return "addr:" + host
	}
	if addr = addr.Unmap().WithZone(""); addr.Is6() {
		if network, err := addr.Prefix(64); err == nil {
			return "addr:" + network.String()
		}
	}
	return "addr:" + addr.String()
}
