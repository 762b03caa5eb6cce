// Cluster runs three replicas of one service on a shared PostgreSQL database. They divide the
// work; one of them is killed with kill -9, and the others take over its share.
//
//	go run ./examples/cluster                       # on a temporary PostgreSQL server
//	go run ./examples/cluster --dsn postgres://...  # on yours, in schema cluster_example
//
// Each replica is a process of this program; see replica.go. Options.Divide of package lifecycle
// is all that divides the work.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/lifecycle"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/postgres"
	"github.com/nslifecycle/nslifecycle/store/postgres/pgtest"
)

var program = command.Program{
	Name: "cluster",
	About: `
Cluster runs three replicas of one service on a shared PostgreSQL database: they divide the
work, one of them is killed, and the others take over its share.

    go run ./examples/cluster                       # on a temporary PostgreSQL server
    go run ./examples/cluster --dsn postgres://...  # on yours, in schema cluster_example
`,
	Resume: "all replicas and the temporary server are stopped",
}

func main() {
	program.Main(func(ctx context.Context, args []string) error {
		if len(args) == 3 && args[0] == asReplica {
			return runReplica(ctx, os.Stdout, args[1], args[2])
		}
		return run(ctx, os.Stdout, args)
	})
}

func run(ctx context.Context, w io.Writer, args []string) (err error) {
	flags := program.Flags()
	dsn := flags.String("dsn", "", "the `address` of a PostgreSQL server, version 15 or later (default: a temporary server)")
	tenants := flags.Int("tenants", 300, "the `number` of tenants to create and delete, 3 to 5000")
	if err := flags.Parse(w, args); err != nil {
		return err
	}
	if *tenants < 3 || *tenants > 5000 {
		return command.Usagef("--tenants is %d, must be from 3 to 5000", *tenants)
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
	c, err := newCluster(ctx, *dsn, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return c.play(ctx, *tenants)
}

// cluster is the replicas, and a client of their store that does none of their work.
type cluster struct {
	dsn      string
	store    *postgres.Store
	client   *lifecycle.Service
	replicas map[string]*replica

	mu      sync.Mutex
	w       io.Writer
	passes  int            // ended passes
	emptied map[string]int // tenants by replica
	changed chan struct{}  // closed and replaced when emptied changes
}

func newCluster(ctx context.Context, dsn string, w io.Writer) (*cluster, error) {
	s, err := open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	client, err := lifecycle.New(s, types, nil)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &cluster{dsn: dsn, store: s, client: client, replicas: map[string]*replica{}, w: w, emptied: map[string]int{}, changed: make(chan struct{})}, nil
}

func open(ctx context.Context, dsn string) (*postgres.Store, error) {
	s, err := postgres.Open(ctx, dsn, "cluster_example", nil)
	if err != nil {
		return nil, fmt.Errorf("--dsn: %w", err)
	}
	return s, nil
}

func (c *cluster) close() error {
	for _, r := range c.replicas {
		r.kill()
	}
	return errors.Join(c.client.Close(), c.store.Close())
}

func (c *cluster) play(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tenants, err := c.create(ctx, n)
	if err != nil {
		return err
	}
	c.line("%d tenants created", len(tenants))
	for _, name := range []string{"a", "b", "c"} {
		if err := c.start(name); err != nil {
			return err
		}
		c.line("replica %s started", name)
	}
	c.line("DELETE all tenants")
	if err := c.delete(ctx, tenants); err != nil {
		return err
	}
	if err := c.await(ctx, func() bool { return c.total() >= n/3 }); err != nil {
		return err
	}
	c.replicas["b"].kill()
	c.line("replica b killed (kill -9) after a third of the work")
	killed := time.Now()
	if err := c.removed(ctx, tenants); err != nil {
		return err
	}
	c.line("all tenants removed %.0f s after the kill", time.Since(killed).Seconds())
	for _, name := range []string{"a", "c"} {
		if err := c.replicas[name].stop(); err != nil {
			return err
		}
		c.line("replica %s stopped", name)
	}
	var shares []string
	for _, name := range slices.Sorted(maps.Keys(c.emptied)) {
		shares = append(shares, fmt.Sprintf("%s %d", name, c.emptied[name]))
	}
	c.line("tenants emptied: %s", strings.Join(shares, ", "))
	return nil
}

// create creates tenants with one document each. It includes tenants of an interrupted run.
func (c *cluster) create(ctx context.Context, n int) ([]namespace.Namespace, error) {
	documents, err := c.client.Registry().Content(types[0].Name())
	if err != nil {
		return nil, err
	}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error {
			ns, err := c.client.Create(within, fmt.Sprintf("tenant-%04d", i))
			if errors.Is(err, namespace.ErrExists) {
				return nil
			}
			if err == nil {
				_, err = documents.Create(within, ns.Name, registry.Object{Meta: namespace.Meta{Name: "document"}})
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	list, err := c.client.Registry().List(ctx, registry.ListOptions{})
	return list.Items, err
}

func (c *cluster) delete(ctx context.Context, tenants []namespace.Namespace) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, tenant := range tenants {
		group.Go(func() error {
			_, err := c.client.Registry().Delete(ctx, tenant.Name, namespace.Preconditions{UID: tenant.UID})
			if errors.Is(err, namespace.ErrNotFound) {
				return nil
			}
			return err
		})
	}
	return group.Wait()
}

func (c *cluster) removed(ctx context.Context, tenants []namespace.Namespace) error {
	for _, tenant := range tenants {
		if err := c.client.WaitRemoved(ctx, tenant.Name, tenant.UID); err != nil {
			return err
		}
	}
	return nil
}

// await waits until a condition on the replicas' reports holds.
func (c *cluster) await(ctx context.Context, condition func() bool) error {
	for {
		c.mu.Lock()
		done, changed := condition(), c.changed
		c.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// total returns the number of emptied tenants. The caller holds c.mu.
func (c *cluster) total() int {
	n := 0
	for _, emptied := range c.emptied {
		n += emptied
	}
	return n
}

// report handles a line of output of a replica.
func (c *cluster) report(name, line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch line {
	case reportPass:
		c.passes++
	case reportEmptied:
		c.emptied[name]++
		close(c.changed)
		c.changed = make(chan struct{})
	default:
		fmt.Fprintf(c.w, "replica %s: %s\n", name, line)
	}
}

func (c *cluster) line(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.w, format+"\n", args...)
}
