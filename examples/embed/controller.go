package main

import (
	"context"
	"fmt"
	"io"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
)

// runController deletes a tenant with the controller, which watches the table, retries and backs
// off.
func runController(ctx context.Context, w io.Writer) error {
	host, err := filled(ctx)
	if err != nil {
		return err
	}
	d, err := deleter.New([]deleter.Source{{Resource: documents, Content: deleter.Funcs{Delete: host.deleteDocuments}.Content()}}, nil)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	party := namespace.Party{Finalizer: finalizer.Kubernetes}
	c, err := controller.New(host, d, party, &controller.Options{
		Hooks: []controller.Hooks{{Removed: func(ref namespace.Ref) {
			fmt.Fprintf(w, "   tenant %q removed\n", ref.Name)
			stop()
		}}},
	})
	if err != nil {
		return err
	}
	if err := host.remove(ctx, "acme"); err != nil {
		return err
	}
	return c.Run(ctx)
}
