package main

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// agent is a party: it deletes the content of some types and owns a finalizer.
type agent struct {
	finalizer finalizer.Name
	contact   string
	deleter   *deleter.Composed
	end       func(crash bool) // no-op unless it runs
}

func (w *world) newAgent(f finalizer.Name, contact string, names []string) (*agent, error) {
	of := make([]namespace.ResourceType, len(names))
	for i, name := range names {
		if _, err := w.source(name); err != nil {
			return nil, err
		}
		of[i] = resource(name)
	}
	d, err := w.registry.Deleter(&registry.DeleterOptions{
		Options: deleter.Options{CallTimeout: patience / 4}, Types: of, Sources: w.discover,
	})
	return &agent{finalizer: f, contact: contact, deleter: d, end: func(bool) {}}, err
}

// start announces the agent and runs its controller until a.end.
func (w *world) start(a *agent) error {
	c, err := controller.New(contested{w.registry, w}, a.deleter, namespace.Party{Finalizer: a.finalizer}, &controller.Options{
		MaxDelay: maxDelay,
		Patience: patience,
		Hooks:    []controller.Hooks{w.recorder.Hooks(a.finalizer)},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(w.ctx)
	line := &wire{Store: w.store}
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) }) // Run ends only with ctx
	running.Go(func() {
		// Announce ends with ctx, or fails after a crash.
		_ = parties.Announce(ctx, line, a.finalizer, &parties.Options{
			Contact: a.contact, Label: "agent-0", Beat: beat, Patience: 3 * beat,
		})
	})
	a.end = func(crash bool) {
		line.cut.Store(crash)
		cancel()
		running.Wait()
	}
	return nil
}

// wire is an agent's connection to the store. If cut is set, the agent cannot withdraw its
// announcement.
type wire struct {
	store.Store
	cut atomic.Bool
}

// Commit implements [store.Store].
func (l *wire) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if l.cut.Load() {
		return 0, store.ErrClosed
	}
	return l.Store.Commit(ctx, txn)
}
