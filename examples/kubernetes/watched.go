package main

import (
	"context"
	"errors"
	"iter"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
)

// watched is the place where namespaces are kept, and tells whether it can be
// followed.
type watched struct {
	controller.Namespaces
	agent *agent
}

// Terminating implements [controller.Namespaces].
func (w watched) Terminating(ctx context.Context, after string) iter.Seq2[namespace.TerminationEvent, error] {
	return func(yield func(namespace.TerminationEvent, error) bool) {
		for event, err := range w.Namespaces.Terminating(ctx, after) {
			switch {
			case err == nil && event.Type == namespace.EventSynced:
				w.agent.follows()
			case err != nil && ctx.Err() == nil && !errors.Is(err, namespace.ErrGone): // then all are listed anew
				w.agent.lost(err)
			}
			if !yield(event, err) {
				return
			}
		}
	}
}

// follows takes up that the agent has heard of everything that is terminating.
func (a *agent) follows() {
	if a.ready.set("") {
		a.metrics.watching.Set(1)
		a.say("watching namespaces that are deleted")
	}
}

// lost takes up that the agent hears nothing.
func (a *agent) lost(err error) {
	text := explain(err)
	if a.ready.set("namespaces cannot be watched: " + text) {
		a.metrics.watching.Set(0)
		a.say("namespaces cannot be watched, will try again: %s", text)
	}
}
