package registry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
	"github.com/nslifecycle/nslifecycle/store"
)

// maxBatch is how many objects are deleted by one commit, if the store allows as
// many.
const maxBatch = 1000

// Deletion is what the deletion of a collection did.
type Deletion struct {
	Deleted int // objects that are gone
	Marked  int // objects that finalizers hold, and that were not marked before
}

// DeleteCollection deletes the selected objects in a namespace, as
// [Content.Delete] does each, many of them by one commit; the whole is not
// atomic. What is created meanwhile may be deleted or not. With an error it
// returns what it did before. Admission is asked about all objects of a commit at
// once.
func (c *Content) DeleteCollection(ctx context.Context, ns string, labels selector.Labels, fields selector.Fields) (Deletion, error) {
	if err := c.checkNamespace(ns); err != nil {
		return Deletion{}, err
	}
	match, err := c.kind.match(labels, fields)
	if err != nil {
		return Deletion{}, err
	}
	s := sweep{Content: c, namespace: ns, asked: c.asks(), prefix: c.keys.content(c.typ.Name(), ns), match: match}
	err = s.run(ctx)
	return s.done, err
}

// sweep deletes a collection.
type sweep struct {
	*Content
	namespace string
	prefix    string
	match     func(Object) bool // nil: everything
	fence     *fence            // nil: whatever incarnation; else this one only (rule R8)
	asked     bool              // admission is; never of a pass (rule R12)
	done      Deletion
	busy      error // why an object could not be deleted that others kept changing
}

// batch is the objects that one commit deletes.
type batch struct {
	entries []store.Entry
	values  [][]byte // what each becomes; nil: it is removed
	skipped []bool   // nothing is to be done about it
	doubt   error    // an earlier commit of it may have been made
	changes []change // those that admission is asked about
}

// run goes through the collection once, by key. An object that others change all
// the time does not hold up the rest; the error comes at the end then.
func (s *sweep) run(ctx context.Context) error {
	if err := ended(ctx, s.resource, ""); err != nil {
		return err
	}
	size := maxBatch
	if s.limits.Operations > 0 {
		size = max(1, min(size, s.limits.Operations-s.reserve())) // a condition for each object
	}
	q := store.Query{Prefix: s.prefix, Limit: size}
	for {
		page, err := s.store.List(ctx, q)
		if err != nil {
			return stored(s.resource, "", err)
		}
		for rest := page.Entries; len(rest) > 0; {
			n := s.fitting(rest)
			if err := s.delete(ctx, rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
		if !page.More || len(page.Entries) == 0 {
			return s.busy
		}
		q.After = page.Entries[len(page.Entries)-1].Key
	}
}

// reserve is how many conditions of a commit are kept for others than those on its
// objects: the fence, or what admission has join. If that is more the batch is cut.
func (s *sweep) reserve() int {
	if s.asked {
		return 16
	}
	return 1
}

// fitting returns how many of the entries fit into one commit even if all of them
// are marked.
func (s *sweep) fitting(entries []store.Entry) int {
	if s.limits.Bytes <= 0 {
		return len(entries)
	}
	total := 0
	for i, e := range entries {
		if total += len(e.Key) + len(e.Value) + mark; total > s.limits.Bytes {
			return max(1, i)
		}
	}
	return len(entries)
}

// patience is how many conflicts a batch may meet before it is cut in half.
const patience = 3

// delete deletes the objects of some neighbouring entries by one commit. When
// somebody else changed one of them it reads them again, and when that goes on it
// takes fewer at once, so that what is changed often is soon alone.
func (s *sweep) delete(ctx context.Context, entries []store.Entry) error {
	b := batch{entries: entries}
	var t turn
	if s.asked {
		t = s.turnAt(ctx)
	}
	defer t.give()
	conflicts := 0
	for attempt := range attempts {
		if half := len(b.entries) / 2; half > 0 && conflicts >= patience && b.doubt == nil {
			t.give()
			return s.halves(ctx, b.entries)
		}
		txn, did, err := s.planAsked(ctx, &b)
		switch {
		case errors.Is(err, store.ErrTooLarge) && len(b.entries) > 1 && b.doubt == nil:
			t.give()
			return s.halves(ctx, b.entries)
		case err != nil:
			return s.failure(&b, err)
		case len(txn.Do) == 0:
			return nil
		}
		awaited := t.behind(txn.If, txn.Do, b.about)
		if len(awaited) == 0 {
			_, err = s.commit(ctx, txn, s.dry)
		}
		var conflict *store.ConflictError
		switch {
		case len(awaited) > 0:
		case err == nil:
			s.count(did)
			return nil
		case errors.Is(err, store.ErrUnknownOutcome):
			b.doubt = err
		case !errors.As(err, &conflict):
			return s.failure(&b, err)
		case s.asked && !b.about(conflict.Condition.Key):
			awaited = []string{conflict.Condition.Key}
		default:
			conflicts++
		}
		if err := t.take(ctx, awaited); err != nil {
			return s.failure(&b, err)
		}
		if err := s.again(ctx, &b, attempt); err != nil {
			return s.failure(&b, err)
		}
	}
	s.busy = s.failure(&b, modified(s.resource, s.nameOf(b.entries), errBusy))
	return nil
}

// again reads what is to be deleted again, after a while.
func (s *sweep) again(ctx context.Context, b *batch, attempt int) error {
	if err := backoff.SleepConflict(ctx, attempt); err != nil {
		return err
	}
	if s.fence != nil {
		if err := s.fence.renew(ctx, s.core); err != nil {
			return err
		}
	}
	return s.reload(ctx, b)
}

func (s *sweep) halves(ctx context.Context, entries []store.Entry) error {
	half := len(entries) / 2
	if err := s.delete(ctx, entries[:half]); err != nil {
		return err
	}
	return s.delete(ctx, entries[half:])
}

// about reports whether an object of b is at key.
func (b *batch) about(key string) bool {
	_, ok := slices.BinarySearchFunc(b.entries, key, func(e store.Entry, key string) int { return strings.Compare(e.Key, key) })
	return ok
}

// nameOf returns the name of the only one of the entries; empty for several.
func (s *sweep) nameOf(entries []store.Entry) string {
	if len(entries) != 1 {
		return ""
	}
	return strings.TrimPrefix(entries[0].Key, s.prefix)
}

func (s *sweep) failure(b *batch, err error) error {
	if b.doubt != nil {
		return unknown(s.resource, s.nameOf(b.entries), errors.Join(b.doubt, err))
	}
	return stored(s.resource, "", err)
}

func (s *sweep) count(did Deletion) {
	s.done.Deleted += did.Deleted
	s.done.Marked += did.Marked
}

// plan returns the transaction that deletes what of b is to be deleted, and what
// it does.
func (s *sweep) plan(b *batch) (txn store.Txn, did Deletion, err error) {
	b.changes = nil
	b.values, b.skipped = make([][]byte, len(b.entries)), make([]bool, len(b.entries))
	txn.If = make([]store.Condition, 0, len(b.entries)+1)
	txn.Do = make([]store.Operation, 0, len(b.entries))
	if s.fence != nil {
		txn.If = append(txn.If, s.fence.condition())
	}
	at := time.Now()
	for i, e := range b.entries {
		if b.values[i], b.skipped[i], err = s.planObject(e, at, &b.changes); err != nil {
			return store.Txn{}, Deletion{}, err
		}
		switch {
		case b.skipped[i]:
			continue
		case b.values[i] == nil:
			txn.Do = append(txn.Do, store.Delete(e.Key))
			did.Deleted++
		default:
			txn.Do = append(txn.Do, store.Put(e.Key, b.values[i]))
			did.Marked++
		}
		txn.If = append(txn.If, store.At(e.Key, e.Revision))
	}
	return txn, did, nil
}

// planAsked is plan with what admission has join.
func (s *sweep) planAsked(ctx context.Context, b *batch) (txn store.Txn, did Deletion, err error) {
	txn, did, err = s.plan(b)
	if err != nil || len(b.changes) == 0 {
		return txn, did, err
	}
	a, err := s.admit(ctx, s.namespace, Delete, b.changes...)
	if err != nil {
		return store.Txn{}, Deletion{}, err
	}
	if txn.If, txn.Do, err = a.join(ctx, txn.If, txn.Do); err != nil {
		return store.Txn{}, Deletion{}, err
	}
	return txn, did, txn.Check(s.limits)
}

// planObject returns what becomes of one object. Most have no finalizers and
// need not be decoded, unless admission is asked.
func (s *sweep) planObject(e store.Entry, at time.Time, changes *[]change) (value []byte, skip bool, err error) {
	if s.match == nil && !s.asked && !mayHaveFinalizers(e.Value) {
		return nil, false, nil
	}
	object, err := decodeObject(e)
	if err != nil {
		return nil, false, err
	}
	if s.match != nil && !s.match(object) {
		return nil, true, nil
	}
	old := object
	p, err := planObjectDeletion(&object, at)
	if s.asked && err == nil && !p.keep {
		*changes = append(*changes, deletionOf(e, p, old, object))
	}
	return p.value, p.keep, err
}

// reload reads the objects of b again. An object in the state that a commit of unknown
// outcome would have left counts as done by that commit (resolve).
func (s *sweep) reload(ctx context.Context, b *batch) error {
	current := make(map[string]store.Entry, len(b.entries))
	first, last := b.entries[0], b.entries[len(b.entries)-1]
	entry, err := s.read(ctx, first.Key)
	if err != nil {
		return err
	}
	if entry != nil {
		current[first.Key] = *entry
	}
	for q := (store.Query{Prefix: s.prefix, After: first.Key, Limit: len(b.entries)}); q.After < last.Key; {
		page, err := s.store.List(ctx, q)
		if err != nil {
			return err
		}
		if len(page.Entries) == 0 {
			break
		}
		for _, e := range page.Entries {
			current[e.Key] = e
		}
		q.After = page.Entries[len(page.Entries)-1].Key
	}
	left := make([]store.Entry, 0, len(b.entries))
	for i, e := range b.entries {
		var found *store.Entry
		if now, there := current[e.Key]; there {
			left = append(left, now)
			found = &now
		}
		switch {
		case b.doubt == nil || b.skipped[i] || resolve(e, b.values[i], found) != landed:
		case b.values[i] == nil:
			s.done.Deleted++
		default:
			s.done.Marked++
		}
	}
	b.entries = left
	return nil
}

// fence is the index entry of a terminating incarnation. A commit on condition
// of it can do nothing to another incarnation (rule R8).
type fence struct {
	name, uid string
	entry     store.Entry
}

func (f *fence) condition() store.Condition { return store.At(f.entry.Key, f.entry.Revision) }

// renew reads the entry again: it is rewritten for the same incarnation when a
// finalizer is added to it.
func (f *fence) renew(ctx context.Context, c *core) error {
	entry, err := c.read(ctx, c.keys.terminating(f.name))
	switch {
	case err != nil:
		return stored(namespace.Resource, f.name, err)
	case entry == nil || string(entry.Value) != f.uid:
		return otherIncarnation(f.name, f.uid)
	}
	f.entry = *entry
	return nil
}
