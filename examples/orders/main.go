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
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/nslifecycle/nslifecycle/store/postgres/pgtest"
)

// config is what the command line chooses.
type config struct {
	dsn    string
	schema string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Stdout, os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}

// run is the program: it tells on w what happens.
func run(ctx context.Context, w io.Writer, args []string) (err error) {
	c, err := parse(args, w)
	if err != nil {
		return err
	}
	if c.dsn == "" {
		server, err := pgtest.Start(ctx, nil)
		if err != nil {
			return fmt.Errorf("%w; or name a database with --dsn", err)
		}
		defer func() { err = errors.Join(err, server.Stop()) }()
		fmt.Fprintln(w, "started a temporary PostgreSQL server")
		c.dsn = server.DSN("postgres")
	}
	return tell(ctx, w, c)
}

func parse(args []string, w io.Writer) (config, error) {
	var c config
	flags := flag.NewFlagSet("orders", flag.ContinueOnError)
	flags.SetOutput(w)
	flags.StringVar(&c.dsn, "dsn", "", "how to connect to PostgreSQL 15 or later (default: a temporary server)")
	flags.StringVar(&c.schema, "schema", "orders_example", "the `schema` of the store; that of the orders has the same name and _host")
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	if flags.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q: everything is set by flags, see --help", flags.Arg(0))
	}
	return c, nil
}
