package deleter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

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
	v.empty(ctx)
	v.result.Err = v.failures.err(v.source.Resource)
	return v.result
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
	err := v.call(ctx, func(ctx context.Context) (err error) {
		r, err = e.Empty(ctx, v.target)
		return err
	})
	if errors.Is(err, ErrNotSupported) {
		v.known.learn(noEmpty)
		return false
	}
	if err == nil {
		err = r.check()
	}
	r.Remaining = max(r.Remaining, 0)
	r.Deleted = max(r.Deleted, 0)
	r.Deleting = max(r.Deleting, 0)
	r.Estimate = max(r.Estimate, 0)
	r.Resource, r.Err, r.Waiting = v.source.Resource, nil, false
	v.result = r
	if err != nil {
		v.fail(OpEmpty, "", err)
	}
	return true
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

// collection deletes by whole collections; false means that the source refused.
// It takes two calls, or one if a look shows that there is nothing to delete.
func (v *visit) collection(ctx context.Context, c CollectionDeleter) bool {
	guess := v.before == nil
	if v.looksFirst() {
		t, err := v.scan(ctx, func(t *tally, _ Page) bool { return t.deleting == t.count })
		if err != nil {
			v.fail(OpList, "", err)
			return true
		}
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
	t, ok := v.whatRemains(ctx, more && v.result.Deleted > 0)
	if !ok {
		return true
	}
	if guess && err == nil && (counted || t.count > 0) {
		v.known.found(t.count == 0 && v.result.Deleted == 0)
	}
	// A source that cannot count may still get on; the next pass can compare.
	if more && !counted && t.unexpected > 0 && (v.before == nil || t.count < v.before.Remaining) {
		v.result.More = true
	}
	v.finish(ctx, t)
	return true
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

// deleteCollections repeats DeleteCollection while that gets on and the budget
// lasts. It reports whether all calls could count, and whether more is left.
func (v *visit) deleteCollections(ctx context.Context, c CollectionDeleter) (counted, more bool, err error) {
	counted = true
	for {
		var deleted int
		err = v.call(ctx, func(ctx context.Context) (err error) {
			deleted, more, err = c.DeleteCollection(ctx, v.target)
			return err
		})
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
			return counted, more && v.budget <= 0, err
		}
	}
}

// oneByOne lists and deletes each object that is not being deleted yet.
func (v *visit) oneByOne(ctx context.Context) {
	asked, left := 0, false
	t, err := v.scan(ctx, func(_ *tally, p Page) bool {
		n, rest := v.deletePage(ctx, p.Items)
		asked += n
		left = rest || v.budget <= 0 && p.Next != ""
		return !left && ctx.Err() == nil
	})
	if err != nil {
		v.fail(OpList, "", err)
		return
	}
	if asked > 0 {
		var ok bool
		if t, ok = v.whatRemains(ctx, left && v.result.Deleted > 0); !ok {
			return
		}
	}
	v.finish(ctx, t)
}

// deletePage deletes the objects of one page, several at once. It returns how
// many it asked for, and whether some were left because the budget is spent.
func (v *visit) deletePage(ctx context.Context, items []Item) (asked int, left bool) {
	var group errgroup.Group
	group.SetLimit(v.opts.ObjectParallelism)
	var deleted atomic.Int64
	for _, item := range items {
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
			err := safely(func() error { v.deleteOne(ctx, item, &deleted); return nil })
			if err != nil {
				v.fail(OpDelete, item.Name, err)
			}
			return nil
		})
	}
	_ = group.Wait() // deleteOne notes failures itself
	v.result.Deleted += int(deleted.Load())
	return asked, left
}

func (v *visit) deleteOne(ctx context.Context, item Item, deleted *atomic.Int64) {
	err := errNoReturn
	defer func() {
		switch {
		case err == nil:
			deleted.Add(1)
		case errors.Is(err, ErrNotSupported):
			v.known.learn(noDelete)
		case errors.Is(err, ErrReplaced):
			// What was listed is gone. The look afterwards shows what took its name.
		default:
			v.fail(OpDelete, item.Name, err)
		}
	}()
	err = v.call(ctx, func(ctx context.Context) error {
		return v.source.Content.Delete(ctx, v.target, item.Name, item.UID)
	})
}

// whatRemains lists what is left after deletion: all of it, or if there was too
// much for one pass only the beginning, as the next pass goes on anyway.
func (v *visit) whatRemains(ctx context.Context, tooMuch bool) (*tally, bool) {
	t, err := v.scan(ctx, func(t *tally, _ Page) bool { return !tooMuch || t.count == 0 })
	if err != nil {
		v.fail(OpList, "", err)
		return nil, false
	}
	v.result.More = tooMuch && t.count > 0
	return t, true
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
	err := v.call(ctx, func(ctx context.Context) (err error) {
		v.result.Estimate, err = e.Estimate(ctx, v.target)
		return err
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
func (v *visit) call(ctx context.Context, f func(context.Context) error) error {
	if err := v.slots.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	defer v.slots.Release(1)
	return bounded(ctx, v.opts.CallTimeout, f)
}
