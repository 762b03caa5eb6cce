package bolt

import (
	"bytes"
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/nslifecycle/nslifecycle/store"
)

// The buckets of the file.
var (
	bucketMeta    = []byte("meta")    // format, epoch, head
	bucketState   = []byte("state")   // key -> value record: the current entries
	bucketLog     = []byte("log")     // revision -> log record: the keys that each commit changed
	bucketHistory = []byte("history") // history key -> value record: the superseded versions
)

// The keys of the bucket meta.
var (
	metaFormat = []byte("format")
	metaEpoch  = []byte("epoch")
	metaHead   = []byte("head")
)

// snapshot reads the store in one transaction of the engine. Returned slices are valid until the
// transaction ends.
type snapshot struct {
	meta                *bbolt.Bucket
	state, log, history table
	head                head
	scratch             []byte
}

func newSnapshot(tx *bbolt.Tx) (*snapshot, error) {
	s := &snapshot{meta: tx.Bucket(bucketMeta)}
	s.state = table{tx.Bucket(bucketState), bucketState, valueHeader, &s.head.digest}
	s.log = table{tx.Bucket(bucketLog), bucketLog, -1, &s.head.digest}
	s.history = table{tx.Bucket(bucketHistory), bucketHistory, valueHeader, &s.head.digest}
	if s.meta == nil || s.state.Bucket == nil || s.log.Bucket == nil || s.history.Bucket == nil {
		return nil, fmt.Errorf("%w: a bucket is missing", ErrCorrupt)
	}
	content, err := getMeta(s.meta, metaHead)
	if err == nil {
		s.head, err = splitHead(content)
	}
	return s, err
}

// getMeta returns the content of a sealed value of the bucket meta.
func getMeta(meta *bbolt.Bucket, key []byte) ([]byte, error) {
	return unseal(bucketMeta, key, meta.Get(key))
}

// putMeta writes a sealed value of the bucket meta.
func putMeta(meta *bbolt.Bucket, key, content []byte) error {
	return meta.Put(key, sealed(bucketMeta, key, content))
}

// current returns the value record of key, or nil if it is absent.
func (s *snapshot) current(key string) (record []byte, r store.Revision, err error) {
	s.scratch = append(s.scratch[:0], key...)
	if record, err = s.state.get(s.scratch); err != nil || record == nil {
		return nil, 0, err
	}
	if r, err = startOf(record); err != nil {
		return nil, 0, fmt.Errorf("entry %q: %w", key, err)
	}
	return record, r, nil
}

// ended returns the value record of the version of key that the commit at end
// superseded.
func (s *snapshot) ended(key []byte, end store.Revision) ([]byte, error) {
	s.scratch = appendRevision(appendVersions(s.scratch[:0], key), end)
	record, err := s.history.get(s.scratch)
	if err == nil && record == nil {
		err = missingVersion(key, end)
	}
	return record, err
}

func missingVersion(key []byte, end store.Revision) error {
	return fmt.Errorf("%w: the version of %q before revision %d is missing", ErrCorrupt, key, end)
}

// asOf returns the value record of key at revision r, or nil if it was absent. The first version
// that ended after r is the answer, or else the current entry, if it had begun by r. The caller
// has checked that r is not compacted.
func (s *snapshot) asOf(key []byte, r store.Revision) ([]byte, error) {
	s.scratch = appendVersions(s.scratch[:0], key)
	versions := len(s.scratch)
	s.scratch = appendRevision(s.scratch, r+1)
	c := cursor{table: s.history}
	err := c.seek(s.scratch)
	record := c.record
	if err == nil && !bytes.HasPrefix(c.key, s.scratch[:versions]) {
		record, err = s.state.get(key)
	}
	if err != nil {
		return nil, err
	}
	return startedBy(record, r)
}

// startedBy returns record if its version had begun by r, and nil otherwise.
func startedBy(record []byte, r store.Revision) ([]byte, error) {
	if record == nil {
		return nil, nil
	}
	start, err := startOf(record)
	if err != nil || start > r {
		return nil, err
	}
	return record, nil
}

// entryOf returns record as an entry that outlives the transaction.
func entryOf(key []byte, record []byte) (store.Entry, error) {
	r, value, err := splitRecord(record)
	if err != nil {
		return store.Entry{}, fmt.Errorf("entry %q: %w", key, err)
	}
	return store.Entry{Key: string(key), Value: bytes.Clone(value), Revision: r}, nil
}

// list visits the entries with prefix after a key at revision r, in key order, until visit
// returns false. The cost of a step does not depend on how often a key has changed since r.
func (s *snapshot) list(ctx context.Context, prefix, after string, r store.Revision, visit func(key, record []byte) bool) error {
	const between = 1024 // steps between two checks of the context
	start := []byte(prefix)
	if after >= prefix {
		start = append([]byte(after), 0) // the next greater key
	}
	w := &walk{at: r, state: cursor{table: s.state}, history: cursor{table: s.history}}
	if err := w.state.seek(start); err != nil {
		return err
	}
	if r < s.head.revision {
		if err := w.history.seek(appendEscaped(nil, start)); err != nil {
			return err
		}
	}
	for step := 1; ; step++ {
		if step%between == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		key, record, err := w.next()
		if err != nil || !bytes.HasPrefix(key, []byte(prefix)) || key == nil {
			return err
		}
		if record != nil && !visit(key, record) {
			return nil
		}
	}
}

// walk merges the current entries with the history.
type walk struct {
	at             store.Revision
	state, history cursor // history is at its end if nothing was superseded since
	bound          []byte // a history key to seek
}

// next returns the next key and its record at the revision of the walk, or nil if it was absent
// then. At the end the key is nil.
func (w *walk) next() (key, record []byte, err error) {
	past, err := w.pastKey()
	if err != nil {
		return nil, nil, err
	}
	if past == nil || w.state.key != nil && bytes.Compare(w.state.key, past) < 0 {
		if key, record = w.state.key, w.state.record; key != nil {
			err = w.state.next()
		}
	} else {
		key = past
		found := false
		if record, found, err = w.version(past); err == nil && bytes.Equal(w.state.key, past) {
			if !found {
				record = w.state.record
			}
			err = w.state.next()
		}
	}
	if err != nil {
		return nil, nil, err
	}
	record, err = startedBy(record, w.at)
	return key, record, err
}

// pastKey returns the key at the history cursor, or nil at its end.
func (w *walk) pastKey() ([]byte, error) {
	if w.history.key == nil {
		return nil, nil
	}
	key, _, err := splitHistoryKey(w.history.key)
	return key, err
}

// version returns the first version of key that ended after the revision of the walk, and
// advances the history cursor to the next key.
func (w *walk) version(key []byte) (record []byte, found bool, err error) {
	w.bound = appendVersions(w.bound[:0], key)
	versions := len(w.bound)
	w.bound = appendRevision(w.bound, w.at+1)
	if err := w.forward(); err != nil {
		return nil, false, err
	}
	if !bytes.HasPrefix(w.history.key, w.bound[:versions]) {
		return nil, false, nil // the cursor is already at the next key
	}
	record = w.history.record
	// Revisions never have the first bit set, so this sorts after all versions of the key.
	w.bound = append(w.bound[:versions], 0xFF)
	return record, true, w.forward()
}

// forward advances the history cursor to the first key at or after bound. That key is usually
// close, and a few steps cost less than a seek.
func (w *walk) forward() error {
	for range 4 {
		if w.history.key == nil || bytes.Compare(w.history.key, w.bound) >= 0 {
			return nil
		}
		if err := w.history.next(); err != nil {
			return err
		}
	}
	return w.history.seek(w.bound)
}
