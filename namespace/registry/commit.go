package registry

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/document"
	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/keylock"
	"github.com/nslifecycle/nslifecycle/store"
)

const (
	maxAttempts = 32 // of one request to commit
	maxNames    = 8  // generated names that one create tries
)

// creation describes the creation of one object.
type creation struct {
	resource string
	name     string // empty: generated
	prefix   string // of a generated name
	// build returns the entry and the transaction that creates it.
	build func(name, uid string) (store.Entry, store.Txn, error)
	// classifyConflict explains a conflict about another key than the entry's. If it is nil, or
	// returns nil, the next attempt may succeed.
	classifyConflict func(ctx context.Context, name string, conflict *store.ConflictError) error
}

// create carries out a creation. It tries again only if a conflict proves that the attempt
// neither landed nor can land. After an unknown outcome an absent entry proves nothing: the
// object may have been created and deleted again (resolveOutcome).
// built reports whether entry is the last result of build; otherwise another writer changed
// it. In a dry run the revision of entry is zero.
func (c *core) create(ctx context.Context, want creation, dry bool) (entry store.Entry, built bool, err error) {
	name, generated := want.name, want.name == "" && want.prefix != ""
	if err := contextError(ctx, want.resource, name); err != nil {
		return store.Entry{}, false, err
	}
	if generated {
		name = namespace.GenerateName(want.prefix, rand.Uint64())
	}
	uid, occupied := newUID(), 0
	locks := c.lockOwner()
	defer locks.Unlock()
	var contended []string // keys to lock before the next attempt
	for attempt := range maxAttempts {
		if err := locks.Lock(ctx, contended...); err != nil {
			return store.Entry{}, false, storeError(want.resource, name, err)
		}
		entry, txn, err := want.build(name, uid)
		if err != nil {
			return store.Entry{}, false, err
		}
		if contended = contendedKeys(&locks, txn.If, txn.Do, nil); len(contended) > 0 {
			continue
		}
		made, err := c.apply(ctx, store.Entry{Key: entry.Key}, entry.Value, txn, dry)
		if err == nil {
			return made, bytes.Equal(made.Value, entry.Value), nil
		}
		var conflict *store.ConflictError
		switch {
		case !errors.As(err, &conflict) || errors.Is(err, store.ErrUnknownOutcome):
			return store.Entry{}, false, storeError(want.resource, name, err)
		case conflict.Condition.Key == entry.Key && conflict.Current != nil:
			existing, _ := document.Parse(conflict.Current.Value) // a damaged one occupies the name as well
			if occupied++; !generated {
				return store.Entry{}, false, alreadyExists(want.resource, name, existing.Deleting)
			}
			if occupied >= maxNames {
				return store.Entry{}, false, generatedExists(want.resource, name)
			}
			name = namespace.GenerateName(want.prefix, rand.Uint64())
		default:
			if conflict.Condition.Want == store.WantRevision {
				contended = []string{conflict.Condition.Key}
			}
			if want.classifyConflict != nil {
				if err := want.classifyConflict(ctx, name, conflict); err != nil {
					return store.Entry{}, false, err
				}
			}
		}
		if err := backoff.SleepConflict(ctx, attempt); err != nil {
			return store.Entry{}, false, storeError(want.resource, name, err)
		}
	}
	return store.Entry{}, false, modified(want.resource, name, errContention)
}

// createdVersion returns the resourceVersion of a created object; empty after a dry run.
func createdVersion(entry store.Entry) string {
	if entry.Revision == 0 {
		return ""
	}
	return formatVersion(entry.Revision)
}

// target is the object of a request.
type target struct {
	resource, name string
	key            string
}

// mutation is the change that a request makes to an entry.
type mutation struct {
	value  []byte            // the new object, unless noop or remove is set
	noop   bool              // leave the object unchanged and commit nothing
	remove bool              // remove the object
	do     []store.Operation // further writes of the same commit
	ifAlso []store.Condition // conditions on other keys
	retry  bool              // if one of ifAlso fails, build the mutation again
}

// txn returns the transaction that makes the change to entry.
func (m mutation) txn(entry store.Entry) store.Txn {
	op := store.Put(entry.Key, m.value)
	if m.remove {
		op = store.Delete(entry.Key)
	}
	return store.Txn{
		If: append([]store.Condition{store.At(entry.Key, entry.Revision)}, m.ifAlso...),
		Do: append([]store.Operation{op}, m.do...),
	}
}

// mutate reads the entry of t, calls build with it, and commits the mutation on condition that
// the entry is unchanged. If another writer changed the entry, mutate calls build again with
// the current entry; build rejects an entry that the request does not accept. mutate returns
// the resulting entry, or the last one before its removal.
func (c *core) mutate(ctx context.Context, t target, dry bool, build func(store.Entry) (mutation, error)) (entry store.Entry, removed bool, err error) {
	if err := contextError(ctx, t.resource, t.name); err != nil {
		return store.Entry{}, false, err
	}
	failed := func(err error) (store.Entry, bool, error) {
		return store.Entry{}, false, storeError(t.resource, t.name, err)
	}
	locks := c.lockOwner()
	defer locks.Unlock()
	reread := true
	for attempt := range maxAttempts {
		if reread {
			if entry, err = c.store.Get(ctx, t.key); err != nil {
				return failed(err)
			}
		}
		m, err := build(entry)
		if err != nil || m.noop {
			return entry, false, err
		}
		contended := contendedKeys(&locks, m.ifAlso, m.do, nil)
		if reread = len(contended) > 0; reread {
			if err := locks.Lock(ctx, contended...); err != nil {
				return failed(err)
			}
			continue
		}
		written, err := c.apply(ctx, entry, m.value, m.txn(entry), dry)
		if err == nil {
			return written, m.remove, nil
		}
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) || errors.Is(err, store.ErrUnknownOutcome) {
			return failed(err)
		}
		if err := backoff.SleepConflict(ctx, attempt); err != nil {
			return failed(err)
		}
		switch key := conflict.Condition.Key; {
		case key != t.key && !m.retry:
			return store.Entry{}, false, modified(t.resource, t.name, err)
		case key != t.key:
			if err := locks.Lock(ctx, key); err != nil {
				return failed(err)
			}
			reread = true
		case conflict.Current == nil:
			return store.Entry{}, false, notFound(t.resource, t.name)
		default:
			entry = *conflict.Current
		}
	}
	return store.Entry{}, false, modified(t.resource, t.name, errContention)
}

// lockOwner returns the owner of the key locks of one request. Without admission plugins a
// request writes no keys that others contend for, and needs no locks.
func (c *core) lockOwner() keylock.Owner {
	if !c.hasAdmission() {
		return keylock.Owner{}
	}
	return c.locks.Owner()
}

// contendedKeys returns the keys that the transaction both writes and requires at a revision,
// if another request has locked them. It leaves out the keys for which own is true: the
// request's own. own may be nil.
func contendedKeys(locks *keylock.Owner, conditions []store.Condition, do []store.Operation, own func(key string) bool) []string {
	var keys []string
	for _, c := range conditions {
		if c.Want != store.WantRevision || own != nil && own(c.Key) || !writes(do, c.Key) {
			continue
		}
		if locks.Waits(c.Key) {
			keys = append(keys, c.Key)
		}
	}
	return keys
}

func writes(do []store.Operation, key string) bool {
	for i := range do {
		if do[i].Key == key {
			return true
		}
	}
	return false
}

// commit commits txn. In a dry run it checks the size and the conditions only.
func (c *core) commit(ctx context.Context, txn store.Txn, dry bool) (store.Revision, error) {
	if dry {
		if err := txn.Check(c.limits); err != nil {
			return 0, err
		}
		txn.Do = nil
	}
	return c.store.Commit(ctx, txn)
}

// apply commits txn, which replaces the value of the entry before with after, and returns
// the resulting entry. If before.Revision is zero txn creates the entry; if after is nil
// txn removes it. If the outcome of a commit is unknown, apply reads the entry back and
// resolves the outcome; it repeats a pending write. The error is a [*store.ConflictError]
// only if no commit has landed or can land, and matches [store.ErrUnknownOutcome] if one
// might.
func (c *core) apply(ctx context.Context, before store.Entry, after []byte, txn store.Txn, dry bool) (store.Entry, error) {
	var unresolved error // the error of an earlier commit that may have landed
	for attempt := range maxAttempts {
		revision, err := c.commit(ctx, txn, dry)
		if err == nil {
			return resultOf(before, after, revision, dry), nil
		}
		var conflict *store.ConflictError
		switch {
		case errors.Is(err, store.ErrUnknownOutcome):
			unresolved = err
		case unresolved == nil || dry:
			return store.Entry{}, err
		case !errors.As(err, &conflict):
			return store.Entry{}, errors.Join(unresolved, err)
		case refutes(conflict, before):
			return store.Entry{}, err
		}
		if err := backoff.SleepConflict(ctx, attempt); err != nil {
			return store.Entry{}, errors.Join(unresolved, err)
		}
		if dry { // a dry run cannot land
			continue
		}
		found, err := c.read(ctx, before.Key)
		if err != nil {
			return store.Entry{}, errors.Join(unresolved, err)
		}
		switch resolveOutcome(before, after, found) {
		case landed:
			if after == nil {
				return before, nil
			}
			return *found, nil
		case refuted:
			return store.Entry{}, &store.ConflictError{Condition: store.At(before.Key, before.Revision), Current: found}
		case unclear:
			return store.Entry{}, errors.Join(unresolved, errUnclear)
		}
	}
	return store.Entry{}, errors.Join(unresolved, errContention)
}

var errUnclear = errors.New("the current entry does not show whether the write was made")

// outcome classifies a write of unknown outcome by the entry found afterwards.
type outcome uint8

const (
	unclear outcome = iota // the write may have landed, or may still land
	landed                 // the entry has, or had, the written value
	pending                // the write has not landed; either it or its repetition can
	refuted                // the write has not landed and never will
)

// resolveOutcome decides, from the entry found at its key, the result of a write of unknown
// outcome (refutes decides it from a conflict). A replacement or a removal is conditional on a
// revision, which never returns; a creation on absence, which returns when the object is
// deleted. A uid is never used twice.
//
//	found                   creation   replacement   removal
//	at the revision before  -          pending       pending
//	as written              landed     landed        -
//	same uid, changed       landed     unclear       refuted
//	another uid             unclear    unclear       landed
//	absent                  unclear    unclear       landed
//
// The outcome landed means that the entry is as wanted, not that this request wrote it. If
// another client made the same write, that client's joined writes were made, and those of this
// request were not ([Write.Replace]).
func resolveOutcome(before store.Entry, after []byte, found *store.Entry) outcome {
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
	x, err := document.Parse(ours)
	y, bad := document.Parse(found.Value)
	same := x.HasUID(y.UID())
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

// refutes reports whether a conflict proves that no earlier commit of the same replacement or
// removal has landed or can land. The store reports the first condition that fails, and the
// entry's comes first: it held, so nothing has landed. If the failed one requires a revision
// that has passed, nothing can land. A condition of absence proves nothing, since the key may
// be deleted again.
func refutes(conflict *store.ConflictError, before store.Entry) bool {
	return conflict.Condition.Key != before.Key && conflict.Condition.Want == store.WantRevision
}

// resultOf returns the entry after a commit at revision replaced before with after.
func resultOf(before store.Entry, after []byte, revision store.Revision, dry bool) store.Entry {
	if dry {
		revision = before.Revision
	}
	if after == nil {
		after = before.Value
	}
	return store.Entry{Key: before.Key, Value: after, Revision: revision}
}

// read returns the entry at key, or nil if there is none.
func (c *core) read(ctx context.Context, key string) (*store.Entry, error) {
	entry, err := c.store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return &entry, err
}
