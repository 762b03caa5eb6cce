package registry

import (
	"context"
	"iter"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// Terminating yields, when after is empty, each namespace that is terminating
// now, then one [namespace.EventSynced], then what happens: each that becomes
// terminating, again with every finalizer that is added to a terminating one, and
// each that is removed. When after is the Token of an earlier event it yields what
// happened since, and an EventSynced as soon as that is caught up. Further
// EventSynced only move the token on.
//
// It reads the index of terminating namespaces alone, so that its cost does not
// grow with those that are Active. The watch ends as [Registry.Watch] does; after
// [namespace.ErrGone] start anew with an empty token. A token that this method did
// not make is [namespace.ErrBadRequest].
func (r *Registry) Terminating(ctx context.Context, after string) iter.Seq2[namespace.TerminationEvent, error] {
	return follow(ctx, r.core, r.keys.index(), after, func(e indexEvent) namespace.TerminationEvent {
		kinds := [...]namespace.TerminationEventType{
			entryPut: namespace.EventTerminating, entryGone: namespace.EventRemoved, synced: namespace.EventSynced,
		}
		return namespace.TerminationEvent{Type: kinds[e.kind], Name: e.name, UID: e.value, Token: e.token}
	})
}
