package deleter

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// Inventory lists the content of a namespace.
type Inventory struct {
	Report  Report   // as of [Composed.Inspect]
	Objects []Object // sorted by resource, then by name
}

// Object is one object of an [Inventory].
type Object struct {
	Resource namespace.ResourceType
	Item
}

// Inspect reports the content of the target and deletes nothing, for plans, dry runs and
// inventories. It lists every source to its end, without regard to After and Waived. A
// source that cannot be listed is counted ([Counter]); otherwise it fails with
// [ErrNotSupported]. The result of a source that failed has the objects seen before the
// failure. The report is not a previous report for Delete.
//
// A [Viewer] is viewed in any phase, because a view is of this incarnation for certain (rule
// R8). Other content is listed. That fails with [ErrNotSupported] if the target's DeletedAt
// is zero, because the namespace may be Active.
func (c *Composed) Inspect(ctx context.Context, target Target) (Report, error) {
	return c.inspect(ctx, target, func(*visit) {})
}

// Inventory lists every object of the target, as [Composed.Inspect] does, and holds them all
// in memory. It is complete only if there is no error. The objects of a type that failed are
// those listed before the failure.
func (c *Composed) Inventory(ctx context.Context, target Target) (Inventory, error) {
	var logs []*itemLog // by source
	report, err := c.inspect(ctx, target, func(v *visit) {
		v.items = &itemLog{}
		logs = append(logs, v.items)
	})
	inventory := Inventory{Report: report}
	for i, l := range logs {
		inventory.Objects = l.appendTo(inventory.Objects, report.Results[i])
	}
	return inventory, err
}

// inspect calls prepare for each visit, in the order of the results.
func (c *Composed) inspect(ctx context.Context, target Target, prepare func(*visit)) (Report, error) {
	report := Report{UID: target.UID}
	if err := target.ValidateView(); err != nil {
		report.Failed = err
		return report, err
	}
	if ctx.Err() != nil {
		report.Failed = context.Cause(ctx)
		return report, report.Failed
	}
	found := c.find(ctx, nil, Report{})
	report.Discovery, report.Parsing = found.groups, found.parsing
	report.Results = make([]Result, len(found.graph.sources))
	slots := semaphore.NewWeighted(int64(c.opts.Parallelism))
	var group errgroup.Group
	group.SetLimit(c.opts.Parallelism)
	for i := range found.graph.sources {
		source, result := &found.graph.sources[i], &report.Results[i]
		*result = Result{Resource: source.Resource, Waiting: true}
		v := &visit{opts: &c.opts, slots: slots, source: source, known: found.known[i], target: target}
		prepare(v)
		group.Go(func() error {
			*result = v.inspect(ctx)
			return nil
		})
	}
	_ = group.Wait() // the results have the failures
	if ctx.Err() != nil {
		report.Failed = fmt.Errorf("the inspection was cut short: %w", context.Cause(ctx))
	}
	return report, report.Err()
}

// inspect lists the type to its end, or counts it.
func (v *visit) inspect(ctx context.Context) Result {
	v.result.Resource = v.source.Resource
	op, err := v.listAll(ctx)
	if c := counter(v.source.Content); c != nil && errors.Is(err, ErrNotSupported) {
		op, err = OpCount, v.count(ctx, c)
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

func (v *visit) listAll(ctx context.Context) (Op, error) {
	v.viewer, _ = v.source.Content.(Viewer)
	op := OpView
	if v.viewer == nil && !v.target.DeletedAt.IsZero() {
		op = OpList
	}
	switch {
	case !lists(v.source.Content):
		return op, fmt.Errorf("the source has neither a Count nor a List function: %w", ErrNotSupported)
	case op == OpView && v.viewer == nil:
		return op, fmt.Errorf("content of a namespace that may be Active: %w", ErrNotSupported)
	}
	return op, CatchPanic("", func() error {
		t, err := v.scan(ctx, func(t *tally, p Page) bool {
			if v.items != nil {
				v.items.add(t, p.Items)
			}
			return addAll(t, p)
		})
		t.into(&v.result)
		return err
	})
}

// count counts a type that cannot be listed. An inventory of it is complete only if the count
// is zero.
func (v *visit) count(ctx context.Context, c Counter) error {
	n := 0
	err := v.call(ctx, OpCount, func(ctx context.Context) (_ int, err error) {
		n, err = c.Count(ctx, v.target)
		return n, err
	})
	v.result.Remaining = max(n, 0)
	switch {
	case err == nil && n < 0:
		return errNegative
	case err == nil && n > 0 && v.items != nil:
		return fmt.Errorf("%d objects can be counted but not listed: %w", n, ErrNotSupported)
	}
	return err
}
