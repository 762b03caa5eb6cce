// Package keylock serializes writers that contend for a key. It only reduces contention
// within one process; correctness comes from the conditions of the writers' transactions.
//
// A writer locks a key after it has lost a conflict about it. From then on other writers of
// the key wait for it, in FIFO order, instead of conflicting again and again. A key that no
// writer has locked costs nothing.
package keylock

import (
	"context"
	"slices"
	"sync"
)

// Locks is a set of FIFO mutexes, one for each key. The zero value is ready to use.
type Locks struct {
	mu    sync.Mutex
	locks map[string]*lock
}

type lock struct {
	users int           // owners that hold the lock or wait for it
	sem   chan struct{} // full while the lock is held; blocked senders are FIFO
}

// Owner returns an owner that holds no locks.
func (l *Locks) Owner() Owner { return Owner{locks: l} }

// Owner holds locks for one goroutine. The zero Owner never holds a lock and never waits.
type Owner struct {
	locks *Locks
	held  []heldLock // sorted by key
}

type heldLock struct {
	key string
	*lock
}

// Waits reports whether other owners hold the lock of key or wait for it, and o does not
// hold it.
func (o *Owner) Waits(key string) bool {
	if o.locks == nil {
		return false
	}
	o.locks.mu.Lock()
	defer o.locks.mu.Unlock()
	return o.locks.locks[key] != nil && !slices.ContainsFunc(o.held, func(h heldLock) bool { return h.key == key })
}

// Lock locks keys in addition to those that o holds. All owners lock in the order of the
// keys, so that no two wait for each other; Lock therefore releases and locks again the held
// keys that sort after a new one. If ctx ends first, Lock returns its cause, and o may hold
// only some of the keys.
func (o *Owner) Lock(ctx context.Context, keys ...string) error {
	if o.locks == nil || len(keys) == 0 {
		return nil
	}
	all := slices.Clone(keys)
	for _, h := range o.held {
		all = append(all, h.key)
	}
	slices.Sort(all)
	for i, key := range slices.Compact(all) {
		if i < len(o.held) && o.held[i].key == key {
			continue
		}
		o.unlockFrom(i)
		h := heldLock{key, o.locks.acquire(key)}
		select {
		case h.sem <- struct{}{}:
			o.held = append(o.held, h)
		case <-ctx.Done():
			o.locks.release(h)
			return context.Cause(ctx)
		}
	}
	return nil
}

// Unlock releases all locks of o.
func (o *Owner) Unlock() { o.unlockFrom(0) }

func (o *Owner) unlockFrom(i int) {
	for _, h := range o.held[i:] {
		<-h.sem
		o.locks.release(h)
	}
	o.held = o.held[:i]
}

// acquire returns the lock of key and counts one more user.
func (l *Locks) acquire(key string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.locks[key]
	if k == nil {
		if l.locks == nil {
			l.locks = map[string]*lock{}
		}
		k = &lock{sem: make(chan struct{}, 1)}
		l.locks[key] = k
	}
	k.users++
	return k
}

// release counts one user less. It forgets a lock without users.
func (l *Locks) release(h heldLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.users--; h.users == 0 {
		delete(l.locks, h.key)
	}
}
