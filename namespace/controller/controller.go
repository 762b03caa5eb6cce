// Package controller runs passes for every namespace that is terminating:
// it watches, queues, retries and reports.
package controller

import (
	"context"
	"iter"

	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// Namespaces is what the controller needs of the place where namespaces are
// kept: what a pass needs, and to be told which are terminating.
type Namespaces interface {
	pass.Namespaces
	// Terminating yields, when after is empty, one [Terminating] event for each
	// namespace that is terminating now, then one [Synced] event, and after that
	// each namespace that becomes terminating (again with every finalizer that is
	// added to a terminating one) or is removed. When after is the Token of an
	// earlier event it yields only what happened since, beginning with a [Synced] event
	// once that is caught up; [namespace.ErrGone] says that it cannot tell, and the caller
	// starts anew. The loop runs in the caller's goroutine until the caller breaks
	// or ctx ends.
	Terminating(ctx context.Context, after string) iter.Seq2[Event, error]
}

// Event tells of one namespace.
type Event struct {
	Type  EventType
	Name  string
	UID   string
	Token string // where to resume after this event; empty: nowhere yet
}

// EventType is the kind of an [Event].
type EventType uint8

// The kinds of events.
const (
	Terminating EventType = iota + 1 // the namespace is terminating
	Removed                          // the namespace is gone
	Synced                           // everything up to Token has been delivered; no namespace is named
)
