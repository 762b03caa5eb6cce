package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// Deleter empties namespaces of an API server: a [deleter.Deleter] and
// [deleter.Waiter] over all types that discovery finds. [Cluster.Deleter] returns it.
//
// A report is empty only if a discovery that began after the namespace was known to
// be terminating, and one that began after the wait for creates under way
// ([Options.Wait]), show no type that the pass did not see empty (rule R7). Until
// that wait is over, content is deleted at once all the same, and [deleter.Report]
// says in Provisional how long it still takes.
//
// Each object is deleted in the background; types that cannot be listed fail. What
// was learnt of types, and when namespaces were first seen terminating, is in
// memory: a new Deleter waits anew. It is safe for concurrent use.
type Deleter struct {
	options      Options
	incarnations *incarnations
	catalog      *catalog
}

var (
	_ deleter.Deleter = (*Deleter)(nil)
	_ deleter.Waiter  = (*Deleter)(nil)
)

// Delete implements [deleter.Deleter]. The first pass of an incarnation goes over the
// types that are known, while a new discovery is made; if that finds others, a second
// pass over those follows before Delete returns. So does each pass while what is known
// is incomplete, and the one that may be the last.
func (d *Deleter) Delete(ctx context.Context, target deleter.Target, previous deleter.Report) (deleter.Report, error) {
	if previous.UID != target.UID {
		previous = deleter.Report{}
	}
	if err := checkArguments(ctx, target); err != nil {
		return deleter.Report{UID: target.UID, Clean: previous.Clean, LastSeen: previous.LastCounts(), Failed: err}, err
	}
	d.incarnations.firstSeen(target) // from now on, at the latest
	known := d.catalog.latest()
	var report deleter.Report
	switch {
	case known == nil:
		report = d.overFresh(ctx, target, previous)
	case known.failed != nil || d.stale(known, target, previous):
		report = d.overBoth(ctx, target, previous, known)
	default:
		report = d.over(ctx, target, previous, known, known.began)
	}
	return report, report.Err()
}

// stale reports whether a pass over v proves nothing without a further discovery.
func (d *Deleter) stale(v *view, target deleter.Target, previous deleter.Report) bool {
	now := time.Now()
	switch {
	case len(previous.Results)+len(previous.Clean) == 0, // the first pass over the incarnation, as far as is known
		previous.Provisional > 0,            // the pass before left nothing, so that this one may be the last
		now.Sub(v.began) > d.options.Expiry, // also if that is negative
		d.incarnations.lost(target):         // what was gone for a while may be back
		return true
	}
	// Now the pass may be the last, but not by what was discovered before.
	return d.settling(target, previous, v, now).settled && !d.settling(target, previous, v, v.began).settled
}

// overFresh makes a discovery, then a pass over what that finds.
func (d *Deleter) overFresh(ctx context.Context, target deleter.Target, previous deleter.Report) deleter.Report {
	v, err := d.catalog.fresh(ctx)
	if err == nil {
		return d.over(ctx, target, previous, v, v.began)
	}
	report := deleter.Report{UID: target.UID, Clean: previous.Clean, LastSeen: previous.LastCounts()}
	undiscovered(ctx, &report, err)
	return report
}

// overBoth makes a discovery and a pass over v at the same time. If the discovery
// finds the types of v and no others, and lacks the same, the pass was one over these;
// else it is followed by one that is.
func (d *Deleter) overBoth(ctx context.Context, target deleter.Target, previous deleter.Report, v *view) deleter.Report {
	var fresh *view
	var err error
	began := time.Now() // of the discovery, at the earliest
	done := make(chan struct{})
	go func() {
		defer close(done)
		fresh, err = d.catalog.fresh(ctx)
	}()
	report := d.over(ctx, target, previous, v, began)
	<-done
	switch {
	case err != nil:
		undiscovered(ctx, &report, err)
		return report
	case fresh.kit == v.kit && fresh.hidesAs(v):
		return report
	}
	first := report
	first.Provisional = 0 // no look before this one counts
	report = d.over(ctx, target, first, fresh, fresh.began)
	addDeleted(report.Results, first.Results)
	return report
}

// over makes a pass over v, on the word of a discovery that did not begin before discovered.
func (d *Deleter) over(ctx context.Context, target deleter.Target, previous deleter.Report, v *view, discovered time.Time) deleter.Report {
	s := d.settling(target, previous, v, discovered)
	if previous.Provisional > 0 {
		// It saw every type empty, so that this pass does best to look before it deletes.
		previous.Results = v.blank
	}
	report, _ := v.composed.Delete(carrying(ctx, v, s.settled), target, previous) // the error is in the report
	report.Clean = d.incarnations.lasting(target, report.Clean)
	report.Provisional = d.settles(target, s, report)
	return report
}

// undiscovered notes that a discovery failed as a whole: nobody knows what the pass
// has not seen.
func undiscovered(ctx context.Context, report *deleter.Report, err error) {
	report.Provisional = 0
	if ctx.Err() == nil {
		report.Discovery = []error{discoveryError{err}} // and what an earlier one lacked is no news
	} else if report.Failed == nil {
		report.Failed = fmt.Errorf("the pass was cut short: %w", context.Cause(ctx))
	}
}

// addDeleted adds to what one pass deleted what another did. Both are sorted. The
// results are the pass's own.
func addDeleted(results, others []deleter.Result) {
	for _, o := range others {
		i, found := slices.BinarySearchFunc(results, o.Resource, func(r deleter.Result, t namespace.ResourceType) int { return r.Resource.Compare(t) })
		if found {
			results[i].Deleted += o.Deleted
		}
	}
}

// Wait implements [deleter.Waiter], by watches.
func (d *Deleter) Wait(ctx context.Context, target deleter.Target, report deleter.Report) error {
	if err := checkArguments(ctx, target); err != nil {
		return err
	}
	v := d.catalog.latest()
	if v == nil {
		return fmt.Errorf("waiting for content to go: no discovery was made yet: %w", deleter.ErrNotSupported)
	}
	return v.composed.Wait(ctx, target, report)
}

// carried is what a pass brings along for the composed deleter, which outlives
// discoveries since it learns about types.
type carried struct {
	view  *view
	final bool
}

type carriedKey struct{}

func carrying(ctx context.Context, v *view, final bool) context.Context {
	return context.WithValue(ctx, carriedKey{}, carried{v, final})
}

// sourcesOf is the discovery of the composed deleters: that of the pass.
func sourcesOf(ctx context.Context) ([]deleter.Source, error) {
	c, ok := ctx.Value(carriedKey{}).(carried)
	if !ok {
		return nil, deleter.ErrNothingDiscovered
	}
	sources := c.view.sources
	if c.final {
		sources = c.view.final
	}
	if c.view.failed != nil {
		return sources, c.view.failed
	}
	return sources, nil
}
