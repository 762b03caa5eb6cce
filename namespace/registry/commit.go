package registry

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/nslifecycle/nslifecycle/namespace"
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

// gates caches the revisions of gates, so that most creates need no read before their
// commit. A stale revision costs a conflict. It is read again after the backoff, so that
// frequent writes of a gate do not starve creates. The zero value is empty.
type gates struct {
	mu        sync.RWMutex
	revisions map[string]store.Revision // by namespace
}

// maxGates bounds the cache: about a megabyte.
const maxGates = 10_000

// revision returns the cached revision of the gate of ns, if any.
func (g *gates) revision(ns string) (store.Revision, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	revision, ok := g.revisions[ns]
	return revision, ok
}

// learn caches the revision of the gate of ns.
func (g *gates) learn(ns string, revision store.Revision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.revisions, ns)
	for other := range g.revisions {
		if len(g.revisions) < maxGates {
			break
		}
		delete(g.revisions, other)
	}
	if g.revisions == nil {
		g.revisions = map[string]store.Revision{}
	}
	g.revisions[strings.Clone(ns)] = revision // ns may alias a large request
}

// forget removes the gate of ns from the cache.
func (g *gates) forget(ns string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.revisions, ns)
}

// GateKeys returns where a registry with this prefix ([Options], empty: the
// default) keeps the gate of a namespace and its entry in the index of terminating
// ones: the gate exists exactly while the namespace is Active, the other one exactly
// while it is Terminating; both hold its uid. Either may be written again for the
// same uid ([Write.TouchGate]).
//
// A host that writes content with [store.Store.Commit] must make the gate's revision a
// condition. A late commit then cannot land in a later incarnation, as it could if only
// the gate's existence were required. On a conflict about a gate of the same uid the host
// retries at the new revision. A host that writes content in its own transactions, in the
// same database, must lock the gate until they end; the gate's existence is then sufficient
// (rule R6).
//
// A prefix that no registry can have is [namespace.ErrInvalid], a name that no
// namespace can have [namespace.ErrBadRequest].
func GateKeys(prefix, name string) (gate, terminating string, err error) {
	if prefix == "" {
		prefix = defaultPrefix
	}
	keys, err := newLayout(prefix)
	if err != nil {
		return "", "", err
	}
	if err := checkSegment(namespace.Resource, name); err != nil {
		return "", "", err
	}
	return keys.gate(name), keys.terminating(name), nil
}
