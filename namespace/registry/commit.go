package registry

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
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

// pause waits a little before another attempt: nothing at first, then up to some
// milliseconds.
func pause(ctx context.Context, attempt int) error {
	if attempt < 2 {
		return nil
	}
	longest := min(time.Millisecond<<min(attempt-2, 6), 50*time.Millisecond)
	timer := time.NewTimer(rand.N(longest))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// target is the object that a request is about.
type target struct {
	resource, name string
	key            string
}

// plan is what a request wants to do to an entry.
type plan struct {
	value []byte            // what the object is to become
	keep  bool              // nothing is to be done
	gone  bool              // the object is to be removed
	with  []store.Operation // in the same commit
	If    []store.Condition // beyond that the object is still the one that was read; on other keys
	again bool              // when one of these does not hold, ask for another plan
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
		written, err := c.replace(ctx, entry, p, dry)
		var conflict *store.ConflictError
		switch {
		case err == nil:
			return written, p.gone, nil
		case !errors.As(err, &conflict) || errors.Is(err, namespace.ErrUnknownOutcome):
			return store.Entry{}, false, stored(t.resource, t.name, err)
		}
		if err := pause(ctx, attempt); err != nil {
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

// replace carries out p on entry. When the outcome of a commit is unknown it
// reads back: what it wrote is success, what was there before is another attempt
// under the same conditions, anything else stays unknown. A conflict about the
// revision of a key beyond the entry is an answer also then: the entry was still the
// same, so that nothing was made, and that key will never be of that revision again,
// so that nothing will be. A key that was to be absent may be so again.
func (c *core) replace(ctx context.Context, entry store.Entry, p plan, dry bool) (store.Entry, error) {
	txn := store.Txn{If: append([]store.Condition{store.At(entry.Key, entry.Revision)}, p.If...)}
	if p.gone {
		txn.Do = append([]store.Operation{store.Delete(entry.Key)}, p.with...)
	} else {
		txn.Do = append([]store.Operation{store.Put(entry.Key, p.value)}, p.with...)
	}
	var doubt error // an earlier attempt may have been made
	for attempt := range attempts {
		revision, err := c.commit(ctx, txn, dry)
		var conflict *store.ConflictError
		switch {
		case err == nil:
			return p.result(entry, revision, dry), nil
		case errors.As(err, &conflict) && conflict.Condition.Key != entry.Key && conflict.Condition.Want == store.WantRevision:
			return store.Entry{}, err
		case errors.Is(err, store.ErrUnknownOutcome):
			doubt = err
		case doubt == nil:
			return store.Entry{}, err
		case !errors.Is(err, store.ErrConflict):
			return store.Entry{}, unresolved(doubt, err)
		}
		if err := pause(ctx, attempt); err != nil {
			return store.Entry{}, unresolved(doubt, err)
		}
		current, err := c.read(ctx, entry.Key)
		switch {
		case err != nil:
			return store.Entry{}, unresolved(doubt, err)
		case current != nil && current.Revision == entry.Revision:
			// Not made (yet): the same again, under the same conditions.
		case p.done(entry, current):
			if current == nil {
				return entry, nil
			}
			return p.result(entry, current.Revision, dry), nil
		default:
			return store.Entry{}, unresolved(doubt, errOverwritten)
		}
	}
	return store.Entry{}, unresolved(doubt, errBusy)
}

var errOverwritten = errors.New("somebody else wrote since")

// unresolved is the error for a write of which nothing can be said, and why not.
func unresolved(doubt, why error) error {
	return errors.Join(namespace.ErrUnknownOutcome, doubt, why)
}

// read returns the entry at key, nil when there is none.
func (c *core) read(ctx context.Context, key string) (*store.Entry, error) {
	entry, err := c.store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return &entry, err
}

// result is the entry after p was carried out at revision.
func (p plan) result(entry store.Entry, revision store.Revision, dry bool) store.Entry {
	if dry {
		revision = entry.Revision
	}
	if p.gone {
		return store.Entry{Key: entry.Key, Value: entry.Value, Revision: revision}
	}
	return store.Entry{Key: entry.Key, Value: p.value, Revision: revision}
}

// done reports whether current, of another revision than before, shows that what p was
// to do to the entry is done: by whomever, since identical values, uids in them, cannot
// be told apart. The joined writes are those of who did it ([Write.Replace]).
func (p plan) done(before store.Entry, current *store.Entry) bool {
	if !p.gone {
		return current != nil && bytes.Equal(current.Value, p.value)
	}
	return current == nil || !sameIncarnation(before, *current)
}

// sameIncarnation reports whether two entries of one key are of one object.
func sameIncarnation(a, b store.Entry) bool {
	x, err := decodeHeader(a.Value)
	if err != nil {
		return true
	}
	y, err := decodeHeader(b.Value)
	return err != nil || x.UID == y.UID
}
