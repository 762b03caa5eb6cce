package hold

import (
	"context"
	"errors"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/phase"
)

// outcome is how an attempt ended.
type outcome uint8

const (
	nothing outcome = iota // nothing is due, or somebody else was faster: the watch will tell
	deleted                // the deletion has begun, and this attempt began it
	notYet                 // the hold goes on until the time in done
	keptOut                // the deletion was refused
	failed                 // it could not be asked for
)

// done is the end of an attempt for an entry.
type done struct {
	entry   *entry
	queue   *queue        // that it was taken from
	ref     namespace.Ref // what was read; before that what the watch told
	outcome outcome
	until   time.Time
	err     error
}

// conflicts bounds how often an attempt begins anew because the namespace was written
// between its two steps.
const conflicts = 4

// attempt deletes the namespace of an entry, of which the watch told ref, if its hold is
// over.
func attempt(ctx context.Context, n Namespaces, ref namespace.Ref) done {
	var d done
	for range conflicts {
		if d = once(ctx, n, ref); !errors.Is(d.err, namespace.ErrConflict) {
			break
		}
	}
	return d
}

// once reads the namespace and deletes just that.
func once(ctx context.Context, n Namespaces, ref namespace.Ref) done {
	current, err := n.Get(ctx, ref.Name)
	switch {
	case errors.Is(err, namespace.ErrNotFound):
		return done{ref: ref}
	case err != nil:
		return done{ref: ref, outcome: failed, err: err}
	case ref.UID != "" && current.UID != ref.UID, current.Phase() == phase.Terminating:
		return done{ref: ref}
	}
	ref.UID = current.UID
	hold, held, err := declare.HoldOf(current.Meta)
	switch {
	case !held || err != nil: // what cannot be read deletes nothing
		return done{ref: ref}
	case !hold.Due(time.Now()):
		return done{ref: ref, outcome: notYet, until: hold.Until}
	}
	after, err := n.Delete(ctx, ref.Name, namespace.Preconditions{UID: current.UID, ResourceVersion: current.ResourceVersion})
	switch {
	case err == nil && after.Phase() == phase.Terminating:
		return done{ref: ref, outcome: deleted}
	case err == nil, errors.Is(err, namespace.ErrNotFound): // the clock there is behind, or it is gone
		return done{ref: ref}
	case errors.Is(err, namespace.ErrForbidden), errors.Is(err, namespace.ErrInvalid):
		return done{ref: ref, outcome: keptOut, err: err}
	}
	return done{ref: ref, outcome: failed, err: err}
}
