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
	maxKey        = 2048 // what an entry of a B-tree index takes, with room to spare
	maxOperations = 8192
)

var limits = store.Limits{
	Key:        maxKey,
	Value:      8 << 20,
	Operations: maxOperations,
	Bytes:      16 << 20,
}

// times are limits of time, which tests shorten; zero is the default.
type times struct{ stall, turn, slice, commit time.Duration }

func (t times) withDefaults() times {
	return times{
		stall:  cmp.Or(t.stall, stallLimit),
		turn:   cmp.Or(t.turn, turnLimit),
		slice:  cmp.Or(t.slice, waitSlice),
		commit: cmp.Or(t.commit, commitLimit),
	}
}

const (
	// stallLimit is how long the server lets a process keep its turn without a word,
	// and how long a process waits for a connection before it looks for another.
	stallLimit = 10 * time.Second
	// turnLimit is how long a process waits for its turn before it looks whether its
	// connection is still alive.
	turnLimit = 30 * time.Second
	// waitSlice is how long a transaction waits for held entries at a stretch, before
	// another one has its connection.
	waitSlice = time.Second
	// commitLimit is how long a commit may take before its outcome counts as unknown.
	commitLimit = 30 * time.Second
)

// Store is a schema of a database, seen from this process. See [store.Store] for
// its methods, which any number of goroutines may call at once.
type Store struct {
	pool    *pgxpool.Pool
	ownPool bool
	options Options
	sql     *statements

	ctx     context.Context // ends when the store is closed
	cancel  context.CancelFunc
	calls   calls // reads in progress
	close   sync.Once
	running sync.WaitGroup // goroutines of the store

	queue *groupcommit.Queue[*transaction]
	slots chan struct{} // for transactions that wait for entries
	long  chan struct{} // for those that wait long: one less

	hub     atomic.Pointer[watch.Hub] // of the present epoch
	publish sync.Mutex                // guards what is published to the hub, and its replacement
	polling chan struct{}             // one token: the right to read the log for the hub
	wake    chan struct{}             // one token: there may be news in the log
	janitor chan struct{}             // one token: there may be old records to drop
}

// Limits returns the bounds of keys, values and transactions: keys of 2 KiB,
// values of 8 MiB, 8192 operations and 16 MiB in a transaction.
func (s *Store) Limits() store.Limits { return limits }

// Watch implements [store.Store]. A watch outlives a restart of the server: it
// waits until the log can be read again, also when it begins meanwhile. It ends
// with an error when waiting is of no use: when its position is gone, the role may
// not read, or the schema is damaged, missing or of another version.
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

// begin returns the hub for a new watch, when it has reached what the database is
// at: so what was acknowledged before, by any process, is before now.
func (s *Store) begin(ctx context.Context) (*watch.Hub, error) {
	if err := s.persist(ctx, s.poll); err != nil {
		return nil, err
	}
	return s.hub.Load(), nil
}

// Close implements [store.Store]. It waits for the commit that is on its way;
// transactions that were not submitted are refused. The pool of [New] stays open.
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

// enter begins a call, which ends with calls.leave.
func (s *Store) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !s.calls.enter() {
		return store.ErrClosed
	}
	return nil
}

// because returns the cause when err came of the end of ctx or of the store.
func (s *Store) because(ctx context.Context, err error) error {
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

// calls counts what runs inside the store.
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
