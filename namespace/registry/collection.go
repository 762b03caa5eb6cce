package registry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/keylock"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
	"github.com/nslifecycle/nslifecycle/store"
)

const (
	maxBatch = 1000 // objects that one commit deletes, if the store allows as many

	// maxBatchConflicts is the number of conflicts after which a batch is halved, so that an
	// object that changes often is soon alone in its batch.
	maxBatchConflicts = 3
)

// Deletion is the result of deleting a collection.
type Deletion struct {
	Deleted int // objects removed
	Marked  int // objects that got a deletion timestamp because finalizers retain them
}

// DeleteCollection deletes the selected objects in a namespace as [Content.Delete] does, many
// of them in one commit. The whole is not atomic: it may or may not delete an object that is
// created meanwhile, and with an error it returns the result so far. The admission chain sees
// all objects of a commit at once.
func (c *Content) DeleteCollection(ctx context.Context, ns string, labels selector.Labels, fields selector.Fields) (Deletion, error) {
	if err := c.checkNamespace(ns); err != nil {
		return Deletion{}, err
	}
	filter, err := c.kind.filter(labels, fields)
	if err != nil {
		return Deletion{}, err
	}
	d := collectionDeletion{Content: c, namespace: ns, admitted: c.hasAdmission(), prefix: c.keys.content(c.typ.Name(), ns), filter: filter}
	err = d.run(ctx)
	return d.done, err
}

// collectionDeletion deletes a collection.
type collectionDeletion struct {
	*Content
	namespace string
	prefix    string
	filter    filter[Object]
	fence     *fence // nil: any incarnation
	admitted  bool   // go through the admission chain; false for a party's pass (rule R12)
	done      Deletion
	busy      error // the error about an object that other writers kept changing
}

// batch is the objects that one commit deletes.
type batch struct {
	entries    []store.Entry
	values     [][]byte // the marked objects; nil: removed
	skipped    []bool   // not to be deleted
	edits      []edit   // for the admission chain
	unresolved error    // the error of an earlier commit that may have landed
}

// run goes through the collection once, ordered by key. An object that other writers keep
// changing does not block the rest; run then returns the error at the end.
func (d *collectionDeletion) run(ctx context.Context) error {
	if err := contextError(ctx, d.resource, ""); err != nil {
		return err
	}
	size := maxBatch
	if d.limits.Operations > 0 {
		size = max(1, min(size, d.limits.Operations-d.otherConditions())) // one condition for each object
	}
	q := store.Query{Prefix: d.prefix, Limit: size}
	for {
		page, err := d.store.List(ctx, q)
		if err != nil {
			return storeError(d.resource, "", err)
		}
		for rest := page.Entries; len(rest) > 0; {
			n := d.fitting(rest)
			if err := d.delete(ctx, rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
		if !page.More || len(page.Entries) == 0 {
			return d.busy
		}
		q.After = page.Entries[len(page.Entries)-1].Key
	}
}

// otherConditions returns the number of conditions reserved for the fence or for admission
// plugins. If plugins add more, the batch is halved.
func (d *collectionDeletion) otherConditions() int {
	if d.admitted {
		return 16
	}
	return 1
}

// fitting returns how many of the entries fit into one commit even if all are marked.
func (d *collectionDeletion) fitting(entries []store.Entry) int {
	if d.limits.Bytes <= 0 {
		return len(entries)
	}
	total := 0
	for i, e := range entries {
		if total += len(e.Key) + len(e.Value) + deletionGrowth; total > d.limits.Bytes {
			return max(1, i)
		}
	}
	return len(entries)
}

// delete deletes the objects of consecutive entries by one commit, or by several if they do
// not fit into one or conflict too often.
func (d *collectionDeletion) delete(ctx context.Context, entries []store.Entry) error {
	b := batch{entries: entries}
	var locks keylock.Owner
	if d.admitted {
		locks = d.lockOwner()
	}
	defer locks.Unlock()
	conflicts := 0
	for attempt := range maxAttempts {
		divisible := len(b.entries) > 1 && b.unresolved == nil
		if divisible && conflicts >= maxBatchConflicts {
			locks.Unlock()
			return d.halves(ctx, b.entries)
		}
		txn, did, err := d.admittedTransaction(ctx, &b)
		switch {
		case errors.Is(err, store.ErrTooLarge) && divisible:
			locks.Unlock()
			return d.halves(ctx, b.entries)
		case err != nil:
			return d.failure(&b, err)
		case len(txn.Do) == 0:
			return nil
		}
		contended := contendedKeys(&locks, txn.If, txn.Do, b.has)
		if len(contended) == 0 {
			_, err = d.commit(ctx, txn, d.dry)
		}
		var conflict *store.ConflictError
		switch {
		case len(contended) > 0:
		case err == nil:
			d.done.Deleted += did.Deleted
			d.done.Marked += did.Marked
			return nil
		case errors.Is(err, store.ErrUnknownOutcome):
			b.unresolved = err
		case !errors.As(err, &conflict):
			return d.failure(&b, err)
		case d.admitted && !b.has(conflict.Condition.Key):
			contended = []string{conflict.Condition.Key}
		default:
			conflicts++
		}
		if err := locks.Lock(ctx, contended...); err != nil {
			return d.failure(&b, err)
		}
		if err := d.refresh(ctx, &b, attempt); err != nil {
			return d.failure(&b, err)
		}
	}
	d.busy = d.failure(&b, modified(d.resource, d.nameOf(b.entries), errContention))
	return nil
}

// refresh reads the fence and the objects of b again, after a delay.
func (d *collectionDeletion) refresh(ctx context.Context, b *batch, attempt int) error {
	if err := backoff.SleepConflict(ctx, attempt); err != nil {
		return err
	}
	if d.fence != nil {
		if err := d.fence.refresh(ctx, d.core); err != nil {
			return err
		}
	}
	return d.reload(ctx, b)
}

func (d *collectionDeletion) halves(ctx context.Context, entries []store.Entry) error {
	half := len(entries) / 2
	if err := d.delete(ctx, entries[:half]); err != nil {
		return err
	}
	return d.delete(ctx, entries[half:])
}

// has reports whether an object of b is at key.
func (b *batch) has(key string) bool {
	_, ok := slices.BinarySearchFunc(b.entries, key, func(e store.Entry, key string) int { return strings.Compare(e.Key, key) })
	return ok
}

// nameOf returns the name of a single entry, and "" for several.
func (d *collectionDeletion) nameOf(entries []store.Entry) string {
	if len(entries) != 1 {
		return ""
	}
	return strings.TrimPrefix(entries[0].Key, d.prefix)
}

func (d *collectionDeletion) failure(b *batch, err error) error {
	if b.unresolved != nil {
		return unknownOutcome(d.resource, d.nameOf(b.entries), errors.Join(b.unresolved, err))
	}
	return storeError(d.resource, "", err)
}

// transaction returns the transaction that deletes the selected objects of b, and its result.
func (d *collectionDeletion) transaction(b *batch) (txn store.Txn, did Deletion, err error) {
	b.edits = nil
	b.values, b.skipped = make([][]byte, len(b.entries)), make([]bool, len(b.entries))
	txn.If = make([]store.Condition, 0, len(b.entries)+1)
	txn.Do = make([]store.Operation, 0, len(b.entries))
	if d.fence != nil {
		txn.If = append(txn.If, d.fence.condition())
	}
	at := time.Now()
	for i, e := range b.entries {
		if b.values[i], b.skipped[i], err = d.deletionOf(e, at, &b.edits); err != nil {
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

// admittedTransaction is transaction with the conditions and writes of admission plugins.
func (d *collectionDeletion) admittedTransaction(ctx context.Context, b *batch) (txn store.Txn, did Deletion, err error) {
	txn, did, err = d.transaction(b)
	if err != nil || len(b.edits) == 0 {
		return txn, did, err
	}
	a, err := d.admitObjects(ctx, d.namespace, Delete, b.edits...)
	if err != nil {
		return store.Txn{}, Deletion{}, err
	}
	if txn.If, txn.Do, err = a.join(ctx, txn.If, txn.Do); err != nil {
		return store.Txn{}, Deletion{}, err
	}
	return txn, did, txn.Check(d.limits)
}

// deletionOf returns the value and the edit of one deletion. It decodes only objects with
// finalizers, and those that pass the admission chain.
func (d *collectionDeletion) deletionOf(e store.Entry, at time.Time, edits *[]edit) (value []byte, skip bool, err error) {
	doc, err := d.filter.selected(e)
	if err != nil || doc == nil {
		return nil, true, err
	}
	if !doc.HasFinalizers() && !d.admitted {
		return nil, false, nil
	}
	object, err := decodeObject(e)
	if err != nil {
		return nil, false, err
	}
	old := object
	m, err := deletionMutation(&object, at)
	if d.admitted && err == nil && !m.noop {
		*edits = append(*edits, deletionEdit(e, m, old, object))
	}
	return m.value, m.noop, err
}

// reload reads the objects of b again. After a commit of unknown outcome, an object that is as
// the commit would have left it counts as done (resolveOutcome).
func (d *collectionDeletion) reload(ctx context.Context, b *batch) error {
	current := make(map[string]store.Entry, len(b.entries))
	first, last := b.entries[0], b.entries[len(b.entries)-1]
	entry, err := d.read(ctx, first.Key)
	if err != nil {
		return err
	}
	if entry != nil {
		current[first.Key] = *entry
	}
	for q := (store.Query{Prefix: d.prefix, After: first.Key, Limit: len(b.entries)}); q.After < last.Key; {
		page, err := d.store.List(ctx, q)
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
		if now, exists := current[e.Key]; exists {
			left = append(left, now)
			found = &now
		}
		switch {
		case b.unresolved == nil || b.skipped[i] || resolveOutcome(e, b.values[i], found) != landed:
		case b.values[i] == nil:
			d.done.Deleted++
		default:
			d.done.Marked++
		}
	}
	b.entries = left
	return nil
}
