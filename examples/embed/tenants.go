package main

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/phase"
)

// tenants is the host's table of tenants and their documents. It could be rows of a database. The
// methods for the library are at the end.
type tenants struct {
	mu      sync.Mutex
	rows    map[string]*tenant
	version int64             // number of writes
	history []namespace.Event // events for controllers; an index into it is a token
	news    chan struct{}     // closed and replaced when history grows
}

type tenant struct {
	ns        namespace.Namespace
	documents []string
}

func newTenants() *tenants {
	return &tenants{rows: map[string]*tenant{}, news: make(chan struct{})}
}

// create adds a tenant.
func (t *tenants) create(_ context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.rows[ns.Name]; ok {
		return namespace.Namespace{}, refused(namespace.ErrExists, ns.Name)
	}
	ns = namespace.PrepareCreate(ns, finalizer.Kubernetes, fmt.Sprintf("tenant-%d", t.version+1), time.Now())
	if err := declare.ValidateCreate(ns); err != nil {
		return namespace.Namespace{}, err
	}
	row := &tenant{}
	t.rows[ns.Name] = row
	return t.write(row, ns), nil
}

// insert adds a document to an Active tenant. The check and the insert share a lock, as they would
// share a transaction in a database (rule R6).
func (t *tenants) insert(name, document string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	row, ok := t.rows[name]
	switch {
	case !ok:
		return refused(namespace.ErrNotFound, name)
	case !row.ns.DeletionTimestamp.IsZero():
		return refused(namespace.ErrTerminating, name)
	}
	row.documents = append(row.documents, document)
	return nil
}

// remove begins the deletion of a tenant, unless a protection refuses it. If the tenant has a
// grace, remove puts it on hold, and a later call after the hold begins the deletion.
func (t *tenants) remove(_ context.Context, name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	row, ok := t.rows[name]
	if !ok {
		return refused(namespace.ErrNotFound, name)
	}
	if err := declare.ValidateDelete(row.ns, namespace.Preconditions{}); err != nil {
		return err
	}
	next, err := declare.PrepareDelete(row.ns, "", time.Now())
	if err != nil {
		return err
	}
	if next.Phase() != row.ns.Phase() || !maps.Equal(next.Annotations, row.ns.Annotations) {
		t.put(row, next)
	}
	return nil
}

// deleteDocuments deletes the documents of a tenant: the host's content as one plain function. It
// affects one incarnation only, and only if that is being deleted (rule R8).
func (t *tenants) deleteDocuments(ctx context.Context, target deleter.Target) (remaining int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row, ok := t.rows[target.Namespace]
	if !ok || row.ns.UID != target.UID || row.ns.DeletionTimestamp.IsZero() {
		return 0, deleter.ErrIncarnation
	}
	if ctx.Err() != nil {
		return len(row.documents), context.Cause(ctx)
	}
	row.documents = nil
	return 0, nil
}

// write stores ns under a new version. The caller holds the lock.
func (t *tenants) write(row *tenant, ns namespace.Namespace) namespace.Namespace {
	t.version++
	ns.ResourceVersion = strconv.FormatInt(t.version, 10)
	row.ns = ns
	return ns.DeepCopy()
}

// put replaces the namespace of row with next and notifies controllers. It removes a deleted tenant
// without finalizers (rule R1). The caller holds the lock.
func (t *tenants) put(row *tenant, next namespace.Namespace) namespace.Namespace {
	old := row.ns
	next = t.write(row, next)
	added, _ := old.Spec.Finalizers.Diff(next.Spec.Finalizers)
	switch {
	case namespace.Removable(next):
		delete(t.rows, next.Name)
		t.notify(namespace.EventAbsent, next)
	case next.Phase() == phase.Terminating && (old.Phase() != phase.Terminating || len(added) > 0):
		t.notify(namespace.EventPresent, next)
	}
	return next
}

// notify appends an event for controllers. The caller holds the lock.
func (t *tenants) notify(kind namespace.EventType, ns namespace.Namespace) {
	t.history = append(t.history, namespace.Event{
		Type: kind, Name: ns.Name, UID: ns.UID, Token: strconv.Itoa(len(t.history) + 1),
	})
	close(t.news)
	t.news = make(chan struct{})
}

func refused(kind error, name string) error {
	return &namespace.Error{Kind: kind, Resource: "tenants", Name: name, Message: fmt.Sprintf("tenant %q: %v", name, kind)}
}

// The remaining methods implement controller.Namespaces.

// Get implements pass.Namespaces.
func (t *tenants) Get(ctx context.Context, name string) (namespace.Namespace, error) {
	if ctx.Err() != nil {
		return namespace.Namespace{}, context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	row, ok := t.rows[name]
	if !ok {
		return namespace.Namespace{}, refused(namespace.ErrNotFound, name)
	}
	return row.ns.DeepCopy(), nil
}

// UpdateStatus implements pass.Namespaces.
func (t *tenants) UpdateStatus(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	return t.replace(ctx, ns, namespace.PrepareStatus, namespace.ValidateStatus)
}

// Finalize implements pass.Namespaces.
func (t *tenants) Finalize(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	return t.replace(ctx, ns, namespace.PrepareFinalize, namespace.ValidateFinalize)
}

// replace is a compare-and-swap.
func (t *tenants) replace(ctx context.Context, asked namespace.Namespace,
	prepare func(old, asked namespace.Namespace) namespace.Namespace, validate func(old, next namespace.Namespace) error,
) (namespace.Namespace, error) {
	if ctx.Err() != nil {
		return namespace.Namespace{}, context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	row, ok := t.rows[asked.Name]
	if !ok {
		return namespace.Namespace{}, refused(namespace.ErrNotFound, asked.Name)
	}
	old := row.ns
	if old.UID != asked.UID || old.ResourceVersion != asked.ResourceVersion {
		return namespace.Namespace{}, refused(namespace.ErrConflict, asked.Name)
	}
	next := prepare(old, asked)
	if err := validate(old, next); err != nil {
		return namespace.Namespace{}, err
	}
	return t.put(row, next), nil
}

// Terminating implements controller.Namespaces.
func (t *tenants) Terminating(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
	return func(yield func(namespace.Event, error) bool) {
		events, at, news, err := t.since(after)
		if err != nil {
			yield(namespace.Event{}, err)
			return
		}
		events = append(events, namespace.Event{Type: namespace.EventSynced, Token: at})
		for {
			for _, e := range events {
				if ctx.Err() != nil {
					break // the select below returns
				}
				if !yield(e, nil) {
					return
				}
			}
			select {
			case <-news:
			case <-ctx.Done():
				yield(namespace.Event{}, context.Cause(ctx))
				return
			}
			events, at, news, _ = t.since(at)
		}
	}
}

// since returns the events after a token, the token after them, and a channel that is closed when
// there are more.
func (t *tenants) since(token string) (events []namespace.Event, at string, news <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at = strconv.Itoa(len(t.history))
	if token == "" {
		for _, row := range t.rows {
			if !row.ns.DeletionTimestamp.IsZero() {
				events = append(events, namespace.Event{Type: namespace.EventPresent, Name: row.ns.Name, UID: row.ns.UID})
			}
		}
		return events, at, t.news, nil
	}
	from, err := strconv.Atoi(token)
	if err != nil || from < 0 || from > len(t.history) {
		return nil, "", nil, refused(namespace.ErrGone, "")
	}
	return append(events, t.history[from:]...), at, t.news, nil
}
