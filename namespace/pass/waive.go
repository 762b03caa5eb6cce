package pass

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/multierr"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/phase"
)

// ErrNotWaived is the failure of a source that the deleter reported as waived, although no
// waiver of the namespace covers it, or none is in force any more at the decision.
var ErrNotWaived = errors.New("no waiver of the namespace is in force")

// inForce returns the sources that valid waivers of ns waive at this time.
func inForce(ns namespace.Namespace, now time.Time) []string {
	waivers, _ := declare.Waivers(ns.Meta)
	var sources []string
	for _, w := range waivers {
		if !w.Expired(now) && !slices.Contains(sources, w.Source) {
			sources = append(sources, w.Source)
		}
	}
	return sources
}

// withRecorded adds the counts in the status of ns, which the last pass of any process wrote,
// to previous. It returns the counts without a known type separately.
func withRecorded(ns namespace.Namespace, party namespace.Party, previous deleter.Report) (_ deleter.Report, unknown []phase.Remaining) {
	seen := namespace.LastSeen(ns, party)
	if len(seen) == 0 {
		return previous, nil
	}
	if previous.UID != ns.UID {
		previous = deleter.Report{UID: ns.UID}
	}
	counts := slices.Clone(previous.LastSeen)
	for _, r := range seen {
		resource := namespace.ResourceType{Group: r.Group, Name: r.Resource}
		if r.Resource == "" {
			unknown = append(unknown, r)
			continue
		}
		if !slices.ContainsFunc(counts, func(c deleter.ResourceCount) bool { return c.Resource == resource }) {
			counts = append(counts, deleter.ResourceCount{Resource: resource, Objects: r.Count})
		}
	}
	slices.SortFunc(counts, func(a, b deleter.ResourceCount) int { return a.Resource.Compare(b.Resource) })
	previous.LastSeen = counts
	return previous, unknown
}

// checkWaivers turns waived failures into ordinary ones if their waivers are no longer in
// force, because they expired or were removed during the pass. It reports whether there were
// any.
func (p *run) checkWaivers(now time.Time) bool {
	seen := &p.seen
	if len(seen.Waived)+len(seen.WaivedDiscovery) == 0 {
		return false
	}
	sources := inForce(p.result.Namespace, now)
	split := func(waived []error) (still, failed []error) {
		for _, err := range waived {
			if slices.Contains(sources, deleter.SourceOf(err)) {
				still = append(still, err)
				continue
			}
			failed = append(failed, fmt.Errorf("%w: %w", err, ErrNotWaived))
		}
		return still, failed
	}
	var groups, content []error
	seen.WaivedDiscovery, groups = split(seen.WaivedDiscovery)
	seen.Waived, content = split(seen.Waived)
	if len(groups)+len(content) == 0 {
		return false
	}
	seen.Discovery = slices.Concat(seen.Discovery, groups)
	seen.Content = slices.Concat(seen.Content, content)
	seen.Failed = multierr.Append(seen.Failed, multierr.Combine(slices.Concat(groups, content)...))
	report := &p.result.Report
	report.Waived = slices.Concat(seen.WaivedDiscovery, seen.Waived)
	report.Discovery = seen.Discovery
	restore(report, content)
	return true
}

// restore adds failures whose waivers ended to the results of their resource types, or to
// report.Failed.
func restore(report *deleter.Report, failed []error) {
	report.Results = slices.Clone(report.Results)
	for _, err := range failed {
		source := deleter.SourceOf(err)
		at := slices.IndexFunc(report.Results, func(r deleter.Result) bool { return r.Resource.String() == source })
		if at < 0 {
			report.Failed = multierr.Append(report.Failed, err)
			continue
		}
		report.Results[at].Err = multierr.Append(report.Results[at].Err, err)
	}
}
