package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/lifecycle"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

type Invoice struct {
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

var invoices = registry.Type{Version: "v1", Resource: "invoices", Kind: "Invoice", Namespaced: true}

// A tenant is created, filled and deleted. Its invoices are in the store, and its files elsewhere.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, err := memory.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	bucket := map[string]int{} // files by the tenant's uid (rule R8)
	files := deleter.Source{
		Resource: namespace.ResourceType{Name: "files"},
		Content: deleter.Funcs{Delete: func(_ context.Context, target deleter.Target) (remaining int, err error) {
			delete(bucket, target.UID)
			return 0, nil
		}}.Content(),
	}
	tenants, err := lifecycle.New(db, []registry.Type{invoices}, &lifecycle.Options{Sources: []deleter.Source{files}})
	if err != nil {
		log.Fatal(err)
	}
	defer tenants.Close()
	stopped := make(chan error, 1)
	go func() { stopped <- tenants.Run(ctx) }()

	acme, err := tenants.Create(ctx, "acme")
	if err != nil {
		log.Fatal(err)
	}
	bucket[acme.UID] = 2
	content, err := lifecycle.NewContent[Invoice](tenants.Registry(), invoices)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := content.Create(ctx, "acme", lifecycle.Named("2026-001", Invoice{Customer: "Ada", Cents: 4200})); err != nil {
		log.Fatal(err)
	}
	invoice, err := content.Get(ctx, "acme", "2026-001")
	fmt.Println(invoice.Name, invoice.Value, err)

	if _, err := tenants.Delete(ctx, "acme"); err != nil {
		log.Fatal(err)
	}
	if err := tenants.WaitRemoved(ctx, acme.Name, acme.UID); err != nil {
		log.Fatal(err)
	}
	_, err = content.Create(ctx, "acme", lifecycle.Named("2026-002", Invoice{}))
	fmt.Println("not found:", errors.Is(err, namespace.ErrNotFound), "files:", len(bucket))
	stop()
	fmt.Println("stopped:", <-stopped)
	// Output:
	// 2026-001 {Ada 4200} <nil>
	// not found: true files: 0
	// stopped: <nil>
}
