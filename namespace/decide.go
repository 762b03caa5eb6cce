package namespace

import (
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Party is a controller that owns one finalizer and deletes one party's content.
type Party struct {
	// Finalizer is the party's token in spec.finalizers. If it is empty, packages pass and
	// controller use the party of the namespace storage, if it has one, as a registry does.
	Finalizer finalizer.Name
	// Primary parties write the five conditions under their plain names. The owner
	// of [finalizer.Kubernetes] always is; other parties write theirs qualified
	// ("example.com/agent.NamespaceContentRemaining"), so that the conditions of
	// two parties of one namespace never overwrite each other (rule R9).
	Primary bool
}

// Observed is what one pass saw.
type Observed struct {
	phase.Observation
	// UID is the incarnation that was looked at. A decision for another one is to do
	// nothing (rule R8). Empty: the caller has made sure of it.
	UID string
	// Failed is any error that kept the party from a full look, whether or not a
	// condition tells of it; while it is set the finalizer stays (rule R7).
	Failed error
	// Estimate is how long what remains will take to go; zero: not known.
	Estimate time.Duration
}

// Decision is what must be done next.
type Decision struct {
	Status        Status        // the status to write
	StatusChanged bool          // whether it differs from the one read
	Finalize      bool          // the party's finalizer may go (rule R7)
	Finalizers    finalizer.Set // spec.finalizers after that
	Remove        bool          // after that the namespace must be removed, in the same write (rule R1)
	Done          bool          // nothing (more) to do for this party after the above
	After         time.Duration // when to look again by the estimate; zero: no estimate, back off
}

// Decide is the algorithm: given a namespace as it is stored, a party, what the
// party's pass over its content saw, and the time, it answers what must be done
// next. It has no other inputs, changes none of them, and shares nothing with
// them.
//
// What seen.Waived tells of counts for nothing but in the conditions' texts: whoever
// observed it has made sure that an operator's waivers were in force.
//
// The pass must have begun after the namespace became Terminating (rule R7); then
// no new content can have come (rule R6), and the order of doing is: write
// Status if StatusChanged, write Finalizers if Finalize, both on condition that
// the namespace is still the one that was given, else read it again and decide
// again. With Remove the status need not be written: it goes with the object.
//
// Without the party's finalizer there is nothing for it to decide; Remove then
// tells a host that keeps namespaces itself that this one is still to be removed.
func Decide(ns Namespace, party Party, seen Observed, now time.Time) Decision {
	d := Decision{Status: ns.Status.DeepCopy(), Finalizers: ns.Spec.Finalizers, Done: true}
	switch {
	case ns.Phase() != phase.Terminating:
		return d
	case seen.UID != "" && seen.UID != ns.UID:
		return d
	case !ns.Spec.Finalizers.Has(party.Finalizer):
		d.Remove = Removable(ns)
		return d
	}
	view := seen.view()
	d.Status = Status{
		Phase:      phase.Terminating,
		Conditions: phase.Conditions(ns.Status.Conditions, view, party.qualifier(), now),
	}
	d.StatusChanged = !d.Status.equal(ns.Status)
	if !view.Empty() {
		d.Done = false
		if view.Answered() {
			d.After = max(seen.Estimate, 0)
		}
		return d
	}
	ns.Spec.Finalizers = ns.Spec.Finalizers.Without(party.Finalizer)
	d.Finalize = true
	d.Finalizers = ns.Spec.Finalizers
	d.Remove = Removable(ns)
	return d
}

// qualifier returns what the party's condition types begin with.
func (p Party) qualifier() string {
	if p.Primary || p.Finalizer == finalizer.Kubernetes {
		return ""
	}
	return string(p.Finalizer)
}

// LastSeen returns the content that the party's last pass for ns, in any process, saw or could
// not exclude; see [phase.ContentLastSeen].
func LastSeen(ns Namespace, party Party) []phase.Remaining {
	return phase.LastSeen(ns.Status.Conditions, party.qualifier())
}

// view returns the observation with a failure that no condition tells of among
// those of the content, so that none of them can claim success (rule R9).
func (o Observed) view() phase.Observation {
	v := o.Observation
	if o.Failed != nil && v.Answered() {
		v.Content = []error{o.Failed}
	}
	return v
}
