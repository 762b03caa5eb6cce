// Package controller runs passes for every namespace that is terminating:
// it watches, queues, retries and reports.
package controller

import (
	"context"
	"iter"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// Namespaces is what the controller needs of the place where namespaces are
// kept: what a pass needs, and to be told which are terminating.
type Namespaces interface {
	pass.Namespaces
	// Terminating yields, when after is empty, one [namespace.EventTerminating] for
	// each namespace that is terminating now, then one [namespace.EventSynced], and
	// after that each namespace that becomes terminating (again with every finalizer
	// that is added to a terminating one) or is removed. When after is the Token of
	// an earlier event it yields only what happened since, and an EventSynced as soon
	// as that is caught up. Further EventSynced may follow at any time: they only
	// move the token on. [namespace.ErrGone] says that it cannot tell what happened
	// since, and the caller starts anew. The loop runs in the caller's goroutine
	// until the caller breaks or ctx ends; then the last error is ctx's cause.
	Terminating(ctx context.Context, after string) iter.Seq2[namespace.TerminationEvent, error]
}
