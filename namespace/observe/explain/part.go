package explain

import (
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// voice is one controller that tells a recorder.
type voice struct {
	recorder *Recorder
	party    finalizer.Name
	number   int // the later ones are greater
}

// part is what one controller told of a namespace.
type part struct {
	voice   *voice
	queued  time.Time
	running time.Time
	next    Next
	heard   time.Time // when it told something last
	looked  time.Time // when a pass ended last that was not interrupted
	done    bool      // it has let go of the namespace
	left    bool      // another process has taken the namespace over
	types   []kind    // by resource
	gone    int       // objects of types that are empty now
	streaks []Streak  // of what failed in the last pass
	waived  []string
	settles time.Duration
}

// of returns what is kept of ref, and of this controller's part in it; the recorder
// must be locked.
func (v *voice) of(ref namespace.Ref, now time.Time) (*entry, *part) {
	e := v.recorder.entries[ref]
	if e == nil {
		v.recorder.room()
		e = &entry{}
		v.recorder.entries[ref] = e
	}
	p := e.partOf(v)
	if p == nil {
		e.supersede(v)
		p = &part{voice: v}
		e.parts = append(e.parts, p)
	}
	p.heard = now
	return e, p
}

// partOf returns the part of that controller, nil if there is none.
func (e *entry) partOf(v *voice) *part {
	at := slices.IndexFunc(e.parts, func(p *part) bool { return p.voice == v })
	if at < 0 {
		return nil
	}
	return e.parts[at]
}

// supersede drops the parts of controllers in whose place v is now: those of its party,
// and of the nameless those that are older. They were stopped, and will not say what
// becomes of what they told. What they saw go stays gone.
func (e *entry) supersede(v *voice) {
	e.parts = slices.DeleteFunc(e.parts, func(p *part) bool {
		old := p.voice.party == v.party && (v.party != "" || p.voice.number < v.number)
		if old {
			e.gone = plus(e.gone, p.removed())
		}
		return old
	})
}

// drop forgets what is only true while the controller works on the namespace.
func (p *part) drop() {
	p.gone, p.types = p.removed(), nil
	p.queued, p.running, p.next, p.looked = time.Time{}, time.Time{}, Next{}, time.Time{}
	p.streaks, p.waived, p.settles = nil, nil, 0
}

// taken notes that the controller has the namespace (again).
func (p *part) taken() { p.left, p.done = false, false }

// looks notes the end of a pass.
func (p *part) looks(outcome pass.Outcome, at time.Time) {
	p.taken()
	switch outcome {
	case pass.Waiting, pass.Failed:
		p.looked = at
	case pass.Finalized, pass.NotHeld, pass.Removed:
		waived := p.waived // it is why
		p.drop()
		p.waived, p.done = waived, true
	}
}

// names returns how many names of objects and finalizers are kept.
func (p *part) names() int {
	n := 0
	for i := range p.types {
		n += len(p.types[i].Sample)
		for _, h := range p.types[i].HeldBy {
			n += 1 + len(h.Sample)
		}
	}
	return n
}

// trim keeps no more names than that; up to the half are of finalizers.
func (p *part) trim(most int) {
	if p.names() <= most {
		return
	}
	half := max(most, 0) / 2
	room := max(most, 0) - half
	for i := range p.types {
		k := &p.types[i]
		k.HeldBy = slices.Clone(k.HeldBy[:min(len(k.HeldBy), room)])
		room -= len(k.HeldBy)
	}
	room += half
	fit := func(sample []string) []string {
		sample = slices.Clone(sample[:min(len(sample), room)])
		room -= len(sample)
		return sample
	}
	for i := range p.types {
		k := &p.types[i]
		k.Sample = fit(k.Sample)
		for j := range k.HeldBy {
			k.HeldBy[j].Sample = fit(k.HeldBy[j].Sample)
		}
	}
}

// Voice is what one controller that tells a [Recorder] said of its work last.
type Voice struct {
	Party   finalizer.Name // empty: it was not told ([Recorder.Hooks])
	Queued  time.Time      // since when the namespace waits for a worker; zero: it does not
	Running time.Time      // since when a pass runs; zero: none does
	Next    *Next          // nil: it is looked at now, or nothing is known
	Heard   time.Time      // when it told something
	Looked  time.Time      // when a pass ended that was not interrupted; zero: none, or it has nothing to do with it any more
	Done    bool           // it has let go of the namespace
	Left    bool           // another process has taken the namespace over
}

func (p *part) say() Voice {
	v := Voice{Party: p.voice.party, Queued: p.queued, Running: p.running, Heard: p.heard, Looked: p.looked, Done: p.done, Left: p.left}
	if !p.next.At.IsZero() {
		next := p.next
		v.Next = &next
	}
	return v
}
