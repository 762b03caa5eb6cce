package controllertest

import (
	"context"
	"iter"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
)

// Op names a method of [controller.Namespaces].
type Op string

// The methods.
const (
	OpGet          Op = "get"
	OpUpdateStatus Op = "update status"
	OpFinalize     Op = "finalize"
	OpWatch        Op = "watch"
)

// Intercept calls functions before and after each method of Namespaces, to count calls, delay
// them, fail them, or change something in between. So a test can crash a controller before
// and after each step.
type Intercept struct {
	Namespaces controller.Namespaces
	// Before is called before a method. If it returns an error, the method is not called and
	// returns that error.
	Before func(ctx context.Context, op Op, name string) error
	// After is called after a method that succeeded, and for each event of a watch. If it
	// returns an error, the method returns that error although it has had its effect.
	After func(ctx context.Context, op Op, name string) error
}

func (i *Intercept) before(ctx context.Context, op Op, name string) error {
	if i.Before == nil {
		return nil
	}
	return i.Before(ctx, op, name)
}

func (i *Intercept) call(
	ctx context.Context, op Op, name string, method func() (namespace.Namespace, error),
) (namespace.Namespace, error) {
	if err := i.before(ctx, op, name); err != nil {
		return namespace.Namespace{}, err
	}
	ns, err := method()
	if err == nil && i.After != nil {
		err = i.After(ctx, op, name)
	}
	if err != nil {
		return namespace.Namespace{}, err
	}
	return ns, nil
}

// Get implements [pass.Namespaces].
func (i *Intercept) Get(ctx context.Context, name string) (namespace.Namespace, error) {
	return i.call(ctx, OpGet, name, func() (namespace.Namespace, error) { return i.Namespaces.Get(ctx, name) })
}

// UpdateStatus implements [pass.Namespaces].
func (i *Intercept) UpdateStatus(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	return i.call(ctx, OpUpdateStatus, ns.Name, func() (namespace.Namespace, error) { return i.Namespaces.UpdateStatus(ctx, ns) })
}

// Finalize implements [pass.Namespaces].
func (i *Intercept) Finalize(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	return i.call(ctx, OpFinalize, ns.Name, func() (namespace.Namespace, error) { return i.Namespaces.Finalize(ctx, ns) })
}

// Terminating implements [controller.Namespaces].
func (i *Intercept) Terminating(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
	return func(yield func(namespace.Event, error) bool) {
		if err := i.before(ctx, OpWatch, ""); err != nil {
			yield(namespace.Event{}, err)
			return
		}
		for event, err := range i.Namespaces.Terminating(ctx, after) {
			if err == nil && i.After != nil {
				err = i.After(ctx, OpWatch, event.Name)
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}
