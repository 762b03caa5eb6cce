package explain

import (
	"cmp"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// History is what was seen of one incarnation of a namespace. The zero History is:
// nothing.
type History struct {
	Name    string
	UID     string
	Parties []finalizer.Name // whose passes were recorded ([Recorder.HooksOf]); empty names are not told
	Deleted time.Time        // when it became Terminating; zero: not known
	Began   time.Time        // the first pass
	Passes  []Pass           // the latest, the oldest first
	Total   int              // passes so far
	Removed int              // objects deleted so far, as far as known
	Objects []Objects        // as of the last pass that looked
	// Failures are the last one first, and bounded.
	Failures []Failure
	// Failing are the sources that failed in the last pass, and Streaks since when.
	Failing []string
	Streaks []Streak
	// Waived are the failures that counted for nothing in the last pass.
	Waived []string
	// Conflicts counts passes that were lost to the writes of others.
	Conflicts int
	Settles   time.Duration // how long content may still come, as of the last pass
	PerSecond float64       // objects removed, of late
	// Voices are what the controllers said last, by which what was recorded of them is
	// known to be of the present; nil: the next three say it for all of them.
	Voices  []Voice
	Queued  time.Time // since when it waits for a worker; zero: it does not
	Running time.Time // since when a pass runs; zero: none does
	Next    *Next     // nil: it is looked at now, or nothing is known
	Ended   time.Time // when it was removed; zero: it was not, as far as known
}

// Streak is a source that failed in every pass since then.
type Streak struct {
	Party  finalizer.Name // whose pass it was; empty: not told
	Source string
	Since  time.Time
	Passes int
}

// History returns what was seen of that incarnation of the namespace; of the latest
// that was seen, if uid is empty. It shares nothing that changes with the recorder.
func (r *Recorder) History(name, uid string) History {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(time.Now())
	ref := namespace.Ref{Name: name, UID: uid}
	if uid == "" {
		var latest time.Time
		for known, e := range r.entries {
			at := e.touched()
			if known.Name == name && (at.After(latest) || at.Equal(latest) && known.UID > ref.UID) {
				ref, latest = known, at
			}
		}
	}
	e := r.entries[ref]
	if e == nil {
		return History{}
	}
	return e.history(ref)
}

// Histories returns what was seen of every namespace that is still kept, sorted by name
// and uid.
func (r *Recorder) Histories() []History {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(time.Now())
	list := make([]History, 0, len(r.entries))
	for ref, e := range r.entries {
		list = append(list, e.history(ref))
	}
	slices.SortFunc(list, func(a, b History) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) })
	return list
}

// touched returns when something was told of the namespace last.
func (e *entry) touched() time.Time {
	if !e.ended.IsZero() {
		return e.ended
	}
	at := e.deleted
	if s := e.last(); s != nil {
		at = later(at, s.end())
	}
	for _, p := range e.parts {
		at = later(later(at, p.queued), p.running)
	}
	return at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// end returns when the pass ended.
func (s *step) end() time.Time { return time.Unix(0, s.start).Add(s.took).UTC() }

// history returns a copy of what is kept.
func (e *entry) history(ref namespace.Ref) History {
	h := History{
		Name: ref.Name, UID: ref.UID, Deleted: e.deleted, Began: e.began, Total: e.total, Removed: e.removed(), Conflicts: e.conflict,
		Ended: e.ended, PerSecond: e.rate(),
	}
	for _, s := range e.steps() {
		h.Passes = append(h.Passes, Pass{
			Start: time.Unix(0, s.start).UTC(), Took: s.took, Party: s.party, Outcome: s.outcome.String(),
			Deleted: s.deleted, Remaining: s.remaining, Error: s.err,
		})
	}
	for _, f := range slices.Backward(e.failures) {
		h.Failures = append(h.Failures, f)
	}
	for _, p := range e.parts {
		p.tell(&h)
	}
	slices.SortFunc(h.Objects, func(a, b Objects) int { return cmp.Compare(a.Resource, b.Resource) })
	slices.Sort(h.Failing)
	h.Failing = slices.Compact(h.Failing)
	slices.Sort(h.Waived)
	h.Waived = slices.Compact(h.Waived)
	return h
}

// tell adds the part of one controller.
func (p *part) tell(h *History) {
	h.Voices = append(h.Voices, p.say())
	if party := p.voice.party; party != "" && !slices.Contains(h.Parties, party) {
		h.Parties = append(h.Parties, party)
	}
	for _, k := range p.types {
		o := k.Objects
		o.Party = p.voice.party
		o.Sample, o.HeldBy = slices.Clone(o.Sample), slices.Clone(o.HeldBy)
		for i := range o.HeldBy {
			o.HeldBy[i].Sample = slices.Clone(o.HeldBy[i].Sample)
		}
		h.Objects = append(h.Objects, o)
	}
	for _, s := range p.streaks {
		h.Failing = append(h.Failing, s.Source)
	}
	h.Streaks = append(h.Streaks, p.streaks...)
	h.Waived = append(h.Waived, p.waived...)
	h.Settles = max(h.Settles, p.settles)
	h.Queued, h.Running = earlier(h.Queued, p.queued), earlier(h.Running, p.running)
	if !p.next.At.IsZero() && (h.Next == nil || p.next.At.Before(h.Next.At)) {
		next := p.next
		h.Next = &next
	}
}

// earlier returns the earlier of two moments, of which one may not be set.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// window is how far back the rate looks.
const window = 5 * time.Minute

// rate returns how many objects a second have gone of late: since the first pass that
// is kept and no older than the window.
func (e *entry) rate() float64 {
	last := e.last()
	if last == nil {
		return 0
	}
	from, base := e.began, 0
	for i, s := range e.steps() {
		if i == 0 && e.total > len(e.passes) || last.end().Sub(s.end()) >= window {
			from, base = s.end(), s.removed
		}
	}
	took := last.end().Sub(from).Seconds()
	if took <= 0 || last.removed <= base || e.stalled() {
		return 0
	}
	return float64(last.removed-base) / took
}

// stalled reports whether nothing has gone in the latest passes.
func (e *entry) stalled() bool {
	const latest = 3
	n := len(e.passes)
	if n <= latest {
		return false
	}
	return e.passes[(e.oldest+n-1-latest)%n].removed >= e.last().removed
}
