package deleter

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// Look reports what is in the target and deletes nothing: for plans, dry runs and
// inventories. It lists every source to its end, all at once whatever comes after
// what. A source that cannot list has failed, with [ErrNotSupported]. Errors are
// those of Delete, and the report is as full as it can be in either case; it is
// not one to be handed to Delete.
func (c *Composed) Look(ctx context.Context, target Target) (Report, error) {
	report := Report{UID: target.UID}
	if err := checkCall(ctx, target); err != nil {
		report.Failed = err
		return report, err
	}
	found := c.find(ctx)
	report.Discovery, report.Parsing = found.groups, found.parsing
	report.Results = make([]Result, len(found.plan.sources))
	slots := semaphore.NewWeighted(int64(c.opts.Parallelism))
	var group errgroup.Group
	group.SetLimit(c.opts.Parallelism)
	for i := range found.plan.sources {
		source, result := &found.plan.sources[i], &report.Results[i]
		// What a source leaves that ends its goroutine.
		*result = Result{Resource: source.Resource, Err: &SourceError{Resource: source.Resource, Op: OpList, Err: errNoReturn}}
		group.Go(func() error {
			v := &visit{opts: &c.opts, slots: slots, source: source, known: found.known[i], target: target}
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

// look lists the type to its end.
func (v *visit) look(ctx context.Context) Result {
	v.result.Resource = v.source.Resource
	var t *tally
	err := safely(func() (err error) {
		t, err = v.scan(ctx, func(*tally, Page) bool { return true })
		return err
	})
	if err != nil {
		v.fail(OpList, "", err)
	} else {
		t.into(&v.result)
	}
	v.result.Err = v.failures.err(v.source.Resource)
	return v.result
}
