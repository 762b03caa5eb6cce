// Tenant is the first program: a tenant is created, gets an invoice and files, and is deleted
// with all of it.
//
//	DATABASE_URL=postgres://localhost/app go run ./examples/tenant
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/lifecycle"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/postgres"
)

// Invoices are kept in the store, files in a directory named for the tenant's uid (rule R8).
type Invoice struct {
	Cents int64 `json:"cents"`
}

var (
	invoices = registry.Type{Version: "v1", Resource: "invoices", Kind: "Invoice", Namespaced: true}
	files    = deleter.Source{
		Resource: namespace.ResourceType{Name: "files"},
		Content: deleter.Funcs{Delete: func(_ context.Context, tenant deleter.Target) (remaining int, err error) {
			return 0, os.RemoveAll("files/" + tenant.UID)
		}}.Content(),
	}
)

func main() {
	if err := run(context.Background(), os.Getenv("DATABASE_URL")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dsn string) error {
	db, err := postgres.Open(ctx, dsn, "tenants", nil)
	if err != nil {
		return err
	}
	defer db.Close()
	tenants, err := lifecycle.New(db, []registry.Type{invoices}, &lifecycle.Options{Sources: []deleter.Source{files}})
	if err != nil {
		return err
	}
	defer tenants.Close()
	ctx, stop := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return tenants.Run(ctx) }) // deletes in the background
	group.Go(func() error { defer stop(); return serve(ctx, tenants) })
	return group.Wait()
}

// serve stands for the requests of the service.
func serve(ctx context.Context, tenants *lifecycle.Service) error {
	acme, err := tenants.Create(ctx, "acme")
	if err != nil {
		return err
	}
	if err := os.MkdirAll("files/"+acme.UID, 0o700); err != nil {
		return err
	}
	content, err := lifecycle.NewContent[Invoice](tenants.Registry(), invoices)
	if err != nil {
		return err
	}
	if _, err := content.Create(ctx, "acme", lifecycle.Named("2026-001", Invoice{Cents: 4200})); err != nil {
		return err
	}
	if _, err := tenants.Delete(ctx, "acme"); err != nil {
		return err
	}
	_, err = content.Create(ctx, "acme", lifecycle.Named("2026-002", Invoice{}))
	fmt.Println(err) // nothing is created in a tenant that is being deleted
	return tenants.WaitRemoved(ctx, acme.Name, acme.UID)
}
