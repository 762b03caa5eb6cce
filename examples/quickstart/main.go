// Quickstart shows the whole life of a namespace in one file: a namespace that two parties hold is filled,
// deleted while a client keeps creating content in it, emptied by both parties, and removed.
//
//	go run ./examples/quickstart
//
// Kill it at any point, even with kill -9, and restart it: it picks up where it left off.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store/bolt"
)

// Two parties hold the namespace. Each deletes its own types of content.
const openshift finalizer.Name = "openshift.com/origin"

var (
	builds = registry.Type{Group: "openshift.com", Version: "v1", Resource: "builds", Kind: "Build", Namespaced: true}
	routes = registry.Type{Group: "openshift.com", Version: "v1", Resource: "routes", Kind: "Route", Namespaced: true}
	pods   = registry.Type{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}
	events = registry.Type{Version: "v1", Resource: "events", Kind: "Event", Namespaced: true}

	parties = map[finalizer.Name][]registry.Type{
		finalizer.Kubernetes: {pods, events},
		openshift:            {builds, routes},
	}
)

var program = command.Program{
	Name: "quickstart",
	About: `
Quickstart creates a namespace that two parties hold, fills it, deletes it while a client keeps
creating content in it, and waits until both parties have emptied it.

    go run ./examples/quickstart
    go run ./examples/quickstart --objects 100000 --data large.db
`,
	Resume: "restart it with the same file, and it picks up where it left off",
}

func main() {
	program.Main(func(ctx context.Context, args []string) error { return run(ctx, os.Stdout, args) })
}

func run(ctx context.Context, w io.Writer, args []string) (err error) {
	flags := program.Flags()
	data := flags.String("data", "", "the `file` of the store (default: quickstart.db in "+command.StateAbout+")")
	objects := flags.Int("objects", 300, "the `number` of objects to create in the namespace")
	if err := flags.Parse(w, args); err != nil {
		return err
	}
	if *objects < 0 {
		return command.Usagef("--objects is %d, must be at least 0", *objects)
	}
	if *data == "" {
		if *data, err = command.State("quickstart.db"); err != nil {
			return fmt.Errorf("--data: %w", err)
		}
	}
	s, err := bolt.Open(*data, nil)
	if err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r, err := registry.New(s, &registry.Options{Types: []registry.Type{builds, routes, pods, events}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	t := story{registry: r, w: w, start: time.Now()}
	return t.play(ctx, *objects)
}

type story struct {
	registry *registry.Registry
	start    time.Time

	mu sync.Mutex
	w  io.Writer
}

func (t *story) play(ctx context.Context, objects int) error {
	ns, err := t.create(ctx)
	if err != nil {
		return err
	}
	if ns.Phase() == phase.Active {
		if err := t.fill(ctx, ns.Name, objects); err != nil {
			return err
		}
	}
	working, stop := context.WithCancel(ctx)
	group, working := errgroup.WithContext(working)
	for party, types := range parties {
		c, err := t.controller(party, types)
		if err != nil {
			stop()
			return errors.Join(err, group.Wait())
		}
		group.Go(func() error { return c.Run(working) })
	}
	group.Go(func() error { return t.intrude(working, ns.Name) })
	group.Go(func() error {
		defer stop()
		return t.remove(working, ns)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return t.checkRemoved(ctx, ns)
}

// create creates the namespace, or returns the namespace that an interrupted run left.
func (t *story) create(ctx context.Context) (namespace.Namespace, error) {
	ns := namespace.Namespace{Meta: namespace.Meta{Name: "development"}}
	ns.Spec.Finalizers = finalizer.NewSet(openshift, finalizer.Kubernetes)
	state := "created"
	created, err := t.registry.Create(ctx, ns)
	if errors.Is(err, namespace.ErrExists) {
		state = "left by an interrupted run"
		created, err = t.registry.Get(ctx, ns.Name)
	}
	if err == nil {
		t.line("namespace %s %s: %s, finalizers %q", created.Name, state, created.Phase(), created.Spec.Finalizers.Names())
	}
	return created, err
}

// fill creates objects whose names follow from their numbers: an interrupted run may have created
// some of them.
func (t *story) fill(ctx context.Context, ns string, objects int) error {
	types := []registry.Type{pods, builds, routes}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range objects {
		if within.Err() != nil {
			break
		}
		group.Go(func() error {
			content, err := t.registry.Content(types[i%len(types)].Name())
			if err != nil {
				return err
			}
			_, err = content.Create(within, ns, registry.Object{Meta: namespace.Meta{Name: fmt.Sprintf("object-%06d", i)}})
			if errors.Is(err, namespace.ErrExists) {
				return nil
			}
			return err
		})
	}
	if err := errors.Join(group.Wait(), context.Cause(ctx)); err != nil {
		return err
	}
	t.line("%d objects of %d types exist", objects, len(types))
	return nil
}

// controller returns the controller of one party.
func (t *story) controller(party finalizer.Name, types []registry.Type) (*controller.Controller, error) {
	var o registry.DeleterOptions
	for _, resource := range types {
		o.Types = append(o.Types, resource.Name())
	}
	d, err := t.registry.Deleter(&o)
	if err != nil {
		return nil, err
	}
	return controller.New(t.registry, d, namespace.Party{Finalizer: party}, &controller.Options{Hooks: []controller.Hooks{{
		PassEnded: func(_ context.Context, _ namespace.Ref, result pass.Result, err error, _ time.Duration) {
			for _, r := range result.Report.Results {
				if r.Deleted > 0 {
					t.line("%s: deleted %d %s", party, r.Deleted, r.Resource)
				}
			}
			switch {
			case err != nil:
				t.line("%s: pass failed: %v", party, err)
			case slices.Contains([]pass.Outcome{pass.Finalized, pass.Removed}, result.Outcome):
				t.line("%s: no content left, finalizer removed", party)
			}
		},
	}}})
}

// intrude creates events until it is refused.
func (t *story) intrude(ctx context.Context, ns string) error {
	content, err := t.registry.Content(events.Name())
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		_, err := content.Create(ctx, ns, registry.Object{Meta: namespace.Meta{GenerateName: "intruder-"}})
		switch {
		case errors.Is(err, namespace.ErrTerminating), errors.Is(err, namespace.ErrNotFound):
			t.line("create refused: %v", err)
			return nil
		case err != nil && ctx.Err() == nil:
			return err
		}
	}
	return nil
}

// remove deletes the namespace and waits until it is removed.
func (t *story) remove(ctx context.Context, ns namespace.Namespace) error {
	if ns.Phase() == phase.Active {
		t.line("DELETE namespace %s", ns.Name)
		if _, err := t.registry.Delete(ctx, ns.Name, namespace.Preconditions{UID: ns.UID}); err != nil {
			return err
		}
	}
	return t.registry.WaitRemoved(ctx, ns.Name, ns.UID)
}

// checkRemoved checks that no content is left.
func (t *story) checkRemoved(ctx context.Context, ns namespace.Namespace) error {
	left := 0
	for _, resource := range t.registry.Types() {
		content, err := t.registry.Content(resource.Name())
		if err != nil {
			return err
		}
		list, err := content.List(ctx, ns.Name, registry.ListOptions{})
		if err != nil {
			return err
		}
		left += len(list.Items)
	}
	t.line("namespace %s removed, %d objects left", ns.Name, left)
	if left > 0 {
		return fmt.Errorf("%d objects outlived their namespace", left)
	}
	return nil
}

func (t *story) line(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.w, "%7.1f ms  %s\n", time.Since(t.start).Seconds()*1000, fmt.Sprintf(format, args...))
}
