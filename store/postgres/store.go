package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/groupcommit"
	"github.com/nslifecycle/nslifecycle/store/watch"
)

var (
	_ store.Store     = (*Store)(nil)
	_ store.Compactor = (*Store)(nil)
	_ store.Counter   = (*Store)(nil)
	_ store.Limiter   = (*Store)(nil)
)

const (
	maxKey        = 2048 // an entry of a B-tree index has at most about 2.7 KB
	maxOperations = 8192
)

var limits = store.Limits{
	Key:        maxKey,
	Value:      8 << 20,
	Operations: maxOperations,
	Bytes:      16 << 20,
}

// times are time limits, which tests shorten. Zero means the default.
type times struct{ stall, lock, slice, commit time.Duration }

func (t times) withDefaults() times {
	return times{
		stall:  cmp.Or(t.stall, stallLimit),
		lock:   cmp.Or(t.lock, lockLimit),
		slice:  cmp.Or(t.slice, waitSlice),
		commit: cmp.Or(t.commit, commitLimit),
	}
}

const (
	// stallLimit is how long the server lets an idle process keep the writer lock, how long a
	// writer waits for the lock before it looks for a stopped holder, and how long a process waits
	// for a connection before it tries another.
	stallLimit = 10 * time.Second
	// lockLimit is how long a process waits for a silent server.
	lockLimit = 30 * time.Second
	// waitSlice is how long a blocked transaction uses a connection before another one gets it.
	waitSlice = time.Second
	// commitLimit bounds the time of a commit. After that its outcome is unknown.
	commitLimit = 30 * time.Second
)

// Store is one process's handle on a schema. See [store.Store] for its methods, which any number
// of goroutines may call at once.
type Store struct {
	pool    *pgxpool.Pool
	ownPool bool
	options Options
	sql     *statements

	ctx     context.Context // ends when the store closes
	cancel  context.CancelFunc
	calls   calls // calls in progress, which Close waits for
	close   sync.Once
	running sync.WaitGroup // goroutines of the store

	queue *groupcommit.Queue[*transaction]
	slots chan struct{} // connections for blocked transactions
	long  chan struct{} // of these, the connections for long waits: one less

	hub      atomic.Pointer[watch.Hub] // of the current epoch
	publish  sync.Mutex                // guards calls of Publish and the replacement of the hub
	polling  chan struct{}             // one token: the right to read the log for the hub
	wake     chan struct{}             // one token: the log may have new records
	trimSoon chan struct{}             // one token: there may be old records to drop
}

// Limits returns the bounds of keys, values and transactions: keys of 2 KiB,
// values of 8 MiB, 8192 operations and 16 MiB in a transaction.
func (s *Store) Limits() store.Limits { return limits }

// Watch implements [store.Store]. A watch outlives a restart of the server: it waits until the
// log can be read again, even if the restart comes before its first change. It ends with an error
// if waiting cannot help: if its position is gone, the role lacks the privilege to read, or the
// schema is damaged, missing or of another version.
func (s *Store) Watch(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		h, err := s.begin(ctx)
		if err != nil {
			yield(store.Change{}, &store.Error{Op: "watch", Key: prefix, Err: err})
			return
		}
		for c, err := range h.Watch(ctx, prefix, after) {
			if errors.Is(err, store.ErrClosed) && s.ctx.Err() == nil {
				err = &store.Error{Op: "watch", Key: prefix, Err: fmt.Errorf("%w: the database was restored", store.ErrGone)}
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// begin returns the hub for a new watch. The hub then has every commit that any process
// acknowledged before the call.
func (s *Store) begin(ctx context.Context) (*watch.Hub, error) {
	if err := s.persist(ctx, s.poll); err != nil {
		return nil, err
	}
	return s.hub.Load(), nil
}

// Close implements [store.Store]. It waits for the commit in progress and refuses transactions
// that were not submitted. The pool of [New] stays open.
func (s *Store) Close() error {
	s.close.Do(func() {
		s.queue.Close()
		s.calls.close()
		s.cancel()
		s.hub.Load().Close()
		s.running.Wait()
		s.calls.wait()
		s.hub.Load().Close() // it may have been replaced meanwhile
		if s.ownPool {
			s.pool.Close()
		}
	})
	return nil
}

// enter begins a call, which calls.leave ends.
func (s *Store) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !s.calls.enter() {
		return store.ErrClosed
	}
	return nil
}

// cause returns the cause of a failed call: the end of ctx or of the store, or err with an
// explanation.
func (s *Store) cause(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.ctx.Err() != nil:
		return store.ErrClosed
	}
	return refusal(err)
}

// calls counts the calls in progress.
type calls struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed when the last call leaves a closed store
}

func (c *calls) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.n++
	return true
}

func (c *calls) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 && c.closed {
		close(c.idle)
	}
}

func (c *calls) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed, c.idle = true, make(chan struct{})
	if c.n == 0 {
		close(c.idle)
	}
}

func (c *calls) wait() { <-c.idle }
