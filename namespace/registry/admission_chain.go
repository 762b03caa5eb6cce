package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store"
)

// asks reports whether there is a chain to ask.
func (c *core) asks() bool { return len(c.admission) > 0 }

var (
	errOthers   = errors.New("the objects of a write cannot be others, nor more or fewer")
	errReadOnly = errors.New("what a write is about cannot be changed: only New can")
)

// ask asks link by link, and has check look at what each has made of w.
func (c *core) ask(ctx context.Context, w *Write, a *admission, check func() error) error {
	w.attempt = a
	defer func() { w.attempt = nil }()
	given := *w
	inside := context.WithValue(ctx, insideWrite{}, true)
	for i, link := range c.admission {
		if err := link.Admit(inside, w); err != nil {
			if ctx.Err() != nil {
				return stored(a.resource, a.name, err)
			}
			return a.refusal(err)
		}
		err := error(errReadOnly)
		if w.Namespace == given.Namespace && w.DryRun == given.DryRun && w.Itself == given.Itself && w.attempt == a {
			err = check()
		}
		if err != nil {
			return fmt.Errorf("%w: link %d (%T), about %s %q: %w", ErrAdmission, i, link, a.resource, a.name, err)
		}
	}
	return nil
}

// refusal is what a link failed with, as it is answered.
func (a *admission) refusal(err error) error {
	var typed *namespace.Error
	var read readError
	if errors.As(err, &typed) || errors.As(err, &read) || errors.Is(err, ErrAdmission) {
		return err
	}
	what := a.resource
	if a.name != "" {
		what = fmt.Sprintf("%s %q", a.resource, a.name)
	}
	return &namespace.Error{
		Kind: namespace.ErrForbidden, Resource: a.resource, Name: a.name, Err: err,
		Message: fmt.Sprintf("%s is forbidden: %v", what, err),
	}
}

// join adds what the links have had join the commit to its conditions and
// operations. The gate as the links have read it takes the place of a cached one.
func (a *admission) join(ctx context.Context, conditions []store.Condition, do []store.Operation) ([]store.Condition, []store.Operation, error) {
	if a == nil {
		return conditions, do, nil
	}
	if (a.hold || a.touch) && a.namespace != "" {
		if err := a.lookForGate(ctx); err != nil {
			return nil, nil, err
		}
		if a.gate != nil {
			conditions = holding(conditions, *a.gate)
			do = a.touching(do)
		} else { // a creation wants a gate as well: when there is one by now it is tried again
			conditions = append(conditions, store.Absent(a.core.keys.gate(a.namespace)))
		}
	}
	for _, r := range a.replaced {
		conditions = append(conditions, store.At(r.before.Key, r.before.Revision))
		switch {
		case r.value == nil:
			do = append(do, store.Delete(r.before.Key))
		case string(r.value) != string(r.before.Value):
			do = append(do, store.Put(r.before.Key, r.value))
		}
	}
	return conditions, do, nil
}

func holding(conditions []store.Condition, gate store.Entry) []store.Condition {
	for i := range conditions {
		if conditions[i].Key == gate.Key {
			conditions[i] = store.At(gate.Key, gate.Revision)
			return conditions
		}
	}
	return append(conditions, store.At(gate.Key, gate.Revision))
}

// touching adds the operation that rewrites the gate, if it is to be touched and
// the commit does not write it anyway.
func (a *admission) touching(do []store.Operation) []store.Operation {
	if !a.touch {
		return do
	}
	for i := range do {
		if do[i].Key == a.gate.Key {
			return do
		}
	}
	return append(do, store.Put(a.gate.Key, a.gate.Value))
}
