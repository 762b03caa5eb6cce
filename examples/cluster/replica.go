package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/members/replicas"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// asReplica, as the first argument, makes the program one replica.
const asReplica = "replica"

// types is what tenants have.
var types = []registry.ResourceType{
	{Group: "example.com", Version: "v1", Resource: "documents", Kind: "Document", Namespaced: true},
	{Group: "example.com", Version: "v1", Resource: "invoices", Kind: "Invoice", Namespaced: true},
	{Group: "example.com", Version: "v1", Resource: "users", Kind: "User", Namespaced: true},
}

// service is one replica of the service.
type service struct {
	backend
	name string
	beat time.Duration
	call time.Duration // each call to content takes so long at least
	log  *slog.Logger  // tells the parent what happens
}

// runReplica is the program of a replica: it works until ctx ends, or the parent
// closes its standard input, and then leaves in good order.
func runReplica(ctx context.Context, w io.Writer, args []string) error {
	s := service{log: slog.New(slog.NewJSONHandler(w, nil))}
	flags := flag.NewFlagSet(asReplica, flag.ContinueOnError)
	flags.StringVar(&s.kind, "store", "", "etcd or postgres")
	flags.StringVar(&s.address, "address", "", "where the store is")
	flags.StringVar(&s.name, "name", "", "the name of the replica")
	flags.DurationVar(&s.beat, "beat", beat, "how often it shows that it lives")
	flags.DurationVar(&s.call, "call", 10*time.Millisecond, "how long a call to content takes at least")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is what counts
		cancel()
	}()
	return s.run(ctx)
}

// run is all that a service needs to be one of several: the replica is the
// controller's division. The controller ends first, so that nobody takes over what it
// still does.
func (s *service) run(ctx context.Context) (err error) {
	opened, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	r, err := registry.New(opened, &registry.Options{Types: types})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()

	party := r.Party()
	replica, err := replicas.New(opened, string(party.Finalizer), &replicas.Options{
		Label: s.name, Beat: s.beat, Hooks: s.membership()})
	if err != nil {
		return err
	}
	d, err := s.deleter(r)
	if err != nil {
		return err
	}
	c, err := controller.New(r, d, party, &controller.Options{Division: replica, Hooks: []controller.Hooks{s.passes()}, Logger: s.log})
	if err != nil {
		return err
	}

	member, leave := context.WithCancel(context.WithoutCancel(ctx))
	left := make(chan error, 1)
	go func() { left <- replica.Run(member) }()
	err = c.Run(ctx)
	leave()
	return errors.Join(err, <-left)
}

// The messages of a replica to its parent.
const (
	saidJoined   = "joined"
	saidLapsed   = "lapsed"
	saidMembers  = "members"
	saidExpelled = "expelled"
	saidFailed   = "failed"
	saidStarted  = "pass started"
	saidEnded    = "pass ended"
	saidEmptied  = "emptied"
	saidCall     = "call"
	saidDivided  = "the division of namespaces changed" // the controller's own
)

func (s *service) membership() replicas.Hooks {
	return replicas.Hooks{
		Joined:   func(replicas.Member) { s.log.Info(saidJoined) },
		Lapsed:   func(why error) { s.log.Info(saidLapsed, "why", why.Error()) },
		Members:  func(list []replicas.Member) { s.log.Info(saidMembers, "members", len(list)) },
		Expelled: func(m replicas.Member) { s.log.Info(saidExpelled, "member", m.Label) },
		Failed:   func(err error) { s.log.Info(saidFailed, "why", err.Error()) },
	}
}

func (s *service) passes() controller.Hooks {
	return controller.Hooks{
		PassStarted: func(ctx context.Context, ref namespace.Ref) context.Context {
			s.log.Info(saidStarted, "namespace", ref.Name)
			return ctx
		},
		PassEnded: func(_ context.Context, ref namespace.Ref, result pass.Result, _ error, _ time.Duration) {
			s.log.Info(saidEnded, "namespace", ref.Name, "outcome", result.Outcome.String())
		},
		Finalized: func(ref namespace.Ref) { s.log.Info(saidEmptied, "namespace", ref.Name) },
	}
}

// deleter empties tenants, and tells of each call that it makes.
func (s *service) deleter(r *registry.Registry) (deleter.Deleter, error) {
	return r.Deleter(&registry.DeleterOptions{Sources: func(_ context.Context, sources []deleter.Source) ([]deleter.Source, error) {
		for i, source := range sources {
			sources[i].Content = &remote{service: s, resource: source.Resource, all: source.Content}
		}
		return sources, nil
	}})
}

// remote is content that answers like a remote service: each call takes a while.
type remote struct {
	*service
	resource namespace.ResourceType
	all      deleter.Content
}

func (r *remote) pause(ctx context.Context, target deleter.Target) error {
	r.log.Info(saidCall, "namespace", target.Namespace, "type", r.resource.String())
	select {
	case <-time.After(r.call):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// List implements [deleter.Content].
func (r *remote) List(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	if err := r.pause(ctx, target); err != nil {
		return deleter.Page{}, err
	}
	return r.all.List(ctx, target, limit, next)
}

// Delete implements [deleter.Content].
func (r *remote) Delete(ctx context.Context, target deleter.Target, name, uid string) error {
	if err := r.pause(ctx, target); err != nil {
		return err
	}
	return r.all.Delete(ctx, target, name, uid)
}

// DeleteCollection implements [deleter.CollectionDeleter].
func (r *remote) DeleteCollection(ctx context.Context, target deleter.Target) (int, bool, error) {
	collection, ok := r.all.(deleter.CollectionDeleter)
	if !ok {
		return 0, false, fmt.Errorf("delete all %v at once: %w", r.resource, deleter.ErrNotSupported)
	}
	if err := r.pause(ctx, target); err != nil {
		return 0, false, err
	}
	return collection.DeleteCollection(ctx, target)
}

// Wait implements [deleter.Notifier].
func (r *remote) Wait(ctx context.Context, target deleter.Target, seen string) error {
	notifier, ok := r.all.(deleter.Notifier)
	if !ok {
		return fmt.Errorf("wait for %v: %w", r.resource, deleter.ErrNotSupported)
	}
	return notifier.Wait(ctx, target, seen)
}
