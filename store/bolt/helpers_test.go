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

// changesUntil watches everything after a position up to the first bookmark.
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

// watchError returns what a watch ends with, which must come before a change.
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

// checkFile verifies what the buckets must always agree on: the log is ordered and
// of the counted length, every version in the history belongs to a log record of
// its end (so nothing is left behind), and every item of the log finds its values.
func checkFile(tb testing.TB, s *Store) {
	tb.Helper()
	require.NoError(tb, s.view(tb.Context(), func(tx *bbolt.Tx) error {
		snap, err := newSnapshot(tx)
		if err != nil {
			return err
		}
		versions, changes := 0, 0
		last := store.Revision(0)
		var items []logItem
		for c, k, v := cursor(snap.log); k != nil; k, v = c.Next() {
			r, err := revisionOf(k)
			require.NoError(tb, err)
			if r <= last {
				require.Greater(tb, r, last)
			}
			last = r
			items, err = splitLog(items[:0], v)
			require.NoError(tb, err)
			changes += len(items)
			for _, item := range items {
				if item.kind != created {
					if _, err := snap.ended(item.key, r); err != nil {
						return err
					}
					versions++
				}
			}
		}
		require.LessOrEqual(tb, last, snap.head.revision)
		require.EqualValues(tb, changes, snap.head.changes)
		require.Equal(tb, versions, snap.history.Stats().KeyN, "versions in the history")
		for c, k, v := cursor(snap.history); k != nil; k, v = c.Next() {
			_, end, err := splitHistoryKey(k)
			if err != nil {
				return err
			}
			start, _, err := splitRecord(v)
			if err != nil {
				return err
			}
			if start >= end {
				require.Less(tb, start, end)
			}
		}
		return nil
	}))
}

func cursor(b *bbolt.Bucket) (c *bbolt.Cursor, k, v []byte) {
	c = b.Cursor()
	k, v = c.First()
	return c, k, v
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

// stall holds up the committer inside the engine until release is called.
func stall(tb testing.TB, s *Store) (release func()) {
	tb.Helper()
	commit(tb, s) // now it waits for requests, and has nothing to drop
	tx, err := s.db.Begin(true)
	require.NoError(tb, err)
	release = sync.OnceFunc(func() { require.NoError(tb, tx.Rollback()) })
	tb.Cleanup(release) // also when the test fails: Close waits for the committer
	return release
}

// waitTaken returns when the committer has taken r from the queue.
func waitTaken(tb testing.TB, s *Store, r *request) {
	tb.Helper()
	for taken := false; !taken; runtime.Gosched() {
		require.NoError(tb, tb.Context().Err())
		s.queue.mu.Lock()
		taken = r.taken
		s.queue.mu.Unlock()
	}
}
