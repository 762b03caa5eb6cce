package explain

import (
	"cmp"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/audit"
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
	b.records()
	switch b.d.Phase {
	case phase.Terminating:
		b.d.Since = ns.DeletionTimestamp.Time
		b.terminating()
	case phase.Active:
		b.active()
	default:
		b.gone()
	}
	b.finish()
	return b.d
}

// builder makes one diagnosis.
type builder struct {
	in     Input
	d      Diagnosis
	exists bool
	forced *audit.Record // the last force of this incarnation (of the last one, if it is gone)
	left   *audit.Inventory
	swept  *audit.Record
}

// records finds what operators did to this incarnation.
func (b *builder) records() {
	uid := b.d.UID
	if !b.exists {
		uid = b.in.History.UID
	}
	for i := range b.in.Records {
		r := &b.in.Records[i]
		if uid != "" && r.UID != uid {
			continue
		}
		switch r.Action {
		case audit.Forcing:
			b.left = r.Inventory
		case audit.Forced:
			b.forced, b.swept = r, nil
			if r.Inventory != nil {
				b.left = r.Inventory
			}
		case audit.Swept:
			b.swept = r
		}
	}
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

// finish ranks the causes and sums up.
func (b *builder) finish() {
	if len(b.d.Causes) == 0 {
		b.cause(b.unknown())
	}
	slices.SortStableFunc(b.d.Causes, func(x, y Cause) int { return cmp.Compare(x.Kind.rank(), y.Kind.rank()) })
	b.d.Passes = b.in.History.Passes
	b.d.Failures = b.in.History.Failures
	b.d.Next = b.in.History.Next
	b.d.Summary = b.d.Causes[0].Summary
}

// terminating explains what keeps a namespace that is being deleted.
func (b *builder) terminating() {
	h := b.in.History
	b.d.Objects = b.objects()
	b.d.Progress = b.progress()
	failing := b.failures()
	b.conditions(failing)
	b.content()
	b.holders()
	b.attendance()
	b.waived()
	if h.Settles > 0 && b.d.Progress.Remaining == 0 && len(failing) == 0 {
		b.cause(b.settling())
	}
	if b.forced != nil {
		b.cause(b.force())
	}
}

// party returns the owner of the finalizer as it announced itself; nil if it did not.
func (b *builder) holder(f finalizer.Name) Holder {
	h := Holder{Finalizer: f, Since: b.d.Since}
	for _, p := range b.in.Parties {
		if p.Finalizer == f {
			h.Known, h.Alive, h.LastSeen, h.Contact = true, p.Alive, p.LastSeen, p.Contact
		}
	}
	for _, p := range slices.Backward(b.in.History.Passes) {
		if p.Party == f && p.Outcome != "interrupted" {
			h.LastPass = p.Start.Add(p.Took)
			break
		}
	}
	return h
}

// active explains a namespace that nobody has deleted, or that cannot be.
func (b *builder) active() {
	ns := b.in.Namespace
	for _, p := range protections(ns.Meta) {
		b.cause(b.protected(p))
	}
	if hold, ok, err := namespace.HoldOf(ns.Meta); ok || err != nil {
		b.cause(b.onHold(hold, err))
	}
	if len(b.d.Causes) == 0 {
		b.cause(b.notTerminating())
	}
	if b.forced != nil {
		b.cause(b.force())
	}
}

// gone explains a name that nobody has.
func (b *builder) gone() {
	h := b.in.History
	b.cause(b.absent())
	if h.Removed > 0 || h.Total > 0 {
		b.d.Progress = &Progress{Removed: h.Removed}
	}
	if b.forced != nil {
		b.cause(b.force())
	}
}
