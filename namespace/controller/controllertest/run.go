// Package controllertest checks that a storage of namespaces satisfies the contract of
// [controller.Namespaces], or that of [pass.Namespaces]: call [Run] in a test.
//
// For other tests it has [Host], a storage in memory, and [Intercept], which makes any
// storage fail at any step.
package controllertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// Backend is an empty storage of namespaces, and the functions by which its clients change
// it.
type Backend struct {
	// Namespaces is the storage to check. If it is no [controller.Namespaces], the cases about
	// its watch are skipped.
	Namespaces pass.Namespaces
	// Create adds a namespace with the name and spec.finalizers of ns, to which the storage
	// may add `kubernetes`, and returns it. A storage without metadata.finalizers returns it
	// without them.
	Create func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error)
	// Delete makes the namespace terminating.
	Delete func(ctx context.Context, name string) error
	// Forget makes all tokens but the latest too old to resume from. If it is nil, its case
	// is skipped.
	Forget func(ctx context.Context) error
	// Ahead returns a token that the storage has not issued yet, such as one from before a
	// restored backup. If it is nil, its case is skipped.
	Ahead func(ctx context.Context) (string, error)
}

// Deadline is how long one case may take; a storage that hangs fails after it.
const Deadline = 10 * time.Second

// Run runs each case as a subtest, with a backend of its own from open. A failure names the
// expected behavior and why it matters.
func Run(t *testing.T, open func(t *testing.T) Backend) {
	if open == nil {
		t.Fatal("open is nil: there is no backend to check")
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := open(t)
			if err := b.check(); err != nil {
				t.Fatal(err)
			}
			if _, ok := b.Namespaces.(controller.Namespaces); c.needsWatch && !ok {
				t.Skip("the namespaces have no Terminating")
			}
			if c.needsForget && b.Forget == nil {
				t.Skip("the backend has no Forget")
			}
			if c.needsAhead && b.Ahead == nil {
				t.Skip("the backend has no Ahead")
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
	needsWatch  bool
	needsForget bool
	needsAhead  bool
	check       func(ctx context.Context, b Backend) error
}

var errDeadline = errors.New("the case did not end in time: a call hangs, or an event is missing")

// run checks b. It returns after deadline even if a call never returns.
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
