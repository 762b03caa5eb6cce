package main

import (
	"context"
	"log/slog"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// recorded is a controller, and what it was seen to do.
type recorded struct {
	*controller.Controller
	recorder *explain.Recorder
}

// newController returns what empties namespaces that are deleted.
func newController(r *registry.Registry, log *slog.Logger) (recorded, error) {
	d, err := r.Deleter(nil) // all types
	if err != nil {
		return recorded{}, err
	}
	recorder := explain.NewRecorder()
	party := r.Party()
	c, err := controller.New(r, d, party, &controller.Options{Hooks: []controller.Hooks{recorder.Hooks(party.Finalizer)}, Logger: log})
	return recorded{c, recorder}, err
}

// present says in the store, until ctx ends, that the controller is there, so that a
// namespace that waits for it can tell. Nothing depends on it.
func present(ctx context.Context, s store.Store, party finalizer.Name, log *slog.Logger) error {
	failing := false
	hooks := parties.Hooks{
		Announced: func() {
			if failing {
				log.Info("the controller is announced again")
			}
			failing = false
		},
		Failed: func(err error) {
			if !failing {
				log.Warn("the controller cannot be announced, will try again", "error", err)
			}
			failing = true
		},
	}
	err := parties.Announce(ctx, s, party, &parties.Options{Hooks: hooks})
	if err != nil && ctx.Err() != nil {
		log.Warn("that the controller has left could not be said: it will be missing", "error", err)
		return nil
	}
	return err
}
