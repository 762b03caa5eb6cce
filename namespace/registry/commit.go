package registry

import (
	"bytes"
	"context"
	"errors"

	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/store"
)

// attempts bounds how often one request tries to write.
const attempts = 32

// commit applies txn, or with dry only checks it.
func (c *core) commit(ctx context.Context, txn store.Txn, dry bool) (store.Revision, error) {
	if dry {
		if err := txn.Check(c.limits); err != nil {
			return 0, err
		}
		txn.Do = nil
	}
	return c.store.Commit(ctx, txn)
}

// target is the object that a request is about.
type target struct {
	resource, name string
	key            string
}

// plan is what a request wants to do to an entry.
type plan struct {
	value []byte            // the new object; nil: see gone and keep
	keep  bool              // leave the object unchanged
	gone  bool              // remove the object
	with  []store.Operation // further writes of the same commit
	If    []store.Condition // beyond that the object is still the one that was read; on other keys
	again bool              // when one of these does not hold, ask for another plan
}

// txn returns the transaction that carries out p on entry.
func (p plan) txn(entry store.Entry) store.Txn {
	op := store.Put(entry.Key, p.value)
	if p.gone {
		op = store.Delete(entry.Key)
	}
	return store.Txn{
		If: append([]store.Condition{store.At(entry.Key, entry.Revision)}, p.If...),
		Do: append([]store.Operation{op}, p.with...),
	}
}

// mutate reads the entry of t, asks for a plan, and carries it out if the entry
// is still the same; otherwise it begins again, so that a plan which refuses
// other versions than one is what limits it. It returns the entry as it is after
// that (as it was, if it is gone now).
func (c *core) mutate(ctx context.Context, t target, dry bool, make func(store.Entry) (plan, error)) (entry store.Entry, gone bool, err error) {
	if err := ended(ctx, t.resource, t.name); err != nil {
		return store.Entry{}, false, err
	}
	turn := c.turnAt(ctx)
	defer turn.give()
	anew := true // the entry is to be read
	for attempt := range attempts {
		if anew {
			if entry, err = c.store.Get(ctx, t.key); err != nil {
				return store.Entry{}, false, stored(t.resource, t.name, err)
			}
		}
		p, err := make(entry)
		if err != nil || p.keep {
			return entry, false, err
		}
		awaited := turn.behind(p.If, p.with, nil)
		if anew = len(awaited) > 0; anew {
			if err := turn.take(ctx, awaited); err != nil {
				return store.Entry{}, false, stored(t.resource, t.name, err)
			}
			continue
		}
		written, err := c.apply(ctx, entry, p.value, p.txn(entry), dry)
		if err == nil {
			return written, p.gone, nil
		}
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) || errors.Is(err, store.ErrUnknownOutcome) {
			return store.Entry{}, false, stored(t.resource, t.name, err)
		}
		if err := backoff.SleepConflict(ctx, attempt); err != nil {
			return store.Entry{}, false, stored(t.resource, t.name, err)
		}
		switch key := conflict.Condition.Key; {
		case key != t.key && !p.again:
			return store.Entry{}, false, modified(t.resource, t.name, err)
		case key != t.key:
			if err := turn.take(ctx, []string{key}); err != nil {
				return store.Entry{}, false, stored(t.resource, t.name, err)
			}
			anew = true
		case conflict.Current == nil:
			return store.Entry{}, false, notFound(t.resource, t.name)
		default:
			entry = *conflict.Current
		}
	}
	return store.Entry{}, false, modified(t.resource, t.name, errBusy)
}

var errBusy = errors.New("others changed it at every attempt")

// apply commits txn, which replaces the value of the entry before with after, and returns
// the resulting entry. If before.Revision is zero txn creates the entry; if after is nil
// txn removes it. If the outcome of a commit is unknown, apply reads the entry back and
// resolves the outcome; it repeats a pending write. The error is a [*store.ConflictError]
// only if no commit has landed or can land, and matches [store.ErrUnknownOutcome] if one
// might.
func (c *core) apply(ctx context.Context, before store.Entry, after []byte, txn store.Txn, dry bool) (store.Entry, error) {
	var doubt error // the answer to an earlier commit that may have landed
	for attempt := range attempts {
		revision, err := c.commit(ctx, txn, dry)
		if err == nil {
			return written(before, after, revision, dry), nil
		}
		var conflict *store.ConflictError
		switch {
		case errors.Is(err, store.ErrUnknownOutcome):
			doubt = err
		case doubt == nil || dry:
			return store.Entry{}, err
		case !errors.As(err, &conflict):
			return store.Entry{}, errors.Join(doubt, err)
		case refutes(conflict, before):
			return store.Entry{}, err
		}
		if err := backoff.SleepConflict(ctx, attempt); err != nil {
			return store.Entry{}, errors.Join(doubt, err)
		}
		if dry { // a dry run cannot land
			continue
		}
		found, err := c.read(ctx, before.Key)
		if err != nil {
			return store.Entry{}, errors.Join(doubt, err)
		}
		switch resolve(before, after, found) {
		case landed:
			if after == nil {
				return before, nil
			}
			return *found, nil
		case refuted:
			return store.Entry{}, &store.ConflictError{Condition: store.At(before.Key, before.Revision), Current: found}
		case unclear:
			return store.Entry{}, errors.Join(doubt, errUnclear)
		}
	}
	return store.Entry{}, errors.Join(doubt, errBusy)
}

var errUnclear = errors.New("what is stored now does not tell whether it was made")

// verdict classifies a write of unknown outcome by the entry found afterwards.
type verdict uint8

const (
	unclear verdict = iota // the write may have landed, or may still land
	landed                 // the entry has, or had, the written value
	pending                // the write has not landed; either it or its repetition can
	refuted                // the write has not landed and never will
)

// resolve is the only function that decides a write of unknown outcome, by the entry found
// at its key. A replacement or a removal requires the revision of the entry before; a
// creation requires absence, which can recur. A uid never recurs.
//
//	found                   creation   replacement   removal
//	at the revision before  -          pending       pending
//	as written              landed     landed        -
//	same uid, changed       landed     unclear       refuted
//	another uid             unclear    unclear       landed
//	absent                  unclear    unclear       landed
//
// The verdict landed describes the entry, not its author: identical writes are
// indistinguishable, and so are removals. Joined writes of the other author stay its own
// ([Write.Replace]). A conflict can refute a write too (refutes).
func resolve(before store.Entry, after []byte, found *store.Entry) verdict {
	switch {
	case found == nil && after == nil:
		return landed
	case found == nil:
		return unclear
	case found.Revision == before.Revision:
		return pending
	case after != nil && bytes.Equal(found.Value, after):
		return landed
	}
	ours := after
	if ours == nil {
		ours = before.Value
	}
	x, err := decodeHeader(ours)
	y, bad := decodeHeader(found.Value)
	same := x.UID == y.UID
	switch {
	case err != nil || bad != nil:
		return unclear
	case after == nil && same:
		return refuted
	case after == nil, before.Revision == 0 && same:
		return landed
	}
	return unclear
}

// refutes reports whether a conflict proves that no earlier commit of the same write has
// landed or can land: the first condition, on the entry, held, and another condition requires
// a past revision. A condition of absence proves nothing, since the key may be deleted again.
func refutes(conflict *store.ConflictError, before store.Entry) bool {
	return conflict.Condition.Key != before.Key && conflict.Condition.Want == store.WantRevision
}

// written returns the entry after a commit at revision replaced before with after.
func written(before store.Entry, after []byte, revision store.Revision, dry bool) store.Entry {
	if dry {
		revision = before.Revision
	}
	if after == nil {
		after = before.Value
	}
	return store.Entry{Key: before.Key, Value: after, Revision: revision}
}

// read returns the entry at key, nil when there is none.
func (c *core) read(ctx context.Context, key string) (*store.Entry, error) {
	entry, err := c.store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return &entry, err
}
