package registry

import (
	"context"
	"errors"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// Admission looks at what is about to be committed. It may change the objects,
// have conditions and further writes join the same commit, or refuse it with an
// error. Options.Admission is an ordered chain of them: each sees what those
// before it made of the write. The gate (rule R6) and the immortal names are not
// links of the chain: they are always there, and what they refuse is refused in
// their words.
//
// Admit is called anew, with everything read again, for every attempt at a commit,
// so it must have no effects beyond w: it must not write through a registry, not
// even for a dry run, though it may read through one. It is called by many
// goroutines at once. An update that changes nothing is asked about, but commits
// nothing.
//
// A refusal that is a [*namespace.Error] is answered as it is, and so is what the
// methods of w fail with; any other is [namespace.ErrForbidden], and says `widgets
// "a" is forbidden:` before its text.
//
// What a pass deletes of a terminating namespace is not asked about: nothing may
// keep it from becoming empty (rule R12). For the same reason a link should not
// refuse [Finalize], nor what happens to a namespace that is terminating.
type Admission interface {
	Admit(ctx context.Context, w *Write) error
}

// ErrAdmission is in the chain of every error that says that a link of the
// admission chain did what it may not; the error names the link.
var ErrAdmission = errors.New("registry: admission broke a rule")

// Write is what one commit is about to do: to one namespace, or to objects of one
// type in one namespace (several, when a collection is deleted). It is valid until
// Admit returns, and belongs to the goroutine that called Admit. A link may change the
// New of its changes; everything else is read-only ([ErrAdmission]), also the maps and
// slices in it, which are not looked at again.
type Write struct {
	Namespace string // of the objects; for a namespace its own name; empty: cluster-scoped
	DryRun    bool   // it is only checked; see [Registry.DryRun]

	Itself  *NamespaceChange // what happens to the namespace itself; nil: nothing
	Objects []ObjectChange

	attempt *admission
}

// NamespaceChange is what a commit does to a namespace. New may be changed where the
// client could have changed it by this operation, and nowhere else ([ErrAdmission]).
// As for a client, the label [namespace.NameLabel] is put back in a Create or an
// Update, and the registry's finalizer in a Create (rule R5).
type NamespaceChange struct {
	Operation Operation
	Old, New  *namespace.Namespace // no Old: it is created. No New: it is removed
}

// ObjectChange is what a commit does to an object. New may be changed where the client
// could have changed it by this operation; in a Create or an Update also its status.
// Anything else is [ErrAdmission]: who it is, what the registry keeps in its metadata,
// what a deletion leaves of it, and the finalizers of an object that is being deleted.
type ObjectChange struct {
	Type      ResourceType
	Operation Operation
	Old, New  *Object // no Old: it is created. No New: it is removed
}

// Operation is what a client asked for. The zero value is none.
type Operation uint8

// The operations. An Update or Finalize that takes the last finalizer from what is
// being deleted removes it: it has no New then. What puts a namespace on hold and takes
// it off again is an Update. Where a client asked for its deletion
// ([Registry.DeleteAfter], [namespace.GraceAnnotation]) that is asked about before, as a
// Delete in a dry run; the Delete itself comes when the hold is over, from whoever runs
// package hold. A hold that is set by the annotation is an Update alone.
const (
	Create Operation = iota + 1
	Update
	UpdateStatus
	Finalize
	Delete // New is what is left of the object: none, or with its deletionTimestamp set
)

// String returns the operation as Kubernetes writes it in admission reviews, where
// it has one.
func (o Operation) String() string {
	switch o {
	case Create:
		return "CREATE"
	case Update:
		return "UPDATE"
	case UpdateStatus:
		return "UPDATE status"
	case Finalize:
		return "UPDATE finalize"
	case Delete:
		return "DELETE"
	}
	return "none"
}
