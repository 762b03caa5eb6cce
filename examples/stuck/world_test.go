package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/operate/hold"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// The settings of controllers and parties.
const (
	maxDelay = time.Minute
	patience = time.Minute // a quarter of it for each call to a source
	beat     = 10 * time.Second
)

// world is the environment of a scenario: a store, a registry over it, and agents that
// delete the content of namespaces.
type world struct {
	ctx      context.Context
	store    *memory.Store
	registry *registry.Registry
	recorder *explain.Recorder
	audit    *audit.Log
	agents   map[finalizer.Name]*agent
	others   []func() // stop other goroutines
	forced   string   // audit record of the last force

	mu      sync.Mutex
	explain *explain.Explainer
	sources map[namespace.ResourceType]*behavior
	after   map[namespace.ResourceType][]namespace.ResourceType
	hidden  map[string]error // groups whose discovery fails
	rivals  map[string]bool  // before each write of an agent, another client writes these namespaces
}

// types are the types of content.
var types = []registry.Type{
	{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true},
	{Version: "v1", Resource: "services", Kind: "Service", Namespaced: true},
	{Version: "v1", Resource: "secrets", Kind: "Secret", Namespaced: true},
	{Group: "openshift.com", Version: "v1", Resource: "builds", Kind: "Build", Namespaced: true},
	{Group: "metrics.example.com", Version: "v1", Resource: "samples", Kind: "Sample", Namespaced: true},
	{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true},
	{Group: "example.com", Version: "v1", Resource: "databases", Kind: "Database", Namespaced: true},
	{Group: "example.com", Version: "v1", Resource: "networks", Kind: "Network", Namespaced: true},
	{Group: "example.com", Version: "v1", Resource: "messages", Kind: "Message", Namespaced: true},
}

// newWorld returns an empty world. It ends with ctx or close.
func newWorld(ctx context.Context) (*world, error) {
	s, err := memory.New(nil)
	if err != nil {
		return nil, err
	}
	r, err := registry.New(s, &registry.Options{Types: types})
	if err != nil {
		return nil, err
	}
	w := &world{
		store:    s,
		registry: r,
		recorder: explain.NewRecorder(),
		agents:   map[finalizer.Name]*agent{},
		sources:  map[namespace.ResourceType]*behavior{},
		after:    map[namespace.ResourceType][]namespace.ResourceType{},
		hidden:   map[string]error{},
		rivals:   map[string]bool{},
	}
	ctx, stop := context.WithCancel(ctx)
	w.ctx, w.others = ctx, []func(){stop}
	records, err := audit.New(s, nil)
	if err != nil {
		return nil, err
	}
	w.audit = records
	w.beside(func(ctx context.Context) { _ = hold.Run(ctx, r, nil) }) // ends with ctx only
	w.explain = explain.New(r, &explain.Options{
		Recorder: w.recorder,
		Records:  records.List,
		Record:   records.Get,
		Parties:  w.parties,
	})
	for _, t := range types {
		w.sources[t.Name()] = &behavior{}
	}
	return w, nil
}

func (w *world) close() error {
	for _, other := range w.others {
		other()
	}
	for _, a := range w.agents {
		a.end(false)
	}
	return errors.Join(w.registry.Close(), w.store.Close())
}

func (w *world) parties(ctx context.Context) ([]parties.Party, error) {
	return parties.List(ctx, w.store, "")
}

func (w *world) diagnose(ctx context.Context, name string) (explain.Diagnosis, error) {
	return w.explain.Explain(ctx, name)
}

// beside runs f until the world ends.
func (w *world) beside(f func(ctx context.Context)) {
	var done sync.WaitGroup
	done.Go(func() { f(w.ctx) })
	w.others = append(w.others, done.Wait)
}

func resource(name string) namespace.ResourceType {
	resource, group, _ := strings.Cut(name, ".")
	return namespace.ResourceType{Name: resource, Group: group}
}

func (w *world) source(name string) (*behavior, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.sources[resource(name)]; f != nil {
		return f, nil
	}
	return nil, fmt.Errorf("there is no type %q", name)
}

// discover returns the sources whose groups are not hidden, and an error for the hidden
// groups.
func (w *world) discover(_ context.Context, sources []deleter.Source) ([]deleter.Source, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []deleter.Source
	failed := map[string]bool{}
	var partly deleter.DiscoveryError
	for _, source := range sources {
		r := source.Resource
		if err := w.hidden[r.Group]; err != nil {
			if !failed[r.Group] {
				partly.Groups = append(partly.Groups, deleter.GroupError{Group: r.Group, Err: err})
			}
			failed[r.Group] = true
			continue
		}
		f := faulty{source.Content.(content), w.sources[r]}
		if f.outside != nil {
			f.content, source.Final = f.outside, false
		}
		source.Content, source.After = f, w.after[r]
		found = append(found, source)
	}
	if len(failed) > 0 {
		return found, &partly
	}
	return found, nil
}

// contested is a registry in which another client writes to contested namespaces just before
// each write of an agent.
type contested struct {
	*registry.Registry
	w *world
}

// UpdateStatus implements [controller.Namespaces].
func (c contested) UpdateStatus(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	if err := c.rival(ctx, ns.Name); err != nil {
		return ns, err
	}
	return c.Registry.UpdateStatus(ctx, ns)
}

// Finalize implements [controller.Namespaces].
func (c contested) Finalize(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	if err := c.rival(ctx, ns.Name); err != nil {
		return ns, err
	}
	return c.Registry.Finalize(ctx, ns)
}

func (c contested) rival(ctx context.Context, name string) error {
	c.w.mu.Lock()
	at := c.w.rivals[name]
	c.w.mu.Unlock()
	if !at {
		return nil
	}
	ns, err := c.Get(ctx, name)
	if err != nil {
		return err
	}
	ns.Labels = map[string]string{"example.com/seen-at": ns.ResourceVersion}
	_, err = c.Update(ctx, ns)
	return err
}
