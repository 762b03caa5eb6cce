package force_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/operate/force"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

var widgets = namespace.ResourceType{Group: "example.com", Name: "widgets"}

const (
	dead  finalizer.Name = "example.com/dead" // whose owner is gone
	alive finalizer.Name = "example.com/alive"
)

// world is a store with a registry and a log over it.
type world struct {
	t        testing.TB
	store    store.Store
	registry *registry.Registry
	content  *deleter.Composed
	log      *audit.Log
}

func newStore(t testing.TB) store.Store {
	t.Helper()
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func newWorld(t testing.TB, s store.Store) *world {
	t.Helper()
	r, err := registry.New(s, &registry.Options{Types: []registry.Type{
		{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true},
		{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true},
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	composed, err := r.Deleter(nil)
	require.NoError(t, err)
	log, err := audit.New(s, nil)
	require.NoError(t, err)
	return &world{t, s, r, composed, log}
}

func (w *world) ctx() context.Context { return context.WithoutCancel(w.t.Context()) }

// create creates a namespace with content: n widgets, of which every second is held by
// a finalizer whose owner is gone too.
func (w *world) create(name string, n int, finalizers ...finalizer.Name) namespace.Namespace {
	w.t.Helper()
	ns := namespace.Namespace{Meta: namespace.Meta{Name: name}}
	ns.Spec.Finalizers = finalizer.NewSet(finalizers...)
	ns, err := w.registry.Create(w.ctx(), ns)
	require.NoError(w.t, err)
	for i := range n {
		w.widget(name, i)
	}
	return ns
}

func (w *world) widget(ns string, i int) registry.Object {
	w.t.Helper()
	o := registry.Object{Meta: namespace.Meta{Name: fmt.Sprintf("w%06d", i)}}
	if i%2 == 1 {
		o.Finalizers = finalizer.NewSet(dead)
	}
	c, err := w.registry.Content(widgets)
	require.NoError(w.t, err)
	o, err = c.Create(w.ctx(), ns, o)
	require.NoError(w.t, err)
	return o
}

func (w *world) terminate(name string) namespace.Namespace {
	w.t.Helper()
	ns, err := w.registry.Delete(w.ctx(), name, namespace.Preconditions{})
	require.NoError(w.t, err)
	return ns
}

// finalize leaves a namespace with these finalizers only, as its owners do.
func (w *world) finalize(ns namespace.Namespace, left ...finalizer.Name) {
	w.t.Helper()
	ns = ns.DeepCopy()
	ns.Spec.Finalizers = finalizer.NewSet(left...)
	_, err := w.registry.Finalize(w.ctx(), ns)
	require.NoError(w.t, err)
}

// stuck is a terminating namespace that an owner who is gone holds, and the default
// finalizer.
func (w *world) stuck(name string, n int) namespace.Namespace {
	w.create(name, n, dead)
	return w.terminate(name)
}

func (w *world) names(ns string) []string {
	w.t.Helper()
	c, err := w.registry.Content(widgets)
	require.NoError(w.t, err)
	list, err := c.List(w.ctx(), ns, registry.ListOptions{})
	require.NoError(w.t, err)
	names := []string{}
	for _, o := range list.Items {
		names = append(names, o.Name)
	}
	return names
}

func (w *world) gone(name, uid string) bool {
	w.t.Helper()
	n, err := w.registry.Get(w.ctx(), name)
	if err == nil {
		return n.UID != uid
	}
	require.ErrorIs(w.t, err, namespace.ErrNotFound)
	return true
}

// actions returns the actions of the records of a name, each with the index of the record
// that it follows.
func (w *world) actions(name string) []string {
	w.t.Helper()
	records, err := w.log.List(w.ctx(), name)
	require.NoError(w.t, err)
	var texts []string
	at := map[string]int{}
	for i, r := range records {
		at[r.ID] = i
		text := string(r.Action)
		if r.Follows != "" {
			text += fmt.Sprintf(" %d", at[r.Follows])
		}
		texts = append(texts, text)
	}
	return texts
}

// request drops all that holds a namespace of stuck.
func request(ns namespace.Namespace) force.Request {
	return force.Request{Name: ns.Name, UID: ns.UID, Finalizers: ns.Spec.Finalizers.Names(), By: "ada", Reason: "its owner was uninstalled"}
}

func (w *world) drop(req force.Request) (force.Result, error) {
	return force.Drop(w.ctx(), watched{w, w.registry}, w.content, w.log, req)
}

func (w *world) sweep(req force.SweepRequest) (force.SweepResult, error) {
	return force.Sweep(w.ctx(), w.registry, watched{w, w.registry}, w.log, req)
}

// watched checks that the record precedes each effect.
type watched struct {
	*world
	inner interface {
		force.Namespaces
		force.Content
	}
}

func (o watched) Get(ctx context.Context, name string) (namespace.Namespace, error) {
	return o.inner.Get(ctx, name)
}

func (o watched) Finalize(ctx context.Context, n namespace.Namespace) (namespace.Namespace, error) {
	open := o.open(n.Name, audit.Forcing, audit.Forced, audit.Refused)
	require.NotNil(o.t, open, "finalizers are dropped before that is on record")
	record, err := o.log.Get(o.ctx(), n.Name, open.ID)
	require.NoError(o.t, err)
	require.Equal(o.t, n.UID, record.UID)
	require.NotNil(o.t, record.Inventory)
	require.Len(o.t, record.Inventory.Objects, record.Objects)
	return o.inner.Finalize(ctx, n)
}

func (o watched) RemoveObject(ctx context.Context, r namespace.ResourceType, ns, name, uid string, release []finalizer.Name) (bool, error) {
	require.NotNil(o.t, o.open(ns, audit.Sweeping, ""), "objects are swept before that is on record")
	return o.inner.RemoveObject(ctx, r, ns, name, uid, release)
}

// open returns the last record of an action that none of the others follows.
func (w *world) open(name string, action audit.Action, ends ...audit.Action) *audit.Record {
	records, err := w.log.List(w.ctx(), name)
	require.NoError(w.t, err)
	var last *audit.Record
	for i, r := range records {
		if r.Action == action {
			last = &records[i]
		}
		for _, end := range ends {
			if last != nil && r.Action == end && r.Follows == last.ID {
				last = nil
			}
		}
	}
	return last
}
