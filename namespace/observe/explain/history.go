package explain

import (
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/phase"
)

// History is a snapshot of the record of one incarnation of a namespace, see
// [Recorder.History]. The zero History is empty.
type History struct {
	uid       string
	deletedAt time.Time // its deletionTimestamp
	began     time.Time // the first pass
	removedAt time.Time
	passes    []Pass // the latest, the oldest first
	total     int    // passes so far
	removed   int    // objects so far
	perSecond float64
	failures  []Failure // the latest first
	parties   []partyHistory
}

// partyHistory is the part of one party.
type partyHistory struct {
	partyState
	party   finalizer.Name
	objects []Objects
}

// partyState is the latest state of a party's controller.
type partyState struct {
	queued   time.Time // it waits for a worker since then; zero: it does not
	running  time.Time // a pass runs since then; zero: none does
	next     Next      // zero: not scheduled
	reported time.Time // the last report
	observed time.Time // the end of the last complete pass
	done     bool      // the party has finished with the namespace
	left     bool      // another process has taken the namespace over
	failing  []failingSource
	waived   []string      // failures waived in the last pass
	arriving time.Duration // how long content may still arrive without a request
}

// failingSource is a source that failed in each of the last passes.
type failingSource struct {
	source string
	since  time.Time
	passes int
}

// record is the bounded record of one incarnation.
type record struct {
	parties   []*party
	gone      int          // objects removed by parties whose state was replaced
	passes    []passRecord // a ring once it is full
	oldest    int          // index in passes
	total     int
	deletedAt time.Time
	began     time.Time
	removedAt time.Time
	failures  []Failure // the latest last
}

// passRecord is a pass in little memory.
type passRecord struct {
	start     int64 // Unix nanoseconds
	took      time.Duration
	deleted   int
	remaining int
	removed   int // objects so far
	err       string
	party     finalizer.Name
	outcome   pass.Outcome
}

func (s *passRecord) end() time.Time { return time.Unix(0, s.start).Add(s.took).UTC() }

// party is the state of one controller on an incarnation.
type party struct {
	partyState
	hooks *hooks
	types []typeState // sorted by resource
	gone  int         // objects removed of types that are empty now
}

// typeState is the content of one resource type.
type typeState struct {
	Objects
	resource namespace.ResourceType
	deleted  int // objects that the source reported as deleted or marked
	peak     int // highest count
	least    int // lowest count
	since    int // objects deleted since the lowest count
	rounds   int // passes that deleted some since the lowest count
}

// removed returns how many objects have gone. Sources report deletions, or only counts,
// so the greater of both measures is the better one.
func (t *typeState) removed() int { return max(t.deleted-t.Deleting, t.peak-t.Remaining, 0) }

// passEnd is a pass that has ended, with the texts of its errors.
type passEnd struct {
	pass.Result
	at       time.Time
	took     time.Duration
	text     string
	failures []Failure
	waived   []string
}

func (d *passEnd) read(err error) {
	if err != nil {
		d.text = shorten(err.Error(), maxText)
	}
	if d.Outcome != pass.Interrupted {
		d.failures = classify(d.Report, err)
		for _, err := range d.Report.Waived[:min(len(d.Report.Waived), maxFailures)] {
			d.waived = append(d.waived, shorten(text(err), maxText))
		}
	}
}

// party returns the state of the party behind h. New hooks of a party start a new state.
func (e *record) party(h *hooks) *party {
	for _, p := range e.parties {
		if p.hooks == h {
			return p
		}
		if p.hooks.party == h.party {
			e.gone = plus(e.gone, p.removed())
			*p = party{hooks: h}
			return p
		}
	}
	p := &party{hooks: h}
	e.parties = append(e.parties, p)
	return p
}

// add records the end of a pass.
func (e *record) add(p *party, d *passEnd, maxPasses int) {
	if e.began.IsZero() {
		e.began = d.at.Add(-d.took)
	}
	if at := d.Namespace.DeletionTimestamp.Time; !at.IsZero() {
		e.deletedAt = at
	}
	switch d.Outcome {
	case pass.Waiting, pass.Failed, pass.Interrupted, pass.Finalized, pass.Removed:
		p.count(d.Report, d.at)
	}
	if d.Outcome != pass.Interrupted {
		e.fail(p, d.failures, d.at)
		p.waived, p.arriving = d.waived, d.Report.Provisional
	}
	p.done, p.left = false, false
	switch d.Outcome {
	case pass.Waiting, pass.Failed:
		p.observed = d.at
	case pass.Finalized, pass.NoFinalizer, pass.Removed:
		p.clear()
		p.waived, p.done = d.waived, true // waivers explain how it finished
	}
	s := passRecord{
		start: d.at.Add(-d.took).UnixNano(), took: d.took, deleted: d.Report.Deleted(), remaining: p.remaining(), removed: e.removed(),
		party: p.hooks.party, outcome: d.Outcome, err: d.text,
	}
	if last := e.last(); last != nil && last.err == s.err {
		s.err = last.err // share the string
	}
	e.total++
	if len(e.passes) < maxPasses {
		e.passes = append(e.passes, s)
		return
	}
	e.passes[e.oldest] = s
	e.oldest = (e.oldest + 1) % len(e.passes)
}

// fail counts the failures of a pass that has ended.
func (e *record) fail(p *party, now []Failure, at time.Time) {
	before := p.failing
	p.failing = nil
	for _, f := range now {
		f.Count, f.First, f.Last = 1, at, at
		if i := slices.IndexFunc(e.failures, f.same); i >= 0 {
			known := e.failures[i]
			f.Count, f.First, f.Source, f.Text = plus(known.Count, 1), known.First, known.Source, known.Text
			e.failures = slices.Delete(e.failures, i, i+1)
		} else if len(e.failures) == maxFailures {
			e.failures = slices.Delete(e.failures, 0, 1)
		}
		e.failures = append(e.failures, f)

		is := func(s failingSource) bool { return s.source == f.Source }
		if slices.ContainsFunc(p.failing, is) {
			continue
		}
		s := failingSource{source: f.Source, since: at}
		if i := slices.IndexFunc(before, is); i >= 0 {
			s = before[i]
		}
		s.passes = plus(s.passes, 1)
		p.failing = append(p.failing, s)
	}
}

// end drops the details of a removed namespace.
func (e *record) end(now time.Time) {
	e.removedAt = now
	for _, p := range e.parties {
		p.gone = plus(p.gone, p.remaining())
		p.clear()
	}
}

// touched returns when the namespace was reported last.
func (e *record) touched() time.Time {
	if !e.removedAt.IsZero() {
		return e.removedAt
	}
	at := e.deletedAt
	if s := e.last(); s != nil {
		at = later(at, s.end())
	}
	for _, p := range e.parties {
		at = later(later(at, p.queued), p.running)
	}
	return at
}

func (e *record) last() *passRecord {
	if len(e.passes) == 0 {
		return nil
	}
	return &e.passes[(e.oldest+len(e.passes)-1)%len(e.passes)]
}

// ordered returns the passes, the oldest first.
func (e *record) ordered() []passRecord {
	return slices.Concat(e.passes[e.oldest:], e.passes[:e.oldest])
}

func (e *record) removed() int {
	n := e.gone
	for _, p := range e.parties {
		n = plus(n, p.removed())
	}
	return n
}

// rate returns the objects removed per second within the last five minutes of recorded
// passes, and zero if the latest passes removed none.
func (e *record) rate() float64 {
	const window, latest = 5 * time.Minute, 3
	passes := e.ordered()
	n := len(passes)
	if n == 0 {
		return 0
	}
	last := &passes[n-1]
	if n > latest && passes[n-1-latest].removed >= last.removed {
		return 0
	}
	from, base := e.began, 0
	for i := range passes {
		s := &passes[i]
		if i == 0 && e.total > n || last.end().Sub(s.end()) >= window {
			from, base = s.end(), s.removed
		}
	}
	took := last.end().Sub(from).Seconds()
	if took <= 0 || last.removed <= base {
		return 0
	}
	return float64(last.removed-base) / took
}

// history returns a snapshot that shares nothing with the record.
func (e *record) history(uid string) History {
	h := History{
		uid: uid, deletedAt: e.deletedAt, began: e.began, removedAt: e.removedAt,
		total: e.total, removed: e.removed(), perSecond: e.rate(), failures: slices.Clone(e.failures),
	}
	slices.Reverse(h.failures)
	for _, s := range e.ordered() {
		h.passes = append(h.passes, Pass{
			Start: time.Unix(0, s.start).UTC(), Took: s.took, Party: s.party, Outcome: s.outcome.String(),
			Deleted: s.deleted, Remaining: s.remaining, Error: s.err,
		})
	}
	for _, p := range e.parties {
		one := partyHistory{partyState: p.partyState, party: p.hooks.party}
		one.failing, one.waived = slices.Clone(p.failing), slices.Clone(p.waived)
		for _, t := range p.types {
			o := t.Objects
			o.Party, o.Sample, o.HeldBy = one.party, slices.Clone(o.Sample), slices.Clone(o.HeldBy)
			for i := range o.HeldBy {
				o.HeldBy[i].Sample = slices.Clone(o.HeldBy[i].Sample)
			}
			one.objects = append(one.objects, o)
		}
		h.parties = append(h.parties, one)
	}
	return h
}

// clear drops the state that ends when the controller stops working on the namespace.
func (p *party) clear() {
	p.gone, p.types = p.removed(), nil
	p.partyState = partyState{reported: p.reported}
}

func (p *party) removed() int {
	n := p.gone
	for i := range p.types {
		n = plus(n, p.types[i].removed())
	}
	return n
}

func (p *party) remaining() int {
	n := 0
	for i := range p.types {
		n = plus(n, p.types[i].Remaining)
	}
	return n
}

// count updates the content from a report. A type that did not answer keeps its count.
func (p *party) count(report deleter.Report, now time.Time) {
	known := p.types
	if len(report.Results) == 0 && (len(known) == 0 || report.Err() != nil) {
		return
	}
	p.types = make([]typeState, 0, min(len(known)+1, maxTypes))
	for i := range report.Results {
		r := &report.Results[i]
		var t typeState
		at, ok := slices.BinarySearchFunc(known, r.Resource, func(t typeState, r namespace.ResourceType) int { return t.resource.Compare(r) })
		if ok {
			t = known[at]
			known = slices.Delete(known, at, at+1)
		}
		t.update(r, now)
		p.keep(t)
	}
	for _, t := range known {
		_, empty := slices.BinarySearchFunc(report.Clean, t.resource, namespace.ResourceType.Compare)
		if empty {
			t.Remaining, t.Deleting, t.Waiting = 0, 0, false
		}
		if !empty && report.Err() == nil {
			p.gone = plus(p.gone, t.removed()) // the type was withdrawn
			continue
		}
		p.keep(t)
	}
	slices.SortFunc(p.types, func(a, b typeState) int { return a.resource.Compare(b.resource) })
	p.trim()
}

// keep keeps a type that is not empty, and of an empty one only how many objects it had.
func (p *party) keep(t typeState) {
	if (t.Remaining > 0 || t.Waiting) && len(p.types) < maxTypes {
		p.types = append(p.types, t)
		return
	}
	p.gone = plus(p.gone, t.removed())
}

// trim divides the names that may be kept equally among the types if there are too many,
// up to half of them for finalizers.
func (p *party) trim() {
	n := 0
	for i := range p.types {
		n += len(p.types[i].Sample)
		for _, h := range p.types[i].HeldBy {
			n += 1 + len(h.Sample)
		}
	}
	if n <= maxNames {
		return
	}
	for i := range p.types {
		t := &p.types[i]
		left := maxNames / len(p.types)
		t.HeldBy = slices.Clone(t.HeldBy[:min(len(t.HeldBy), left/2)])
		left -= len(t.HeldBy)
		cut := func(names *[]string) {
			*names = slices.Clone((*names)[:min(len(*names), left)])
			left -= len(*names)
		}
		cut(&t.Sample)
		for j := range t.HeldBy {
			cut(&t.HeldBy[j].Sample)
		}
	}
}

// update takes over the result of a pass.
func (t *typeState) update(r *deleter.Result, now time.Time) {
	if t.resource.Name == "" {
		t.resource, t.Resource, t.Since = r.Resource, shorten(r.Resource.String(), 2*maxName), now
	}
	if t.Waiting = r.Waiting; t.Waiting {
		return
	}
	t.deleted = plus(t.deleted, max(r.Deleted, 0))
	if r.Err != nil && r.Remaining < t.Remaining {
		return // the source did not list all of them
	}
	t.Counted = now
	t.peak = max(t.peak, r.Remaining)
	t.Remaining, t.Deleting, t.AtLeast = max(r.Remaining, 0), max(r.Deleting, 0), r.More
	t.Sample = sample(t.Sample, r.Sample)
	t.hold(r.Holders, now)
	lower := t.least == 0 || r.Remaining < t.least
	if lower {
		t.Since = now
	}
	switch {
	case lower || r.More:
		t.least, t.since, t.rounds = r.Remaining, 0, 0
	case r.Deleted > 0:
		t.since, t.rounds = plus(t.since, r.Deleted), t.rounds+1
	}
	t.Returning = t.rounds >= 3 && t.since >= t.Remaining
}

// hold takes over the finalizers that hold objects.
func (t *typeState) hold(holders []phase.Holder, now time.Time) {
	before := t.HeldBy
	t.HeldBy = nil
	for _, h := range holders {
		if h.Objects <= 0 || len(t.HeldBy) == maxHolders {
			continue
		}
		held := HeldBy{phase.Holder{Finalizer: shorten(h.Finalizer, 2*maxName)}, now}
		if i := slices.IndexFunc(before, func(b HeldBy) bool { return b.Finalizer == held.Finalizer }); i >= 0 {
			held = before[i]
		}
		held.Objects, held.Sample = h.Objects, sample(held.Sample, h.Sample)
		t.HeldBy = append(t.HeldBy, held)
	}
}

// sample returns a bounded copy of names, or old if it is equal.
func sample(old, names []string) []string {
	names = names[:min(len(names), maxSample)]
	if len(names) == 0 {
		return nil
	}
	if slices.Equal(old, names) {
		return old
	}
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = shorten(name, maxName)
	}
	return list
}
