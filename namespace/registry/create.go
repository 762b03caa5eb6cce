package registry

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/store"
)

// collisions bounds how many generated names are tried.
const collisions = 8

// creation describes the creation of one object.
type creation struct {
	resource string
	name     string // empty: generated
	prefix   string // of a generated name
	// build returns the entry and the transaction that creates it.
	build func(name, uid string) (store.Entry, store.Txn, error)
	// conflicted explains a conflict about another key than the entry's. If it is nil, or
	// returns nil, the next attempt may succeed.
	conflicted func(ctx context.Context, name string, conflict *store.ConflictError) error
}

// create carries out a creation. It repeats only attempts that a conflict has refuted: if
// the entry is absent, the object was either never created or deleted again (resolve). built
// reports whether entry is the last result of build; otherwise another writer changed it. In
// a dry run the revision of entry is zero.
func (c *core) create(ctx context.Context, want creation, dry bool) (entry store.Entry, built bool, err error) {
	name, generated := want.name, want.name == "" && want.prefix != ""
	if err := ended(ctx, want.resource, name); err != nil {
		return store.Entry{}, false, err
	}
	if generated {
		name = namespace.GenerateName(want.prefix, rand.Uint64())
	}
	uid, occupied := newUID(), 0
	turn := c.turnAt(ctx)
	defer turn.give()
	var awaited []string // keys to take turns for before the next attempt
	for attempt := range attempts {
		if err := turn.take(ctx, awaited); err != nil {
			return store.Entry{}, false, stored(want.resource, name, err)
		}
		entry, txn, err := want.build(name, uid)
		if err != nil {
			return store.Entry{}, false, err
		}
		if awaited = turn.behind(txn.If, txn.Do, nil); len(awaited) > 0 {
			continue
		}
		made, err := c.apply(ctx, store.Entry{Key: entry.Key}, entry.Value, txn, dry)
		if err == nil {
			return made, bytes.Equal(made.Value, entry.Value), nil
		}
		var conflict *store.ConflictError
		switch {
		case !errors.As(err, &conflict) || errors.Is(err, store.ErrUnknownOutcome):
			return store.Entry{}, false, stored(want.resource, name, err)
		case conflict.Condition.Key == entry.Key && conflict.Current != nil:
			h, _ := decodeHeader(conflict.Current.Value) // a damaged one has the name as well
			if occupied++; !generated {
				return store.Entry{}, false, taken(want.resource, name, !h.DeletionTimestamp.IsZero())
			}
			if occupied >= collisions {
				return store.Entry{}, false, exhausted(want.resource, name)
			}
			name = namespace.GenerateName(want.prefix, rand.Uint64())
		default:
			if conflict.Condition.Want == store.WantRevision {
				awaited = []string{conflict.Condition.Key}
			}
			if want.conflicted != nil {
				if why := want.conflicted(ctx, name, conflict); why != nil {
					return store.Entry{}, false, why
				}
			}
		}
		if err := backoff.SleepConflict(ctx, attempt); err != nil {
			return store.Entry{}, false, stored(want.resource, name, err)
		}
	}
	return store.Entry{}, false, modified(want.resource, name, errBusy)
}

// madeAt is the resourceVersion of an object that was created; a dry run makes
// none.
func madeAt(entry store.Entry) string {
	if entry.Revision == 0 {
		return ""
	}
	return formatVersion(entry.Revision)
}
