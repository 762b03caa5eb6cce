package deleter

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// Look reports what is in the target and deletes nothing: for plans, dry runs and
// inventories. It lists every source to its end, all at once whatever comes after
// what. A source that cannot list has failed, with [ErrNotSupported]; of one that
// failed on the way the result has what was seen until then. Errors are those of
// Delete, and the report is as full as it can be in either case; it is not one to be
// handed to Delete. [Target].Waived counts for nothing: what does not answer is told.
//
// Content that is a [Viewer] is viewed, whatever the phase: what it shows is of this
// incarnation for certain (rule R8). If the target's DeletedAt is zero, so that it may be
// Active, a source that is none has failed, with [ErrNotSupported]; else it is listed.
func (c *Composed) Inspect(ctx context.Context, target Target) (Report, error) {
	report, err := c.look(ctx, target, func(int, *visit) {})
	return report, err
}

// look is Look that hands each visit over before it begins, with the index of its result.
func (c *Composed) look(ctx context.Context, target Target, prepare func(i int, v *visit)) (Report, error) {
	report := Report{UID: target.UID}
	if err := checkLook(ctx, target); err != nil {
		report.Failed = err
		return report, err
	}
	found := c.find(ctx, nil)
	report.Discovery, report.Parsing = found.groups, found.parsing
	report.Results = make([]Result, len(found.plan.sources))
	slots := semaphore.NewWeighted(int64(c.opts.Parallelism))
	var group errgroup.Group
	group.SetLimit(c.opts.Parallelism)
	for i := range found.plan.sources {
		source, result := &found.plan.sources[i], &report.Results[i]
		// What a source leaves that ends its goroutine.
		*result = Result{Resource: source.Resource, Err: &SourceError{Resource: source.Resource, Op: OpList, Err: errNoReturn}}
		v := &visit{opts: &c.opts, slots: slots, source: source, known: found.known[i], target: target}
		prepare(i, v)
		group.Go(func() error {
			*result = v.look(ctx)
			return nil
		})
	}
	_ = group.Wait() // failures are in the results
	if ctx.Err() != nil {
		report.Failed = fmt.Errorf("the look was cut short: %w", context.Cause(ctx))
	}
	return report, report.Err()
}

func checkLook(ctx context.Context, target Target) error {
	if ctx == nil {
		return fmt.Errorf("%w context: is nil", ErrInvalid)
	}
	if err := target.ValidateView(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// look lists the type to its end, or counts it if it cannot be listed.
func (v *visit) look(ctx context.Context) Result {
	v.result.Resource = v.source.Resource
	v.viewer, _ = v.source.Content.(Viewer)
	op, err := OpView, error(nil)
	if v.viewer == nil && !v.target.DeletedAt.IsZero() {
		op = OpList
	}
	switch {
	case !lists(v.source.Content):
		err = fmt.Errorf("a source of functions without List: %w", ErrNotSupported)
	case op == OpView && v.viewer == nil:
		err = fmt.Errorf("content of a namespace that may be Active: %w", ErrNotSupported)
	default:
		err = v.listAll(ctx)
	}
	if c, ok := v.source.Content.(Counter); ok && errors.Is(err, ErrNotSupported) {
		if counted := v.countOnly(ctx, c); !errors.Is(counted, ErrNotSupported) {
			op, err = OpCount, counted
		}
	}
	if err != nil {
		v.fail(op, "", err)
	}
	if v.source.Undeclared {
		v.fail("", "", ErrUndeclared)
	}
	v.result.Err = v.failures.err(v.source.Resource)
	return v.result
}

// listAll lists the type to its end.
func (v *visit) listAll(ctx context.Context) error {
	var t *tally
	err := safely(func() (err error) {
		t, err = v.scan(ctx, func(t *tally, p Page) bool {
			t.add(p.Items...)
			if v.keep != nil {
				v.keep.add(t, p.Items)
			}
			return true
		})
		return err
	})
	if t != nil {
		t.into(&v.result)
	}
	return err
}

// countOnly counts a type that cannot be listed. An inventory of such a type is complete
// only if the count is zero.
func (v *visit) countOnly(ctx context.Context, c Counter) error {
	n := 0
	err := v.call(ctx, OpCount, func(ctx context.Context) (_ int, err error) {
		n, err = c.Count(ctx, v.target)
		return n, err
	})
	v.result.Remaining = max(n, 0)
	switch {
	case err == nil && n < 0:
		return errNegative
	case err == nil && n > 0 && v.keep != nil:
		v.fail(OpList, "", fmt.Errorf("%d objects that can be counted but not listed: %w", n, ErrNotSupported))
	}
	return err
}
