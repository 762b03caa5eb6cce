package registry

import (
	"context"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// Admission looks at what is about to be committed. It may change the objects,
// have conditions and further writes join the same commit, or refuse it with an
// error. Options.Admission is an ordered chain of them: each sees what those
// before it made of the write. The gate (rule R6) and the immortal names are not
// links of the chain: they are always there.
//
// Admit is called anew, with everything read again, for every attempt at a commit,
// so it must have no effects beyond w. It is called by many goroutines at once.
//
// What a pass deletes of a terminating namespace is not asked about: nothing may
// keep it from becoming empty (rule R12).
type Admission interface {
	Admit(ctx context.Context, w *Write) error
}

// Write is what one commit is about to do: to one namespace, or to objects of one
// type in one namespace (several, when a collection is deleted). It is valid until
// Admit returns.
type Write struct {
	Namespace string // of the objects; for a namespace its own name; empty: cluster-scoped
	DryRun    bool   // it is only checked; see [Registry.DryRun]

	Itself  *NamespaceChange // what happens to the namespace itself; nil: nothing
	Objects []ObjectChange

	attempt *admission
}

// NamespaceChange is what a commit does to a namespace. New may be changed where a
// client could have.
type NamespaceChange struct {
	Operation Operation
	Old, New  *namespace.Namespace // no Old: it is created. No New: it is removed
}

// ObjectChange is what a commit does to an object. New may be changed where a client
// could have; Old is read-only.
type ObjectChange struct {
	Type      ResourceType
	Operation Operation
	Old, New  *Object // no Old: it is created. No New: it is removed
}

// Operation is what a client asked for. The zero value is none.
type Operation uint8

// The operations.
const (
	Create Operation = iota + 1
	Update
	UpdateStatus
	Finalize
	Delete // New is what is left of the object: none, or with its deletionTimestamp set
)

// admission is what Admit has had join one attempt at a commit.
type admission struct{}
