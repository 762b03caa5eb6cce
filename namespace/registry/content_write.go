package registry

import (
	"context"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
)

// Update replaces an object, also in a namespace that is terminating, and returns
// it as stored. With a resourceVersion or a uid the object must still be at it
// ([namespace.ErrConflict]); without, whatever is there is replaced. A change of
// anything but metadata and status makes a new generation, unless the type is
// Ungenerated; an update that changes nothing writes nothing. One that takes the last finalizer from an object
// that is being deleted removes it, and returns it as it was last; new finalizers
// are refused then. Of a type with Status the status stays as it is, silently.
func (c *Content) Update(ctx context.Context, ns string, o Object) (Object, error) {
	return c.replaceObject(ctx, ns, o, Update, c.updated)
}

// updated returns what takes the place of old when a client sends asked.
func (c *Content) updated(old, asked Object) Object {
	if c.typ.Status {
		asked.Fields = withStatus(asked.Fields, old.Fields[statusField])
	}
	return c.updatedWhole(old, asked)
}

// updatedWhole returns what takes the place of old, also in its status.
func (c *Content) updatedWhole(old, asked Object) Object {
	kept := old.Meta
	if !sameSpec(old.Fields, asked.Fields) {
		kept.Generation = c.nextGeneration(kept.Generation)
	}
	asked.own(kept)
	return asked
}

// nextGeneration returns the generation after the given one, or 0 for an Ungenerated type.
func (c *Content) nextGeneration(generation int64) int64 {
	if c.typ.Ungenerated {
		return 0
	}
	return generation + 1
}

func (c *Content) validateUpdate(old, next Object) error {
	if err := c.validate(next); err != nil {
		return err
	}
	if old.DeletionTimestamp.IsZero() {
		return nil
	}
	return namespace.Invalid(c.typ.qualifiedKind(), c.resource, next.Name, namespace.NoNewFinalizers(old.Meta, next.Meta))
}

// removable reports whether an object must be removed in the write that made it
// so.
func removable(m namespace.Meta) bool {
	return !m.DeletionTimestamp.IsZero() && m.Finalizers.IsZero()
}

func answerObject(next Object, entry store.Entry, gone bool, err error) (Object, error) {
	if err != nil {
		return Object{}, err
	}
	if gone {
		next = next.DeepCopy()
		next.ResourceVersion = formatVersion(entry.Revision)
		return next, nil
	}
	return decodeObject(entry)
}

// Delete deletes an object, also in a namespace that is terminating, and returns
// it as it was last. An object with metadata.finalizers is marked instead: its
// deletionTimestamp is set, once, and it goes in the write that removes the last
// of them. The errors are [namespace.ErrNotFound], and [namespace.ErrConflict]
// for preconditions.
func (c *Content) Delete(ctx context.Context, ns, name string, only namespace.Preconditions) (Object, error) {
	t, err := c.target(ns, name)
	if err != nil {
		return Object{}, err
	}
	if err := checkPreconditions(c.resource, name, only); err != nil {
		return Object{}, err
	}
	var next Object
	entry, gone, err := c.mutate(ctx, t, c.dry, func(entry store.Entry) (plan, error) {
		if next, err = decodeObject(entry); err != nil {
			return plan{}, err
		}
		if err := only.Check(c.resource, next.Meta); err != nil {
			return plan{}, err
		}
		old := next
		p, err := planObjectDeletion(&next, time.Now())
		if err != nil || p.keep || !c.asks() {
			return p, err
		}
		return c.planAdmittedDeletion(ctx, ns, p, entry, old, next)
	})
	return answerObject(next, entry, gone, err)
}

// planObjectDeletion returns how o is deleted, and marks it.
func planObjectDeletion(o *Object, at time.Time) (plan, error) {
	held := !o.Finalizers.IsZero()
	switch {
	case held && !o.DeletionTimestamp.IsZero():
		return plan{keep: true}, nil
	case !held:
		return plan{gone: true}, nil
	}
	o.DeletionTimestamp = phase.At(at)
	o.DeletionGracePeriodSeconds = new(int64)
	value, err := encodeObject(*o)
	return plan{value: value}, err
}
