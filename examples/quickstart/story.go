package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store/bolt"
)

// story is one telling.
type story struct {
	config
	registry *registry.Registry
	name     string
	say      *timeline
	looked   func()        // OpenShift has looked at its content
	held     chan struct{} // closed by that: it knows now who holds what
}

// tell opens the store and tells the story from wherever it stands.
func tell(ctx context.Context, w io.Writer, c config, ns namespace.Namespace) (err error) {
	if err := command.File(c.data); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	s, err := bolt.Open(c.data, &bolt.Options{Wait: c.wait})
	if err != nil {
		return command.Opening(c.data, err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	types := slices.Concat(kubernetesTypes, openshiftTypes, []registry.ResourceType{events})
	r, err := registry.New(s, &registry.Options{Types: types})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	fmt.Fprintf(w, "data: %s\n\n", c.data)
	held := make(chan struct{})
	t := story{config: c, registry: r, name: ns.Name, say: newTimeline(w), held: held, looked: sync.OnceFunc(func() { close(held) })}
	return t.tell(ctx, ns)
}

func (t *story) tell(ctx context.Context, ns namespace.Namespace) error {
	now, err := t.begin(ctx, ns)
	if err != nil {
		return err
	}
	if now.Phase() == phase.Active {
		var stored atomic.Int64
		stop := command.Progress(ctx, os.Stderr, func() string { return fmt.Sprintf("stored %d of %d objects", stored.Load(), t.objects) })
		created, err := fill(ctx, t.registry, t.name, t.objects, t.parallelism, &stored)
		stop()
		if err != nil {
			return err
		}
		t.say.line("stored %d objects of %d types (%d were there already)", created, len(t.registry.Types())-1, t.objects-created)
	}
	if err := t.end(ctx, now); err != nil {
		return err
	}
	left, err := remaining(ctx, t.registry, t.name)
	if err != nil {
		return err
	}
	t.say.line("content left behind: %d objects", left)
	if left > 0 {
		return fmt.Errorf("%d objects outlived their namespace", left)
	}
	return nil
}

// begin creates the namespace, or finds what an earlier run left.
func (t *story) begin(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	now, err := t.registry.Create(ctx, ns)
	switch {
	case err == nil:
		t.say.state("created", now)
		return now, nil
	case !errors.Is(err, namespace.ErrExists):
		return now, err
	}
	if now, err = t.registry.Get(ctx, ns.Name); err != nil {
		return now, err
	}
	t.say.state("found, an earlier run was interrupted", now)
	return now, nil
}

// end deletes the namespace, with both parties, the archivist and the intruder at
// work, and returns when it is removed and all of them have stopped.
func (t *story) end(ctx context.Context, from namespace.Namespace) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	for _, party := range []struct {
		finalizer finalizer.Name
		types     []registry.ResourceType
	}{
		{finalizer.Kubernetes, append(slices.Clone(kubernetesTypes), events)},
		{openshift, openshiftTypes},
	} {
		c, err := t.controller(party.finalizer, party.types)
		if err != nil {
			return err
		}
		group.Go(func() error { return c.Run(ctx) })
	}
	intruder := intruder{registry: t.registry, namespace: t.name, say: t.say, refused: make(chan struct{})}
	group.Go(func() error { return intruder.run(ctx) })
	group.Go(func() error {
		defer stop() // the story is over: everybody stops
		return t.follow(ctx, from, intruder.refused)
	})
	if from.Phase() == phase.Active {
		t.say.line("DELETE namespace %q", t.name)
		only := namespace.Preconditions{UID: from.UID}
		if _, err := t.registry.Delete(ctx, t.name, only); err != nil {
			stop()
			return errors.Join(err, group.Wait())
		}
	}
	err := group.Wait()
	intruder.sum()
	return err
}

// controller returns the controller of one party, which tells what it removes.
func (t *story) controller(party finalizer.Name, types []registry.ResourceType) (*controller.Controller, error) {
	resources := make([]namespace.ResourceType, len(types))
	for i, typ := range types {
		resources[i] = typ.Name()
	}
	d, err := t.registry.Deleter(&registry.DeleterOptions{
		Options: deleter.Options{Parallelism: t.parallelism}, Types: resources,
	})
	if err != nil {
		return nil, err
	}
	return controller.New(t.registry, d, namespace.Party{Finalizer: party}, &controller.Options{
		Hooks: []controller.Hooks{{PassEnded: func(_ context.Context, _ namespace.Ref, result pass.Result, err error, _ time.Duration) {
			t.say.pass(party, result, err)
			if party == openshift {
				t.looked()
			}
		}}},
	})
}

// follow watches the namespace until it is removed, and tells each state that it
// comes to. When nobody but OpenShift holds it, OpenShift has found what the
// archivist holds, and the intruder has had its answer, the archivist has its copy.
func (t *story) follow(ctx context.Context, from namespace.Namespace, refused <-chan struct{}) error {
	last := from
	if err := t.archived(ctx, last, refused); err != nil {
		return err
	}
	watch := registry.WatchOptions{ResourceVersion: from.ResourceVersion}
	for event, err := range t.registry.Watch(ctx, watch) {
		switch {
		case err != nil:
			return err
		case event.Type == registry.Bookmark || event.Object.UID != from.UID:
			continue
		case event.Type == registry.Deleted:
			t.say.line("namespace %q is now: Terminating, finalizers []: removed from storage by that write", t.name)
			return nil
		case event.Object.Phase() == last.Phase() && event.Object.Spec.Finalizers.Equal(last.Spec.Finalizers):
			continue // only conditions changed
		}
		last = event.Object
		t.say.state("is now", last)
		if err := t.archived(ctx, last, refused); err != nil {
			return err
		}
	}
	return nil
}

// archived lets the archive go once Kubernetes' own content has gone.
func (t *story) archived(ctx context.Context, ns namespace.Namespace, refused <-chan struct{}) error {
	if ns.Phase() == phase.Active || ns.Spec.Finalizers.Has(finalizer.Kubernetes) {
		return nil
	}
	for _, first := range []<-chan struct{}{refused, t.held} {
		select {
		case <-first:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	released, err := release(ctx, t.registry, t.name)
	if released {
		t.say.line("archivist: builds.openshift.com %q is copied, its finalizer goes", archive)
	}
	return err
}
