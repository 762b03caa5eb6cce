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

// tenants is the host's own table, with the documents of each tenant. It could as
// well be rows of a database; what the library asks for is at the end.
type tenants struct {
	mu      sync.Mutex
	rows    map[string]*tenant
	version int64                        // counts the changes of rows
	history []namespace.TerminationEvent // what controllers are told; a position in it is a token
	news    chan struct{}                // closed when history grows
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

// insert adds a document, unless the tenant is being deleted: the check and the
// insert happen under one lock, as in a database they would in one transaction.
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

// remove asks for the deletion of a tenant, unless something protects it. It is
// terminating then, and the library does the rest; or on hold, if it has a grace, and
// whoever asks again when that is over begins the deletion.
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

// deleteDocuments is "delete where tenant = ...": the host's content in one plain
// function. One incarnation only (rule R8).
func (t *tenants) deleteDocuments(_ context.Context, target deleter.Target) (remaining int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if row, ok := t.rows[target.Namespace]; ok && row.ns.UID == target.UID {
		row.documents = nil
	}
	return 0, nil
}

// write stores ns under a new version. The caller holds the lock.
func (t *tenants) write(row *tenant, ns namespace.Namespace) namespace.Namespace {
	t.version++
	ns.ResourceVersion = strconv.FormatInt(t.version, 10)
	row.ns = ns
	return ns.DeepCopy()
}

// put stores next in the place of what row has, and tells controllers what they have
// to know. A tenant that nothing holds any more is removed (rule R1). The caller holds
// the lock.
func (t *tenants) put(row *tenant, next namespace.Namespace) namespace.Namespace {
	old := row.ns
	next = t.write(row, next)
	added, _ := old.Spec.Finalizers.Diff(next.Spec.Finalizers)
	switch {
	case namespace.Removable(next):
		delete(t.rows, next.Name)
		t.tell(namespace.EventRemoved, next)
	case next.Phase() == phase.Terminating && (old.Phase() != phase.Terminating || len(added) > 0):
		t.tell(namespace.EventTerminating, next)
	}
	return next
}

// tell adds to what controllers are told. The caller holds the lock.
func (t *tenants) tell(what namespace.TerminationEventType, ns namespace.Namespace) {
	t.history = append(t.history, namespace.TerminationEvent{
		Type: what, Name: ns.Name, UID: ns.UID, Token: strconv.Itoa(len(t.history) + 1),
	})
	close(t.news)
	t.news = make(chan struct{})
}

func refused(kind error, name string) error {
	return &namespace.Error{Kind: kind, Resource: "tenants", Name: name, Message: fmt.Sprintf("tenant %q: %v", name, kind)}
}

// From here on: controller.Namespaces, all that the library asks of the table.

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
func (t *tenants) Terminating(ctx context.Context, after string) iter.Seq2[namespace.TerminationEvent, error] {
	return func(yield func(namespace.TerminationEvent, error) bool) {
		events, at, news, err := t.since(after)
		if err != nil {
			yield(namespace.TerminationEvent{}, err)
			return
		}
		events = append(events, namespace.TerminationEvent{Type: namespace.EventSynced, Token: at})
		for {
			for _, e := range events {
				if ctx.Err() != nil {
					break // the loop ends below
				}
				if !yield(e, nil) {
					return
				}
			}
			select {
			case <-news:
			case <-ctx.Done():
				yield(namespace.TerminationEvent{}, context.Cause(ctx))
				return
			}
			events, at, news, _ = t.since(at)
		}
	}
}

// since returns what a controller at a token has to be told, the token after that,
// and what tells when there is more.
func (t *tenants) since(token string) (events []namespace.TerminationEvent, at string, news <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at = strconv.Itoa(len(t.history))
	if token == "" {
		for _, row := range t.rows {
			if !row.ns.DeletionTimestamp.IsZero() {
				events = append(events, namespace.TerminationEvent{Type: namespace.EventTerminating, Name: row.ns.Name, UID: row.ns.UID})
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
