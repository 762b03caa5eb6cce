// Package pass does one attempt, by one party, to empty one terminating
// namespace: read, delete content, decide, write status, finalize.
//
// It knows namespaces through a small interface of its own, [Namespaces], so
// that a host may keep them wherever it likes. Package registry is one
// implementation of it.
package pass

import (
	"context"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// Namespaces is what a pass needs of the place where namespaces are kept.
// Errors match the kinds of package namespace.
type Namespaces interface {
	// Get returns the namespace as it is now, or [namespace.ErrNotFound].
	Get(ctx context.Context, name string) (namespace.Namespace, error)
	// UpdateStatus writes ns.Status and nothing else, if the namespace is still of
	// ns.UID and at ns.ResourceVersion; otherwise [namespace.ErrConflict], or
	// [namespace.ErrNotFound]. It returns the namespace as written.
	UpdateStatus(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error)
	// Finalize writes ns.Spec.Finalizers and nothing else, under the same condition.
	// If that leaves a terminating namespace without finalizers of either kind it is
	// removed in the same write (rule R1); it returns the namespace as written or as
	// removed.
	Finalize(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error)
}
