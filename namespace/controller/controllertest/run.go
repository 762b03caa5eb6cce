// Package controllertest checks that a place where namespaces are kept does what a
// controller relies on: one line in a test of the host does it all, see [Run].
//
// It also has what tests of such code need: [Host], a place in memory, and
// [Intercept], which makes any place fail at any step.
package controllertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
)

// Backend is an empty place where namespaces are kept, and how its clients change
// it.
type Backend struct {
	// Namespaces is what is checked.
	Namespaces controller.Namespaces
	// Create adds a namespace with the name and spec.finalizers of ns (the place may
	// add `kubernetes` to them) and returns it as created. A place that has no
	// metadata.finalizers returns it without them.
	Create func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error)
	// Delete makes the namespace terminating.
	Delete func(ctx context.Context, name string) error
	// Forget makes the tokens that were given out so far too old to resume at, except
	// for the latest. Nil: the place cannot be made to; its case is skipped.
	Forget func(ctx context.Context) error
	// Ahead returns a token that the place has not given out yet, such as one from before it
	// was restored from a backup. Nil: its case is skipped.
	Ahead func(ctx context.Context) (string, error)
}

// Deadline is how long one case may take. A place that hangs fails by it.
const Deadline = 10 * time.Second

// Run checks the backends that open returns, each case as a subtest with a backend
// of its own. A failure says what was expected and why it matters.
func Run(t *testing.T, open func(t *testing.T) Backend) {
	if open == nil {
		t.Fatal("open is nil: there is nothing to check")
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := open(t)
			if err := b.check(); err != nil {
				t.Fatal(err)
			}
			if c.needsForget && b.Forget == nil {
				t.Skip("the backend cannot be made to forget")
			}
			if c.needsAhead && b.Ahead == nil {
				t.Skip("the backend has no tokens of the future")
			}
			if err := c.run(t.Context(), b, Deadline); err != nil {
				t.Fatalf("%v\n\nWhy it matters: %s", err, c.why)
			}
		})
	}
}

func (b Backend) check() error {
	if b.Namespaces == nil || b.Create == nil || b.Delete == nil {
		return errors.New("the backend needs Namespaces, Create and Delete")
	}
	return nil
}

// testcase is one property.
type testcase struct {
	name        string
	why         string
	needsForget bool
	needsAhead  bool
	check       func(ctx context.Context, b Backend) error
}

var errDeadline = errors.New("the case did not end: a call hangs, or an event never came")

// run checks b and gives up after deadline, also when a call never returns.
func (c testcase) run(ctx context.Context, b Backend, deadline time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, deadline, errDeadline)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- c.check(ctx, b) }()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	grace := time.NewTimer(deadline / 10)
	defer grace.Stop()
	select {
	case err := <-result:
		return err
	case <-grace.C:
		return context.Cause(ctx)
	}
}
