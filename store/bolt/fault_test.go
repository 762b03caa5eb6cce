package bolt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"github.com/nslifecycle/nslifecycle/store"
)

// files opens files for the engine and keeps the latest.
type files struct {
	latest *os.File
	open   func(name string, flag int, mode os.FileMode) (*os.File, error)
}

func (f *files) openFile(name string, flag int, mode os.FileMode) (file *os.File, err error) {
	file, err = f.open(name, flag, mode)
	f.latest = file
	return file, err
}

// openFaulty opens a store whose engine gets its files from the returned files.
func openFaulty(t *testing.T) (*Store, *files, string) {
	f := &files{open: os.OpenFile}
	path := filepath.Join(t.TempDir(), "store.db")
	s := openAt(t, path, &Options{openFile: f.openFile})
	put(t, s, "a", "1")
	return s, f, path
}

var errSync = errors.New("the sync failed")

// failAfterCommit makes the next commit of the engine report a failure although it is in the file,
// as if the last sync had failed.
func failAfterCommit(s *Store) {
	s.commitTx = func(tx *bbolt.Tx) error {
		s.commitTx = (*bbolt.Tx).Commit
		return errors.Join(tx.Commit(), errSync)
	}
}

// follow collects the changes of a watch from now until cancel is called.
func follow(t *testing.T, s store.Store) (end func() ([]store.Change, error)) {
	ctx, cancel := context.WithCancelCause(t.Context())
	started, done := make(chan struct{}), make(chan struct{})
	var changes []store.Change
	var last error
	go func() {
		defer close(done)
		first := true
		for c, err := range s.Watch(ctx, "", store.Position{}) {
			switch {
			case err != nil:
				last = err
			case first:
				first = false
				close(started)
			case !c.Bookmark():
				changes = append(changes, c)
				if string(c.Events[0].Value) == "last" {
					cancel(errEnough)
				}
			}
		}
	}()
	<-started
	return func() ([]store.Change, error) {
		<-done
		cancel(nil)
		return changes, last
	}
}

// If the disk refuses a write in the middle of a commit, the batch is not in the file, and the
// error says so. The store still works, and readers are not affected.
func TestFailedWrite(t *testing.T) {
	s, f, _ := openFaulty(t)
	before := listAt(t, s, store.Position{})
	end := follow(t, s)
	readers, stop := errgroup.Group{}, make(chan struct{})
	for range 4 {
		readers.Go(func() error {
			for {
				if p, err := s.List(t.Context(), store.Query{}); err != nil || len(p.Entries) != 1 {
					return fmt.Errorf("%d entries, %w", len(p.Entries), err)
				}
				select {
				case <-stop:
					return nil
				default:
				}
			}
		})
	}
	for range 10 {
		require.NoError(t, f.latest.Close()) // every write fails from now on
		_, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("a", []byte("2"))}})
		require.ErrorContains(t, err, "nothing was written")
		require.NotErrorIs(t, err, store.ErrUnknownOutcome)
		require.ErrorContains(t, err, os.ErrClosed.Error(), "the cause is kept") // of some steps the engine keeps only the text
		require.Equal(t, before, listAt(t, s, store.Position{}))
	}
	close(stop)
	require.NoError(t, readers.Wait())
	require.Equal(t, before.Position.Revision+1, put(t, s, "a", "last"))
	changes, err := end()
	require.ErrorIs(t, err, errEnough)
	require.Len(t, changes, 1, "watches see exactly the content of the file")
	checkFile(t, s)
}

// If the commit is in the file although the engine reports a failure, the outcome is unknown
// to the caller, and reads and watches return the commit.
func TestFailedSync(t *testing.T) {
	s, _, path := openFaulty(t)
	end := follow(t, s)
	failAfterCommit(s)
	_, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("a", []byte("2"))}})
	require.ErrorIs(t, err, store.ErrUnknownOutcome)
	require.ErrorIs(t, err, errSync)
	e, err := s.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "2", string(e.Value))
	require.Equal(t, e.Revision+1, put(t, s, "a", "last"))
	changes, err := end()
	require.ErrorIs(t, err, errEnough)
	require.Len(t, changes, 2)
	require.Equal(t, e.Revision, changes[0].Position.Revision)
	require.NoError(t, s.Close())
	require.Equal(t, "last", string(listAt(t, openAt(t, path, nil), store.Position{}).Entries[0].Value))
}

// All requests of a failed batch get the same error, because the conflict of one may rest on
// the write of another.
func TestFailedBatch(t *testing.T) {
	for name, fail := range map[string]func(*Store, *files){
		"not applied": func(_ *Store, f *files) { require.NoError(t, f.latest.Close()) },
		"applied":     func(s *Store, _ *files) { failAfterCommit(s) },
	} {
		t.Run(name, func(t *testing.T) {
			s, f, _ := openFaulty(t)
			release := stall(t, s)
			first := enqueue(t, s, store.Txn{If: []store.Condition{store.Absent("a")}})
			waitTaken(t, s)
			var requests []*request
			for _, txn := range []store.Txn{
				{Do: []store.Operation{store.Put("b", nil)}},
				{If: []store.Condition{store.Absent("b")}, Do: []store.Operation{store.Put("c", nil)}}, // a conflict
				{If: []store.Condition{store.Exists("b")}},
			} {
				requests = append(requests, enqueue(t, s, txn))
			}
			fail(s, f)
			release()
			_, err := first.Wait()
			require.ErrorIs(t, err, store.ErrConflict, "it was in a batch without writes, before")
			for _, r := range requests {
				_, err := r.Wait()
				require.Error(t, err)
				require.Equal(t, name == "applied", errors.Is(err, store.ErrUnknownOutcome), "%v", err)
			}
			_, err = s.Get(t.Context(), "b")
			require.Equal(t, name == "applied", err == nil)
			_, err = s.Get(t.Context(), "c")
			require.ErrorIs(t, err, store.ErrNotFound)
			checkFile(t, s)
		})
	}
}

// If the file cannot be reopened after a failed commit, the store refuses all calls with the
// cause, and the next Open finds all acknowledged commits.
func TestFailedReopen(t *testing.T) {
	for name, c := range map[string]struct {
		fail   func(*Store, *files)
		reopen func(path string) (*os.File, error)
		cause  error
	}{
		"cannot be opened": {
			func(_ *Store, f *files) { require.NoError(t, f.latest.Close()) },
			func(string) (*os.File, error) { return nil, os.ErrPermission }, os.ErrPermission,
		},
		"cannot be synced": {
			func(s *Store, _ *files) { failAfterCommit(s) },
			func(path string) (*os.File, error) { return os.Open(path) }, errSync,
		},
		"is in use": {
			func(_ *Store, f *files) { require.NoError(t, f.latest.Close()) },
			func(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDWR, 0) }, store.ErrInUse,
		},
		"was changed by another": {
			func(_ *Store, f *files) { require.NoError(t, f.latest.Close()) },
			func(path string) (*os.File, error) {
				other := openAt(t, path, nil)
				put(t, other, "other", "")
				if err := other.Close(); err != nil {
					return nil, err
				}
				return os.OpenFile(path, os.O_RDWR, 0)
			}, store.ErrInUse,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, f, path := openFaulty(t)
			end := follow(t, s)
			f.open = func(string, int, os.FileMode) (*os.File, error) { return c.reopen(path) }
			var other io.Closer = io.NopCloser(nil)
			if name == "is in use" {
				f.open = func(name string, flag int, mode os.FileMode) (*os.File, error) {
					other = openAt(t, path, nil) // opens the file in between
					return c.reopen(path)
				}
			}
			c.fail(s, f)
			_, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("a", []byte("2"))}})
			require.ErrorIs(t, err, store.ErrUnknownOutcome)

			for range 2 {
				_, err = s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("a", []byte("3"))}})
				require.ErrorIs(t, err, store.ErrClosed)
				require.NotErrorIs(t, err, store.ErrUnknownOutcome)
				require.ErrorIs(t, err, c.cause)
				_, err = s.Get(t.Context(), "a")
				require.ErrorIs(t, err, store.ErrClosed)
				require.ErrorIs(t, err, c.cause)
			}
			_, err = end()
			require.ErrorIs(t, err, store.ErrClosed)
			require.NoError(t, s.Close())
			require.NoError(t, other.Close())

			s = openAt(t, path, nil)
			e, err := s.Get(t.Context(), "a")
			require.NoError(t, err)
			require.NotEqual(t, "3", string(e.Value))
			put(t, s, "a", "4")
			checkFile(t, s)
		})
	}
}
