package force

import (
	"context"
	"errors"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
)

// attempts bounds how often the write is tried while others write too, or while nobody
// can tell whether it was made.
const attempts = 16

// tried is what is known of the writes that failed.
type tried struct {
	err     error            // of the last one
	unknown bool             // one of them may have been made
	held    []finalizer.Name // what that one was to take off
}

// finalize takes the finalizers off, on condition of what was read (rule R8), and fills
// in the result. Without an error none of them is held any more. With
// [namespace.ErrUnknownOutcome] nobody knows, with any other they are as they were.
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
		default: // it was not made, and may be at another attempt
			last.err = err
		}
	}
	if last.err != nil && !last.unknown {
		return d.unresolved(last, last.err)
	}
	return d.unresolved(last, errBusy)
}

var errBusy = errors.New("others changed it at every attempt; try again")

// refused reports whether err is an answer of whoever keeps the namespace.
func refused(err error) bool {
	var answer *namespace.Error
	return errors.As(err, &answer)
}

// unresolved is err, or that nothing is known if a write may have been made.
func (d *drop) unresolved(last tried, err error) error {
	if last.unknown {
		err = because(namespace.ErrUnknownOutcome, last.err, err)
	}
	return failed(d.req.Name, "take the finalizers off", err)
}

// without returns n without some of its spec.finalizers.
func without(n namespace.Namespace, names []finalizer.Name) namespace.Namespace {
	n = n.DeepCopy()
	for _, f := range names {
		n.Spec.Finalizers = n.Spec.Finalizers.Without(f)
	}
	return n
}
