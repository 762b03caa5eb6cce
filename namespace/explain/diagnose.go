package explain

import (
	"cmp"
	"slices"
	"time"

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
	in      Input
	d       Diagnosis
	exists  bool
	counted int           // of the objects, those that were recorded
	forced  *audit.Record // the last force of this incarnation (of the last one, if it is gone)
	begun   *audit.Record // that force before it, with the inventory; nil: it is not known
	swept   *audit.Record // the last sweep of that inventory
	// failing is what failed in the last pass, or by the conditions: one for each source.
	failing []Failure
}

// records finds what operators did to this incarnation.
func (b *builder) records() {
	uid := b.d.UID
	if !b.exists {
		uid = b.in.History.UID
	}
	records := b.in.Records
	forced := lastForced(records, uid)
	if forced < 0 {
		return
	}
	b.forced = &records[forced]
	if at := begunBy(records, *b.forced); at >= 0 {
		b.begun = &records[at]
	}
	for i, r := range records {
		if r.Action == audit.Swept && r.UID == b.forced.UID && r.Follows == b.forced.Follows {
			b.swept = &records[i]
		}
	}
}

// lastForced returns where the last record of finalizers that were dropped is, of that
// incarnation, or of any if uid is empty; -1: there is none.
func lastForced(records []audit.Record, uid string) int {
	for i, r := range slices.Backward(records) {
		if r.Action == audit.Forced && (uid == "" || r.UID == uid) {
			return i
		}
	}
	return -1
}

// begunBy returns where the record that forced ends is, which has the inventory; -1: it
// is not there. Other calls may have begun in between, and have been refused.
func begunBy(records []audit.Record, forced audit.Record) int {
	return slices.IndexFunc(records, func(r audit.Record) bool {
		return r.Action == audit.Forcing && r.UID == forced.UID && r.ID == forced.Follows
	})
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
	slices.SortStableFunc(d.Causes, func(x, y Cause) int { return cmp.Compare(x.Kind.rank(), y.Kind.rank()) })
	if at := slices.IndexFunc(d.Causes, func(c Cause) bool { return c.Kind == Forced }); at > 0 && !b.exists && b.unfinished() {
		d.Causes[0], d.Causes[at] = d.Causes[at], d.Causes[0] // what was left is all that is left to do
	}
	d.Causes = d.Causes[:min(len(d.Causes), maxCauses)]
	if d.Progress != nil && d.Causes[0].Kind.stuck() {
		d.Progress.End = time.Time{} // it does not depend on how fast the rest goes
	}
	if b.has(Returning) {
		d.Progress = nil // what is deleted again and again is no progress
	}
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
	if b.forced != nil {
		b.cause(b.force())
	}
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
		b.d.Progress = &Progress{Removed: h.Removed, Passes: h.Total}
	}
	if b.forced != nil {
		b.cause(b.force())
	}
}
