package memory

import (
	"context"
	"fmt"

	"github.com/nslifecycle/nslifecycle/store"
)

// Commit implements [store.Store]. The outcome is always known.
func (s *Store) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	err := check(ctx)
	if err == nil {
		err = txn.Check(s.options.Limits)
	}
	if err != nil {
		return 0, fail("commit", "", err)
	}
	events := prepare(txn.Do)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, fail("commit", "", store.ErrClosed)
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
	for s.log.len() > 1 && (s.log.len() > s.options.History || s.bytes > s.options.HistoryBytes) {
		s.forget()
	}
	s.hub.Publish(change)
	return s.revision, nil
}

// prepare makes the events of the operations as far as that can be done outside
// the lock: copying the values is most of the work.
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

// holds returns the conflict of the first condition that does not hold.
func (s *Store) holds(conditions []store.Condition) error {
	for _, c := range conditions {
		current, _ := s.tables.live.Get(c.Key)
		if c.Holds(current) {
			continue
		}
		conflict := &store.ConflictError{Condition: c}
		if current != nil {
			e := *current // what the tables hold is not handed out
			conflict.Current = &e
		}
		return fail("commit", c.Key, conflict)
	}
	return nil
}

// apply brings events into the tables as the next revision, and returns those
// that changed something with their previous entries.
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

// forget drops the oldest change. The versions it ended were the last thing to
// be listed before it, so they go too.
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

// historic returns the bytes that only history holds once c is committed: the
// values that c superseded, and an estimate of what keeping track of them takes.
// Every version is superseded by one change, so nothing is counted twice.
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

// forgetAtOnce is how many changes Compact drops while commits wait.
const forgetAtOnce = 256

// Compact implements [store.Compactor].
func (s *Store) Compact(ctx context.Context, revision store.Revision) error {
	if revision < 0 {
		return fail("compact", "", fmt.Errorf("%w: the revision %d is negative", store.ErrInvalid, revision))
	}
	for done := false; !done; {
		if err := check(ctx); err != nil {
			return fail("compact", "", err)
		}
		var err error
		if done, err = s.compact(revision); err != nil {
			return fail("compact", "", err)
		}
	}
	return nil
}

// compact does a part of Compact. A store that was compacted in part is as good
// as one that was compacted to an earlier revision.
func (s *Store) compact(revision store.Revision) (done bool, err error) {
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
