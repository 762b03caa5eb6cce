package hold

import (
	"context"
	"errors"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/phase"
)

type outcome uint8

const (
	skipped outcome = iota // the namespace is gone, terminating, or no longer on hold
	deleted                // this attempt began the deletion
	early                  // the hold lasts until result.until
	refused                // the deletion is forbidden
	failed
)

// result is the end of an attempt.
type result struct {
	entry   *entry
	ref     namespace.Ref // with the uid that was read, if a namespace was read
	outcome outcome
	until   time.Time
	err     error
}

// maxConflicts limits the attempts that repeat at once because the namespace was written
// between the read and the deletion.
const maxConflicts = 4

// attempt deletes the namespace ref if its hold has ended.
func attempt(ctx context.Context, n Namespaces, ref namespace.Ref) result {
	var r result
	for range maxConflicts {
		if r = readAndDelete(ctx, n, ref); !errors.Is(r.err, namespace.ErrConflict) {
			break
		}
	}
	return r
}

func readAndDelete(ctx context.Context, n Namespaces, ref namespace.Ref) result {
	current, err := n.Get(ctx, ref.Name)
	switch {
	case errors.Is(err, namespace.ErrNotFound):
		return result{ref: ref}
	case err != nil:
		return result{ref: ref, outcome: failed, err: err}
	case ref.UID != "" && current.UID != ref.UID, current.Phase() == phase.Terminating:
		return result{ref: ref}
	}
	ref.UID = current.UID
	hold, held, err := declare.HoldOf(current.Meta)
	switch {
	case !held || err != nil: // an invalid hold deletes nothing
		return result{ref: ref}
	case !hold.Due(time.Now()):
		return result{ref: ref, outcome: early, until: hold.Until}
	}
	after, err := n.Delete(ctx, ref.Name, namespace.Preconditions{UID: current.UID, ResourceVersion: current.ResourceVersion})
	switch {
	case err == nil && after.Phase() == phase.Terminating:
		return result{ref: ref, outcome: deleted}
	case err == nil: // the clock of the storage is behind
		return result{ref: ref}
	case errors.Is(err, namespace.ErrNotFound):
		return result{ref: ref}
	case errors.Is(err, namespace.ErrForbidden), errors.Is(err, namespace.ErrInvalid):
		return result{ref: ref, outcome: refused, err: err}
	}
	return result{ref: ref, outcome: failed, err: err}
}
