package deleter

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

var (
	errNoReturn  = errors.New("the source ended its goroutine instead of returning")
	errNoName    = errors.New("an object without a name was listed")
	errSameToken = errors.New("the listing comes back to a page it had before, so that it never ends")
	errNegative  = errors.New("a negative answer makes no sense")
	errNothing   = errors.New("nothing is said to be left, but some of it to be held or being deleted")
)

// visit is one source in one pass.
type visit struct {
	opts     *Options
	slots    *semaphore.Weighted // calls in flight in the pass
	source   *Source
	known    *known
	target   Target
	viewer   Viewer  // lists instead of the content's List; nil: none
	keep     *keeper // keeps what a look lists; nil: nobody wants it
	before   *Result // of the pass before; nil: none
	budget   int     // objects that may still be deleted
	sight    int     // objects that a listing showed, at most
	told     bool    // a listing after all deletions has told what is left
	result   Result
	failures failures
}

// run empties the type as far as it goes and tells what is left.
func (v *visit) run(ctx context.Context) Result {
	v.result.Resource = v.source.Resource
	v.budget = v.opts.MaxDeletes
	if v.source.Undeclared {
		v.count(ctx)
	} else {
		v.empty(ctx)
	}
	v.result.Err = v.failures.err(v.source.Resource)
	return v.result
}

// count lists an undeclared type, which must not be deleted, and fails.
func (v *visit) count(ctx context.Context) {
	v.fail("", "", ErrUndeclared)
	if t, ok := v.whatRemains(ctx, false, &tally{}); ok {
		v.finish(ctx, t)
	}
}

func (v *visit) empty(ctx context.Context) {
	if e, ok := v.source.Content.(Emptier); ok && !v.known.refuses(noEmpty) && v.atOnce(ctx, e) {
		return
	}
	if c, ok := v.source.Content.(CollectionDeleter); ok && !v.known.refuses(noDeleteCollection) && v.collection(ctx, c) {
		return
	}
	v.oneByOne(ctx)
}

// atOnce leaves everything to the source; false means that it refused.
func (v *visit) atOnce(ctx context.Context, e Emptier) bool {
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
		err = r.check()
	}
	r.Remaining = max(r.shown(), 0)
	r.Deleted = max(r.Deleted, 0)
	r.Deleting = max(r.Deleting, 0)
	r.Estimate = max(r.Estimate, 0)
	r.Resource, r.Err, r.Waiting = v.source.Resource, nil, false
	v.result = r
	if err != nil {
		v.fail(OpEmpty, "", err)
	} else if f, ok := e.(*functions); ok && r.Remaining > 0 && lists(f) {
		v.describe(ctx)
	}
	return true
}

// describe adds the names and finalizers of the objects that a function left. The larger
// of both counts stands.
func (v *visit) describe(ctx context.Context) {
	remaining := v.result.Remaining
	t, err := v.scan(ctx, func(t *tally, p Page) bool {
		t.add(p.Items...)
		return true
	})
	t.into(&v.result)
	v.result.Remaining = max(v.result.Remaining, remaining)
	if err != nil {
		v.fail(OpList, "", err)
	}
}

// check returns what is wrong with an answer of an [Emptier].
func (r Result) check() error {
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

// shown returns the lower bound of remaining objects that the counts and names of r
// imply. It exceeds Remaining if an [Emptier] contradicts itself.
func (r Result) shown() int {
	n := max(r.Remaining, r.Deleting, len(r.Sample))
	for _, h := range r.Holders {
		n = max(n, h.Objects, len(h.Sample))
	}
	return n
}

// collection deletes by whole collections; false means that the source refused.
// It takes two calls, or one if a look shows that there is nothing to delete.
func (v *visit) collection(ctx context.Context, c CollectionDeleter) bool {
	guess := v.before == nil
	first := &tally{}
	if v.looksFirst() {
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
	t, ok := v.whatRemains(ctx, spent && v.result.Deleted > 0, v.undeleted(first, counted, more))
	if !ok {
		return true
	}
	if guess && err == nil && (counted || t.count > 0) {
		v.known.found(t.count == 0 && v.result.Deleted == 0)
	}
	// A source that cannot count may still get on; the next pass can compare.
	if spent && !counted && t.unexpected > 0 && (v.before == nil || t.count < v.before.Remaining) {
		v.result.More = true
	}
	v.finish(ctx, t)
	return true
}

// undeleted returns a tally of objects that the pass saw and that collection deletion did
// not verifiably remove. first is the listing before the deletion; more reports whether
// the source reported remaining objects.
func (v *visit) undeleted(first *tally, counted, more bool) *tally {
	if counted && v.result.Deleted == 0 && first.count > 0 {
		return first
	}
	left := &tally{}
	if counted {
		left.count = max(first.count-v.result.Deleted, 0)
	}
	if more {
		left.count = max(left.count, 1)
	}
	return left
}

// looksFirst reports whether to list before deleting.
func (v *visit) looksFirst() bool {
	switch {
	case v.before == nil:
		return v.known.tendsEmpty()
	case v.before.Err != nil:
		return true // one call is enough to see that a source is still down
	case v.before.More:
		return false
	}
	// Asking again for what is already being deleted changes nothing.
	return v.before.Deleting == v.before.Remaining
}

// deleteCollections repeats DeleteCollection while it makes progress and the budget
// lasts. It reports whether every call returned a count, and whether the source reported
// remaining objects.
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
			v.sight = max(v.sight, 1)
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

// oneByOne lists and deletes each object that is not being deleted yet.
func (v *visit) oneByOne(ctx context.Context) {
	asked, left := 0, false
	t, err := v.scan(ctx, func(t *tally, p Page) bool {
		n, rest := v.deletePage(ctx, t, p.Items)
		asked += n
		left = rest || v.budget <= 0 && p.Next != ""
		return !left && ctx.Err() == nil
	})
	if err != nil {
		v.cannotList(err, t)
		return
	}
	if asked > 0 {
		var ok bool
		if t, ok = v.whatRemains(ctx, left && v.result.Deleted > 0, t); !ok {
			return
		}
	}
	v.finish(ctx, t)
}

// deletePage deletes the objects of one page concurrently. It adds objects that may
// remain to t: finalizers hold them, or the source did not delete them. It returns the
// number of deletions requested, and whether the budget ended before the page did.
func (v *visit) deletePage(ctx context.Context, t *tally, items []Item) (asked int, left bool) {
	var group errgroup.Group
	group.SetLimit(v.opts.ObjectParallelism)
	deleted := make([]bool, len(items)) // each element is written only by the goroutine of its item
	for i, item := range items {
		if item.goes() || v.known.refuses(noDelete) || ctx.Err() != nil {
			continue
		}
		if v.budget <= 0 {
			left = true
			break
		}
		v.budget--
		asked++
		group.Go(func() error {
			// An error whose own methods panic must not end the program either.
			err := safely(func() error { deleted[i] = v.deleteOne(ctx, item); return nil })
			if err != nil {
				v.fail(OpDelete, item.Name, err)
			}
			return nil
		})
	}
	_ = group.Wait() // deleteOne notes failures itself
	for i, item := range items {
		if deleted[i] {
			v.result.Deleted++
		}
		if !deleted[i] || len(item.Finalizers) > 0 {
			t.add(item)
		}
	}
	return asked, left
}

// deleteOne reports whether the source deleted the object or began its deletion.
func (v *visit) deleteOne(ctx context.Context, item Item) (deleted bool) {
	err := errNoReturn
	defer func() {
		switch {
		case err == nil:
			deleted = true
		case errors.Is(err, ErrNotSupported):
			v.known.learn(noDelete)
		case errors.Is(err, ErrReplaced):
			// What was listed is gone. The look afterwards shows what took its name.
		default:
			v.fail(OpDelete, item.Name, err)
		}
	}()
	err = v.call(ctx, OpDelete, func(ctx context.Context) (int, error) {
		return 1, v.source.Content.Delete(ctx, v.target, item.Name, item.UID)
	})
	return deleted
}

// whatRemains lists the remaining objects after deletion. If there were too many for one
// pass it lists only the beginning, since the next pass continues. If the listing fails,
// the result has the larger of its own tally and before.
func (v *visit) whatRemains(ctx context.Context, tooMuch bool, before *tally) (*tally, bool) {
	t, err := v.scan(ctx, func(t *tally, p Page) bool {
		t.add(p.Items...)
		return !tooMuch || t.count == 0
	})
	if err != nil {
		if t.count < before.count {
			t = before
		}
		v.cannotList(err, t)
		return nil, false
	}
	v.result.More = tooMuch && t.count > 0
	return t, true
}

// cannotList records a failed listing. The result keeps the objects that were seen, so
// that no condition denies them (rule R9).
func (v *visit) cannotList(err error, seen *tally) {
	seen.counts(&v.result)
	v.fail(OpList, "", err)
}

// finish takes over what the last listing saw.
func (v *visit) finish(ctx context.Context, t *tally) {
	t.into(&v.result)
	v.told = true
	if t.unexpected > 0 && !v.result.More && v.failures.none() {
		err := fmt.Errorf("%w in namespace: %s: %d without finalizer, grace period or deletion mark (%s)",
			ErrUnexpected, v.target.Namespace, t.unexpected, strings.Join(t.surprises, ", "))
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

func (v *visit) fail(op Op, object string, err error) {
	v.failures.add(&SourceError{Resource: v.source.Resource, Op: op, Object: object, Err: err})
}

// call makes one call to the source: within the bound of the pass and of time.
func (v *visit) call(ctx context.Context, op Op, f func(context.Context) (objects int, err error)) error {
	if err := v.slots.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	defer v.slots.Release(1)
	return TraceCall(ctx, Call{v.source.Resource, op}, func(ctx context.Context) (objects int, err error) {
		err = bounded(ctx, v.opts.CallTimeout, func(ctx context.Context) (err error) {
			objects, err = f(ctx)
			return err
		})
		return objects, err
	})
}
