package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store"
)

// change is what a request does to one object.
type change struct {
	key  string
	old  *Object // nil: it is created
	next *Object // nil: it is removed; Object is replaced by what the links make of it
}

// admit asks the chain about changes to objects in ns, and puts in place what it
// makes of them. No chain: no admission.
func (c *Content) admit(ctx context.Context, ns string, op Operation, changes ...change) (*admission, error) {
	w := &Write{Namespace: ns, DryRun: c.dry, Objects: make([]ObjectChange, len(changes))}
	a := &admission{core: c.core, namespace: ns, resource: c.resource}
	for i, ch := range changes {
		o := ObjectChange{Type: c.typ, Operation: op}
		if ch.old != nil {
			old := *ch.old
			o.Old, a.name = &old, old.Name
		}
		if ch.next != nil {
			next := ch.next.DeepCopy()
			o.New, a.name = &next, next.Name
		}
		w.Objects[i] = o
	}
	if len(changes) > 1 {
		a.name = ""
	}
	a.own = func(key string) bool {
		return slices.ContainsFunc(changes, func(ch change) bool { return ch.key == key })
	}
	given := slices.Clone(w.Objects)
	if err := c.ask(ctx, w, a, func() error { return c.checkAdmitted(op, changes, given, w.Objects) }); err != nil {
		return nil, err
	}
	for i, ch := range changes {
		if ch.next == nil || op == Delete {
			continue
		}
		if err := c.settle(op, ch, *w.Objects[i].New); err != nil {
			return nil, fmt.Errorf("%w: what the links made of %s %q cannot be stored: %w", ErrAdmission, c.resource, ch.next.Name, err)
		}
	}
	return a, nil
}

// planAdmitted asks the chain about a replacement, and returns what it makes of it,
// and how that is planned. The objects are passed by value, so that they stay off the
// heap where there is no chain.
func (c *Content) planAdmitted(ctx context.Context, ns string, op Operation, entry store.Entry, old, next Object) (plan, Object, error) {
	ch := change{key: entry.Key, old: &old, next: &next}
	if removable(next.Meta) {
		ch.next = nil
	}
	a, err := c.admit(ctx, ns, op, ch)
	if err != nil {
		return plan{}, next, err
	}
	p, err := c.planReplacement(next, entry)
	if err != nil {
		return plan{}, next, err
	}
	p, err = a.planned(ctx, p)
	return p, next, err
}

// planAdmittedDeletion asks the chain about a deletion, which is planned as p.
func (c *Content) planAdmittedDeletion(ctx context.Context, ns string, p plan, entry store.Entry, old, next Object) (plan, error) {
	a, err := c.admit(ctx, ns, Delete, deletionOf(entry, p, old, next))
	if err != nil {
		return plan{}, err
	}
	return a.planned(ctx, p)
}

// deletionOf is the change that p makes of old: next is what is left of it, if
// anything is.
func deletionOf(entry store.Entry, p plan, old, next Object) change {
	if p.gone {
		return change{key: entry.Key, old: &old}
	}
	return change{key: entry.Key, old: &old, next: &next}
}

// settle puts what the links made of an object in the place of what was asked for.
func (c *Content) settle(op Operation, ch change, made Object) error {
	fields, wrong := compacted(made.Fields)
	if err := namespace.Invalid(c.typ.qualifiedKind(), c.resource, clip(made.Name), wrong); err != nil {
		return err
	}
	made.Fields = fields
	made.Meta = made.Meta.DeepCopy()
	if op == Update {
		made = c.updatedWhole(*ch.old, made)
	}
	*ch.next = made
	return nil
}

var (
	errIdentity = errors.New("who an object is, and what the registry keeps in its metadata, cannot be changed")
	errHeld     = errors.New("the finalizers of an object that is being deleted cannot be changed")
	errOnly     = errors.New("only what the client could change by this operation can be changed")
)

// checkAdmitted holds what a link made of the objects that it was given against what
// it may.
func (c *Content) checkAdmitted(op Operation, changes []change, given, made []ObjectChange) error {
	if len(made) != len(changes) {
		return errOthers
	}
	for i, ch := range changes {
		now := made[i].New
		switch {
		case made[i].Operation != op || made[i].Old != given[i].Old || !made[i].Type.equal(c.typ) ||
			ch.old != nil && (!sameOwned(made[i].Old.Meta, ch.old.Meta) || made[i].Old.TypeMeta != ch.old.TypeMeta):
			return errReadOnly
		case (now == nil) != (ch.next == nil):
			return errOthers
		case now == nil:
			continue
		case !sameOwned(now.Meta, ch.next.Meta) || now.TypeMeta != ch.next.TypeMeta:
			return errIdentity
		case !now.DeletionTimestamp.IsZero() && !now.Finalizers.Equal(ch.next.Finalizers):
			return errHeld
		}
		if err := c.checkOne(op, ch, *now); err != nil {
			return err
		}
	}
	return nil
}

func (c *Content) checkOne(op Operation, ch change, made Object) error {
	if op == UpdateStatus || op == Delete {
		if same, err := sameBut(op, made, *ch.next); !same || err != nil {
			return errors.Join(errOnly, err)
		}
	}
	if op == Delete {
		return nil // what is stored is marked whatever is wrong with it, as without a chain
	}
	if ch.old == nil {
		return c.validate(made)
	}
	return c.validateUpdate(*ch.old, made)
}

// sameOwned reports whether a and b agree on what is the registry's.
func sameOwned(a, b namespace.Meta) bool {
	grace := a.DeletionGracePeriodSeconds == nil && b.DeletionGracePeriodSeconds == nil ||
		a.DeletionGracePeriodSeconds != nil && b.DeletionGracePeriodSeconds != nil && *a.DeletionGracePeriodSeconds == *b.DeletionGracePeriodSeconds
	return grace && a.Name == b.Name && a.Namespace == b.Namespace && a.UID == b.UID && a.Generation == b.Generation &&
		a.ResourceVersion == b.ResourceVersion && a.SelfLink == b.SelfLink &&
		a.CreationTimestamp.Equal(b.CreationTimestamp) && a.DeletionTimestamp.Equal(b.DeletionTimestamp)
}

// sameBut reports whether a and b are the same but for what an operation changes.
func sameBut(op Operation, a, b Object) (bool, error) {
	if op == UpdateStatus {
		a.Fields, b.Fields = withStatus(a.Fields, nil), withStatus(b.Fields, nil)
		a.ManagedFields, b.ManagedFields = nil, nil
	}
	x, err := encodeObject(a)
	if err != nil {
		return false, err
	}
	y, err := encodeObject(b)
	return bytes.Equal(x, y), err
}

// planned has an admission join a plan, which is tried again then when one of its
// conditions does not hold.
func (a *admission) planned(ctx context.Context, p plan) (plan, error) {
	if a == nil || p.keep {
		return p, nil
	}
	var err error
	p.again = true
	p.If, p.with, err = a.join(ctx, p.If, p.with)
	return p, err
}

// insertion has an admission join the transaction that creates entry.
func (a *admission) insertion(ctx context.Context, entry store.Entry, txn store.Txn, err error) (store.Entry, store.Txn, error) {
	if a != nil && err == nil {
		txn.If, txn.Do, err = a.join(ctx, txn.If, txn.Do)
	}
	return entry, txn, err
}
