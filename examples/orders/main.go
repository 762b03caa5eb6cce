// Orders keeps content in a table of its own, beside the library's store in the same PostgreSQL
// database. The transaction that creates an order also checks that its tenant is Active (rule R6).
// When a tenant is deleted, its orders are deleted in batches, and none is left behind.
//
//	go run ./examples/orders                       # on a temporary PostgreSQL server
//	go run ./examples/orders --dsn postgres://...  # on yours, in schema orders_example
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/lifecycle"
	"github.com/nslifecycle/nslifecycle/store/postgres"
	"github.com/nslifecycle/nslifecycle/store/postgres/guard"
	"github.com/nslifecycle/nslifecycle/store/postgres/pgtest"
)

var program = command.Program{
	Name: "orders",
	About: `
Orders keeps orders of tenants in a table of its own, beside the library's store in the same
PostgreSQL database. It deletes a tenant while orders for it are created, and shows that no
order is left.

    go run ./examples/orders                       # on a temporary PostgreSQL server
    go run ./examples/orders --dsn postgres://...  # on yours, in schema orders_example
`,
	Resume: "the temporary server is stopped",
}

func main() {
	program.Main(func(ctx context.Context, args []string) error { return run(ctx, os.Stdout, args) })
}

func run(ctx context.Context, w io.Writer, args []string) (err error) {
	flags := program.Flags()
	dsn := flags.String("dsn", "", "the `address` of a PostgreSQL server, version 15 or later (default: a temporary server)")
	if err := flags.Parse(w, args); err != nil {
		return err
	}
	if *dsn == "" {
		fmt.Fprintln(w, "starting a temporary PostgreSQL server")
		server, err := pgtest.Start(ctx, nil)
		if err != nil {
			return fmt.Errorf("%w; or name a server with --dsn", err)
		}
		defer func() { err = errors.Join(err, server.Stop()) }()
		*dsn = server.DSN("postgres")
	}
	pool, err := pgxpool.New(ctx, *dsn)
	if err != nil {
		return fmt.Errorf("--dsn: %w", err)
	}
	defer pool.Close()
	const schema = "orders_example"
	s, err := postgres.New(ctx, pool, schema, nil)
	if err != nil {
		return fmt.Errorf("--dsn: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	g, err := guard.New(s, "")
	if err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+schema+".orders (tenant text, id bigint GENERATED ALWAYS AS IDENTITY, item text NOT NULL, PRIMARY KEY (tenant, id))"); err != nil {
		return err
	}
	o := &orders{pool: pool, guard: g, table: schema + ".orders"}
	source := deleter.Source{
		Resource: namespace.ResourceType{Group: "shop.example.com", Name: "orders"},
		Content:  deleter.Funcs{Delete: o.delete}.Content(),
		Final:    true, // create checks the gate, so one empty listing suffices
	}
	tenants, err := lifecycle.New(s, nil, &lifecycle.Options{Sources: []deleter.Source{source}})
	if err != nil {
		return err
	}
	defer tenants.Close()
	ctx, stop := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return tenants.Run(ctx) })
	group.Go(func() error {
		defer stop()
		return show(ctx, w, tenants, o)
	})
	return group.Wait()
}

// show deletes tenant acme while two writers create orders for it.
func show(ctx context.Context, w io.Writer, tenants *lifecycle.Service, o *orders) error {
	for _, name := range []string{"acme", "globex"} {
		if _, err := tenants.Create(ctx, name); err != nil && !errors.Is(err, namespace.ErrExists) {
			return err
		}
		if err := o.create(ctx, name, "anvil"); err != nil {
			return err
		}
	}
	fmt.Fprintln(w, "tenants acme and globex are Active")
	acme, err := tenants.Registry().Get(ctx, "acme")
	if err != nil {
		return err
	}
	var writers errgroup.Group
	for range 2 {
		writers.Go(func() error {
			for {
				if err := o.create(ctx, "acme", "rocket"); err != nil {
					return err
				}
			}
		})
	}
	if _, err := tenants.Delete(ctx, "acme"); err != nil {
		return errors.Join(err, writers.Wait())
	}
	fmt.Fprintln(w, "tenant acme is Terminating")
	if err := writers.Wait(); !errors.Is(err, namespace.ErrTerminating) && !errors.Is(err, namespace.ErrNotFound) {
		return err
	}
	fmt.Fprintln(w, "writers are refused")
	if err := tenants.WaitRemoved(ctx, acme.Name, acme.UID); err != nil {
		return err
	}
	fmt.Fprintln(w, "tenant acme is removed")
	for _, tenant := range []string{"acme", "globex"} {
		n, err := o.count(ctx, tenant)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "orders of %s: %d\n", tenant, n)
	}
	return nil
}

// orders is the service's own table.
type orders struct {
	pool  *pgxpool.Pool
	guard *guard.Guard
	table string
}

// create creates an order. GuardTx holds the tenant Active until the transaction has ended.
func (o *orders) create(ctx context.Context, tenant, item string) error {
	for {
		err := pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
			if err := o.guard.GuardTx(ctx, tx, tenant); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "INSERT INTO "+o.table+" (tenant, item) VALUES ($1, $2)", tenant, item)
			return err
		})
		if !errors.Is(err, namespace.ErrConflict) { // the tenant was changing: try again
			return err
		}
	}
}

func (o *orders) count(ctx context.Context, tenant string) (n int, err error) {
	err = o.pool.QueryRow(ctx, "SELECT count(*) FROM "+o.table+" WHERE tenant = $1", tenant).Scan(&n)
	return n, err
}

// batch limits the orders that one transaction deletes, to keep transactions short.
const batch = 500

// delete deletes the orders of a tenant and returns the number of remaining orders. DeletingTx
// protects the orders of a later tenant of the same name (rule R8).
func (o *orders) delete(ctx context.Context, target deleter.Target) (remaining int, err error) {
	for {
		deleted := int64(0)
		err := pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
			if err := o.guard.DeletingTx(ctx, tx, target); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, fmt.Sprintf(
				"DELETE FROM %[1]s WHERE (tenant, id) IN (SELECT tenant, id FROM %[1]s WHERE tenant = $1 ORDER BY id LIMIT $2)", o.table), target.Namespace, batch)
			deleted = tag.RowsAffected()
			return err
		})
		if err != nil {
			return 0, err
		}
		if deleted < batch {
			return o.count(ctx, target.Namespace)
		}
	}
}
