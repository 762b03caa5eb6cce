// Orders is a service that keeps its content in a table of its own, beside the
// library's store in the same PostgreSQL database. Orders are created only for
// tenants that are Active, whatever else happens at that moment; when a tenant is
// deleted, its orders are deleted in batches, and none is left behind.
//
//	go run ./examples/orders                       # a temporary server
//	go run ./examples/orders --dsn postgres://...  # yours: it makes a schema there
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/store/postgres/pgtest"
)

// config is what the command line chooses.
type config struct {
	dsn    string
	schema string
}

var program = command.Program{
	Name: "orders",
	About: `
Orders keeps orders of tenants in a table of its own, beside the library's store in the same
PostgreSQL database. It deletes a tenant while orders for it are created, and shows that no
order is left.

    go run ./examples/orders                       # on a temporary PostgreSQL server
    go run ./examples/orders --dsn postgres://...  # on yours
`,
	Resume: "the temporary server has stopped, if it had started one",
}

func main() {
	program.Main(func(ctx context.Context, args []string) error { return run(ctx, os.Stdout, args) })
}

// run is the program. It writes progress to w.
func run(ctx context.Context, w io.Writer, args []string) (err error) {
	c, err := parse(args, w)
	if err != nil {
		return err
	}
	if c.dsn == "" {
		fmt.Fprintln(w, "starting a temporary PostgreSQL server")
		server, err := pgtest.Start(ctx, nil)
		if err != nil {
			return fmt.Errorf("%w; or name a database with --dsn", err)
		}
		defer func() { err = errors.Join(err, server.Stop()) }()
		c.dsn = server.DSN("postgres")
	}
	return command.Redact(c.dsn).Error(tell(ctx, w, c))
}

func parse(args []string, w io.Writer) (config, error) {
	var c config
	flags := program.Flags()
	flags.StringVar(&c.dsn, "dsn", "", "how to connect to PostgreSQL 15 or later (default: a temporary server)")
	flags.StringVar(&c.schema, "schema", "orders_example", "the `schema` of the store; that of the orders has the same name and _host")
	return c, flags.Parse(w, args)
}
