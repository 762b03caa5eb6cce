package namespace

import (
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/phase"
)

// PrepareCreate returns the namespace to store when a client asks for n: what the
// server owns is set and what only it may set is cleared, the status is Active,
// the token is in spec.finalizers (rule R5; an empty one stands for
// [finalizer.Kubernetes]), and the label [NameLabel] is the name. A name must
// have been generated before ([GenerateName]). The uid is that of the new
// incarnation and must never have been used.
func PrepareCreate(n Namespace, token finalizer.Name, uid string, now time.Time) Namespace {
	if token == "" {
		token = finalizer.Kubernetes
	}
	n = withType(n.DeepCopy())
	n.own(Meta{UID: uid, CreationTimestamp: phase.At(now)})
	n.Spec.Finalizers = n.Spec.Finalizers.With(token)
	n.Status = Status{Phase: phase.Active}
	return n
}

// PrepareUpdate returns the namespace to store when a client asks to replace old
// by updated: spec.finalizers, status and what the server owns stay as they are
// in old, silently (rules R3 and R4). If the result is [Removable], because the
// client took the last finalizer from the metadata, it must be removed instead of
// stored (rule R1).
func PrepareUpdate(old, updated Namespace) Namespace {
	n := withType(updated.DeepCopy())
	n.own(old.Meta)
	n.Spec = old.Spec
	n.Status = old.Status.DeepCopy()
	n.Status.Phase = n.Phase()
	return n
}

// PrepareStatus returns the namespace to store when a client asks to replace the
// status of old by that of updated; nothing else changes. An empty phase is
// derived, as it always can be (rule R2).
func PrepareStatus(old, updated Namespace) Namespace {
	n := withAsked(old, updated)
	n.Status = updated.Status.DeepCopy()
	if n.Status.Phase == "" {
		n.Status.Phase = n.Phase()
	}
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		c.LastTransitionTime = phase.At(c.LastTransitionTime.Time)
	}
	return n
}

// PrepareFinalize returns the namespace to store when a client asks to replace
// spec.finalizers of old by those of updated; nothing else changes. If the result
// is [Removable] it must be removed instead of stored (rule R1).
func PrepareFinalize(old, updated Namespace) Namespace {
	n := withAsked(old, updated)
	n.Spec = updated.Spec
	n.Status.Phase = n.Phase()
	return n
}

// MarkDeleted returns n as it is once its deletion was asked for: terminating
// since now. A namespace that is terminating already is returned as it is: the
// first time stays (rule R3). If the result is [Removable] it must be removed
// instead of stored.
func MarkDeleted(n Namespace, now time.Time) Namespace {
	n = n.DeepCopy()
	if n.DeletionTimestamp.IsZero() {
		n.DeletionTimestamp = phase.At(now)
	}
	if n.DeletionTimestamp.IsZero() { // a clock that tells no time must not undo the deletion
		n.DeletionTimestamp = phase.At(time.Unix(0, 0))
	}
	n.Status.Phase = phase.Terminating
	return n
}

// own takes from kept what the server owns. The receiver must be a copy already.
func (n *Namespace) own(kept Meta) {
	n.SelfLink = kept.SelfLink
	n.UID = kept.UID
	n.ResourceVersion = kept.ResourceVersion
	n.Generation = kept.Generation
	n.CreationTimestamp = kept.CreationTimestamp
	n.DeletionTimestamp = kept.DeletionTimestamp
	n.DeletionGracePeriodSeconds = copyOf(kept.DeletionGracePeriodSeconds)
	if n.Name != "" {
		if n.Labels == nil {
			n.Labels = make(map[string]string, 1)
		}
		n.Labels[NameLabel] = n.Name
	}
}

// withAsked returns a copy of old that says what the request is about, for
// Validate to check.
func withAsked(old, updated Namespace) Namespace {
	n := old.DeepCopy()
	n.TypeMeta = updated.TypeMeta
	if updated.Name != "" {
		n.Name = updated.Name
	}
	return withType(n)
}

// withType fills in what a document that does not say its kind must be.
func withType(n Namespace) Namespace {
	if n.TypeMeta == (TypeMeta{}) {
		n.TypeMeta = TypeMeta{Kind, APIVersion}
	}
	return n
}
