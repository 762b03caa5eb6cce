package controller_test

import (
	"context"
	"fmt"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
)

// A controller runs beside the host until its context ends. Hooks tell what it
// does.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tenants := new(controllertest.Host)
	d, err := deleter.New([]deleter.Source{{Resource: namespace.ResourceType{Name: "invoices"}, Content: deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) { return 0, nil }}.Content()}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	removed := make(chan string, 1)
	c, err := controller.New(tenants, d, namespace.Party{Finalizer: finalizer.Kubernetes}, &controller.Options{
		Hooks: []controller.Hooks{{Removed: func(ref namespace.Ref) { removed <- ref.Name }}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()

	_, _ = tenants.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}})
	_, _ = tenants.Delete(ctx, "acme")
	fmt.Println("removed:", <-removed)
	cancel()
	fmt.Println("ended:", <-ended)
	// Output:
	// removed: acme
	// ended: <nil>
}
