package memory

import (
	"context"
	"fmt"

	"github.com/nslifecycle/nslifecycle/store"
)

// Commit implements [store.Store]. The outcome is always known.
func (s *Store) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	r, err := s.commit(ctx, txn)
	return r, store.Wrap("commit", "", err)
}

func (s *Store) commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err := txn.Check(s.options.Limits); err != nil {
		return 0, err
	}
	events := prepare(txn.Do)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, store.ErrClosed
	}
	if err := s.holds(txn.If); err != nil {
		return 0, err
	}
	if events = s.apply(events); len(events) == 0 {
		return s.revision, nil
	}
	s.revision++
	change := store.Change{
		Position: store.Position{Epoch: s.options.Epoch, Revision: s.revision},
		Events:   events,
	}
	s.log.push(change)
	s.bytes += historic(change)
	for s.log.len() > 1 && (s.log.len() > s.options.Retain || s.bytes > s.options.RetainBytes) {
		s.forget()
	}
	s.hub.Publish(change)
	return s.revision, nil
}

// prepare makes the events of the operations outside the lock, because copying the values is most
// of the work.
func prepare(do []store.Operation) []store.Event {
	if len(do) == 0 {
		return nil
	}
	events := make([]store.Event, len(do))
	for i, op := range do {
		events[i].Key, events[i].Deleted = op.Key, op.Delete
		if !op.Delete {
			value := make([]byte, len(op.Value))
			copy(value, op.Value)
			events[i].Value = value
		}
	}
	return events
}

// holds returns the conflict of the first condition that fails.
func (s *Store) holds(conditions []store.Condition) error {
	for _, c := range conditions {
		current, _ := s.tables.live.Get(c.Key)
		if c.Holds(current) {
			continue
		}
		conflict := &store.ConflictError{Condition: c}
		if current != nil {
			e := *current // callers must not reach entries of the tables
			conflict.Current = &e
		}
		return conflict
	}
	return nil
}

// apply writes events to the tables at the next revision. It returns the effective ones, with
// their previous entries.
func (s *Store) apply(events []store.Event) []store.Event {
	next := s.revision + 1
	kept := events[:0]
	for _, e := range events {
		if e.Deleted {
			e.Prev, _ = s.tables.live.Delete(e.Key)
		} else {
			e.Prev, _ = s.tables.live.Set(e.Key, &store.Entry{Key: e.Key, Value: e.Value, Revision: next})
		}
		if e.Prev != nil {
			s.tables.history.Set(version{Entry: e.Prev, end: next})
		}
		if e.Prev != nil || !e.Deleted {
			kept = append(kept, e)
		}
	}
	clear(events[len(kept):])
	return kept
}

// forget drops the oldest change, and the versions that the change ended: no remaining position
// can list them.
func (s *Store) forget() {
	c := s.log.pop()
	s.compacted = c.Position.Revision
	s.bytes -= historic(c)
	for _, e := range c.Events {
		if e.Prev != nil {
			s.tables.history.Delete(version{Entry: e.Prev, end: s.compacted})
		}
	}
}

// historic returns the number of bytes that only the history holds once c is committed: the
// values that c superseded, and an estimate of the bookkeeping. Each version is superseded by one
// change, so it is counted once.
func historic(c store.Change) int {
	const overhead = 128 // the event, and the version in the history table
	n := 0
	for i := range c.Events {
		n += overhead
		if prev := c.Events[i].Prev; prev != nil {
			n += len(prev.Key) + len(prev.Value)
		}
	}
	return n
}

// forgetAtOnce bounds the changes that Compact drops in one step, which blocks commits.
const forgetAtOnce = 256

// Compact implements [store.Compactor].
func (s *Store) Compact(ctx context.Context, revision store.Revision) error {
	return store.Wrap("compact", "", s.compact(ctx, revision))
}

func (s *Store) compact(ctx context.Context, revision store.Revision) error {
	if revision < 0 {
		return fmt.Errorf("%w: revision %d is negative", store.ErrInvalid, revision)
	}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if done, err := s.compactStep(revision); done || err != nil {
			return err
		}
	}
}

// compactStep does a part of Compact. A store compacted in part is the same as one compacted to
// an earlier revision.
func (s *Store) compactStep(revision store.Revision) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false, store.ErrClosed
	}
	if revision > s.revision {
		return false, &store.FutureError{Asked: revision, Current: s.revision}
	}
	for range forgetAtOnce {
		if s.compacted >= revision {
			return true, nil
		}
		s.forget()
	}
	return s.compacted >= revision, nil
}
