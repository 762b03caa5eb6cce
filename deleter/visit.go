package deleter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// visit is the calls to one source in one pass or inspection.
type visit struct {
	opts     *Options
	slots    *semaphore.Weighted // calls in flight
	source   *Source
	known    *known
	target   Target
	before   *Result  // of the previous pass, or nil
	viewer   Viewer   // lists instead of Content.List, if not nil
	items    *itemLog // keeps the listed items, if not nil
	budget   int      // deletions left
	shown    int      // lower bound of the objects that listings showed
	counted  bool     // a listing after all deletions counted the remaining objects
	result   Result
	failures failures
}

// run empties the type as far as possible and counts the remaining objects.
func (v *visit) run(ctx context.Context) Result {
	v.result.Resource = v.source.Resource
	v.budget = v.opts.MaxDeletes
	if v.source.Undeclared {
		v.fail("", "", ErrUndeclared)
		if t, ok := v.listRemaining(ctx, false, &tally{}); ok {
			v.finish(ctx, t)
		}
	} else {
		v.empty(ctx)
	}
	v.result.Err = v.failures.err(v.source.Resource)
	return v.result
}

func (v *visit) empty(ctx context.Context) {
	if e, ok := v.source.Content.(Emptier); ok && !v.known.refuses(noEmpty) && v.emptyAtOnce(ctx, e) {
		return
	}
	if c, ok := v.source.Content.(CollectionDeleter); ok && !v.known.refuses(noDeleteCollection) && v.emptyByCollection(ctx, c) {
		return
	}
	v.emptyOneByOne(ctx)
}

// emptyAtOnce reports whether the source supports it.
func (v *visit) emptyAtOnce(ctx context.Context, e Emptier) bool {
	var r Result
	err := v.call(ctx, OpEmpty, func(ctx context.Context) (_ int, err error) {
		r, err = e.Empty(ctx, v.target)
		return r.Remaining, err
	})
	if errors.Is(err, ErrNotSupported) {
		v.known.learn(noEmpty)
		return false
	}
	if err == nil {
		err = r.validate()
	}
	r.Remaining = max(r.atLeast(), 0)
	r.Deleted = max(r.Deleted, 0)
	r.Deleting = max(r.Deleting, 0)
	r.Estimate = max(r.Estimate, 0)
	r.Resource, r.Err, r.Waiting = v.source.Resource, nil, false
	v.result = r
	if err != nil {
		v.fail(OpEmpty, "", err)
	} else if f, ok := e.(*functions); ok && r.Remaining > 0 && f.funcs.List != nil {
		v.describe(ctx)
	}
	return true
}

// describe adds the names and finalizers of the objects that a function left. The larger
// count stands.
func (v *visit) describe(ctx context.Context) {
	remaining := v.result.Remaining
	t, err := v.scan(ctx, addAll)
	t.into(&v.result)
	v.result.Remaining = max(v.result.Remaining, remaining)
	if err != nil {
		v.fail(OpList, "", err)
	}
}

// validate checks the answer of an [Emptier].
func (r Result) validate() error {
	held := 0
	for _, h := range r.Holders {
		if h.Objects < 0 {
			return errNegative
		}
		held = max(held, h.Objects)
	}
	switch {
	case min(r.Remaining, r.Deleted, r.Deleting) < 0 || r.Estimate < 0:
		return errNegative
	case r.Remaining == 0 && !r.More && max(held, r.Deleting) > 0:
		return errNothing
	}
	return nil
}

// atLeast returns the lower bound of remaining objects that the counts and names of r imply.
// It exceeds Remaining if an [Emptier] contradicts itself.
func (r Result) atLeast() int {
	n := max(r.Remaining, r.Deleting, len(r.Sample))
	for _, h := range r.Holders {
		n = max(n, h.Objects, len(h.Sample))
	}
	return n
}

// emptyByCollection deletes whole collections and reports whether the source supports it. It
// takes two calls; one if a first listing shows nothing to delete, three if it shows something, and
// more for batches and pages.
func (v *visit) emptyByCollection(ctx context.Context, c CollectionDeleter) bool {
	guess := v.before == nil
	first := &tally{}
	if v.listsFirst() {
		t, err := v.scan(ctx, func(t *tally, p Page) bool {
			t.add(p.Items...)
			return t.deleting == t.count
		})
		if err != nil {
			v.cannotList(err, t)
			return true
		}
		first = t
		if guess {
			v.known.found(t.count == 0)
			guess = false
		}
		if t.deleting == t.count {
			v.finish(ctx, t)
			return true
		}
	}
	counted, more, err := v.deleteCollections(ctx, c)
	spent := more && v.budget <= 0
	if errors.Is(err, ErrNotSupported) {
		v.known.learn(noDeleteCollection)
		return false
	}
	if errors.Is(err, ErrNotSupportedHere) {
		return false
	}
	if err != nil {
		v.fail(OpDeleteCollection, "", err)
	}
	t, ok := v.listRemaining(ctx, spent && v.result.Deleted > 0, v.undeleted(first, counted, more))
	if !ok {
		return true
	}
	if guess && err == nil && (counted || t.count > 0) {
		v.known.found(t.count == 0 && v.result.Deleted == 0)
	}
	// A source that does not count made progress if fewer objects remain than before.
	if spent && !counted && t.unexpected > 0 && (v.before == nil || t.count < v.before.Remaining) {
		v.result.More = true
	}
	v.finish(ctx, t)
	return true
}

// undeleted returns a lower bound of the remaining objects, for the case that the next listing fails.
// first is the listing before the deletion of the collection; more reports whether the source
// reported remaining objects.
func (v *visit) undeleted(first *tally, counted, more bool) *tally {
	if counted && v.result.Deleted == 0 && first.count > 0 {
		return first
	}
	t := &tally{}
	if counted {
		t.count = max(first.count-v.result.Deleted, 0)
	}
	if more {
		t.count = max(t.count, 1)
	}
	return t
}

// listsFirst reports whether to list before deleting.
func (v *visit) listsFirst() bool {
	switch {
	case v.before == nil:
		return v.known.tendsEmpty()
	case v.before.Err != nil:
		return true // one call shows whether the source is still down
	case v.before.More:
		return false
	}
	// There is no need to delete objects again that are being deleted.
	return v.before.Deleting == v.before.Remaining
}

// deleteCollections repeats DeleteCollection while it makes progress and the budget lasts.
// It reports whether every call returned a count, and whether the source reported remaining
// objects.
func (v *visit) deleteCollections(ctx context.Context, c CollectionDeleter) (counted, more bool, err error) {
	counted = true
	for {
		var deleted int
		var rest bool
		err = v.call(ctx, OpDeleteCollection, func(ctx context.Context) (_ int, err error) {
			deleted, rest, err = c.DeleteCollection(ctx, v.target)
			return deleted, err
		})
		more = rest || err != nil && more
		v.result.Deleted += max(deleted, 0)
		v.budget -= max(deleted, 0)
		if more {
			v.shown = max(v.shown, 1)
		}
		if deleted < 0 {
			counted = false
			v.budget -= v.opts.MaxDeletes/16 + 1
		}
		if err != nil || !more || deleted == 0 || v.budget <= 0 {
			return counted, more, err
		}
	}
}

// emptyOneByOne lists the objects and deletes each one that is not being deleted.
func (v *visit) emptyOneByOne(ctx context.Context) {
	requested, more := 0, false
	t, err := v.scan(ctx, func(t *tally, p Page) bool {
		n, rest := v.deletePage(ctx, t, p.Items)
		requested += n
		more = rest || v.budget <= 0 && p.Next != ""
		return !more && ctx.Err() == nil
	})
	if err != nil {
		v.cannotList(err, t)
		return
	}
	if requested > 0 {
		var ok bool
		if t, ok = v.listRemaining(ctx, more && v.result.Deleted > 0, t); !ok {
			return
		}
	}
	v.finish(ctx, t)
}

// deletePage deletes the objects of one page concurrently. It adds objects that may remain
// to t: finalizers hold them, or the source did not delete them. It returns the number of
// deletions requested, and whether the budget ended before the page did.
func (v *visit) deletePage(ctx context.Context, t *tally, items []Item) (requested int, more bool) {
	var group errgroup.Group
	group.SetLimit(v.opts.ObjectParallelism)
	deleted := make([]bool, len(items)) // each element is written only by the goroutine of its item
	for i, item := range items {
		if item.terminating() || v.known.refuses(noDelete) || ctx.Err() != nil {
			continue
		}
		if v.budget <= 0 {
			more = true
			break
		}
		v.budget--
		requested++
		group.Go(func() error {
			// The methods of the error that a source returns may panic too.
			err := CatchPanic("", func() error { deleted[i] = v.deleteOne(ctx, item); return nil })
			if err != nil {
				v.fail(OpDelete, item.Name, err)
			}
			return nil
		})
	}
	_ = group.Wait() // deleteOne records failures
	for i, item := range items {
		if deleted[i] {
			v.result.Deleted++
		}
		if !deleted[i] || len(item.Finalizers) > 0 {
			t.add(item)
		}
	}
	return requested, more
}

// deleteOne reports whether the source deleted the object or began its deletion.
func (v *visit) deleteOne(ctx context.Context, item Item) bool {
	err := v.call(ctx, OpDelete, func(ctx context.Context) (int, error) {
		if err := v.source.Content.Delete(ctx, v.target, item.Name, item.UID); err != nil {
			return 0, err
		}
		return 1, nil
	})
	switch {
	case err == nil:
		return true
	case errors.Is(err, ErrNotSupported):
		v.known.learn(noDelete)
	case errors.Is(err, ErrReplaced):
		// The listed object is gone. The next listing shows the one that took its name.
	default:
		v.fail(OpDelete, item.Name, err)
	}
	return false
}

// listRemaining lists the remaining objects after deletion. If there were too many for one
// pass it lists only the first page with objects, because the next pass continues. If the
// listing fails, the result has the larger of its own tally and before.
func (v *visit) listRemaining(ctx context.Context, tooMany bool, before *tally) (*tally, bool) {
	t, err := v.scan(ctx, func(t *tally, p Page) bool {
		t.add(p.Items...)
		return !tooMany || t.count == 0
	})
	if err != nil {
		if t.count < before.count {
			t = before
		}
		v.cannotList(err, t)
		return nil, false
	}
	v.result.More = tooMany && t.count > 0
	return t, true
}

// cannotList records a failed listing. The result keeps the objects that were seen, so that
// no condition denies them (rule R9).
func (v *visit) cannotList(err error, seen *tally) {
	seen.counts(&v.result)
	v.fail(OpList, "", err)
}

// finish records the last listing.
func (v *visit) finish(ctx context.Context, t *tally) {
	t.into(&v.result)
	v.counted = true
	if t.unexpected > 0 && !v.result.More && v.failures.none() {
		err := fmt.Errorf("%w in namespace: %s: %d without finalizer, grace period or deletion mark (%s)",
			ErrUnexpected, v.target.Namespace, t.unexpected, strings.Join(t.unexpectedNames, ", "))
		if v.known.refuses(noDelete) {
			err = fmt.Errorf("%w: deletion: %w", err, ErrNotSupported)
		}
		v.fail("", "", err)
	}
	if e, ok := v.source.Content.(Estimator); ok && t.unheld && t.grace <= 0 && !v.known.refuses(noEstimate) {
		v.estimate(ctx, e)
	}
}

func (v *visit) estimate(ctx context.Context, e Estimator) {
	err := v.call(ctx, OpEstimate, func(ctx context.Context) (_ int, err error) {
		v.result.Estimate, err = e.Estimate(ctx, v.target)
		return 0, err
	})
	if err == nil && v.result.Estimate < 0 {
		err = errNegative
	}
	switch {
	case errors.Is(err, ErrNotSupported):
		v.known.learn(noEstimate)
	case err != nil:
		v.fail(OpEstimate, "", err)
	}
	v.result.Estimate = max(v.result.Estimate, 0)
}

// lastSeen returns the number of objects of a failed type that remained when the source last
// answered. before is that number as of the previous passes.
func (v *visit) lastSeen(before int) int {
	r := &v.result
	if v.counted {
		return r.Remaining
	}
	n := max(before, v.shown, r.Deleted, r.atLeast())
	if r.More {
		n = max(n, 1)
	}
	return n
}

func (v *visit) fail(op Op, object string, err error) {
	v.failures.add(&SourceError{Resource: v.source.Resource, Op: op, Object: object, Err: err})
}

// call makes one call to the source within the bounds of concurrency and time.
func (v *visit) call(ctx context.Context, op Op, f func(context.Context) (objects int, err error)) error {
	if err := v.slots.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	defer v.slots.Release(1)
	return TraceCall(ctx, Call{v.source.Resource, op}, func(ctx context.Context) (objects int, err error) {
		err = withTimeout(ctx, v.opts.CallTimeout, func(ctx context.Context) (err error) {
			objects, err = f(ctx)
			return err
		})
		return objects, err
	})
}

// withTimeout calls f with a deadline and returns a panic as an error. It ignores a result
// after the deadline, because an empty page then may only mean that the call was cut off.
func withTimeout(ctx context.Context, timeout time.Duration, f func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := CatchPanic("", func() error { return f(within) })
	switch {
	case within.Err() == nil:
		return err
	case ctx.Err() != nil && err == nil:
		return context.Cause(ctx)
	case ctx.Err() != nil:
		return err
	case err == nil:
		err = within.Err()
	}
	return fmt.Errorf("no answer within %v: %w", timeout, err)
}
