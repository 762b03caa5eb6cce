package kubernetes

import (
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

const (
	// settleWait is for how long the stock controller leaves a namespace alone.
	settleWait = 5 * time.Second
	// quietPause is between the two looks of [Options.QuietTwice].
	quietPause = 50 * time.Millisecond
	// shortWait is the least that a report asks for that is not final.
	shortWait = time.Millisecond
)

// wait returns for how long content may still come after a namespace was first seen
// terminating.
func (o *Options) wait(s server) time.Duration {
	switch {
	case o.Wait > 0:
		return o.Wait
	case o.Wait < 0 || s == gatedServer:
		return 0
	}
	return settleWait
}

// settling is how far what one look sees can be relied upon.
type settling struct {
	at      time.Time // from when on a look sees the last of what could come
	settled bool      // the look, and the discovery that it relies upon, began no earlier
	// quiet are the versions at which an earlier look of the same incarnation saw each
	// type empty; nil: it did not, or that does not count.
	quiet map[namespace.ResourceType]string
}

// settling begins a look at target over v that relies upon a discovery which did not
// begin before discovered.
func (d *Deleter) settling(target deleter.Target, previous deleter.Report, v *view, discovered time.Time) settling {
	s := settling{at: d.incarnations.firstSeen(target).Add(d.options.wait(v.server))}
	s.settled = !discovered.Before(s.at)
	if d.options.QuietTwice && !s.settled && previous.Provisional > 0 {
		s.quiet = d.incarnations.quiet(target)
	}
	return s
}

// settles returns for how long what the look saw is not final; zero: it is, or
// something is left or failed, so that there will be another look anyway.
func (d *Deleter) settles(target deleter.Target, s settling, report deleter.Report) time.Duration {
	rest, over := max(time.Until(s.at), shortWait), s.settled || !report.Empty()
	switch {
	case !d.options.QuietTwice && over:
		return 0
	case !d.options.QuietTwice:
		return rest
	case over || s.quiet != nil && later(report, s.quiet):
		d.incarnations.noteQuiet(target, nil) // no further look counts on it
		return 0
	case s.quiet == nil:
		d.incarnations.noteQuiet(target, versions(report))
		return min(rest, quietPause)
	}
	// A type whose version does not move, since nobody writes: time has to tell.
	return rest
}

// versions returns the resource version at which each type was listed.
func versions(report deleter.Report) map[namespace.ResourceType]string {
	seen := make(map[namespace.ResourceType]string, len(report.Results))
	for _, r := range report.Results {
		seen[r.Resource] = r.Seen
	}
	return seen
}

// later reports whether each type was listed at a later version than before.
func later(report deleter.Report, before map[namespace.ResourceType]string) bool {
	for _, r := range report.Results {
		order, err := resourceversion.CompareResourceVersion(r.Seen, before[r.Resource])
		if err != nil || order <= 0 {
			return false
		}
	}
	return true
}
