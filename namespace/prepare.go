package namespace

import (
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
	"github.com/nslifecycle/nslifecycle/phase"
)

// NameLabel is the label with the name of the namespace, for selectors. It is set at creation
// and cannot be changed.
const NameLabel = "kubernetes.io/metadata.name"

// PrepareCreate returns the namespace to store when a client creates n: the server's fields are
// set or cleared, the phase is Active, token is in spec.finalizers (rule R5; an empty one
// stands for [finalizer.Kubernetes]), and the label [NameLabel] is the name. If n has no name,
// call [GenerateName] before. The uid identifies the new incarnation and must never have been
// used.
func PrepareCreate(n Namespace, token finalizer.Name, uid string, now time.Time) Namespace {
	if token == "" {
		token = finalizer.Kubernetes
	}
	n = withType(n.DeepCopy())
	n.setServerFields(Meta{UID: uid, CreationTimestamp: phase.At(now)})
	n.Spec.Finalizers = n.Spec.Finalizers.With(token)
	n.Status = Status{Phase: phase.Active}
	return n
}

// PrepareUpdate returns the namespace to store when a client replaces old by updated. It silently
// restores spec.finalizers, status and the server's fields from old (rules R3 and R4).
// If the result is [Removable], because the client removed the last finalizer from the
// metadata, it must be removed instead of stored (rule R1).
func PrepareUpdate(old, updated Namespace) Namespace {
	n := withType(updated.DeepCopy())
	n.setServerFields(old.Meta)
	n.Spec = old.Spec
	n.Status = old.Status.DeepCopy()
	n.Status.Phase = n.Phase()
	return n
}

// PrepareStatus returns the namespace to store when a client replaces the status of old by the
// status of updated; nothing else changes. An empty phase is derived (rule R2).
func PrepareStatus(old, updated Namespace) Namespace {
	n := withIdentity(old, updated)
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

// PrepareFinalize returns the namespace to store when a client replaces spec.finalizers of old
// by spec.finalizers of updated; nothing else changes. If the result is [Removable], it must be removed
// instead of stored (rule R1).
func PrepareFinalize(old, updated Namespace) Namespace {
	n := withIdentity(old, updated)
	n.Spec = updated.Spec
	n.Status.Phase = n.Phase()
	return n
}

// MarkDeleted returns n as terminating since now. A terminating namespace keeps its time (rule
// R3). If the result is [Removable], it must be removed instead of stored (rule R1).
//
// MarkDeleted ignores holds and graces; declare.PrepareDelete applies them.
func MarkDeleted(n Namespace, now time.Time) Namespace {
	n = n.DeepCopy()
	if n.DeletionTimestamp.IsZero() {
		n.DeletionTimestamp = phase.At(now)
	}
	if n.DeletionTimestamp.IsZero() { // a zero clock must not cancel the deletion
		n.DeletionTimestamp = phase.At(time.Unix(0, 0))
	}
	n.Status.Phase = phase.Terminating
	return n
}

// setServerFields takes the fields that the server owns from kept. The receiver must be a copy.
func (n *Namespace) setServerFields(kept Meta) {
	n.SelfLink = kept.SelfLink
	n.UID = kept.UID
	n.ResourceVersion = kept.ResourceVersion
	n.Generation = kept.Generation
	n.CreationTimestamp = kept.CreationTimestamp
	n.DeletionTimestamp = kept.DeletionTimestamp
	n.DeletionGracePeriodSeconds = clone(kept.DeletionGracePeriodSeconds)
	if n.Name != "" {
		if n.Labels == nil {
			n.Labels = make(map[string]string, 1)
		}
		n.Labels[NameLabel] = n.Name
	}
}

// withIdentity returns a copy of old with the kind and name of updated, so that Validate can
// check that the request is for old.
func withIdentity(old, updated Namespace) Namespace {
	n := old.DeepCopy()
	n.TypeMeta = updated.TypeMeta
	if updated.Name != "" {
		n.Name = updated.Name
	}
	return withType(n)
}

// withType adds the kind to a document without one.
func withType(n Namespace) Namespace {
	if n.TypeMeta == (TypeMeta{}) {
		n.TypeMeta = TypeMeta{Kind, APIVersion}
	}
	return n
}

// GenerateName returns prefix with five characters appended that are derived from random. It
// shortens prefix so that the name fits a DNS label.
func GenerateName(prefix string, random uint64) string {
	const (
		letters = "bcdfghjklmnpqrstvwxz2456789" // without vowels: no words by accident
		suffix  = 5
	)
	if len(prefix) > syntax.MaxLabel-suffix {
		prefix = prefix[:syntax.MaxLabel-suffix]
	}
	var tail [suffix]byte
	for i := range tail {
		tail[i] = letters[random%uint64(len(letters))]
		random /= uint64(len(letters))
	}
	return prefix + string(tail[:])
}
