package bolt

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"

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

// limits bounds a transaction. The engine accepts keys of 32 KiB. A history key is at most twice
// as long as the key, if every byte is escaped.
var limits = store.Limits{
	Key:        8 << 10,
	Value:      16 << 20,
	Operations: 8192,
	Bytes:      32 << 20,
}

// Store is an open file. See [store.Store] for its methods, which any number of
// goroutines may call at once.
type Store struct {
	file    file
	epoch   string
	writer  uint64 // a random number that identifies heads written by this opening
	queue   *groupcommit.Queue[*transaction]
	hub     *watch.Hub
	stopped chan struct{} // closed when the committer has returned
	closing sync.Once

	// The committer uses these fields, and Close after it has stopped.
	backlog  bool                  // compacted records may be left in the log
	failing  bool                  // the last batch failed; do not start a batch for pruning alone
	wrote    bool                  // a batch was written
	taken    []*request            // the requests of the current batch
	answers  []answer              // their results
	commitTx func(*bbolt.Tx) error // replaced in tests

	// reads is held shared by reads and exclusively while db is replaced. Only the committer and,
	// after it, Close replace db.
	reads   sync.RWMutex
	db      *bbolt.DB
	refusal error // if not nil, the reason why the store cannot be used any more

	sync syncState // of the commits in db

	broken atomic.Bool // the engine has failed while it held its locks
}

// Limits returns the bounds of keys, values and transactions: keys of 8 KiB,
// values of 16 MiB, 8192 operations and 32 MiB in a transaction.
func (s *Store) Limits() store.Limits { return limits }

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, key string) (store.Entry, error) {
	e, err := s.get(ctx, key)
	return e, store.Wrap("get", key, err)
}

func (s *Store) get(ctx context.Context, key string) (e store.Entry, err error) {
	if err := usable(ctx); err != nil {
		return e, err
	}
	if err := store.CheckKey(key, limits); err != nil {
		return e, err
	}
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		state := table{Bucket: tx.Bucket(bucketState), name: bucketState, content: valueHeader}
		if state.Bucket == nil {
			return fmt.Errorf("%w: a bucket is missing", ErrCorrupt)
		}
		k := []byte(key)
		record, err := state.get(k)
		if err != nil {
			return err
		}
		if record == nil {
			return store.ErrNotFound
		}
		e, err = entryOf(k, record)
		return err
	})
	return e, err
}

// List implements [store.Store].
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	p, err := s.list(ctx, q)
	return p, store.Wrap("list", q.Prefix, err)
}

func (s *Store) list(ctx context.Context, q store.Query) (page store.Page, err error) {
	err = s.read(ctx, q, func(snap *snapshot, at store.Revision) error {
		page = store.Page{Position: store.Position{Epoch: s.epoch, Revision: at}}
		return fill(ctx, &page, snap, q)
	})
	return page, err
}

// read calls f with the snapshot that q asks for, and its revision.
func (s *Store) read(ctx context.Context, q store.Query, f func(snap *snapshot, at store.Revision) error) error {
	if err := usable(ctx); err != nil {
		return err
	}
	if err := q.Check(); err != nil {
		return err
	}
	now := q.At == store.Position{}
	if !now {
		if err := s.hub.Check(q.At); err != nil {
			return err
		}
	}
	return s.view(ctx, func(tx *bbolt.Tx) error {
		snap, err := newSnapshot(tx)
		if err != nil {
			return err
		}
		at := snap.head.revision
		if !now {
			at = q.At.Revision
		}
		if at < snap.head.compacted {
			return gone(at, snap.head)
		}
		return f(snap, at)
	})
}

// fill adds the entries of a page.
func fill(ctx context.Context, page *store.Page, snap *snapshot, q store.Query) (err error) {
	size := 0
	listErr := snap.list(ctx, q.Prefix, q.After, page.Position.Revision, func(key, record []byte) bool {
		var e store.Entry
		if e, err = entryOf(key, record); err != nil {
			return false
		}
		if page.More = q.Full(len(page.Entries), size, len(e.Value)); page.More {
			return false
		}
		size += len(e.Value)
		page.Entries = append(page.Entries, e)
		return true
	})
	if err != nil {
		return err
	}
	return listErr
}

// Count implements [store.Counter]. It visits each entry that it counts.
func (s *Store) Count(ctx context.Context, q store.Query) (n int, err error) {
	err = s.read(ctx, q, func(snap *snapshot, at store.Revision) error {
		n = 0
		return snap.list(ctx, q.Prefix, q.After, at, func(_, _ []byte) bool {
			n++
			return n != q.Limit
		})
	})
	return n, store.Wrap("count", q.Prefix, err)
}

// Watch implements [store.Store].
func (s *Store) Watch(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
	return s.hub.Watch(ctx, prefix, after)
}

// Close implements [store.Store]. It waits for the commit in progress. Transactions still in the
// queue are refused.
func (s *Store) Close() (err error) {
	s.closing.Do(func() {
		s.queue.Close()
		s.hub.Close()
		<-s.stopped
		s.reads.Lock()
		defer s.reads.Unlock()
		failed := s.refusal != nil
		s.refusal = store.ErrClosed
		if s.wrote && !failed {
			// The older meta page of the engine still describes the previous batch. After another
			// commit both pages describe the last batch, so damage to one loses nothing.
			if tx, err := s.begin(true); err == nil && guard(tx.Commit) != nil {
				_ = s.engine(tx.Rollback)
			}
		}
		if closeErr := s.engine(s.db.Close); closeErr != nil && !failed {
			err = &store.Error{Op: "close", Key: s.file.path, Err: closeErr}
		}
	})
	return err
}

// usable returns the cause of a context that has ended, or nil.
func usable(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func gone(r store.Revision, h head) error {
	return fmt.Errorf("%w: revision %d, the history starts at %d", store.ErrGone, r, h.compacted)
}
