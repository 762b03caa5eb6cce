package registry

import (
	"context"
	"errors"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store"
)

// Remove deletes one object, if it still has that uid, and takes the finalizers named
// in release off it by the same write. It reports whether no object of that uid is there
// any more: other finalizers may hold it, marked as [Content.Delete] marks it. It is
// for what was left of a namespace (package force), so it works whether that is Active,
// terminating, gone, or made again: no object of another uid is touched, hence none of
// another incarnation (rule R8). For a cluster-scoped type ns is empty.
//
// Admission is not asked, as it is not by a pass: what is left must be able to go (rule
// R12). An empty uid is [namespace.ErrBadRequest], a type that is not declared
// [namespace.ErrNotFound].
func (r *Registry) Remove(ctx context.Context, resource deleter.Resource, ns, name, uid string, release []finalizer.Name) (gone bool, err error) {
	c, err := r.Content(resource)
	if err != nil {
		return false, err
	}
	t, err := c.target(ns, name)
	if err != nil {
		return false, err
	}
	if uid == "" {
		return false, badRequest(c.resource, name, "the uid is empty: say which object of that name is meant")
	}
	other := false
	_, gone, err = c.mutate(ctx, t, c.dry, func(entry store.Entry) (plan, error) {
		p, same, err := planRemoval(entry, uid, release)
		other = !same
		return p, err
	})
	if errors.Is(err, namespace.ErrNotFound) {
		return true, nil
	}
	return gone || other && err == nil, err
}

// planRemoval returns how the object of an entry is deleted, and whether it is the one
// that is meant.
func planRemoval(entry store.Entry, uid string, release []finalizer.Name) (p plan, same bool, err error) {
	o, err := decodeObject(entry)
	if err != nil {
		return plan{}, true, err
	}
	if o.UID != uid {
		return plan{keep: true}, false, nil
	}
	before := o.Finalizers
	for _, name := range release {
		o.Finalizers = o.Finalizers.Without(name)
	}
	p, err = planObjectDeletion(&o, time.Now())
	if err == nil && p.keep && !o.Finalizers.Equal(before) { // marked before
		p = plan{}
		p.value, err = encodeObject(o)
	}
	return p, true, err
}
