package explain

import (
	"cmp"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
)

// Recorded is the content of a [History], which is opaque outside of tests. The state of
// each party is the same.
type Recorded struct {
	UID       string
	Parties   []finalizer.Name // default: [finalizer.Kubernetes]
	Deleted   time.Time
	Began     time.Time
	Ended     time.Time
	Passes    []Pass
	Total     int
	Removed   int
	PerSecond float64
	Failures  []Failure
	Failing   []string // sources that fail since the first of their Failures
	Objects   []Objects
	Waived    []string
	Arriving  time.Duration
	Queued    time.Time
	Running   time.Time
	Next      Next
}

// History returns r as a recorder would have seen it.
func (r Recorded) History() History {
	h := History{
		uid: r.UID, deletedAt: r.Deleted, began: r.Began, removedAt: r.Ended, total: r.Total, removed: r.Removed,
		perSecond: r.PerSecond, failures: r.Failures, passes: slices.Clone(r.Passes),
	}
	for i := range h.passes {
		h.passes[i].Party = cmp.Or(h.passes[i].Party, finalizer.Kubernetes)
	}
	if r.Total == 0 && r.Queued.IsZero() && r.Running.IsZero() && len(r.Objects) == 0 {
		return h
	}
	names := r.Parties
	if len(names) == 0 {
		names = []finalizer.Name{finalizer.Kubernetes}
	}
	for i, name := range names {
		p := partyHistory{party: name, partyState: partyState{queued: r.Queued, running: r.Running, next: r.Next, waived: r.Waived, arriving: r.Arriving}}
		for _, o := range r.Objects {
			o.Party = name
			if i == 0 {
				p.objects = append(p.objects, o)
			}
		}
		for _, source := range r.Failing {
			s := failingSource{source: source, passes: 1}
			for _, f := range r.Failures {
				if f.Source == source {
					s.passes, s.since = f.Count, f.First
				}
			}
			p.failing = append(p.failing, s)
		}
		for _, one := range h.passes {
			if one.Party != name {
				continue
			}
			p.reported = one.Start.Add(one.Took)
			switch one.Outcome {
			case "failed", "waiting":
				p.observed, p.done = p.reported, false
			case "finalized", "no finalizer":
				p.done = true
			}
		}
		h.parties = append(h.parties, p)
	}
	return h
}

// Recorded returns the content of h.
func (h History) Recorded() Recorded {
	r := Recorded{
		UID: h.uid, Deleted: h.deletedAt, Began: h.began, Ended: h.removedAt, Total: h.total, Removed: h.removed,
		PerSecond: h.perSecond, Failures: h.failures, Passes: h.passes,
	}
	for _, p := range h.parties {
		r.Parties = append(r.Parties, p.party)
		r.Objects = append(r.Objects, p.objects...)
		for _, s := range p.failing {
			r.Failing = append(r.Failing, s.source)
		}
		r.Waived = append(r.Waived, p.waived...)
		r.Arriving = max(r.Arriving, p.arriving)
		r.Queued, r.Running = earlier(r.Queued, p.queued), earlier(r.Running, p.running)
		if at := earlier(r.Next.At, p.next.At); !at.Equal(r.Next.At) {
			r.Next = p.next
		}
	}
	slices.Sort(r.Failing)
	return r
}

// Since returns since when and in how many passes each source has failed.
func (h History) Since() map[string]Failure {
	list := map[string]Failure{}
	for _, p := range h.parties {
		for _, s := range p.failing {
			list[s.source] = Failure{First: s.since, Count: s.passes}
		}
	}
	return list
}

// NewBoundedRecorder returns a recorder with other limits; zero: the default.
func NewBoundedRecorder(namespaces, passes, removed int) *Recorder {
	r := NewRecorder()
	r.limits.namespaces = cmp.Or(namespaces, r.limits.namespaces)
	r.limits.passes = cmp.Or(passes, r.limits.passes)
	r.limits.removed = cmp.Or(removed, r.limits.removed)
	return r
}

// Size returns how many namespaces r keeps.
func (r *Recorder) Size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prune(time.Now())
	return len(r.records)
}

// Kinds returns all kinds in the order of their rank.
func Kinds() []Kind {
	var list []Kind
	for _, r := range append(slices.Clone(rules[:]), lastRule) {
		list = append(list, r.kind)
	}
	return list
}
