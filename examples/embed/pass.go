package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

var documents = namespace.ResourceType{Name: "documents"}

// onePass deletes a tenant in a loop of the host. Any loop that repeats passes while Again is true
// will do.
func onePass(ctx context.Context, w io.Writer) error {
	host, err := filled(ctx)
	if err != nil {
		return err
	}
	// The first call fails.
	calls := 0
	d, err := deleter.New([]deleter.Source{{Resource: documents, Content: deleter.Funcs{Delete: func(ctx context.Context, target deleter.Target) (int, error) {
		if calls++; calls == 1 {
			return 0, fmt.Errorf("connection refused")
		}
		return host.deleteDocuments(ctx, target)
	}}.Content()}}, nil)
	if err != nil {
		return err
	}
	if err := host.remove(ctx, "acme"); err != nil {
		return err
	}
	fmt.Fprintln(w, "   insert while terminating:", host.insert("acme", "late.txt"))
	party := namespace.Party{Finalizer: finalizer.Kubernetes}
	request := pass.Request{Name: "acme"}
	for again := true; again; {
		result, err := pass.Run(ctx, host, d, party, request)
		fmt.Fprintf(w, "   pass: %v, error: %v\n", result.Outcome, err)
		request.UID, request.Previous = result.Namespace.UID, result.Report
		if again = result.Outcome.Again(); again {
			select {
			case <-time.After(max(result.After, 10*time.Millisecond)):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// filled returns a host with a tenant that has three documents.
func filled(ctx context.Context) (*tenants, error) {
	host := newTenants()
	var ns namespace.Namespace
	ns.Name = "acme"
	if _, err := host.create(ctx, ns); err != nil {
		return nil, err
	}
	for i := range 3 {
		if err := host.insert("acme", fmt.Sprintf("%d.txt", i)); err != nil {
			return nil, err
		}
	}
	return host, nil
}
