package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/postgres"
	"github.com/nslifecycle/nslifecycle/store/postgres/guard"
)

// service is everything that the program puts together.
type service struct {
	tenants *registry.Registry
	orders  *orders
	w       io.Writer
}

func tell(ctx context.Context, w io.Writer, c config) (err error) {
	pool, err := pgxpool.New(ctx, c.dsn)
	if err != nil {
		return command.About("--dsn", err)
	}
	defer pool.Close()
	s, err := postgres.New(ctx, pool, c.schema, nil)
	if err != nil {
		return command.About("--dsn, --schema", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	tenants, err := registry.New(s, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tenants.Close()) }()
	g, err := guard.New(s, "")
	if err != nil {
		return err
	}
	o, err := newOrders(ctx, pool, g, c.schema+"_host")
	if err != nil {
		return err
	}
	return (&service{tenants: tenants, orders: o, w: w}).story(ctx)
}

// story deletes the tenant acme while orders for it pour in.
func (s *service) story(ctx context.Context) error {
	for _, name := range []string{"acme", "globex"} {
		_, err := s.tenants.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: name}})
		if err != nil && !errors.Is(err, namespace.ErrExists) {
			return err
		}
	}
	if err := s.orders.create(ctx, pgx.ReadCommitted, "globex", "anvil"); err != nil {
		return err
	}
	fmt.Fprintln(s.w, "tenants acme and globex are Active")
	writers := s.pour(ctx, "acme")
	writers.begun.Wait()
	if _, err := s.tenants.Delete(ctx, "acme", namespace.Preconditions{}); err != nil {
		return err
	}
	final, err := s.orders.count(ctx, "acme")
	if err != nil {
		return err
	}
	fmt.Fprintln(s.w, "tenant acme is Terminating")
	if err := writers.result(); err != nil {
		return err
	}
	after, err := s.orders.count(ctx, "acme")
	if err != nil {
		return err
	}
	fmt.Fprintf(s.w, "orders created since it is Terminating: %d\n", after-final)
	if err := s.control(ctx); err != nil {
		return err
	}
	return s.look(ctx)
}

// pouring is writers at work.
type pouring struct {
	begun, running sync.WaitGroup
	errs           []error
}

// pour has writers create orders at every isolation level until they are refused.
func (s *service) pour(ctx context.Context, tenant string) *pouring {
	levels := []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
	const each = 300 // orders of a writer before the story goes on: more than one batch in all
	p := &pouring{errs: make([]error, len(levels))}
	p.begun.Add(len(levels))
	for i, level := range levels {
		p.running.Go(func() {
			begun := sync.OnceFunc(p.begun.Done)
			defer begun() // also when it is refused before
			for n := 1; p.errs[i] == nil; n++ {
				p.errs[i] = s.orders.create(ctx, level, tenant, fmt.Sprintf("item %d", n))
				if n == each {
					begun()
				}
			}
		})
	}
	return p
}

// result waits until all writers were refused, as they should be.
func (p *pouring) result() error {
	p.running.Wait()
	for _, err := range p.errs {
		if !errors.Is(err, namespace.ErrTerminating) {
			return fmt.Errorf("an order was refused for another reason: %w", err)
		}
	}
	return nil
}

// control runs the controller until acme is gone.
func (s *service) control(ctx context.Context) error {
	d, err := s.tenants.Deleter(&registry.DeleterOptions{Sources: func(_ context.Context, sources []deleter.Source) ([]deleter.Source, error) {
		return append(sources, deleter.Source{Resource: ordersType, Content: deleter.Funcs{Delete: s.orders.empty}.Content(), Final: true}), nil
	}})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c, err := controller.New(s.tenants, d, s.tenants.Party(), &controller.Options{
		Hooks: []controller.Hooks{{Removed: func(ref namespace.Ref) {
			fmt.Fprintf(s.w, "tenant %s is removed\n", ref.Name)
			stop() // this program has seen enough
		}}},
	})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// look tells what is left.
func (s *service) look(ctx context.Context) error {
	for _, tenant := range []string{"acme", "globex"} {
		n, err := s.orders.count(ctx, tenant)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.w, "orders of %s: %d\n", tenant, n)
	}
	err := s.orders.create(ctx, pgx.ReadCommitted, "acme", "anvil")
	if !errors.Is(err, namespace.ErrNotFound) {
		return fmt.Errorf("an order for a tenant that is gone: %w", err)
	}
	fmt.Fprintln(s.w, "one more order for acme:", err)
	return nil
}
