package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/nslifecycle/nslifecycle/store"
)

func TestOpenInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := openAt(t, path, nil)
	put(t, s, "a", "1")
	_, err := Open(path, nil)
	require.ErrorIs(t, err, store.ErrInUse)
	var e *store.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "open", e.Op)
	require.Equal(t, path, e.Key)
	put(t, s, "a", "2") // the first handle still works
}

func TestOpenWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	first := openAt(t, path, nil)
	opened := make(chan error, 1)
	go func() {
		s, err := Open(path, &Options{Wait: time.Minute})
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	require.NoError(t, first.Close())
	require.NoError(t, <-opened)
}

// editFile changes the file with the engine alone.
func editFile(t *testing.T, path string, edit func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(edit))
	require.NoError(t, db.Close())
}

func makeStore(t *testing.T, path string) {
	t.Helper()
	s := openAt(t, path, nil)
	for i := range 100 {
		put(t, s, strings.Repeat("k", i+1), strings.Repeat("v", 1000))
	}
	require.NoError(t, s.Close())
}

// A file that cannot be used is refused with a clear error and stays unchanged.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	editMeta := func(key, value []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			makeStore(t, path)
			editFile(t, path, func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(key, value) })
		}
	}
	write := func(content string) func(*testing.T, string) {
		return func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte(content), 0o600)) }
	}
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		want error
	}{
		"a short text":      {write("hello\n"), ErrForeign},
		"a long text":       {write(strings.Repeat("hello\n", 100_000)), ErrForeign},
		"a directory":       {func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, ErrForeign},
		"below a file":      {func(t *testing.T, path string) {}, fs.ErrNotExist},
		"a format to come":  {editMeta(metaFormat, binary.BigEndian.AppendUint32(nil, formatVersion+1)), ErrFormat},
		"a strange format":  {editMeta(metaFormat, []byte("one")), ErrForeign},
		"the format before": {editMeta(metaFormat, binary.BigEndian.AppendUint32(nil, 1)), ErrFormat},
		"a damaged format":  {editMeta(metaFormat, binary.BigEndian.AppendUint64(nil, formatVersion<<32)), ErrCorrupt},
		"no epoch":          {editMeta(metaEpoch, nil), ErrCorrupt},
		"a damaged head":    {editMeta(metaHead, []byte("head")), ErrCorrupt},
		"a bucket missing": {func(t *testing.T, path string) {
			makeStore(t, path)
			editFile(t, path, func(tx *bbolt.Tx) error { return tx.DeleteBucket(bucketHistory) })
		}, ErrCorrupt},
		"bbolt of something else": {func(t *testing.T, path string) {
			editFile(t, path, func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("theirs")); return err })
		}, ErrForeign},
		"bbolt of something else with a bucket meta": {func(t *testing.T, path string) {
			editFile(t, path, func(tx *bbolt.Tx) error { _, err := tx.CreateBucket(bucketMeta); return err })
		}, ErrForeign},
		"cut off": {func(t *testing.T, path string) {
			makeStore(t, path)
			require.NoError(t, os.Truncate(path, int64(8*os.Getpagesize())))
		}, ErrCorrupt},
		"cut off after the first page": {func(t *testing.T, path string) {
			makeStore(t, path)
			require.NoError(t, os.Truncate(path, int64(os.Getpagesize()+100)))
		}, ErrCorrupt},
		"overwritten at the front": {func(t *testing.T, path string) {
			makeStore(t, path)
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			clear(content[:2*os.Getpagesize()])
			require.NoError(t, os.WriteFile(path, content, 0o600))
		}, ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			if name == "below a file" {
				path = filepath.Join(path, "missing", "store.db")
			}
			c.make(t, path)
			before, _ := os.ReadFile(path)
			for _, opts := range []*Options{nil, {NewEpoch: true}} {
				_, err := Open(path, opts)
				require.ErrorIs(t, err, c.want)
				after, _ := os.ReadFile(path)
				require.True(t, bytes.Equal(before, after), "the file was changed")
			}
		})
	}
}

func TestOpenUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	makeStore(t, path)
	_, err := Open(path, &Options{openFile: func(string, int, os.FileMode) (*os.File, error) {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
	}})
	require.ErrorIs(t, err, fs.ErrPermission)
}

// An empty file, and a file whose creation was interrupted, become stores.
func TestOpenUnfinished(t *testing.T) {
	for name, make := range map[string]func(t *testing.T, path string){
		"nothing":    func(*testing.T, string) {},
		"empty":      func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, nil, 0o600)) },
		"no buckets": func(t *testing.T, path string) { editFile(t, path, func(*bbolt.Tx) error { return nil }) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			make(t, path)
			s := openAt(t, path, nil)
			require.Equal(t, firstRevision, listAt(t, s, store.Position{}).Position.Revision)
			require.Equal(t, firstRevision+1, put(t, s, "a", ""))
		})
	}
}

// The mode of a new file is Options.Mode.
func TestOpenMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	openAt(t, path, &Options{Mode: 0o640})
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o640), info.Mode().Perm())
}

// After a restore with a new epoch, tokens and plain revisions of the lost history are
// refused as positions and match no condition. Revisions from before the backup still serve as
// conditions.
func TestNewEpoch(t *testing.T) {
	dir := t.TempDir()
	path, backup := filepath.Join(dir, "store.db"), filepath.Join(dir, "backup.db")
	s := openAt(t, path, nil)
	kept := put(t, s, "kept", "1")
	put(t, s, "changed", "1")
	atBackup := listAt(t, s, store.Position{}).Position
	require.NoError(t, s.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(backup, content, 0o600))

	s = openAt(t, path, nil)
	require.Equal(t, atBackup, listAt(t, s, store.Position{}).Position, "an ordinary opening goes on")
	lost := put(t, s, "changed", "lost")
	atLost := listAt(t, s, store.Position{}).Position
	require.NoError(t, s.Close())

	s = openAt(t, backup, &Options{NewEpoch: true})
	now := listAt(t, s, store.Position{})
	require.NotEqual(t, atBackup.Epoch, now.Position.Epoch)
	require.Len(t, now.Entries, 2)
	put(t, s, "changed", "2")
	for _, at := range []store.Position{atBackup, atLost, {Revision: atBackup.Revision}, {Revision: atLost.Revision}} {
		_, err := s.List(t.Context(), store.Query{At: at})
		require.ErrorIs(t, err, store.ErrGone, "%+v", at)
		require.ErrorIs(t, watchError(t, s, at), store.ErrGone, "%+v", at)
	}
	_, err = s.Commit(t.Context(), store.Txn{If: []store.Condition{store.At("changed", lost)}})
	require.ErrorIs(t, err, store.ErrConflict)
	_, err = s.Commit(t.Context(), store.Txn{If: []store.Condition{store.At("kept", kept)}})
	require.NoError(t, err)

	changes, _ := changesUntil(t, s, "", now.Position)
	require.Len(t, changes, 1)
	checkFile(t, s)
	require.NoError(t, s.Close())
	s = openAt(t, backup, nil)
	require.Equal(t, now.Position.Epoch, listAt(t, s, store.Position{}).Position.Epoch, "the epoch stays")
}

// There is room for millions of epochs. After the last one, a new epoch is refused.
func TestNewEpochNoRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	makeStore(t, path)
	editFile(t, path, func(tx *bbolt.Tx) error {
		return putMeta(tx.Bucket(bucketMeta), metaHead, head{revision: math.MaxInt64 - epochJump + 1}.append(nil))
	})
	_, err := Open(path, &Options{NewEpoch: true})
	require.ErrorIs(t, err, store.ErrInvalid)
	openAt(t, path, nil)
}

// A damaged record is an error that names the key, never a panic or a wrong answer.
func TestCorruptRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := openAt(t, path, nil)
	start := listAt(t, s, store.Position{}).Position
	put(t, s, "good", "1")
	put(t, s, "bad", "1")
	middle := listAt(t, s, store.Position{}).Position
	put(t, s, "bad", "2")
	require.NoError(t, s.Close())
	editFile(t, path, func(tx *bbolt.Tx) error {
		history := tx.Bucket(bucketHistory)
		k, _ := history.Cursor().First()
		if err := history.Put(k, []byte("short")); err != nil {
			return err
		}
		return tx.Bucket(bucketState).Put([]byte("bad"), []byte("short"))
	})
	s = openAt(t, path, nil)
	ctx := t.Context()
	_, err := s.Get(ctx, "bad")
	require.ErrorIs(t, err, ErrCorrupt)
	_, err = s.Get(ctx, "good")
	require.NoError(t, err)
	for _, at := range []store.Position{{}, middle} {
		_, err = s.List(ctx, store.Query{At: at})
		require.ErrorIs(t, err, ErrCorrupt)
	}
	require.ErrorIs(t, watchErrorAfterChanges(t, s, start), ErrCorrupt)
	_, err = s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("good", nil), store.Put("bad", nil)}})
	require.ErrorIs(t, err, ErrCorrupt)
	_, err = s.Commit(ctx, store.Txn{If: []store.Condition{store.Exists("bad")}, Do: []store.Operation{store.Put("good", nil)}})
	require.ErrorIs(t, err, ErrCorrupt)
	e, err := s.Get(ctx, "good")
	require.NoError(t, err)
	require.Equal(t, "1", string(e.Value), "a refused transaction left nothing")
	put(t, s, "good", "2")
}

func watchErrorAfterChanges(t *testing.T, s store.Store, after store.Position) (last error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, err := range s.Watch(ctx, "", after) {
		last = err
	}
	return last
}
