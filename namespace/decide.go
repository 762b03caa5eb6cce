package namespace

import (
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Party is the owner of one finalizer and of the content that it deletes. One or more
// controllers act for it.
type Party struct {
	// Finalizer is the party's token in spec.finalizers. If it is empty, packages pass and
	// controller use the default party of the namespace storage, if the storage has one, as a
	// registry does.
	Finalizer finalizer.Name
	// Primary makes the party write its conditions under their plain names. The owner of
	// [finalizer.Kubernetes] always does. Other parties write theirs under qualified names
	// ("example.com/agent.NamespaceContentRemaining"), so that two parties of one namespace
	// never overwrite each other's conditions (rule R9).
	Primary bool
}

// qualifier returns the prefix of the party's condition types.
func (p Party) qualifier() string {
	if p.Primary || p.Finalizer == finalizer.Kubernetes {
		return ""
	}
	return string(p.Finalizer)
}

// HasWork reports whether ns is terminating and has the party's finalizer.
func (p Party) HasWork(ns Namespace) bool {
	return ns.Phase() == phase.Terminating && ns.Spec.Finalizers.Has(p.Finalizer)
}

// Observed is the result of a party's pass over its content.
type Observed struct {
	phase.Observation
	// UID is the observed incarnation. Decide changes nothing for another one (rule R8). Leave
	// it empty if the caller has compared the incarnations.
	UID string
	// Failed is any error that made the observation incomplete, even if a field of Observation
	// reports it too. The finalizer stays while it is set (rule R7).
	Failed error
	// Estimate is the expected time until the remaining content is deleted; zero if unknown.
	Estimate time.Duration
}

// observation returns the observation, with Failed reported as a content failure if no other
// failure is reported. No condition may then report success (rule R9).
func (o Observed) observation() phase.Observation {
	seen := o.Observation
	if o.Failed != nil && seen.Answered() {
		seen.Content = []error{o.Failed}
	}
	return seen
}

// Decision is the next step for a party.
type Decision struct {
	Status        Status        // the status to write
	StatusChanged bool          // Status differs from the stored one
	Finalize      bool          // remove the party's finalizer (rule R7)
	Finalizers    finalizer.Set // spec.finalizers after that
	Remove        bool          // remove the namespace in the same write (rule R1)
	Done          bool          // after these writes the party has nothing left to do
	After         time.Duration // wait this long before the next pass; zero: no estimate, use a backoff
}

// Decide returns the next step for a stored namespace, given a party, the result of the party's
// pass over its content, and the time. It has no other inputs, and the result shares nothing
// with them.
//
// The pass must have begun after the namespace became Terminating (rule R7); no new content can
// have been created since then (rule R6). The caller writes Status if StatusChanged, then
// Finalizers if Finalize, each on condition that the stored namespace is still ns; otherwise it
// reads the namespace again and calls Decide again. If Remove is set, the status need not be
// written.
//
// Decide trusts seen.Waived: the caller must have checked that each waiver was in force. Waived
// failures appear in condition messages and do not block finalization.
//
// If the party has no work for ns ([Party.HasWork]) or seen is of another incarnation, there
// is nothing to write.
func Decide(ns Namespace, party Party, seen Observed, now time.Time) Decision {
	d := Decision{Status: ns.Status.DeepCopy(), Finalizers: ns.Spec.Finalizers, Done: true}
	if !party.HasWork(ns) || seen.UID != "" && seen.UID != ns.UID {
		return d
	}
	content := seen.observation()
	d.Status = Status{
		Phase:      phase.Terminating,
		Conditions: phase.Conditions(ns.Status.Conditions, content, party.qualifier(), now),
	}
	d.StatusChanged = !d.Status.equal(ns.Status)
	if !content.Empty() {
		d.Done = false
		if content.Answered() {
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

// equal compares times as moments.
func (s Status) equal(t Status) bool {
	return s.Phase == t.Phase && slices.EqualFunc(s.Conditions, t.Conditions, phase.Condition.Equal)
}

// LastSeen returns the content that the party's last pass for ns, in any process, saw or could
// not exclude (see [phase.ContentLastSeen]).
func LastSeen(ns Namespace, party Party) []phase.Remaining {
	return phase.LastSeen(ns.Status.Conditions, party.qualifier())
}
