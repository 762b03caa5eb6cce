package explain

import (
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/phase"
)

// entry is what a recorder keeps of one incarnation.
type entry struct {
	parts    []*part // one for each controller that told of it
	gone     int     // objects that those saw go that tell no more
	passes   []step  // a ring: the oldest at first, once it is full
	oldest   int
	total    int
	deleted  time.Time // its deletionTimestamp
	began    time.Time
	ended    time.Time
	failures []Failure // the last one last
	conflict int
}

// step is one pass, packed.
type step struct {
	start     int64 // nanoseconds since 1970
	took      time.Duration
	deleted   int
	remaining int
	removed   int // so far
	err       string
	party     finalizer.Name
	outcome   pass.Outcome
}

// kind is what is left of one resource type.
type kind struct {
	Objects
	resource namespace.ResourceType
	asked    int // objects that it was told to have deleted so far
	most     int // objects that were there at one time
	low      int // the least that was left
	since    int // objects deleted since then
	rounds   int // passes that deleted some since then
}

// removed returns how many objects of the type have gone, as far as known.
func (k *kind) removed() int { return max(k.asked-k.Deleting, k.most-k.Remaining, 0) }

// end is the end of a pass.
type end struct {
	result   pass.Result
	err      error
	at       time.Time
	took     time.Duration
	failures []Failure
	waived   []string
	text     string // of err
}

// read reads the errors.
func (d *end) read() {
	if d.err != nil {
		d.text = brief(d.err.Error(), maxText)
	}
	if d.result.Outcome != pass.Interrupted {
		d.failures = failuresOf(d.result, d.err)
		d.waived = textsOf(d.result.Report.Waived)
	}
}

// learn takes in a pass that has ended.
func (e *entry) learn(p *part, most int, d *end) {
	outcome, report := d.result.Outcome, d.result.Report
	if e.began.IsZero() {
		e.began = d.at.Add(-d.took)
	}
	if at := d.result.Namespace.DeletionTimestamp.Time; !at.IsZero() {
		e.deleted = at
	}
	switch outcome {
	case pass.Waiting, pass.Failed, pass.Interrupted, pass.Finalized, pass.Removed:
		p.count(report, d.at)
	}
	if outcome != pass.Interrupted {
		e.fail(p, d.failures, d.at)
		p.waived, p.settles = d.waived, report.Provisional
	}
	room := maxNames
	for _, other := range e.parts {
		if other != p {
			room -= other.names()
		}
	}
	p.trim(room)
	p.looks(outcome, d.at)
	s := step{
		start: d.at.Add(-d.took).UnixNano(), took: d.took, deleted: report.Deleted(), remaining: p.remaining(), removed: e.removed(),
		party: p.voice.party, outcome: outcome, err: d.text,
	}
	if last := e.last(); last != nil && last.err == s.err {
		s.err = last.err // one copy will do
	}
	e.push(s, most)
}

func (e *entry) last() *step {
	if len(e.passes) == 0 {
		return nil
	}
	return &e.passes[(e.oldest+len(e.passes)-1)%len(e.passes)]
}

func (e *entry) push(s step, most int) {
	e.total++
	if len(e.passes) < most {
		e.passes = append(e.passes, s)
		return
	}
	e.passes[e.oldest] = s
	e.oldest = (e.oldest + 1) % len(e.passes)
}

// steps returns the passes, the oldest first.
func (e *entry) steps() []step { return slices.Concat(e.passes[e.oldest:], e.passes[:e.oldest]) }

func (e *entry) removed() int {
	n := e.gone
	for _, p := range e.parts {
		n = plus(n, p.removed())
	}
	return n
}

func (p *part) removed() int {
	n := p.gone
	for i := range p.types {
		n = plus(n, p.types[i].removed())
	}
	return n
}

func (p *part) remaining() int {
	n := 0
	for i := range p.types {
		n = plus(n, p.types[i].Remaining)
	}
	return n
}

// plus adds b to a, up to the largest number.
func plus(a, b int) int {
	if sum := a + b; sum >= a || b < 0 {
		return sum
	}
	return int(^uint(0) >> 1)
}

// count takes in what a report says is left. A type that did not answer keeps what was
// counted before.
func (p *part) count(report deleter.Report, now time.Time) {
	if len(report.Results) == 0 && report.Err() != nil {
		return
	}
	before := p.types
	if len(report.Results) == 0 && len(before) == 0 {
		return
	}
	taken := make([]bool, len(before))
	p.types = make([]kind, 0, min(len(before)+1, maxTypes))
	for i := range report.Results {
		r := &report.Results[i]
		at, was := slices.BinarySearchFunc(before, r.Resource, func(k kind, r namespace.ResourceType) int { return k.resource.Compare(r) })
		var k kind
		if was && !taken[at] {
			k, taken[at] = before[at], true
		}
		k.take(r, now)
		p.keep(k)
	}
	for i, k := range before {
		switch {
		case taken[i]:
		case knownClean(report, k.resource):
			k.Remaining, k.Deleting, k.Waiting = 0, 0, false
			p.keep(k)
		case report.Err() != nil: // it may be hidden
			p.keep(k)
		default: // it is not served any more
			p.gone = plus(p.gone, k.removed())
		}
	}
	slices.SortFunc(p.types, func(a, b kind) int { return a.resource.Compare(b.resource) })
}

// keep keeps k while something is left of it, and else only how much there was.
func (p *part) keep(k kind) {
	if k.Remaining > 0 || k.Waiting {
		if len(p.types) < maxTypes {
			p.types = append(p.types, k)
			return
		}
	}
	p.gone = plus(p.gone, k.removed())
}

func knownClean(report deleter.Report, resource namespace.ResourceType) bool {
	_, ok := slices.BinarySearchFunc(report.Clean, resource, namespace.ResourceType.Compare)
	return ok
}

// take takes in the result of one type.
func (k *kind) take(r *deleter.Result, now time.Time) {
	fresh := k.resource.Name == ""
	if fresh {
		k.resource, k.Resource, k.Since = r.Resource, brief(r.Resource.String(), 2*maxName), now
	}
	if k.Waiting = r.Waiting; k.Waiting {
		return
	}
	k.asked = plus(k.asked, max(r.Deleted, 0))
	if r.Err != nil && r.Remaining < k.Remaining {
		return // it has not looked to the end
	}
	k.Counted = now
	k.most = max(k.most, r.Remaining)
	k.Remaining, k.Deleting, k.AtLeast = max(r.Remaining, 0), max(r.Deleting, 0), r.More
	k.Sample = sample(k.Sample, r.Sample)
	k.hold(r.Holders, now)
	switch {
	case fresh || r.Remaining < k.low || r.More || k.low == 0:
		if !fresh && r.Remaining < k.low || k.low == 0 {
			k.Since = now
		}
		k.low, k.since, k.rounds = r.Remaining, 0, 0
	case r.Deleted > 0:
		k.since = plus(k.since, r.Deleted)
		k.rounds++
	}
	k.Returning = k.rounds >= 3 && k.since >= k.Remaining
}

// hold takes in which finalizers hold objects.
func (k *kind) hold(holders []phase.Holder, now time.Time) {
	before := k.HeldBy
	k.HeldBy = nil
	for _, h := range holders {
		if h.Objects <= 0 || len(k.HeldBy) == maxHolders {
			continue
		}
		held := HeldBy{Holder: phase.Holder{Finalizer: brief(h.Finalizer, 2*maxName), Objects: h.Objects}, Since: now}
		var names []string
		for _, b := range before {
			if b.Finalizer == held.Finalizer {
				held.Finalizer, held.Since, names = b.Finalizer, b.Since, b.Sample
			}
		}
		held.Sample = sample(names, h.Sample)
		k.HeldBy = append(k.HeldBy, held)
	}
}

// sample returns a bounded copy of names: old, if that is the same.
func sample(old, names []string) []string {
	names = names[:min(len(names), maxSample)]
	if slices.Equal(old, names) {
		return old
	}
	if len(names) == 0 {
		return nil
	}
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = brief(name, maxName)
	}
	return list
}

// brief returns a copy of s that is no longer than that many bytes, and holds on to
// nothing else.
func brief(s string, most int) string {
	if len(s) <= most {
		return strings.Clone(s)
	}
	return strings.ToValidUTF8(s[:most-len("...")], "") + "..."
}

// end drops what nobody asks of a namespace that was removed.
func (e *entry) end(now time.Time) {
	e.ended = now
	for _, p := range e.parts {
		left := p.remaining()
		p.drop()
		p.gone = plus(p.gone, left)
	}
}
