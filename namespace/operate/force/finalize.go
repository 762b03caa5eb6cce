package force

import (
	"context"
	"errors"
	"fmt"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
)

// attempts bounds the writes against concurrent writers or unknown outcomes.
const attempts = 16

// tried describes the failed writes.
type tried struct {
	err     error            // of the last write
	unknown bool             // a write may have been committed
	held    []finalizer.Name // the finalizers that this write was to remove
}

// finalize removes the finalizers, conditional on the namespace as read (rule R8), and sets the
// result. With [namespace.ErrUnknownOutcome] it is unknown whether they are removed; with any
// other error they are not.
func (d *drop) finalize(ctx context.Context, result *Result) error {
	var last tried
	for attempt := range attempts {
		if err := backoff.SleepConflict(ctx, attempt); err != nil {
			return d.unresolved(last, err)
		}
		n, held, err := d.read(ctx)
		switch {
		case err != nil && !last.unknown:
			return err
		case err != nil:
			continue
		case len(held) == 0:
			result.Dropped, result.Removed = last.held, n == nil
			if n != nil {
				result.Namespace = *n
			}
			return nil
		}
		written, err := d.namespaces.Finalize(ctx, without(*n, held))
		switch {
		case err == nil:
			result.Namespace, result.Dropped, result.Removed = written, held, namespace.Removable(written)
			return nil
		case errors.Is(err, namespace.ErrUnknownOutcome), ctx.Err() != nil && !refused(err):
			last = tried{err: err, held: held, unknown: true}
		case errors.Is(err, namespace.ErrConflict), errors.Is(err, namespace.ErrNotFound):
		case refused(err):
			return d.unresolved(last, err)
		default: // it was not committed, and another attempt may succeed
			last.err = err
		}
	}
	if last.err != nil && !last.unknown {
		return d.unresolved(last, last.err)
	}
	return d.unresolved(last, errBusy)
}

var errBusy = fmt.Errorf("concurrent writes interfered with all %d attempts; try again", attempts)

// refused reports whether err is an answer of the storage of the namespaces.
func refused(err error) bool {
	var answer *namespace.Error
	return errors.As(err, &answer)
}

// unresolved returns err, or [namespace.ErrUnknownOutcome] if a write may have been committed.
func (d *drop) unresolved(last tried, err error) error {
	if last.unknown {
		err = because(namespace.ErrUnknownOutcome, last.err, err)
	}
	return failed(d.req.Name, "remove the finalizers", err)
}

// without returns n without these spec.finalizers.
func without(n namespace.Namespace, names []finalizer.Name) namespace.Namespace {
	n = n.DeepCopy()
	for _, f := range names {
		n.Spec.Finalizers = n.Spec.Finalizers.Without(f)
	}
	return n
}
