package bolt

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/groupcommit"
	"github.com/nslifecycle/nslifecycle/store/watch"
)

const (
	formatVersion = 2

	// firstRevision is the revision of a new file. A store is never at revision zero, which as a
	// bare number means "now" to a watch.
	firstRevision store.Revision = 1

	// epochJump is the distance by which a new epoch advances the revision.
	epochJump store.Revision = 1 << 40
)

// Open opens the store in the file at path and creates the file if it does not exist. A nil opts
// means the defaults. The caller must close the store.
//
// Open fails promptly with [store.ErrInUse] if the file is already open, here or in another
// process (see [Options.Wait]); with [ErrForeign], [ErrFormat] or [ErrCorrupt] if this driver
// cannot use the file; with [store.ErrInvalid] for bad options or an empty path; otherwise with
// the error of the file system. Errors are [*store.Error] values with the path as key.
func Open(path string, opts *Options) (*Store, error) {
	s, err := open(path, opts)
	return s, store.Wrap("open", path, err)
}

func open(path string, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if path == "" {
		return nil, fmt.Errorf("%w: the path is empty", store.ErrInvalid)
	}
	f := file{path: path, options: o}
	deadline := time.Now().Add(o.Wait)
	fresh, err := f.probe(o.Wait)
	if err != nil {
		return nil, err
	}
	wait := time.Until(deadline)
	if !fresh {
		wait = max(wait, forkGrace)
	}
	db, err := f.open(wait)
	if err != nil {
		return nil, err
	}
	var s *Store
	err = guard(func() (err error) {
		s, err = start(f, db, fresh)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, guard(db.Close))
	}
	return s, nil
}

// forkGrace is how long open waits at least for the file's lock after the probe. A process that
// the host starts during the probe inherits its open file, and with it the lock, until it
// executes its program. The probe has shown that no other process has the file.
const forkGrace = 250 * time.Millisecond

// start makes the store of an open file and starts its committer.
func start(f file, db *bbolt.DB, fresh bool) (*Store, error) {
	if err := initialise(db, f.options.NewEpoch); err != nil {
		return nil, err
	}
	if fresh {
		if err := syncDirectory(f.path); err != nil {
			return nil, err
		}
	}
	head, epoch, err := whereIs(db)
	if err != nil {
		return nil, err
	}
	s := &Store{
		file:     f,
		db:       db,
		epoch:    epoch,
		writer:   random64(),
		queue:    groupcommit.New[*transaction](),
		stopped:  make(chan struct{}),
		backlog:  true, // an earlier process may have left compacted records
		commitTx: (*bbolt.Tx).Commit,
	}
	s.hub = watch.New(s.readLog, store.Position{Epoch: epoch, Revision: head.revision}, watch.Options{})
	if err := s.sync.opened(db); err != nil {
		return nil, err
	}
	go s.run()
	return s, nil
}

// file opens the engine's file.
type file struct {
	path    string
	options Options
}

// probe checks the file without writing to it, so that a foreign file stays unchanged. It reports
// whether the file has yet to be created.
func (f file) probe(wait time.Duration) (fresh bool, err error) {
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%w: it is no regular file (mode %v)", ErrForeign, info.Mode())
	}
	if info.Size() == 0 {
		return true, nil
	}
	db, err := f.engine(wait, true)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return false, guard(func() error {
		if err := f.checkPages(db); err != nil {
			return err
		}
		return db.View(func(tx *bbolt.Tx) error {
			if err := recognise(tx); err != nil || !f.options.Check || tx.Bucket(bucketMeta) == nil {
				return err
			}
			snap, err := newSnapshot(tx)
			if err != nil {
				return err
			}
			return snap.check()
		})
	})
}

// checkPages checks the pages of the open file db.
func (f file) checkPages(db *bbolt.DB) error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return checkPages(file, info.Size(), db.Info().PageSize, f.options.Check)
}

// open opens the file for writing.
func (f file) open(wait time.Duration) (*bbolt.DB, error) { return f.engine(wait, false) }

func (f file) engine(wait time.Duration, readOnly bool) (*bbolt.DB, error) {
	var db *bbolt.DB
	var opened *os.File
	err := guard(func() (err error) {
		db, err = bbolt.Open(f.path, f.options.Mode, &bbolt.Options{
			Timeout:      max(wait, 1), // zero means no timeout
			ReadOnly:     readOnly,
			FreelistType: bbolt.FreelistMapType, // its cost does not grow with fragmentation
			OpenFile: func(name string, flag int, mode os.FileMode) (file *os.File, err error) {
				file, err = f.options.openFile(name, flag, mode)
				opened = file
				return file, err
			},
		})
		return err
	})
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, ErrCorrupt): // the engine has panicked and still locks the file
		return nil, errors.Join(err, opened.Close())
	case errors.Is(err, berrors.ErrTimeout):
		return nil, fmt.Errorf("%w: close it there, or set Options.Wait to wait for that", store.ErrInUse)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch):
		return nil, fmt.Errorf("%w: %w", ErrForeign, err)
	case errors.Is(err, berrors.ErrChecksum), strings.HasPrefix(err.Error(), tooSmall):
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil, err
}

// tooSmall is the prefix of the engine's error for a file of fewer than two pages. The engine
// exports no error value for it.
const tooSmall = "file size too small"

// recognise checks that this driver wrote the file. A file of the engine without any bucket is
// one whose creation was interrupted.
func recognise(tx *bbolt.Tx) error {
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		if k, _ := tx.Cursor().First(); k == nil {
			return nil
		}
		return fmt.Errorf("%w: another program wrote this bbolt file", ErrForeign)
	}
	format := meta.Get(metaFormat)
	if len(format) < 4 {
		return fmt.Errorf("%w: another program wrote this bbolt file", ErrForeign)
	}
	// The version comes first in every format.
	if v := binary.BigEndian.Uint32(format); v != formatVersion {
		return fmt.Errorf("%w: the file has format version %d, this driver supports %d", ErrFormat, v, formatVersion)
	}
	if !bytes.Equal(format, newFormat()) {
		return damaged(bucketMeta, metaFormat)
	}
	if _, err := getMeta(meta, metaEpoch); err != nil {
		return err
	}
	_, err := newSnapshot(tx)
	return err
}

// newFormat returns the format version with its seal.
func newFormat() []byte {
	version := binary.BigEndian.AppendUint32(nil, formatVersion)
	return binary.BigEndian.AppendUint32(version, seal(bucketMeta, metaFormat, version))
}

// initialise creates the buckets of a new file, or begins a new epoch in an existing file if
// newEpoch is set.
func initialise(db *bbolt.DB, newEpoch bool) error {
	tx, err := db.Begin(true)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()  // no effect after a commit
	if err := recognise(tx); err != nil { // the file may have changed since the probe
		return err
	}
	switch {
	case tx.Bucket(bucketMeta) == nil:
		err = create(tx)
	case newEpoch:
		err = beginEpoch(tx)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

func create(tx *bbolt.Tx) error {
	for _, name := range [][]byte{bucketMeta, bucketState, bucketLog, bucketHistory} {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	meta := tx.Bucket(bucketMeta)
	return errors.Join(
		meta.Put(metaFormat, newFormat()),
		putMeta(meta, metaEpoch, randomEpoch()),
		putMeta(meta, metaHead, head{revision: firstRevision}.append(nil)),
	)
}

// beginEpoch implements Options.NewEpoch.
func beginEpoch(tx *bbolt.Tx) error {
	s, err := newSnapshot(tx)
	if err != nil {
		return err
	}
	if s.head.revision > math.MaxInt64-epochJump {
		return fmt.Errorf("%w: revision %d leaves no room for a new epoch", store.ErrInvalid, s.head.revision)
	}
	for _, name := range [][]byte{bucketLog, bucketHistory} {
		if err := tx.DeleteBucket(name); err != nil {
			return err
		}
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	revision := s.head.revision + epochJump
	next := head{revision: revision, compacted: revision}
	if err := s.state.each(func(_, record []byte) error { next.digest += weight(record); return nil }); err != nil {
		return err
	}
	return errors.Join(
		putMeta(s.meta, metaEpoch, randomEpoch()),
		putMeta(s.meta, metaHead, next.append(nil)),
	)
}

func random64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}

func randomEpoch() []byte {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return []byte(hex.EncodeToString(b[:]))
}

// whereIs returns the head and the epoch of an open file.
func whereIs(db *bbolt.DB) (h head, epoch string, err error) {
	err = db.View(func(tx *bbolt.Tx) error {
		if err := recognise(tx); err != nil {
			return err
		}
		snap, err := newSnapshot(tx)
		if err != nil {
			return err
		}
		name, err := getMeta(snap.meta, metaEpoch)
		h, epoch = snap.head, string(name)
		return err
	})
	return h, epoch, err
}

// syncDirectory makes the name of a new file durable, on systems that can sync a directory. The
// engine syncs only the content of the file.
func syncDirectory(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) { // the file system does not support it
		return nil
	}
	return err
}
