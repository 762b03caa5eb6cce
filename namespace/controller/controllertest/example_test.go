package controllertest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
)

// A Host keeps namespaces in memory. A deleted namespace stays until its last finalizer is
// removed; the same write removes the namespace.
func ExampleHost() {
	ctx := context.Background()
	host := new(controllertest.Host)
	_, _ = host.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}})
	ns, _ := host.Delete(ctx, "acme")
	fmt.Println(ns.Phase(), ns.Spec.Finalizers.Names(), host.Len())

	ns.Spec.Finalizers = ns.Spec.Finalizers.Without("kubernetes")
	_, err := host.Finalize(ctx, ns)
	fmt.Println(err, host.Len())
	// Output:
	// Terminating [kubernetes] 1
	// <nil> 0
}

// An Intercept makes any place fail where a test wants it to, here after a write
// that had its effect: the caller cannot know.
func ExampleIntercept() {
	ctx := context.Background()
	host := new(controllertest.Host)
	_, _ = host.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}})
	ns, _ := host.Delete(ctx, "acme")
	ns.Spec.Finalizers = ns.Spec.Finalizers.Without("kubernetes")

	broken := &controllertest.Intercept{Namespaces: host, After: func(context.Context, controllertest.Op, string) error {
		return errors.New("connection lost")
	}}
	_, err := broken.Finalize(ctx, ns)
	fmt.Println(err, host.Len())
	// Output:
	// connection lost 0
}
