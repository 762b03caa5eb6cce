package explain

import (
	"cmp"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Explain makes a diagnosis of what is known. It is a pure function: equal inputs give
// equal diagnoses. It changes nothing that in holds.
func Explain(in Input) Diagnosis {
	ns := in.Namespace
	b := &builder{in: in, exists: ns.Name != "" || ns.UID != ""}
	b.d = Diagnosis{Name: cmp.Or(in.Name, ns.Name, in.History.Name), UID: ns.UID, At: in.Now.UTC()}
	if b.exists {
		b.d.Phase, b.d.Stage = ns.Phase(), ns.Stage()
		b.d.Since = ns.CreationTimestamp.Time
		if h := in.History.UID; h != "" && h != ns.UID {
			b.in.History = History{}
		}
	}
	b.d.Notes = in.Notes
	b.records()
	switch b.d.Phase {
	case phase.Terminating:
		b.d.Since = ns.DeletionTimestamp.Time
		b.terminating()
	case phase.Active:
		b.active()
	default:
		if in.Unread != "" && !b.exists {
			b.unread()
		} else {
			b.gone()
		}
	}
	b.finish()
	return b.d
}

// builder makes one diagnosis.
type builder struct {
	in      Input
	d       Diagnosis
	exists  bool
	counted int     // of the objects, those that were recorded
	forces  []force // those that are told
	urgent  int     // of the causes, those that come first whatever their rank
	// failing is what failed in the last pass, or by the conditions: one for each source.
	failing []Failure
}

func (b *builder) cause(c Cause) { b.d.Causes = append(b.d.Causes, c) }

// has reports whether a cause of that kind is there.
func (b *builder) has(kind Kind) bool {
	return slices.ContainsFunc(b.d.Causes, func(c Cause) bool { return c.Kind == kind })
}

// age returns how long ago t was; zero if it was not, or is to come.
func (b *builder) age(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(b.in.Now.Sub(t), 0)
}

// maxCauses bounds what a diagnosis tells; what ranks last is left out.
const maxCauses = 64

// The reasons of a [Next] that is now.
const (
	nextRunning = "running"
	nextQueued  = "queued"
)

// finish ranks the causes and sums up.
func (b *builder) finish() {
	d, h := &b.d, b.in.History
	if len(d.Causes) == 0 {
		b.cause(b.unknown())
	}
	slices.SortStableFunc(d.Causes[b.urgent:], func(x, y Cause) int { return cmp.Compare(x.Kind.rank(), y.Kind.rank()) })
	d.Causes = d.Causes[:min(len(d.Causes), maxCauses)]
	if d.Progress != nil && d.Causes[0].Kind.stuck() {
		d.Progress.End = time.Time{} // it does not depend on how fast the rest goes
	}
	if b.has(Returning) {
		d.Progress = nil // what is deleted again and again is no progress
	}
	b.account()
	b.foretell()
	d.Passes, d.Failures, d.Next = h.Passes, h.Failures, h.Next
	switch {
	case b.d.Phase != phase.Terminating:
		d.Next = nil
	case !h.Running.IsZero():
		d.Next = &Next{At: h.Running, Reason: nextRunning}
	case !h.Queued.IsZero():
		d.Next = &Next{At: h.Queued, Reason: nextQueued}
	}
	d.Summary = d.Causes[0].Summary
}

// terminating explains what keeps a namespace that is being deleted.
func (b *builder) terminating() {
	b.d.Objects = b.objects()
	b.d.Progress = b.progress()
	failing := b.failures()
	b.conditions(failing)
	b.content()
	b.settle(len(failing) > 0)
	b.holders()
	b.attendance()
	b.waived()
	b.forced()
}

// unread explains a namespace that cannot be read, by what was recorded of it: it is
// terminating then.
func (b *builder) unread() {
	h := b.in.History
	if h.UID != "" {
		b.d.UID, b.d.Phase, b.d.Since = h.UID, phase.Terminating, h.Deleted
		if h.Deleted.IsZero() {
			b.d.Since = h.Began
		}
	}
	b.d.Objects = b.objects()
	b.d.Progress = b.progress()
	failing := b.failures()
	if !b.has(StorageFailed) {
		b.cause(b.failure(Failure{Kind: StorageFailed, Source: sourceStorage, Text: brief(b.in.Unread, maxText)}))
	}
	b.content()
	b.settle(len(failing) > 0)
	b.forced()
}

// active explains a namespace that nobody has deleted, or that cannot be.
func (b *builder) active() {
	ns := b.in.Namespace
	protected := protections(ns.Meta)
	hold, held, err := declare.HoldOf(ns.Meta)
	switch declared := len(protected) > 0 || held; {
	case declared && b.in.Unguarded:
		b.d.Notes = append(slices.Clip(b.d.Notes), "nothing there enforces the protections and the hold that its annotations declare")
	case declared:
		for _, p := range protected {
			b.cause(b.protected(p))
		}
		if held {
			b.cause(b.onHold(hold, err))
		}
	}
	if len(b.d.Causes) == 0 {
		b.cause(b.notTerminating())
	}
	b.forced()
}

// gone explains a name that nobody has.
func (b *builder) gone() {
	over := func(f force) bool { return !f.unfinished() }
	b.forces = slices.Concat(slices.DeleteFunc(slices.Clone(b.forces), over), slices.DeleteFunc(b.forces, force.unfinished))
	b.forced()
	b.urgent = len(b.forces) // what was left is all that is left to do
	for b.urgent > 0 && over(b.forces[b.urgent-1]) {
		b.urgent--
	}
	b.cause(b.absent())
	b.d.Progress = &Progress{Removed: max(b.in.History.Removed, 0), Passes: b.in.History.Total}
}
