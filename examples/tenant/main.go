// Tenant is the program of the README's "First use": a namespace is created,
// filled, deleted, and gone.
//
//	go run ./examples/tenant
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

var program = command.Program{Name: "tenant", About: `
Tenant creates a namespace in memory, fills it, deletes it, and waits until it is removed.

    go run ./examples/tenant
`}

func main() {
	program.Main(func(ctx context.Context, args []string) error {
		if err := program.Flags().Parse(os.Stdout, args); err != nil {
			return err
		}
		return run(ctx, os.Stdout)
	})
}

func run(ctx context.Context, w io.Writer) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	// Storage, and the rules over it. bolt.Open(path, nil) instead keeps it all in a file.
	s, err := memory.New(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	documents := registry.ResourceType{Group: "example.com", Version: "v1", Resource: "documents", Kind: "Document", Namespaced: true}
	r, err := registry.New(s, &registry.Options{Types: []registry.ResourceType{documents}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()

	// The controller empties what is deleted, and lets it go when it is empty.
	d, err := r.Deleter(nil) // all declared types
	if err != nil {
		return err
	}
	c, err := controller.New(r, d, r.Party(), &controller.Options{
		Hooks: []controller.Hooks{{Removed: func(ref namespace.Ref) {
			fmt.Fprintf(w, "%s is gone\n", ref.Name)
			stop() // a service would run on
		}}},
	})
	if err != nil {
		return err
	}

	// A tenant comes ...
	var acme namespace.Namespace
	acme.Name = "acme"
	if acme, err = r.Create(ctx, acme); err != nil {
		return err
	}
	content, err := r.Content(documents.Name())
	if err != nil {
		return err
	}
	var letter registry.Object
	letter.Name = "letter"
	if _, err := content.Create(ctx, "acme", letter); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s is %s\n", acme.Name, acme.Phase())

	// ... and goes. From this very commit on nothing can be created in it.
	if acme, err = r.Delete(ctx, "acme", namespace.Preconditions{UID: acme.UID}); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s is %s\n", acme.Name, acme.Phase())
	_, err = content.Create(ctx, "acme", registry.Object{Meta: namespace.Meta{Name: "late"}})
	fmt.Fprintln(w, err)

	return c.Run(ctx)
}
