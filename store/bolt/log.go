package bolt

import (
	"bytes"
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/nslifecycle/nslifecycle/store"
)

// The bounds of one chunk, which one read transaction collects.
const (
	replayItems = 1024
	replayBytes = 1 << 20
)

// readLog is the [watch.ReadFunc].
func (s *Store) readLog(ctx context.Context, prefix string, after, upTo store.Revision) (changes []store.Change, through store.Revision, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		snap, err := newSnapshot(tx)
		if err != nil {
			return err
		}
		if after < snap.head.compacted {
			return gone(after, snap.head)
		}
		c := chunk{snapshot: snap, epoch: s.epoch, prefix: []byte(prefix)}
		through, err = c.read(after, upTo)
		changes = c.changes
		return err
	})
	return changes, through, err
}

// chunk collects changes from the log.
type chunk struct {
	*snapshot
	epoch   string
	prefix  []byte
	changes []store.Change
	bytes   int
	items   []logItem
}

// read collects the changes after one revision, up to another, and returns the revision that it
// has reached.
func (c *chunk) read(after, upTo store.Revision) (store.Revision, error) {
	seen := 0
	log := cursor{table: c.log}
	for err := log.seek(appendRevision(nil, after+1)); after < upTo; err = log.next() {
		if err != nil {
			return 0, err
		}
		if log.key == nil {
			return 0, fmt.Errorf("%w: the log ends at revision %d, the store is at %d", ErrCorrupt, after, c.head.revision)
		}
		if seen >= replayItems || c.bytes >= replayBytes {
			return after, nil
		}
		r, err := revisionOf(log.key)
		if err == nil && r != after+1 {
			err = fmt.Errorf("%w: revision %d is missing in the log", ErrCorrupt, after+1)
		}
		if err != nil {
			return 0, err
		}
		if c.items, err = splitLog(c.items[:0], log.record); err != nil {
			return 0, fmt.Errorf("log at revision %d: %w", r, err)
		}
		if err := c.add(r); err != nil {
			return 0, fmt.Errorf("log at revision %d: %w", r, err)
		}
		seen += len(c.items)
		after = r
	}
	return after, nil
}

// add collects the change at r, restricted to keys with the prefix.
func (c *chunk) add(r store.Revision) error {
	var events []store.Event
	for _, item := range c.items {
		if !bytes.HasPrefix(item.key, c.prefix) {
			continue
		}
		e, err := c.event(item, r)
		if err != nil {
			return err
		}
		events = append(events, e)
	}
	if events != nil {
		c.changes = append(c.changes, store.Change{Position: store.Position{Epoch: c.epoch, Revision: r}, Events: events})
	}
	return nil
}

// event returns the event of the commit at r for the key of item.
func (c *chunk) event(item logItem, r store.Revision) (store.Event, error) {
	e := store.Event{Key: string(item.key), Deleted: item.kind == deleted}
	c.bytes += len(e.Key)
	if !e.Deleted {
		record, err := c.asOf(item.key, r)
		if err != nil {
			return e, err
		}
		written, value, err := splitRecord(record)
		if err != nil {
			return e, err
		}
		if written != r {
			return e, fmt.Errorf("%w: the value of %q has revision %d", ErrCorrupt, item.key, written)
		}
		e.Value = bytes.Clone(value)
		c.bytes += len(value)
	}
	if item.kind != created {
		record, err := c.ended(item.key, r)
		if err != nil {
			return e, err
		}
		prev, err := entryOf(item.key, record)
		if err != nil {
			return e, err
		}
		e.Prev = &prev
		c.bytes += len(prev.Value)
	}
	return e, nil
}
