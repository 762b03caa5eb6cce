package bolt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/nslifecycle/nslifecycle/store"
)

// revisionSize is the size of a revision in the file. It is big-endian, so byte order is revision
// order.
const revisionSize = 8

func putRevision(b []byte, r store.Revision) { binary.BigEndian.PutUint64(b, uint64(r)) }

func appendRevision(b []byte, r store.Revision) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(r))
}

// revisionOf decodes a revision, which is always positive.
func revisionOf(b []byte) (store.Revision, error) {
	if len(b) != revisionSize {
		return 0, fmt.Errorf("%w: a revision has %d bytes", ErrCorrupt, len(b))
	}
	u := binary.BigEndian.Uint64(b)
	if u == 0 || u > math.MaxInt64 {
		return 0, fmt.Errorf("%w: revision %d is out of range", ErrCorrupt, u)
	}
	return store.Revision(u), nil
}

// A value record, in the buckets state and history, is the seal, the checksum of the
// value, the revision that wrote it, and the value. The seal covers the bytes between it and
// the value, so that the presence of a key can be verified without reading its value.
const (
	valueHeader = 4 + revisionSize
	valueStart  = sealSize + valueHeader
)

// newRecord copies value into a record without revision and seal.
func newRecord(value []byte) []byte {
	record := make([]byte, valueStart+len(value))
	copy(record[valueStart:], value)
	binary.BigEndian.PutUint32(record[sealSize:], crc32.Checksum(value, castagnoli))
	return record
}

// setRevision sets the revision of a value record.
func setRevision(record []byte, r store.Revision) { putRevision(record[sealSize+4:], r) }

// startOf returns the revision of a value record. The caller has verified the seal.
func startOf(record []byte) (store.Revision, error) {
	if len(record) < valueStart {
		return 0, fmt.Errorf("%w: a value record has only %d bytes", ErrCorrupt, len(record))
	}
	return revisionOf(record[sealSize+4 : valueStart])
}

// splitRecord verifies the checksum of the value and returns the parts of a value record.
// The caller has verified the seal. The value aliases the record.
func splitRecord(record []byte) (store.Revision, []byte, error) {
	r, err := startOf(record)
	if err != nil {
		return 0, nil, err
	}
	value := record[valueStart:len(record):len(record)]
	if crc32.Checksum(value, castagnoli) != binary.BigEndian.Uint32(record[sealSize:]) {
		return 0, nil, fmt.Errorf("%w: the value does not match its checksum", ErrCorrupt)
	}
	return r, value, nil
}

// A history key is the key of the entry with every 0x00 written as 0x00 0xFF, then 0x00 0x00,
// then the revision that ended the version. History keys therefore sort by key first, for any
// bytes in keys, and by revision second.
const (
	escaped    = 0x00
	escapedBy  = 0xFF
	terminator = 0x00
)

// appendEscaped appends key without the terminator. The result is a lower bound for the history
// keys of key and of greater keys, and an upper bound for those of smaller keys.
func appendEscaped[K string | []byte](b []byte, key K) []byte {
	for i := range len(key) {
		if b = append(b, key[i]); key[i] == escaped {
			b = append(b, escapedBy)
		}
	}
	return b
}

// appendVersions appends the common prefix of all history keys of key.
func appendVersions[K string | []byte](b []byte, key K) []byte {
	return append(appendEscaped(b, key), escaped, terminator)
}

// splitHistoryKey returns the parts of a history key. The key may alias b.
func splitHistoryKey(b []byte) (key []byte, end store.Revision, err error) {
	n := len(b) - revisionSize
	if n < 3 || b[n-2] != escaped || b[n-1] != terminator {
		return nil, 0, fmt.Errorf("%w: history key %x is malformed", ErrCorrupt, b)
	}
	if end, err = revisionOf(b[n:]); err != nil {
		return nil, 0, err
	}
	if key, err = unescape(b[:n-2]); err != nil {
		return nil, 0, fmt.Errorf("%w: history key %x is malformed", err, b)
	}
	return key, end, nil
}

// unescape reverses appendEscaped. The result aliases b if nothing was escaped.
func unescape(b []byte) ([]byte, error) {
	i := bytes.IndexByte(b, escaped)
	if i < 0 {
		return b, nil
	}
	key := make([]byte, 0, len(b))
	for ; i >= 0; i = bytes.IndexByte(b, escaped) {
		if i+1 >= len(b) || b[i+1] != escapedBy {
			return nil, ErrCorrupt
		}
		key = append(key, b[:i+1]...)
		b = b[i+2:]
	}
	return append(key, b...), nil
}

// kind is the effect of a commit on a key.
type kind byte

const (
	created kind = iota + 1 // there was no entry before
	updated
	deleted
)

// logItem is one key of a log record. A log record is the seal, then the keys that a commit
// changed, in the order of its operations: for each the kind, the length of the key as a uvarint,
// and the key. The values are in state and history.
type logItem struct {
	kind kind
	key  []byte
}

func appendLogItem(b []byte, k kind, key string) []byte {
	b = append(b, byte(k))
	b = binary.AppendUvarint(b, uint64(len(key)))
	return append(b, key...)
}

// splitLog appends the items of a log record to items. Their keys alias the record.
func splitLog(items []logItem, record []byte) ([]logItem, error) {
	if len(record) <= sealSize {
		return nil, fmt.Errorf("%w: a log record is empty", ErrCorrupt)
	}
	for b := record[sealSize:]; len(b) > 0; {
		k := kind(b[0])
		size, n := binary.Uvarint(b[1:])
		if k < created || k > deleted || n <= 0 || size == 0 || size > uint64(len(b)-1-n) {
			return nil, fmt.Errorf("%w: log record %.80x is malformed at byte %d", ErrCorrupt, record, len(record)-len(b))
		}
		b = b[1+n:]
		items = append(items, logItem{kind: k, key: b[:size:size]})
		b = b[size:]
	}
	return items, nil
}

// head describes the current state of the store. It is one value in the bucket meta, written once
// per batch.
type head struct {
	revision  store.Revision // of the newest commit
	compacted store.Revision // the oldest position that can be listed and watched from
	changes   int64          // items in the log
	writer    uint64         // a random number, by opening of the file
	digest    uint64         // of all records, see weight
}

const headSize = 5 * 8

func (h head) append(b []byte) []byte {
	b = appendRevision(b, h.revision)
	b = appendRevision(b, h.compacted)
	b = binary.BigEndian.AppendUint64(b, uint64(h.changes))
	b = binary.BigEndian.AppendUint64(b, h.writer)
	return binary.BigEndian.AppendUint64(b, h.digest)
}

func splitHead(b []byte) (head, error) {
	if len(b) != headSize {
		return head{}, fmt.Errorf("%w: the head has %d bytes", ErrCorrupt, len(b))
	}
	h := head{
		revision:  store.Revision(binary.BigEndian.Uint64(b)),
		compacted: store.Revision(binary.BigEndian.Uint64(b[8:])),
		changes:   int64(binary.BigEndian.Uint64(b[16:])),
		writer:    binary.BigEndian.Uint64(b[24:]),
		digest:    binary.BigEndian.Uint64(b[32:]),
	}
	if h.revision < firstRevision || h.compacted < 0 || h.compacted > h.revision || h.changes < 0 {
		return head{}, fmt.Errorf("%w: the head is inconsistent: %+v", ErrCorrupt, h)
	}
	return h, nil
}
