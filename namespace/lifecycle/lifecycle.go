// Package lifecycle is the front door: one constructor for an ordinary service whose
// tenants are namespaces.
//
//	tenants, err := lifecycle.New(db, types, nil)
//
// New takes a store and the types of content. The [Service] that it returns creates and deletes
// namespaces; [Service.Registry] lists, watches and updates them. [Service.Run] deletes the
// content of terminating namespaces, and [Service.Handler] serves pages that show why a
// namespace still exists. [Content] reads and writes content as Go structs.
//
// The package only connects others. A host that needs a part in another way uses packages
// registry, controller, hold, parties, replicas, explain and debug directly.
package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/members/replicas"
	"github.com/nslifecycle/nslifecycle/namespace/observe/debug"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/operate/hold"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// Options tunes a [Service]. Zero fields take the defaults of the packages that they are for.
type Options struct {
	// Registry configures the namespaces. Its Finalizer and Prefix apply to every part of the
	// service. New adds its types to Registry.Types.
	Registry registry.Options
	// Sources are the content outside of the store, such as files or a search index. Like
	// the types in the store, they are deleted in parallel unless Source.After orders them.
	Sources []deleter.Source
	// Deleter bounds the concurrent calls of one pass, and more.
	Deleter deleter.Options
	// Controller configures the passes. With Divide, New sets its Division.
	Controller controller.Options
	// Hold configures the end of delayed deletions.
	Hold hold.Options
	// Divide shares the work between the processes that run the service on one store. Each of
	// them then writes to the store every two seconds. Without Divide every process works on
	// every namespace, which is safe but repeats the work (rule R11).
	Divide bool
	// Contact is the address of the service's operators, for explanations; see [parties.Options].
	Contact string
	// Pages configures the pages of [Service.Handler]. New sets its Parties and Records.
	Pages debug.Options
	// Logger receives the log of the controller and of the holds, unless these have a
	// Logger of their own. Nil discards it.
	Logger *slog.Logger
}

// Service keeps namespaces and deletes them completely. Make one with [New]. Its methods are
// safe for concurrent use.
type Service struct {
	registry   *registry.Registry
	controller *controller.Controller
	deleter    *deleter.Composed
	replica    *replicas.Replica // nil if the work is not divided
	explainer  *explain.Explainer
	pages      *debug.Handler
	hold       hold.Options
	announce   func(ctx context.Context) error
}

// New returns a service over s, with content of types in the store. A nil opts means the
// defaults. New reads and writes nothing. It returns an error for an option out of range, and
// for sources that [deleter.New] would refuse beside the namespaced types: a service
// without content, two sources for one type, a type in After without a source, or a cycle.
// The caller closes the service, then s.
func New(s store.Store, types []registry.Type, opts *Options) (*Service, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Registry.Types = slices.Concat(o.Registry.Types, types)
	r, err := registry.New(s, &o.Registry)
	if err != nil {
		return nil, err
	}
	service, err := newService(s, r, o)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return service, nil
}

func newService(s store.Store, r *registry.Registry, o Options) (*Service, error) {
	if o.Controller.Logger == nil {
		o.Controller.Logger = o.Logger
	}
	if o.Hold.Logger == nil {
		o.Hold.Logger = o.Logger
	}
	if err := o.Hold.Validate(); err != nil {
		return nil, err
	}
	announced := parties.Options{Prefix: o.Registry.Prefix, Contact: o.Contact}
	if err := announced.Validate(); err != nil {
		return nil, err
	}
	if err := o.checkSources(r); err != nil {
		return nil, err
	}
	d, err := r.Deleter(o.deleter())
	if err != nil {
		return nil, err
	}
	party := r.Party()
	var replica *replicas.Replica
	if o.Divide {
		replica, err = replicas.New(s, string(party.Finalizer), &replicas.Options{Prefix: o.Registry.Prefix})
		if err != nil {
			return nil, err
		}
		o.Controller.Division = replica
	}
	recorder := explain.NewRecorder()
	o.Controller.Hooks = append([]controller.Hooks{recorder.Hooks(party.Finalizer)}, o.Controller.Hooks...)
	c, err := controller.New(r, d, party, &o.Controller)
	if err != nil {
		return nil, err
	}
	service := &Service{
		registry: r, deleter: d, controller: c, replica: replica, hold: o.Hold,
		announce: func(ctx context.Context) error { return parties.Announce(ctx, s, party.Finalizer, &announced) },
	}
	return service, service.observe(s, o, recorder)
}

// checkSources refuses sources with a mistake. The deleter of a registry reads its sources in
// each pass, so that it would report the mistake as a failure of every deletion.
func (o Options) checkSources(r *registry.Registry) error {
	var content struct{ deleter.Content } // never called
	sources := slices.Clone(o.Sources)
	for _, t := range r.Types() {
		if t.Namespaced {
			sources = append(sources, deleter.Source{Resource: t.Name(), Content: content})
		}
	}
	_, err := deleter.New(sources, &o.Deleter)
	return err
}

// deleter returns the options of a deleter of the content in the store and of o.Sources.
func (o Options) deleter() *registry.DeleterOptions {
	d := registry.DeleterOptions{Options: o.Deleter}
	if len(o.Sources) > 0 {
		d.Sources = func(_ context.Context, stored []deleter.Source) ([]deleter.Source, error) {
			return slices.Concat(stored, o.Sources), nil
		}
	}
	return &d
}

// observe sets the explainer and the pages.
func (s *Service) observe(db store.Store, o Options, recorder *explain.Recorder) error {
	log, err := audit.New(db, &audit.Options{Prefix: o.Registry.Prefix})
	if err != nil {
		return err
	}
	known := func(ctx context.Context) ([]parties.Party, error) {
		return parties.List(ctx, db, o.Registry.Prefix)
	}
	s.explainer = explain.New(s.registry, &explain.Options{
		Recorder: recorder, Parties: known, Records: log.List, Record: log.Get,
		Primary: s.registry.Party().Finalizer,
	})
	o.Pages.Parties, o.Pages.Records = known, log.List
	s.pages, err = debug.New(s.registry, s.explainer, &o.Pages)
	return err
}

// Run finalizes terminating namespaces, ends delayed deletions, and announces this process as the
// party of the service's finalizer, until ctx ends. It then waits for every goroutine that it
// started and returns nil, or the cause if it could not record that this process has left. Of the
// failures of the store only [store.ErrClosed] ends it, within about ten seconds. A concurrent
// second Run returns [controller.ErrRunning].
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.runController(ctx) })
	group.Go(func() error { return hold.Run(ctx, s.registry, &s.hold) })
	group.Go(func() error { return s.announce(ctx) })
	return group.Wait()
}

// runController runs the controller. A replica leaves its group after the controller has
// stopped, so that no other process takes over a namespace with a running pass.
func (s *Service) runController(ctx context.Context) error {
	if s.replica == nil {
		return s.controller.Run(ctx)
	}
	member, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	left := make(chan error, 1)
	go func() {
		err := s.replica.Run(member)
		stop(err)
		left <- err
	}()
	err := s.controller.Run(ctx)
	leave()
	return errors.Join(err, <-left)
}

// Handler returns the pages that list the terminating namespaces and explain why each of them
// still exists; see package debug. It serves requests with any path, and does not authenticate
// clients: restrict access as for net/http/pprof. Requests for other host names than localhost need
// [debug.Options].Hosts. [http.Server.Shutdown] waits for open pages, so end them first:
// server.RegisterOnShutdown(func() { service.Close() }).
func (s *Service) Handler() http.Handler { return s.pages }

// Explain diagnoses why the namespace still exists, with remedies. An unknown name yields a
// diagnosis, not an error; see [explain.Explainer.Explain].
func (s *Service) Explain(ctx context.Context, name string) (explain.Diagnosis, error) {
	return s.explainer.Explain(ctx, name)
}

// Deleter returns the deleter of all content, for packages plan and force.
func (s *Service) Deleter() *deleter.Composed { return s.deleter }

// Create creates the namespace and returns it as stored. It returns the errors of
// [registry.Registry.Create].
func (s *Service) Create(ctx context.Context, name string) (namespace.Namespace, error) {
	return s.registry.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: name}})
}

// Delete begins the deletion of the namespace and returns it as stored. From then on no
// content can be created in it (rule R6). A namespace with a grace stays Active and is put on hold
// instead; Run begins its deletion at the end of the hold (package declare). Delete returns the
// errors of [registry.Registry.Delete].
func (s *Service) Delete(ctx context.Context, name string) (namespace.Namespace, error) {
	return s.registry.Delete(ctx, name, namespace.Preconditions{})
}

// WaitRemoved waits until this incarnation of the namespace is removed; see
// [registry.Registry.WaitRemoved].
func (s *Service) WaitRemoved(ctx context.Context, name, uid string) error {
	return s.registry.WaitRemoved(ctx, name, uid)
}

// Registry returns the namespaces, to list, watch and update them.
func (s *Service) Registry() *registry.Registry { return s.registry }

// Close ends the watches and the open pages. The store stays open. Call it once the context of Run
// has ended; Run need not have returned.
func (s *Service) Close() error {
	return errors.Join(s.pages.Close(), s.registry.Close())
}
