package pass_test

import (
	"context"
	"fmt"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// A host with its own loop does one pass at a time. It keeps namespaces in its own table
// (here a map), and a plain function deletes the content.
func ExampleRun() {
	ctx := context.Background()
	tenants := new(controllertest.Host)
	_, _ = tenants.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}})
	_, _ = tenants.Delete(ctx, "acme")

	invoices := 5
	d, err := deleter.New([]deleter.Source{{Resource: namespace.ResourceType{Name: "invoices"}, Content: deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) {
		invoices = max(0, invoices-3) // as many as one statement deletes
		return invoices, nil
	}}.Content()}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	party := namespace.Party{Finalizer: finalizer.Kubernetes}
	request := pass.Request{Name: "acme"}
	for {
		result, err := pass.Run(ctx, tenants, d, party, request)
		fmt.Println(result.Outcome, result.Report.Remaining(), err)
		if !result.Outcome.Again() {
			return
		}
		request.UID, request.Previous = result.Namespace.UID, result.Report
	}
	// Output:
	// waiting 2 <nil>
	// removed 0 <nil>
}
