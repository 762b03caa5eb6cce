package flow

import "sync"

// Counter bounds how many of something long-lived are open: in all, and of one
// client. Nobody waits. All methods are safe for concurrent use. Make one with
// [NewCounter].
type Counter struct {
	most, each int

	mu      sync.Mutex
	open    int
	clients map[string]int
}

// NewCounter returns a counter of at most so many, and so many of each client.
func NewCounter(most, each int) *Counter {
	return &Counter{most: most, each: each, clients: map[string]int{}}
}

// Enter counts one more of a client, or refuses it with [ErrTooMany]. Pair it with
// Leave.
func (c *Counter) Enter(client string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= c.most || c.clients[client] >= c.each {
		return ErrTooMany
	}
	c.open++
	c.clients[client]++
	return nil
}

// Leave counts one less of a client that entered.
func (c *Counter) Leave(client string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.clients[client]--; c.clients[client] == 0 {
		delete(c.clients, client)
	}
}

// Open returns how many are open.
func (c *Counter) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}
