package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// Deleter deletes the content of namespaces, with all types that discovery finds. It implements
// [deleter.Deleter] and [deleter.Waiter]. [Cluster.Deleter] returns it.
//
// A report is empty only if the pass saw every discovered type empty, and if both the pass and its
// discovery began after [Options.Wait] was over, or [Options.QuietTwice] ended it (rule R7).
// Content is deleted during the wait too. [deleter.Report] has the rest of the wait in Provisional.
//
// Types that cannot be listed fail. The observations about types, and the start of each wait, are
// in memory: a new Deleter starts a new wait. A Deleter is safe for concurrent use.
type Deleter struct {
	options      Options
	incarnations *incarnations
	catalog      *catalog
}

var (
	_ deleter.Deleter = (*Deleter)(nil)
	_ deleter.Waiter  = (*Deleter)(nil)
)

// Delete implements [deleter.Deleter]. The first pass of an incarnation uses the known types while
// a new discovery runs. If that finds other types, a second pass over those follows before Delete
// returns. The same applies to passes after an incomplete discovery, and to a pass that may be the
// last.
func (d *Deleter) Delete(ctx context.Context, target deleter.Target, previous deleter.Report) (deleter.Report, error) {
	if previous.UID != target.UID {
		previous = deleter.Report{}
	}
	if err := checkArguments(ctx, target); err != nil {
		return deleter.Report{UID: target.UID, Clean: previous.Clean, LastSeen: previous.LastCounts(), Failed: err}, err
	}
	d.incarnations.firstSeen(target) // starts the wait
	known := d.catalog.latest()
	var report deleter.Report
	switch {
	case known == nil:
		report = d.discoverThenPass(ctx, target, previous)
	case known.failed != nil || d.needsDiscovery(known, target, previous):
		report = d.passWhileDiscovering(ctx, target, previous, known)
	default:
		report = d.pass(ctx, target, previous, known, known.began)
	}
	return report, report.Err()
}

// needsDiscovery reports whether a pass over v needs a new discovery.
func (d *Deleter) needsDiscovery(v *snapshot, target deleter.Target, previous deleter.Report) bool {
	now := time.Now()
	switch {
	case len(previous.Results)+len(previous.Clean) == 0, // apparently the first pass
		previous.Provisional > 0,               // the previous pass found nothing, so this may be the last
		now.Sub(v.began) > d.options.Expiry,    // also if negative
		d.incarnations.hasMissingTypes(target): // missing types may be back
		return true
	}
	// A pass that begins now may be the last, but not based on the old discovery.
	return d.assess(target, previous, v, now).final && !d.assess(target, previous, v, v.began).final
}

// discoverThenPass makes a discovery, and then a pass over its types.
func (d *Deleter) discoverThenPass(ctx context.Context, target deleter.Target, previous deleter.Report) deleter.Report {
	v, err := d.catalog.fresh(ctx)
	if err == nil {
		return d.pass(ctx, target, previous, v, v.began)
	}
	report := deleter.Report{UID: target.UID, Clean: previous.Clean, LastSeen: previous.LastCounts()}
	addDiscoveryFailure(ctx, &report, err)
	return report
}

// passWhileDiscovering makes a discovery and a pass over v in parallel. If the discovery finds the
// same types and failures, the pass counts as one over the new discovery. Otherwise another pass
// follows.
func (d *Deleter) passWhileDiscovering(ctx context.Context, target deleter.Target, previous deleter.Report, v *snapshot) deleter.Report {
	var fresh *snapshot
	var err error
	began := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fresh, err = d.catalog.fresh(ctx)
	}()
	report := d.pass(ctx, target, previous, v, began)
	<-done
	switch {
	case err != nil:
		addDiscoveryFailure(ctx, &report, err)
		return report
	case fresh.typeSet == v.typeSet && fresh.hidesSame(v):
		return report
	}
	first := report
	first.Provisional = 0 // else the next pass would count as the second one of QuietTwice
	report = d.pass(ctx, target, first, fresh, fresh.began)
	addDeleted(report.Results, first.Results)
	return report
}

// pass makes a pass over v. The discovery on which it relies began at discovered or later.
func (d *Deleter) pass(ctx context.Context, target deleter.Target, previous deleter.Report, v *snapshot, discovered time.Time) deleter.Report {
	s := d.assess(target, previous, v, discovered)
	if previous.Provisional > 0 {
		// The previous pass saw every type empty, so list before deleting.
		previous.Results = v.emptyResults
	}
	report, _ := v.composed.Delete(withSnapshot(ctx, v, s.final), target, previous) // the report has the error
	report.Clean = d.incarnations.withoutMissingTypes(target, report.Clean)
	report.Provisional = d.provisionalFor(target, s, report)
	return report
}

// addDiscoveryFailure records that discovery failed completely.
func addDiscoveryFailure(ctx context.Context, report *deleter.Report, err error) {
	report.Provisional = 0
	if ctx.Err() == nil {
		report.Discovery = []error{discoveryError{err}}
	} else if report.Failed == nil {
		report.Failed = fmt.Errorf("pass interrupted: %w", context.Cause(ctx))
	}
}

// addDeleted adds the counts of another pass to results. Both are sorted.
func addDeleted(results, others []deleter.Result) {
	for _, o := range others {
		i, found := slices.BinarySearchFunc(results, o.Resource, func(r deleter.Result, t namespace.ResourceType) int { return r.Resource.Compare(t) })
		if found {
			results[i].Deleted += o.Deleted
		}
	}
}

// Wait implements [deleter.Waiter] with watches.
func (d *Deleter) Wait(ctx context.Context, target deleter.Target, report deleter.Report) error {
	if err := checkArguments(ctx, target); err != nil {
		return err
	}
	v := d.catalog.latest()
	if v == nil {
		return fmt.Errorf("wait for content: no discovery yet: %w", deleter.ErrNotSupported)
	}
	return v.composed.Wait(ctx, target, report)
}

// passContext passes the snapshot of a pass to the composed deleter, which outlives discoveries
// because it keeps its knowledge about types.
type passContext struct {
	snapshot *snapshot
	final    bool
}

type passContextKey struct{}

func withSnapshot(ctx context.Context, v *snapshot, final bool) context.Context {
	return context.WithValue(ctx, passContextKey{}, passContext{v, final})
}

// sourcesOf returns the sources of the snapshot in ctx.
func sourcesOf(ctx context.Context) ([]deleter.Source, error) {
	c, ok := ctx.Value(passContextKey{}).(passContext)
	if !ok {
		return nil, deleter.ErrNothingDiscovered
	}
	sources := c.snapshot.sources
	if c.final {
		sources = c.snapshot.final
	}
	if c.snapshot.failed != nil {
		return sources, c.snapshot.failed
	}
	return sources, nil
}

// Inspect reports the content of the target and deletes nothing; see [deleter.Composed.Inspect].
// The namespace may be Active if the target's DeletedAt is zero. Inspect makes a new discovery.
func (d *Deleter) Inspect(ctx context.Context, target deleter.Target) (deleter.Report, error) {
	v, report, err := d.discover(ctx, target)
	if err != nil {
		return report, err
	}
	return v.composed.Inspect(withSnapshot(ctx, v, false), target)
}

// Inventory lists every object of the target under the conditions of Inspect; see
// [deleter.Composed.Inventory].
func (d *Deleter) Inventory(ctx context.Context, target deleter.Target) (deleter.Inventory, error) {
	v, report, err := d.discover(ctx, target)
	if err != nil {
		return deleter.Inventory{Report: report}, err
	}
	return v.composed.Inventory(withSnapshot(ctx, v, false), target)
}

// discover returns a new snapshot, or the report of a failure.
func (d *Deleter) discover(ctx context.Context, target deleter.Target) (*snapshot, deleter.Report, error) {
	report := deleter.Report{UID: target.UID}
	if err := checkView(ctx, target); err != nil {
		report.Failed = err
		return nil, report, err
	}
	v, err := d.catalog.fresh(ctx)
	if err != nil {
		addDiscoveryFailure(ctx, &report, err)
		return nil, report, report.Err()
	}
	return v, report, nil
}

func checkView(ctx context.Context, target deleter.Target) error {
	if err := target.ValidateView(); err != nil {
		return err
	}
	return context.Cause(ctx)
}
