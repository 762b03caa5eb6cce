package bolt

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/nslifecycle/nslifecycle/store"
)

// openAt opens the store at path and closes it after the test.
func openAt(tb testing.TB, path string, opts *Options) *Store {
	tb.Helper()
	s, err := Open(path, opts)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func openNew(tb testing.TB, opts *Options) *Store {
	tb.Helper()
	return openAt(tb, filepath.Join(tb.TempDir(), "store.db"), opts)
}

func commit(tb testing.TB, s store.Store, ops ...store.Operation) store.Revision {
	tb.Helper()
	r, err := s.Commit(tb.Context(), store.Txn{Do: ops})
	require.NoError(tb, err)
	return r
}

func put(tb testing.TB, s store.Store, key, value string) store.Revision {
	tb.Helper()
	return commit(tb, s, store.Put(key, []byte(value)))
}

func listAt(tb testing.TB, s store.Store, at store.Position) store.Page {
	tb.Helper()
	p, err := s.List(tb.Context(), store.Query{At: at})
	require.NoError(tb, err)
	return p
}

// changesUntil returns the changes after a position, up to the first bookmark.
func changesUntil(tb testing.TB, s store.Store, prefix string, after store.Position) (changes []store.Change, upTo store.Position) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	for c, err := range s.Watch(ctx, prefix, after) {
		require.NoError(tb, err)
		if c.Bookmark() {
			return changes, c.Position
		}
		changes = append(changes, c)
	}
	return changes, upTo
}

// watchError returns the error of a watch, which must come before a change.
func watchError(tb testing.TB, s store.Store, after store.Position) error {
	tb.Helper()
	ctx, cancel := context.WithTimeoutCause(tb.Context(), time.Minute, errors.New("the watch did not end"))
	defer cancel()
	for c, err := range s.Watch(ctx, "", after) {
		if err != nil {
			return err
		}
		require.FailNow(tb, "the watch goes on", "%+v", c)
	}
	return nil
}

// seeded returns a generator whose seed is printed when the test fails.
func seeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// checkFile verifies that the pages and records of the file are intact, and that the file has
// exactly the records of each change.
func checkFile(tb testing.TB, s *Store) {
	tb.Helper()
	require.NoError(tb, s.view(tb.Context(), func(tx *bbolt.Tx) error {
		snap, err := newSnapshot(tx)
		if err != nil {
			return err
		}
		return snap.check()
	}))
}

// viewHead is for [Store.view].
func viewHead(f func(head)) func(*bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		snap, err := newSnapshot(tx)
		if err == nil {
			f(snap.head)
		}
		return err
	}
}

// stall blocks the committer inside the engine until release is called.
func stall(tb testing.TB, s *Store) (release func()) {
	tb.Helper()
	commit(tb, s) // the committer has nothing to drop, so it waits for requests
	tx, err := s.db.Begin(true)
	require.NoError(tb, err)
	release = sync.OnceFunc(func() { require.NoError(tb, tx.Rollback()) })
	tb.Cleanup(release) // if the test fails, Close waits for the committer
	return release
}

// enqueue adds txn to the queue, and returns before it is committed.
func enqueue(tb testing.TB, s *Store, txn store.Txn) *request {
	return s.queue.Enqueue(tb.Context(), newTransaction(txn), sizeOf(txn))
}

// waitTaken returns when the committer has taken all requests from the queue.
func waitTaken(tb testing.TB, s *Store) {
	tb.Helper()
	for s.queue.Len() > 0 {
		require.NoError(tb, tb.Context().Err())
		runtime.Gosched()
	}
}
