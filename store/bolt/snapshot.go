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
	bucketState   = []byte("state")   // key -> value record: what is
	bucketLog     = []byte("log")     // revision -> log record: what each commit changed
	bucketHistory = []byte("history") // history key -> value record: what was, until its end
)

// The keys of the bucket meta.
var (
	metaFormat = []byte("format")
	metaEpoch  = []byte("epoch")
	metaHead   = []byte("head")
)

// snapshot reads the store as of one transaction of the engine. Slices that its
// methods return are valid as long as the transaction.
type snapshot struct {
	meta, state, log, history *bbolt.Bucket
	head                      head
	scratch                   []byte
}

func newSnapshot(tx *bbolt.Tx) (*snapshot, error) {
	s := &snapshot{
		meta:    tx.Bucket(bucketMeta),
		state:   tx.Bucket(bucketState),
		log:     tx.Bucket(bucketLog),
		history: tx.Bucket(bucketHistory),
	}
	if s.meta == nil || s.state == nil || s.log == nil || s.history == nil {
		return nil, fmt.Errorf("%w: a bucket is missing", ErrCorrupt)
	}
	var err error
	s.head, err = splitHead(s.meta.Get(metaHead))
	return s, err
}

// current returns the value record of key, nil when it is absent.
func (s *snapshot) current(key string) (record []byte, r store.Revision, err error) {
	s.scratch = append(s.scratch[:0], key...)
	if record = s.state.Get(s.scratch); record == nil {
		return nil, 0, nil
	}
	if r, _, err = splitRecord(record); err != nil {
		return nil, 0, fmt.Errorf("the entry %q: %w", key, err)
	}
	return record, r, nil
}

// ended returns the value record of the version of key that the commit at end
// superseded.
func (s *snapshot) ended(key []byte, end store.Revision) ([]byte, error) {
	s.scratch = appendRevision(appendVersions(s.scratch[:0], key), end)
	record := s.history.Get(s.scratch)
	if record == nil {
		return nil, fmt.Errorf("%w: the version of %q before revision %d is missing", ErrCorrupt, key, end)
	}
	return record, nil
}

// asOf returns the value record of key as it was at revision r, nil when it was
// absent. It is the one question about the past: the first version that ended
// after r holds the answer, or else the state does. The caller has made sure that
// r was not compacted.
func (s *snapshot) asOf(key []byte, r store.Revision) ([]byte, error) {
	s.scratch = appendVersions(s.scratch[:0], key)
	versions := len(s.scratch)
	s.scratch = appendRevision(s.scratch, r+1)
	k, record := s.history.Cursor().Seek(s.scratch)
	if !bytes.HasPrefix(k, s.scratch[:versions]) {
		record = s.state.Get(key)
	}
	return startedBy(record, r)
}

// startedBy returns record when its version had begun at r, and nil otherwise.
func startedBy(record []byte, r store.Revision) ([]byte, error) {
	if record == nil {
		return nil, nil
	}
	start, _, err := splitRecord(record)
	if err != nil || start > r {
		return nil, err
	}
	return record, nil
}

// entryOf returns record as an entry that outlives the transaction.
func entryOf(key []byte, record []byte) (store.Entry, error) {
	r, value, err := splitRecord(record)
	if err != nil {
		return store.Entry{}, fmt.Errorf("the entry %q: %w", key, err)
	}
	return store.Entry{Key: string(key), Value: bytes.Clone(value), Revision: r}, nil
}

// list walks the entries with prefix after a key as they were at revision r, in
// key order, until visit returns false. The cost of a step does not depend on how
// often a key has changed since r.
func (s *snapshot) list(ctx context.Context, prefix, after string, r store.Revision, visit func(key, record []byte) bool) error {
	const between = 1024 // steps, two looks at the context
	start := []byte(prefix)
	if after >= prefix {
		start = append([]byte(after), 0) // the smallest key that is greater
	}
	w := &walk{snapshot: s, at: r, state: s.state.Cursor()}
	w.stateKey, w.stateRecord = w.state.Seek(start)
	if r < s.head.revision {
		w.history = s.history.Cursor()
		w.historyKey, w.historyRecord = w.history.Seek(appendEscaped(nil, start))
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

// walk merges the state with the history.
type walk struct {
	*snapshot
	at                        store.Revision
	state, history            *bbolt.Cursor // history is nil when nothing was superseded since
	stateKey, stateRecord     []byte
	historyKey, historyRecord []byte
	bound                     []byte // a history key, for seeking
}

// next returns the next key that is or was there, with its record at the
// revision of the walk: nil when it was absent. At the end the key is nil.
func (w *walk) next() (key, record []byte, err error) {
	past, err := w.pastKey()
	if err != nil {
		return nil, nil, err
	}
	if past == nil || w.stateKey != nil && bytes.Compare(w.stateKey, past) < 0 {
		key, record = w.stateKey, w.stateRecord
		if key != nil {
			w.stateKey, w.stateRecord = w.state.Next()
		}
	} else {
		key = past
		found := false
		if record, found = w.version(past); !found {
			record = nil
		}
		if bytes.Equal(w.stateKey, past) {
			if !found {
				record = w.stateRecord
			}
			w.stateKey, w.stateRecord = w.state.Next()
		}
	}
	record, err = startedBy(record, w.at)
	return key, record, err
}

// pastKey returns the key that the history cursor stands at, nil at its end.
func (w *walk) pastKey() ([]byte, error) {
	if w.historyKey == nil {
		return nil, nil
	}
	key, _, err := splitHistoryKey(w.historyKey)
	return key, err
}

// version returns the first version of key that ended after the revision of the
// walk, and moves the history cursor to the next key.
func (w *walk) version(key []byte) (record []byte, found bool) {
	w.bound = appendVersions(w.bound[:0], key)
	versions := len(w.bound)
	w.bound = appendRevision(w.bound, w.at+1)
	w.forward()
	if !bytes.HasPrefix(w.historyKey, w.bound[:versions]) {
		return nil, false // it stands at the next key already
	}
	record = w.historyRecord
	// No revision has its first bit set: nothing of this key sorts behind.
	w.bound = append(w.bound[:versions], 0xFF)
	w.forward()
	return record, true
}

// forward moves the history cursor on to the first key from bound on. Mostly that
// is close by, and a few steps cost less than a seek.
func (w *walk) forward() {
	for range 4 {
		if w.historyKey == nil || bytes.Compare(w.historyKey, w.bound) >= 0 {
			return
		}
		w.historyKey, w.historyRecord = w.history.Next()
	}
	w.historyKey, w.historyRecord = w.history.Seek(w.bound)
}
