package bolt

import (
	"bytes"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/nslifecycle/nslifecycle/store"
)

// answer is the result of one transaction of a batch.
type answer struct {
	revision store.Revision
	err      error
}

// batch is one transaction of the engine that applies many requests.
type batch struct {
	*snapshot
	epoch   string
	before  head           // head when the batch began
	dirty   bool           // there is something to commit
	changes []store.Change // for the watches
	olds    [][]byte       // scratch of lookup
}

func newBatch(tx *bbolt.Tx, epoch string) (*batch, error) {
	s, err := newSnapshot(tx)
	if err != nil {
		return nil, err
	}
	s.log.FillPercent = 1 // keys only ascend: fill pages completely
	return &batch{snapshot: s, epoch: epoch, before: s.head}, nil
}

// apply applies r, or returns an error in a and leaves everything unchanged. fatal is an error of
// the engine, after which the whole batch fails.
func (b *batch) apply(r *transaction) (a answer, fatal error) {
	if r.compact != 0 {
		return answer{revision: b.head.revision, err: b.compact(r.compact)}, nil
	}
	for _, c := range r.conditions {
		if err := b.check(c); err != nil {
			return answer{err: err}, nil
		}
	}
	olds, effective, err := b.lookup(r.operations)
	if err != nil {
		return answer{err: err}, nil
	}
	if !effective {
		return answer{revision: b.head.revision}, nil
	}
	if fatal = b.write(r.operations, olds); fatal != nil {
		return answer{}, fatal
	}
	return answer{revision: b.head.revision}, nil
}

// check returns a conflict if c fails.
func (b *batch) check(c store.Condition) error {
	record, r, err := b.current(c.Key)
	if err != nil {
		return err
	}
	if record == nil {
		if c.Holds(nil) {
			return nil
		}
		return &store.ConflictError{Condition: c}
	}
	if c.Holds(&store.Entry{Key: c.Key, Revision: r}) {
		return nil
	}
	e, err := entryOf([]byte(c.Key), record)
	if err != nil {
		return err
	}
	return &store.ConflictError{Condition: c, Current: &e}
}

// lookup returns the value records that the operations replace or delete, with nil for absent
// keys, and reports whether any operation is effective. It reads all records before the first
// write, so that a damaged one refuses the whole transaction.
func (b *batch) lookup(ops []operation) (olds [][]byte, effective bool, err error) {
	olds = b.olds[:0]
	for i := range ops {
		old, _, err := b.current(ops[i].key)
		if err == nil && old != nil {
			_, _, err = splitRecord(old) // the old value goes to the history and to watches
		}
		if err != nil {
			return nil, false, fmt.Errorf("entry %q: %w", ops[i].key, err)
		}
		effective = effective || old != nil || ops[i].record != nil
		olds = append(olds, old)
	}
	b.olds = olds
	return olds, effective, nil
}

// write applies the operations at the next revision.
func (b *batch) write(ops []operation, olds [][]byte) error {
	b.dirty = true
	b.head.revision++
	r := b.head.revision
	size := 0
	for i := range ops {
		size += len(ops[i].key) + 4
	}
	record := make([]byte, sealSize, sealSize+size)
	events := make([]store.Event, 0, len(ops))
	for i := range ops {
		op, old := &ops[i], olds[i]
		if op.record == nil && old == nil {
			continue
		}
		event := store.Event{Key: op.key, Deleted: op.record == nil}
		what := created
		if old != nil {
			what = updated
			prev, err := b.supersede(op.key, old, r)
			if err != nil {
				return err
			}
			event.Prev = prev
		}
		b.scratch = append(b.scratch[:0], op.key...)
		var err error
		if event.Deleted {
			what = deleted
			_, err = b.state.delete(b.scratch)
		} else {
			setRevision(op.record, r)
			event.Value = op.record[valueStart:len(op.record):len(op.record)]
			err = b.state.put(b.scratch, op.record, old)
		}
		if err != nil {
			return fmt.Errorf("writing %q: %w", op.key, err)
		}
		record = appendLogItem(record, what, op.key)
		events = append(events, event)
	}
	b.head.changes += int64(len(events))
	b.changes = append(b.changes, store.Change{Position: store.Position{Epoch: b.epoch, Revision: r}, Events: events})
	b.scratch = appendRevision(b.scratch[:0], r)
	return b.log.put(b.scratch, record, nil)
}

// supersede moves the version of key in old to the history and returns it.
func (b *batch) supersede(key string, old []byte, end store.Revision) (*store.Entry, error) {
	old = bytes.Clone(old) // it points into the file; history and event share the copy
	start, err := startOf(old)
	if err != nil {
		return nil, err
	}
	value := old[valueStart:len(old):len(old)]
	b.scratch = appendRevision(appendVersions(b.scratch[:0], key), end)
	if err := b.history.put(b.scratch, old, nil); err != nil {
		return nil, fmt.Errorf("keeping the version of %q before revision %d: %w", key, end, err)
	}
	return &store.Entry{Key: key, Value: value, Revision: start}, nil
}

// compact makes r the oldest position; prune does the work.
func (b *batch) compact(r store.Revision) error {
	if r > b.head.revision {
		return &store.FutureError{Asked: r, Current: b.head.revision}
	}
	if r > b.head.compacted {
		b.head.compacted = r
		b.dirty = true
	}
	return nil
}

// pruneChunk is the number of changes beyond Options.Retain that gather before they are dropped
// together, because neighbours in the log share pages.
const pruneChunk = 256

// prune drops log records and the versions that they superseded, oldest first. It drops compacted
// records. Once there are pruneChunk more changes than retain, it compacts and drops the oldest.
// Its work is at most a chunk or twice the writes of the batch, whichever is larger, and the rest
// of the log record that exceeds it, so it keeps up with any load. It reports whether compacted
// records are left.
func (b *batch) prune(retain int, backlog bool) (left bool, err error) {
	over := b.head.changes-pruneChunk > int64(retain)
	if !over && !backlog {
		return false, nil
	}
	budget := max(pruneChunk, 2*int(b.head.changes-b.before.changes))
	var keys [][]byte
	var items []logItem
	c := cursor{table: b.log}
	for err := c.seek(nil); ; err = c.next() {
		if err != nil {
			return false, err
		}
		if c.key == nil {
			break
		}
		r, err := revisionOf(c.key)
		if err != nil {
			return false, err
		}
		if items, err = splitLog(items[:0], c.record); err != nil {
			return false, fmt.Errorf("log at revision %d: %w", r, err)
		}
		if r > b.head.compacted && (!over || b.head.changes-int64(len(items)) < int64(retain)) {
			break
		}
		if budget <= 0 {
			left = true
			break
		}
		budget -= len(items)
		if err := b.forget(r, items); err != nil {
			return false, err
		}
		b.head.compacted = max(b.head.compacted, r)
		b.head.changes -= int64(len(items))
		keys = append(keys, c.key)
	}
	for _, k := range keys {
		if _, err := b.log.delete(k); err != nil {
			return false, err
		}
		b.dirty = true
	}
	return left, nil
}

// forget drops the versions that the commit at r superseded.
func (b *batch) forget(r store.Revision, items []logItem) error {
	for _, item := range items {
		if item.kind == created {
			continue
		}
		b.scratch = appendRevision(appendVersions(b.scratch[:0], item.key), r)
		found, err := b.history.delete(b.scratch)
		if err != nil {
			return err
		}
		if !found {
			return missingVersion(item.key, r)
		}
	}
	return nil
}

// seal writes the head, as the last step before the commit.
func (b *batch) seal(writer uint64) error {
	b.head.writer = writer
	return putMeta(b.meta, metaHead, b.head.append(nil))
}
