package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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

// tempo is how fast a world goes.
type tempo struct {
	Wait     time.Duration // the longest that a script waits; zero: as long as it says
	MaxDelay time.Duration // of controllers
	Patience time.Duration // of controllers, with sources; a quarter of it for each call
	Beat     time.Duration // of agents that announce themselves
	Slow     int           // what has a pace is so many times slower; zero: as fast as it is
}

// usual is the tempo of services, for tests in virtual time.
var usual = tempo{MaxDelay: time.Minute, Patience: time.Minute, Beat: 10 * time.Second}

// hurried is the tempo of the program: a visitor does not wait for a day.
var hurried = tempo{Wait: 2 * time.Second, MaxDelay: 400 * time.Millisecond, Patience: 500 * time.Millisecond, Beat: 100 * time.Millisecond}

// leisurely is the tempo of the browser, where a visitor looks around.
var leisurely = tempo{Wait: 2 * time.Second, MaxDelay: 3 * time.Second, Patience: 20 * time.Second, Beat: time.Second, Slow: 25}

// world is what an exhibit plays in: a store of its own, a registry over it, and agents
// that empty namespaces.
type world struct {
	ctx      context.Context
	tempo    tempo
	store    *memory.Store
	registry *registry.Registry
	recorder *explain.Recorder
	audit    *audit.Log
	agents   map[finalizer.Name]*agent
	others   []func() // end whoever else is at work
	forced   string   // the record of the last force
	skipped  atomic.Int64

	mu      sync.Mutex
	explain *explain.Explainer
	sources map[namespace.ResourceType]*behavior
	after   map[namespace.ResourceType][]namespace.ResourceType
	hidden  map[string]error // groups that cannot be discovered
	rivals  map[string]bool  // namespaces that somebody else writes again and again
}

// types are what can be in a namespace of a world.
var types = []registry.ResourceType{
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

// newWorld returns an empty world, which ends with ctx or close.
func newWorld(ctx context.Context, pace tempo) (*world, error) {
	s, err := memory.New(nil)
	if err != nil {
		return nil, err
	}
	r, err := registry.New(s, &registry.Options{Types: types})
	if err != nil {
		return nil, err
	}
	w := &world{
		tempo:    pace,
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

// close ends everything in the world.
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
	return parties.List(ctx, w.store, nil)
}

// diagnose explains a namespace. Where nobody is at work, and time was skipped for that,
// it is explained as of so much later.
func (w *world) diagnose(ctx context.Context, name string) (explain.Diagnosis, error) {
	skipped := time.Duration(w.skipped.Load())
	if skipped == 0 {
		w.mu.Lock()
		explainer := w.explain
		w.mu.Unlock()
		return explainer.Explain(ctx, name)
	}
	ns, err := w.registry.Get(ctx, name)
	if err != nil {
		return explain.Diagnosis{}, err
	}
	known, err := w.parties(ctx)
	return explain.Explain(explain.Input{
		Name: name, Namespace: ns, History: w.recorder.History(name, ns.UID), Parties: known, Now: time.Now().Add(skipped),
	}), err
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

// discover returns the sources of some types, as far as their groups can be discovered.
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

// contested is the registry as agents see it in a world with rivals: whoever is about
// to write finds that somebody else has been there just before.
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
