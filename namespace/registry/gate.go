package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/internal/keypath"
	"github.com/nslifecycle/nslifecycle/store"
)

// Two keys represent the phase of a namespace in the conditions of other writes. Both hold its
// uid.
//
//	key                    exists while   required by
//	.gate/{name}           Active         creates of content (rule R6)
//	.terminating/{name}    Terminating    the deletions of a pass (rule R8), as a fence
//
// The create of the namespace opens the gate. The commit that makes it Terminating closes the
// gate and records the termination, which is the event that starts the controllers. Both keys may
// be rewritten for the same uid: the gate by [Write.TouchGate], the termination when a finalizer
// is added.

func (c *core) openGate(n namespace.Namespace) store.Operation {
	return store.Put(c.keys.gate(n.Name), []byte(n.UID))
}

// beginTermination returns the operations that end Active. n is the Terminating namespace; if it is
// removable, there is no termination entry.
func (c *core) beginTermination(n namespace.Namespace) []store.Operation {
	closed := store.Delete(c.keys.gate(n.Name))
	if namespace.Removable(n) {
		return []store.Operation{closed}
	}
	return []store.Operation{closed, c.recordTermination(n)}
}

func (c *core) recordTermination(n namespace.Namespace) store.Operation {
	return store.Put(c.keys.termination(n.Name), []byte(n.UID))
}

func (c *core) forgetTermination(n namespace.Namespace) store.Operation {
	return store.Delete(c.keys.termination(n.Name))
}

// GateKeys returns the keys of the gate and of the termination entry of a namespace, for a registry
// with this prefix (empty means the default). The gate exists exactly while the namespace is
// Active, the termination entry exactly while it is Terminating. Both hold its uid, and both may be
// rewritten for the same uid ([Write.TouchGate]).
//
// A host that writes content with [store.Store.Commit] must make the gate's revision a
// condition. A late commit then cannot land in a later incarnation, as it could if only
// the gate's existence were required. On a conflict about a gate of the same uid the host
// retries at the new revision. A host that writes content in its own transactions, in the
// same database, must lock the gate until they end; the gate's existence is then sufficient
// (rule R6).
//
// An invalid prefix is [namespace.ErrInvalid], an invalid name [namespace.ErrBadRequest].
func GateKeys(prefix, name string) (gate, termination string, err error) {
	if prefix == "" {
		prefix = keypath.DefaultPrefix
	}
	keys, err := newLayout(prefix)
	if err != nil {
		return "", "", err
	}
	if err := checkSegment(namespace.Resource, name); err != nil {
		return "", "", err
	}
	return keys.gate(name), keys.termination(name), nil
}

// requireGate returns the condition that the gate of ns has its cached revision, or its current
// one if none is cached.
func (c *Content) requireGate(ctx context.Context, ns, name string) (store.Condition, error) {
	key := c.keys.gate(ns)
	if revision, ok := c.gates.get(ns); ok {
		return store.At(key, revision), nil
	}
	for range maxAttempts {
		gate, err := c.read(ctx, key)
		if err != nil {
			return store.Condition{}, storeError(namespace.Resource, ns, err)
		}
		if gate != nil {
			c.gates.put(ns, gate.Revision)
			return store.At(key, gate.Revision), nil
		}
		if err := c.refuseInactive(ctx, ns, name); err != nil {
			return store.Condition{}, err
		}
	}
	return store.Condition{}, modified(namespace.Resource, ns, errContention)
}

// refuseInactive returns the error of a create in a namespace that is not Active, and nil if the
// namespace is Active now or the type is cluster-scoped.
func (c *Content) refuseInactive(ctx context.Context, ns, name string) error {
	if !c.typ.Namespaced {
		return nil
	}
	entry, err := c.read(ctx, c.keys.namespace(ns))
	switch {
	case err != nil:
		return storeError(c.resource, name, err)
	case entry == nil:
		return notFound(namespace.Resource, ns)
	}
	d, err := parseEntry(*entry)
	if err != nil {
		return err
	}
	if !d.Deleting {
		return nil
	}
	return namespaceTerminating(c.resource, name, ns)
}

// namespaceTerminating refuses content for a namespace that is not Active (rule R6). It matches both
// [namespace.ErrTerminating] and [namespace.ErrForbidden].
func namespaceTerminating(resource, name, ns string) error {
	return &namespace.Error{
		Kind: namespace.ErrTerminating, Resource: resource, Name: name, Err: namespace.ErrForbidden,
		Message: fmt.Sprintf("%s %q is forbidden: unable to create new content in namespace %s because it is being terminated", resource, name, ns),
		Causes: []namespace.Violation{{
			Type: "NamespaceTerminating", Field: "metadata.namespace",
			Message: fmt.Sprintf("namespace %s is being terminated", ns),
		}},
	}
}

// gateCache caches the revisions of gates, so that most creates need no read before their
// commit. An outdated revision costs a conflict, after which the create reads the gate again.
// The zero value is empty.
type gateCache struct {
	mu        sync.RWMutex
	revisions map[string]store.Revision // by namespace
}

// maxGates bounds the cache to about a megabyte.
const maxGates = 10_000

func (g *gateCache) get(ns string) (store.Revision, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	revision, ok := g.revisions[ns]
	return revision, ok
}

func (g *gateCache) put(ns string, revision store.Revision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.revisions, ns)
	for other := range g.revisions {
		if len(g.revisions) < maxGates {
			break
		}
		delete(g.revisions, other)
	}
	if g.revisions == nil {
		g.revisions = map[string]store.Revision{}
	}
	g.revisions[strings.Clone(ns)] = revision // ns may refer to a large request
}

func (g *gateCache) remove(ns string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.revisions, ns)
}

// gateUse is the use that admission plugins make of the gate during one attempt.
type gateUse struct {
	entry             *store.Entry // nil: absent, or not read yet
	read              bool
	required, touched bool
}

// joinGate adds the condition on the gate to a transaction, and the write that touches it.
func (a *admission) joinGate(ctx context.Context, conditions []store.Condition, do []store.Operation) ([]store.Condition, []store.Operation, error) {
	if !a.gate.required && !a.gate.touched || a.namespace == "" {
		return conditions, do, nil
	}
	if err := a.readGate(ctx); err != nil {
		return nil, nil, err
	}
	key, gate := a.core.keys.gate(a.namespace), a.gate.entry
	if gate == nil { // a create requires a gate as well: once there is one it is tried again
		return append(conditions, store.Absent(key)), do, nil
	}
	unchanged := store.At(key, gate.Revision)
	if i := slices.IndexFunc(conditions, func(c store.Condition) bool { return c.Key == key }); i >= 0 {
		conditions[i] = unchanged
	} else {
		conditions = append(conditions, unchanged)
	}
	if a.gate.touched && !writes(do, key) {
		do = append(do, store.Put(key, gate.Value))
	}
	return conditions, do, nil
}

// RequireGate makes the commit conditional on the gate of the namespace: if another write touches
// the gate ([Write.TouchGate]) after this call, the write is tried again. Later calls of Get
// and List read again, so call RequireGate before the reads that it is to protect.
//
// RequireGate reports whether the namespace is Active. If it is not, it has no gate, and the
// commit requires that it still has none.
func (w *Write) RequireGate(ctx context.Context) (active bool, err error) {
	a := w.attempt
	if a.namespace == "" {
		return false, badRequest(a.resource, a.name, "a cluster-scoped object has no gate")
	}
	if !a.gate.required {
		if err := a.readGate(ctx); err != nil {
			return false, err
		}
		a.gate.required = true
		for i := range a.reads {
			a.reads[i].stale = true
		}
	}
	return a.gate.entry != nil, nil
}

func (a *admission) readGate(ctx context.Context) error {
	if a.gate.read {
		return nil
	}
	entry, err := a.core.read(ctx, a.core.keys.gate(a.namespace))
	if err != nil {
		return readError{storeError(namespace.Resource, a.namespace, err)}
	}
	a.gate.read, a.gate.entry = true, entry
	return nil
}

// TouchGate makes the commit rewrite the gate of the namespace, for the same incarnation, so
// that every write that required the gate before ([Write.RequireGate]) is tried again. An object that
// limits creates, such as a quota, touches the gate when it is created: a create that did not
// see the quota cannot land. If the namespace is not Active, TouchGate requires that it still
// has no gate.
func (w *Write) TouchGate() { w.attempt.gate.touched = true }

// fence is the termination entry of one incarnation. A commit that requires it cannot affect
// another incarnation (rule R8).
type fence struct {
	name, uid string
	entry     store.Entry
}

func (f *fence) condition() store.Condition { return store.At(f.entry.Key, f.entry.Revision) }

// refresh reads the entry, which is rewritten for the same incarnation when a finalizer is
// added to the namespace.
func (f *fence) refresh(ctx context.Context, c *core) error {
	entry, err := c.read(ctx, c.keys.termination(f.name))
	switch {
	case err != nil:
		return storeError(namespace.Resource, f.name, err)
	case entry == nil || string(entry.Value) != f.uid:
		return notTerminating(f.name, f.uid)
	}
	f.entry = *entry
	return nil
}

func notTerminating(name, uid string) error {
	return fmt.Errorf("%w: %s is not terminating with uid %q", deleter.ErrIncarnation, name, uid)
}
