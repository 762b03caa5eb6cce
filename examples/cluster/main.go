// Command cluster shows three replicas of one service on a shared store: they
// divide the work, one of them is killed in the midst of it, and the others take
// over its share.
//
// It starts an etcd or a PostgreSQL server that it finds, or connects to one that
// is given, and runs the replicas as processes of their own. Each is a complete
// service: a registry, a replica and a controller, see replica.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
)

// config is what the command line chooses.
type config struct {
	store     string // "etcd", "postgres", or empty: what is found
	endpoints string // of an etcd that runs
	dsn       string // of a PostgreSQL that runs
	etcd      string // the program to start
	tenants   int
}

var program = command.Program{
	Name: "cluster",
	About: `
Cluster runs three replicas of one service on a shared store: they divide the work, one of
them is killed, and the others take over its share.

    go run ./examples/cluster                    # on the etcd or PostgreSQL that is installed
    go run ./examples/cluster --store postgres
    go run ./examples/cluster --dsn postgres://...
`,
	Resume: "everything that was started has ended",
}

func main() {
	program.Main(func(ctx context.Context, args []string) error {
		if len(args) > 0 && args[0] == asReplica {
			return runReplica(ctx, os.Stdout, args)
		}
		return run(ctx, os.Stdout, args)
	})
}

// run tells the story that args ask for on w.
func run(ctx context.Context, w io.Writer, args []string) (err error) {
	c, err := parse(args, w)
	if err != nil {
		return err
	}
	hidden := command.Redact(c.dsn, c.endpoints)
	defer func() { err = hidden.Error(err) }()
	say := newTimeline(hidden.Writer(w))
	started := command.Progress(ctx, os.Stderr, func() string { return "starting the store's server" })
	server, err := c.server(ctx)
	started()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	say.line("%s", server.about)
	return tell(ctx, say, server.backend, c.tenants)
}

const maxTenants = 5000

func parse(args []string, w io.Writer) (config, error) {
	var c config
	flags := program.Flags()
	flags.StringVar(&c.store, "store", "", "the `kind` of store, etcd or postgres (default: the one that an address is given for, else the one that is found)")
	flags.StringVar(&c.endpoints, "endpoints", "", "`addresses` of an etcd that runs, separated by commas")
	flags.StringVar(&c.dsn, "dsn", "", "`address` of a PostgreSQL that runs; everything goes into the schema "+place)
	flags.StringVar(&c.etcd, "etcd", "", "the `file` of the etcd program to start (default: the one on PATH)")
	flags.IntVar(&c.tenants, "tenants", 90, "how many tenants to create and delete")
	if err := flags.Parse(w, args); err != nil {
		return config{}, err
	}
	return c.check()
}

func (c config) check() (config, error) {
	var err error
	switch {
	case c.store != "" && c.store != kindEtcd && c.store != kindPostgres:
		err = fmt.Errorf("--store is %q, it must be %s or %s", c.store, kindEtcd, kindPostgres)
	case c.tenants < 3 || c.tenants > maxTenants:
		err = fmt.Errorf("--tenants is %d, it must be from 3 (one for each replica) to %d", c.tenants, maxTenants)
	case c.endpoints != "" && c.etcd != "":
		err = errors.New("--endpoints names an etcd that runs, --etcd one to start: give one of them")
	}
	for _, given := range []struct{ flag, value, kind string }{
		{"endpoints", c.endpoints, kindEtcd}, {"etcd", c.etcd, kindEtcd}, {"dsn", c.dsn, kindPostgres},
	} {
		switch {
		case given.value == "" || err != nil:
		case c.store == "":
			c.store = given.kind
		case c.store != given.kind:
			err = fmt.Errorf("--%s is for %s, and the store is %s: give one of them", given.flag, given.kind, c.store)
		}
	}
	if err == nil && c.etcd != "" {
		if _, missing := exec.LookPath(c.etcd); missing != nil {
			err = fmt.Errorf("--etcd: %w", missing)
		}
	}
	if err != nil {
		return c, &command.UsageError{Err: err}
	}
	return c, nil
}

// backend is a store as the replicas open it.
type backend struct {
	kind    string
	address string
}

// running is a backend and what to do when it is no longer needed.
type running struct {
	backend
	about string
	stop  func() error
}

// server returns the backend that c asks for, started if need be.
func (c config) server(ctx context.Context) (running, error) {
	nothing := func() error { return nil }
	switch {
	case c.endpoints != "":
		return running{backend{kindEtcd, c.endpoints}, "connecting to etcd at " + c.endpoints, nothing}, nil
	case c.dsn != "":
		return running{backend{kindPostgres, c.dsn}, "connecting to PostgreSQL", nothing}, nil
	}
	var causes []string
	for _, kind := range []string{kindEtcd, kindPostgres} {
		if c.store != "" && c.store != kind {
			continue
		}
		r, err := starters[kind](ctx, c)
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, errNotFound) || ctx.Err() != nil {
			return running{}, err
		}
		causes = append(causes, err.Error())
	}
	return running{}, errors.New(strings.Join(causes, "\n     and "))
}

// The pace of the example: a takeover within 2 seconds.
const (
	beat     = 500 * time.Millisecond
	patience = 3 * beat
)
