package bolt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"go.etcd.io/bbolt"

	"github.com/nslifecycle/nslifecycle/store"
)

// A seal is a checksum (CRC-32C) at the start of each value in the file. It covers
// the bucket, the key, and the value or its header: a damaged, moved or swapped
// record does not match its seal.
const sealSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func seal(bucket, key, content []byte) uint32 {
	c := crc32.Update(0, castagnoli, bucket)
	return crc32.Update(crc32.Update(c, castagnoli, key), castagnoli, content)
}

// sealed returns content with its seal prepended.
func sealed(bucket, key, content []byte) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, sealSize+len(content)), seal(bucket, key, content))
	return append(b, content...)
}

// unseal returns the content of a sealed value, which it aliases.
func unseal(bucket, key, value []byte) ([]byte, error) {
	if len(value) < sealSize || binary.BigEndian.Uint32(value) != seal(bucket, key, value[sealSize:]) {
		return nil, damaged(bucket, key)
	}
	return value[sealSize:], nil
}

func damaged(bucket, key []byte) error {
	return fmt.Errorf("%w: the record of %.200q in %s does not match its checksum", ErrCorrupt, key, bucket)
}

// table is a bucket of sealed records. It verifies every record that it returns.
type table struct {
	*bbolt.Bucket
	name    []byte
	content int     // the number of bytes that the seal covers; -1 means all
	digest  *uint64 // sum of the weights of all records, in all tables of the file
}

// weight is the contribution of a record to the digest of the file. The digest sums the count and
// the seals of all records, so a lost or outdated record changes it.
func weight(record []byte) uint64 { return 1<<32 | uint64(binary.BigEndian.Uint32(record)) }

// check compares a record with its seal.
func (t table) check(key, record []byte) error {
	end := len(record)
	if t.content >= 0 {
		end = sealSize + t.content
	}
	if len(record) < max(end, sealSize) || binary.BigEndian.Uint32(record) != seal(t.name, key, record[sealSize:end]) {
		return damaged(t.name, key)
	}
	return nil
}

// get returns the record at key, or nil.
func (t table) get(key []byte) ([]byte, error) {
	record, _, err := t.find(key)
	return record, err
}

// find is like get and also returns a cursor at the record.
func (t table) find(key []byte) ([]byte, *bbolt.Cursor, error) {
	c := t.Cursor()
	k, record := c.Seek(key)
	if k == nil || !bytes.Equal(k, key) {
		return nil, nil, t.checkAround(key, k, record, c)
	}
	if err := t.check(k, record); err != nil {
		return nil, nil, err
	}
	return record, c, nil
}

// checkAround checks the records on both sides of key after a search that found k
// instead. If a key is damaged, the search may miss it or end elsewhere. If the neighbours
// are intact and in order, there is nothing between them. checkAround moves c.
func (t table) checkAround(key, k, record []byte, c *bbolt.Cursor) error {
	var before []byte
	var recordBefore []byte
	if k == nil {
		before, recordBefore = c.Last()
	} else {
		before, recordBefore = c.Prev()
		if bytes.Compare(k, key) < 0 {
			return t.disorder(key)
		}
		if err := t.check(k, record); err != nil {
			return err
		}
	}
	if before == nil {
		return nil
	}
	if bytes.Compare(before, key) >= 0 {
		return t.disorder(key)
	}
	return t.check(before, recordBefore)
}

func (t table) disorder(key []byte) error {
	return fmt.Errorf("%w: the keys near %.200q in %s are not in order", ErrCorrupt, key, t.name)
}

// put seals record and writes it. old is the record that it replaces, or nil.
func (t table) put(key, record, old []byte) error {
	end := len(record)
	if t.content >= 0 {
		end = sealSize + t.content
	}
	binary.BigEndian.PutUint32(record, seal(t.name, key, record[sealSize:end]))
	if old != nil {
		*t.digest -= weight(old)
	}
	*t.digest += weight(record)
	return t.Put(key, record)
}

// delete removes the record at key. It reports whether the record existed.
func (t table) delete(key []byte) (bool, error) {
	old, c, err := t.find(key)
	if err != nil || old == nil {
		return false, err
	}
	*t.digest -= weight(old)
	return true, c.Delete()
}

// cursor iterates over a table in key order. At the end key is nil.
type cursor struct {
	table
	engine      *bbolt.Cursor
	key, record []byte
}

// seek moves to the first key at or after bound.
func (c *cursor) seek(bound []byte) error {
	c.engine = c.Cursor()
	c.key, c.record = c.engine.Seek(bound)
	if c.key != nil && bytes.Equal(c.key, bound) {
		return c.check(c.key, c.record)
	}
	around := c.Cursor()
	around.Seek(bound)
	return c.checkAround(bound, c.key, c.record, around)
}

// next moves to the next key.
func (c *cursor) next() error {
	last := c.key
	c.key, c.record = c.engine.Next()
	if c.key == nil {
		return nil
	}
	if bytes.Compare(c.key, last) <= 0 {
		return c.disorder(last)
	}
	return c.check(c.key, c.record)
}

// check verifies all records against their checksums and the digest of the file, and checks that
// the log and the history are complete.
func (s *snapshot) check() error {
	var digest uint64
	for _, t := range []table{s.state, s.history} {
		if err := t.each(func(key, record []byte) error {
			digest += weight(record)
			_, err := entryOf(key, record)
			return err
		}); err != nil {
			return err
		}
	}
	changes, versions := 0, 0
	last := store.Revision(0)
	var items []logItem
	if err := s.log.each(func(key, record []byte) error {
		digest += weight(record)
		r, err := revisionOf(key)
		if err == nil && last != 0 && r != last+1 {
			err = fmt.Errorf("%w: revision %d follows %d in the log", ErrCorrupt, r, last)
		}
		if err == nil {
			items, err = splitLog(items[:0], record)
		}
		last = r
		changes += len(items)
		for _, item := range items {
			if err == nil && item.kind != created {
				versions++
				_, err = s.ended(item.key, r)
			}
		}
		return err
	}); err != nil {
		return err
	}
	if n := s.history.Stats().KeyN; n != versions {
		return fmt.Errorf("%w: the history has %d versions instead of %d", ErrCorrupt, n, versions)
	}
	switch {
	case last != 0 && last != s.head.revision:
		return fmt.Errorf("%w: the log ends at revision %d, the store is at %d", ErrCorrupt, last, s.head.revision)
	case int64(changes) != s.head.changes:
		return fmt.Errorf("%w: the log has %d changes instead of %d", ErrCorrupt, changes, s.head.changes)
	case digest != s.head.digest:
		return fmt.Errorf("%w: the records do not match the digest of the file, some are missing or outdated", ErrCorrupt)
	}
	return nil
}

// each calls f for every record of t.
func (t table) each(f func(key, record []byte) error) error {
	c := cursor{table: t}
	for err := c.seek(nil); ; err = c.next() {
		if err != nil || c.key == nil {
			return err
		}
		if err := f(c.key, c.record); err != nil {
			return err
		}
	}
}
