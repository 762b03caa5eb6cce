// Stuck shows a namespace that is stuck in Terminating, explains why, and frees it.
//
//	go run ./examples/stuck
//
// Its tests play 17 more situations, which testdata/scenarios describes.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/lifecycle"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

var program = command.Program{Name: "stuck", About: `
Stuck deletes a namespace in which a finalizer blocks one object, prints why the namespace is
still there and what to do, and then frees it.

    go run ./examples/stuck
`}

func main() {
	program.Main(func(ctx context.Context, args []string) error {
		if err := program.Flags().Parse(os.Stdout, args); err != nil {
			return err
		}
		return run(ctx, os.Stdout)
	})
}

// backup is a finalizer whose owner no longer runs.
const backup finalizer.Name = "backup.example.com/snapshot"

var databases = registry.Type{Group: "example.com", Version: "v1", Resource: "databases", Kind: "Database", Namespaced: true}

func run(ctx context.Context, w io.Writer) error {
	s, err := memory.New(nil)
	if err != nil {
		return err
	}
	defer s.Close()
	service, err := lifecycle.New(s, []registry.Type{databases}, &lifecycle.Options{Contact: "#platform"})
	if err != nil {
		return err
	}
	defer service.Close()
	ctx, stop := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return service.Run(ctx) })
	group.Go(func() error {
		defer stop()
		return deleteAndFree(ctx, w, service)
	})
	return group.Wait()
}

func deleteAndFree(ctx context.Context, w io.Writer, service *lifecycle.Service) error {
	content, err := service.Registry().Content(databases.Name())
	if err != nil {
		return err
	}
	orders, err := service.Create(ctx, "orders")
	if err != nil {
		return err
	}
	for _, name := range []string{"archive", "live", "staging"} {
		o := registry.Object{Meta: namespace.Meta{Name: name}}
		if name == "archive" {
			o.Finalizers = finalizer.NewSet(backup)
		}
		if _, err := content.Create(ctx, orders.Name, o); err != nil {
			return err
		}
	}
	if _, err := service.Delete(ctx, orders.Name); err != nil {
		return err
	}
	d, err := diagnose(ctx, service, orders.Name)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, d.Text())

	// The owner of the finalizer is gone for good, so the operator removes it.
	object, err := content.Get(ctx, orders.Name, "archive")
	if err != nil {
		return err
	}
	object.Finalizers = object.Finalizers.Without(backup)
	if _, err := content.Update(ctx, orders.Name, object); err != nil {
		return err
	}
	fmt.Fprintf(w, "removed %s from database archive\n", backup)
	if err := service.WaitRemoved(ctx, orders.Name, orders.UID); err != nil {
		return err
	}
	fmt.Fprintln(w, "namespace orders is removed")
	return nil
}

// diagnose explains the namespace after a pass has seen the blocked object.
func diagnose(ctx context.Context, service *lifecycle.Service, name string) (explain.Diagnosis, error) {
	for ctx.Err() == nil {
		d, err := service.Explain(ctx, name)
		if err != nil || d.Causes[0].Kind == explain.Held {
			return d, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return explain.Diagnosis{}, context.Cause(ctx)
}
