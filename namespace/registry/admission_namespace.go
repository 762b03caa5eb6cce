package registry

import (
	"bytes"
	"context"
	"maps"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store"
)

// spaceChange is what a request does to a namespace.
type spaceChange struct {
	op        Operation
	old, next *namespace.Namespace // next is replaced by what the links make of it
	// prepare puts back what the operation may not change, validate finds what is wrong
	// then.
	prepare  func(namespace.Namespace) namespace.Namespace
	validate func(namespace.Namespace) error
}

// planAdmitted asks the chain about a change of a namespace, and returns what it
// makes of it, and how that is planned. The namespaces are passed by value, so that
// they stay off the heap where there is no chain.
func (r *Registry) planAdmitted(ctx context.Context, op Operation, old, next namespace.Namespace,
	prepare func(old, asked namespace.Namespace) namespace.Namespace, validate func(old, next namespace.Namespace) error,
	make func(old, next namespace.Namespace) (plan, error),
) (plan, namespace.Namespace, error) {
	ch := spaceChange{
		op: op, old: &old, next: &next,
		prepare:  func(n namespace.Namespace) namespace.Namespace { return prepare(old, n) },
		validate: func(n namespace.Namespace) error { return validate(old, n) },
	}
	if namespace.Removable(next) {
		ch.next = nil
	}
	a, err := r.admit(ctx, old.Name, ch)
	if err != nil {
		return plan{}, next, err
	}
	p, err := make(old, next)
	if err != nil {
		return plan{}, next, err
	}
	p, err = a.planned(ctx, p)
	return p, next, err
}

// insertAdmitted asks the chain about a namespace that is to be created, as
// [Registry.planAdmitted] does.
func (r *Registry) insertAdmitted(ctx context.Context, n namespace.Namespace, at time.Time) (namespace.Namespace, store.Entry, store.Txn, error) {
	uid := n.UID
	a, err := r.admit(ctx, n.Name, spaceChange{
		op: Create, next: &n, validate: namespace.ValidateCreate,
		prepare: func(n namespace.Namespace) namespace.Namespace {
			return namespace.PrepareCreate(n, r.finalizer, uid, at)
		},
	})
	if err != nil {
		return n, store.Entry{}, store.Txn{}, err
	}
	entry, txn, err := r.insertion(ctx, n)
	entry, txn, err = a.insertion(ctx, entry, txn, err)
	return n, entry, txn, err
}

// admit asks the chain about a change of a namespace, and puts in place what it
// makes of it.
func (r *Registry) admit(ctx context.Context, name string, ch spaceChange) (*admission, error) {
	itself := &NamespaceChange{Operation: ch.op}
	if ch.old != nil {
		old := *ch.old
		itself.Old = &old
	}
	given := itself.Old
	if ch.next != nil {
		next := ch.next.DeepCopy()
		itself.New = &next
	}
	w := &Write{Namespace: name, DryRun: r.dry, Itself: itself}
	key := r.keys.namespace(name)
	a := &admission{
		core: r.core, namespace: name, resource: namespace.Resource, name: name,
		own: func(k string) bool { return k == key },
	}
	err := r.ask(ctx, w, a, func() error {
		switch {
		case (itself.New == nil) != (ch.next == nil) || len(w.Objects) > 0:
			return errOthers
		case itself.Operation != ch.op || itself.Old != given || given != nil && !sameOwned(given.Meta, ch.old.Meta):
			return errReadOnly
		}
		if itself.New == nil {
			return nil
		}
		return ch.settle(itself.New)
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// settle puts what a link made of the namespace in the place of what was asked for, and
// what a client may leave out back into it.
func (ch spaceChange) settle(made *namespace.Namespace) error {
	next := ch.prepare(*made)
	if ch.op == Create || ch.op == Update {
		made.Labels = maps.Clone(next.Labels)
	}
	if ch.op == Create {
		made.Spec = next.Spec
	}
	if err := ch.validate(next); err != nil {
		return err
	}
	if namespace.Removable(next) {
		return errHeld
	}
	was, err := encodeNamespace(*made)
	if err != nil {
		return err
	}
	is, err := encodeNamespace(next)
	if err != nil {
		return err
	}
	if made.Name != ch.next.Name || !made.DeletionTimestamp.Equal(ch.next.DeletionTimestamp) || !bytes.Equal(was, is) {
		return errOnly
	}
	*ch.next = next
	return nil
}
