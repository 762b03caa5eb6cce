package registry

import (
	"context"
	"errors"
	"time"

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
// Where the namespace is Active, made again by now, admission is asked as by
// [Content.Delete], so that what counts goes on counting right, and what it refuses stays;
// so it is for a cluster-scoped type. Everywhere else it is not, as it is not by a pass:
// what is left must be able to go (rule R12). An empty uid is [namespace.ErrBadRequest],
// a type that is not declared [namespace.ErrNotFound].
func (r *Registry) Remove(ctx context.Context, resource namespace.ResourceType, ns, name, uid string, release []finalizer.Name) (gone bool, err error) {
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
	var refused error // which may be of any kind
	_, gone, err = c.mutate(ctx, t, c.dry, func(entry store.Entry) (plan, error) {
		r, err := planRemoval(entry, uid, release)
		if other = r.other; err != nil || r.keep || !c.asks() {
			return r.plan, err
		}
		p, err := c.planAskedRemoval(ctx, ns, r, entry)
		refused = err
		return p, err
	})
	if refused == nil && errors.Is(err, namespace.ErrNotFound) {
		return true, nil
	}
	return gone || other && err == nil, err
}

// removal is how an object is deleted.
type removal struct {
	plan
	other     bool   // it is not the one that is meant
	old, next Object // as it is, and what is left of it if anything is
}

func planRemoval(entry store.Entry, uid string, release []finalizer.Name) (r removal, err error) {
	if r.old, err = decodeObject(entry); err != nil {
		return r, err
	}
	if r.old.UID != uid {
		r.keep, r.other = true, true
		return r, nil
	}
	r.next = r.old
	for _, name := range release {
		r.next.Finalizers = r.next.Finalizers.Without(name)
	}
	r.plan, err = planObjectDeletion(&r.next, time.Now())
	if err == nil && r.keep && !r.next.Finalizers.Equal(r.old.Finalizers) { // marked before
		r.plan = plan{}
		r.value, err = encodeObject(r.next)
	}
	return r, err
}

// planAskedRemoval has the chain asked where there is a gate, and the removal happen only
// without a gate where there is none.
func (c *Content) planAskedRemoval(ctx context.Context, ns string, r removal, entry store.Entry) (plan, error) {
	if ns != "" {
		gate := c.keys.gate(ns)
		is, err := c.read(ctx, gate)
		if err != nil {
			return plan{}, stored(namespace.Resource, ns, err)
		}
		if is == nil {
			r.If, r.again = append(r.If, store.Absent(gate)), true
			return r.plan, nil
		}
	}
	return c.planAdmittedDeletion(ctx, ns, r.plan, entry, r.old, r.next)
}
