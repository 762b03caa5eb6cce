package registry

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store"
)

// collisions bounds how many generated names are tried.
const collisions = 8

// creation is what a request wants to create.
type creation struct {
	resource string
	name     string // empty: generated
	prefix   string // of a generated name
	// build returns the entry and the transaction that creates it.
	build func(name, uid string) (store.Entry, store.Txn, error)
	// outdated reports whether the conflict is with a key that build remembers, and takes
	// note of it, so that the next attempt may hold. Nil: build remembers none.
	outdated func(*store.ConflictError) bool
	// blocked says why another condition than that the key is absent did not hold;
	// nil: it would hold now.
	// Another one that did not hold because of a revision may hold at the next attempt.
	blocked func(ctx context.Context, name string) error
}

// create carries out a creation. When the outcome of a commit is unknown it reads
// back: its own uid is success; absence is another attempt under the same
// conditions with another uid, so that no two incarnations can have the same. It
// reports whether the entry it returns is what build returned last; otherwise it
// was read back. In a dry run its revision is zero.
func (c *core) create(ctx context.Context, want creation, dry bool) (entry store.Entry, built bool, err error) {
	if err := ended(ctx, want.resource, want.name); err != nil {
		return store.Entry{}, false, err
	}
	a := attempt{core: c, creation: want, uid: newUID(), at: want.name}
	if a.generated() {
		a.at = namespace.GenerateName(want.prefix, rand.Uint64())
	}
	a.turn = c.turnAt(ctx)
	defer a.turn.give()
	for i := range attempts {
		if err := a.turn.take(ctx, a.awaited); err != nil {
			return store.Entry{}, false, a.failure(err)
		}
		entry, done, err := a.try(ctx, dry)
		if done || err != nil {
			return entry, a.built, err
		}
		if err := pause(ctx, i); err != nil {
			return store.Entry{}, false, a.failure(err)
		}
	}
	return store.Entry{}, false, a.failure(modified(want.resource, a.at, errBusy))
}

// attempt is the state of a creation under way.
type attempt struct {
	*core
	creation
	at    string   // the name
	uid   string   // of this attempt
	tried []string // those of attempts that may have been made
	doubt error    // what the last of them said
	taken int      // generated names that were taken
	built bool     // the last commit was acknowledged

	key     string // of the entry
	turn    turn
	awaited []string // where to take turns before the next attempt
}

func (a *attempt) generated() bool { return a.name == "" && a.prefix != "" }

// failure is err, or that nothing is known when an attempt may have been made.
func (a *attempt) failure(err error) error {
	if a.doubt != nil {
		return unknown(a.resource, a.at, errors.Join(a.doubt, err))
	}
	return stored(a.resource, a.at, err)
}

// try commits once. It reports false without an error when it is worth another
// attempt.
func (a *attempt) try(ctx context.Context, dry bool) (store.Entry, bool, error) {
	entry, txn, err := a.build(a.at, a.uid)
	if err != nil {
		return a.refused(ctx, err)
	}
	a.key = entry.Key
	if a.awaited = a.turn.behind(txn.If, txn.Do, nil); len(a.awaited) > 0 {
		return store.Entry{}, false, nil
	}
	revision, err := a.commit(ctx, txn, dry)
	var conflict *store.ConflictError
	switch {
	case err == nil:
		if a.built = true; !dry {
			entry.Revision = revision
		}
		return entry, true, nil
	case errors.Is(err, store.ErrUnknownOutcome):
		a.doubt, a.tried, a.uid = err, append(a.tried, a.uid), newUID()
		return a.readBack(ctx, entry.Key, true)
	case !errors.As(err, &conflict):
		return store.Entry{}, false, a.failure(err)
	case conflict.Condition.Key == entry.Key && conflict.Current != nil:
		return a.occupied(*conflict.Current)
	case a.outdated != nil && a.outdated(conflict):
		return store.Entry{}, false, nil
	}
	if a.doubt != nil { // an earlier one may have been made before the condition failed
		if found, done, err := a.readBack(ctx, entry.Key, false); done || err != nil {
			return found, done, err
		}
	}
	overtaken := conflict.Condition.Want == store.WantRevision // of what admission had join
	if overtaken {
		a.awaited = []string{conflict.Condition.Key}
	}
	if overtaken && conflict.Current != nil || a.blocked == nil {
		return store.Entry{}, false, nil
	}
	if why := a.blocked(ctx, a.at); why != nil {
		return store.Entry{}, false, a.failure(why)
	}
	return store.Entry{}, false, nil
}

// refused decides about a creation that is refused now, although an attempt before
// may have been made. It was, if there is a trace of it. No trace says nothing: what
// was made may have been deleted since, and may be why it is refused now.
func (a *attempt) refused(ctx context.Context, why error) (store.Entry, bool, error) {
	if a.doubt == nil {
		return store.Entry{}, false, why
	}
	if found, done, err := a.readBack(ctx, a.key, false); done || err != nil {
		return found, done, err
	}
	return store.Entry{}, false, a.failure(why)
}

// readBack looks for what an attempt may have created. Retry says that an
// attempt in flight may still come to be made.
func (a *attempt) readBack(ctx context.Context, key string, retry bool) (store.Entry, bool, error) {
	current, err := a.read(ctx, key)
	switch {
	case err != nil:
		return store.Entry{}, false, a.failure(err)
	case current == nil:
		return store.Entry{}, false, nil
	case retry || a.mine(*current):
		return a.occupied(*current)
	}
	return store.Entry{}, false, nil
}

func (a *attempt) mine(current store.Entry) bool {
	h, err := decodeHeader(current.Value)
	return err == nil && slices.Contains(a.tried, h.UID)
}

// occupied decides about the entry that has the name: it is our own, or another
// name is generated, or the name is taken.
func (a *attempt) occupied(current store.Entry) (store.Entry, bool, error) {
	h, err := decodeHeader(current.Value)
	switch {
	case err == nil && slices.Contains(a.tried, h.UID):
		return current, true, nil
	case !a.generated():
		return store.Entry{}, false, taken(a.resource, a.at, !h.DeletionTimestamp.IsZero())
	}
	if a.taken++; a.taken >= collisions {
		return store.Entry{}, false, exhausted(a.resource, a.at)
	}
	a.at = namespace.GenerateName(a.prefix, rand.Uint64())
	a.tried, a.doubt = nil, nil // the name of those attempts is somebody else's
	return store.Entry{}, false, nil
}

// madeAt is the resourceVersion of an object that was created; a dry run makes
// none.
func madeAt(entry store.Entry) string {
	if entry.Revision == 0 {
		return ""
	}
	return formatVersion(entry.Revision)
}
