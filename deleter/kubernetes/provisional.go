package kubernetes

import (
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

const (
	// stockWait is the wait of the stock controller.
	stockWait = 5 * time.Second
	// quietPause is the pause between the two passes of [Options.QuietTwice].
	quietPause = 50 * time.Millisecond
	// shortWait is the smallest Report.Provisional other than zero.
	shortWait = time.Millisecond
)

// wait returns how long after a namespace was first seen terminating content may still appear.
func (o *Options) wait(s server) time.Duration {
	switch {
	case o.Wait > 0:
		return o.Wait
	case o.Wait < 0 || s == gatedServer:
		return 0
	}
	return stockWait
}

// assessment is whether an empty pass is final.
type assessment struct {
	finalFrom time.Time // a pass from then on sees all content
	final     bool      // the pass and its discovery began at finalFrom or later
	// emptyVersions has the resource versions at which an earlier pass of the incarnation saw
	// each type empty; nil if that does not count.
	emptyVersions map[namespace.ResourceType]string
}

// assess assesses a pass over v that begins now and relies on a discovery that began at discovered
// or later.
func (d *Deleter) assess(target deleter.Target, previous deleter.Report, v *snapshot, discovered time.Time) assessment {
	s := assessment{finalFrom: d.incarnations.firstSeen(target).Add(d.options.wait(v.server))}
	s.final = !discovered.Before(s.finalFrom)
	if d.options.QuietTwice && !s.final && previous.Provisional > 0 {
		s.emptyVersions = d.incarnations.emptyVersions(target)
	}
	return s
}

// provisionalFor returns how much longer an empty report is provisional. Zero: it is final, or
// objects or failures require another pass anyway.
func (d *Deleter) provisionalFor(target deleter.Target, s assessment, report deleter.Report) time.Duration {
	rest, over := max(time.Until(s.finalFrom), shortWait), s.final || !report.Empty()
	switch {
	case !d.options.QuietTwice && over:
		return 0
	case !d.options.QuietTwice:
		return rest
	case over || s.emptyVersions != nil && allLater(report, s.emptyVersions):
		d.incarnations.setEmptyVersions(target, nil)
		return 0
	case s.emptyVersions == nil:
		d.incarnations.setEmptyVersions(target, versions(report))
		return min(rest, quietPause)
	}
	// A type is still at its old version, so this pass proves nothing new: wait out the rest.
	return rest
}

// versions returns the resource version of the listing of each type.
func versions(report deleter.Report) map[namespace.ResourceType]string {
	seen := make(map[namespace.ResourceType]string, len(report.Results))
	for _, r := range report.Results {
		seen[r.Resource] = r.Seen
	}
	return seen
}

// allLater reports whether each type was listed at a later version than before.
func allLater(report deleter.Report, before map[namespace.ResourceType]string) bool {
	for _, r := range report.Results {
		order, err := resourceversion.CompareResourceVersion(r.Seen, before[r.Resource])
		if err != nil || order <= 0 {
			return false
		}
	}
	return true
}
