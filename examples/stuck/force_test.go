package main

import (
	"fmt"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/operate/force"
	"github.com/nslifecycle/nslifecycle/namespace/operate/plan"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// force NAMESPACE FINALIZER BY REASON
func (w *world) force(words []string) error {
	ns, err := w.registry.Get(w.ctx, words[0])
	if err != nil {
		return err
	}
	content, err := w.everything()
	if err != nil {
		return err
	}
	result, err := force.Drop(w.ctx, w.registry, content, w.audit, force.Request{
		Name: ns.Name, UID: ns.UID, Finalizers: []finalizer.Name{finalizer.Name(words[1])}, By: words[2], Reason: words[3],
	})
	w.forced = result.ID
	return err
}

// sweep NAMESPACE BY REASON
func (w *world) sweep(words []string) error {
	result, err := force.Sweep(w.ctx, w.registry, w.registry, w.audit, force.SweepRequest{
		Name: words[0], ID: w.forced, By: words[1], Reason: words[2],
	})
	if err == nil && len(result.Left) > 0 {
		err = fmt.Errorf("%d objects are left: %v", len(result.Left), result.Failures)
	}
	return err
}

// plan previews the deletion of a namespace: the content that it would delete and the
// refusals.
func (w *world) plan(name string) (string, error) {
	content, err := w.everything()
	if err != nil {
		return "", err
	}
	p, err := plan.Of(w.ctx, w.registry, content, name, nil)
	return p.Text(), err
}

// everything returns the content of all types, for inventories and plans.
func (w *world) everything() (*deleter.Composed, error) {
	return w.registry.Deleter(&registry.DeleterOptions{Sources: w.discover})
}
