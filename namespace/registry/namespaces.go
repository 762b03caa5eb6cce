package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
)

func (c *core) target(name string) target {
	return target{resource: namespace.Resource, name: name, key: c.keys.namespace(name)}
}

// Get returns the current namespace, or [namespace.ErrNotFound].
func (r *Registry) Get(ctx context.Context, name string) (namespace.Namespace, error) {
	if err := checkSegment(namespace.Resource, name); err != nil {
		return namespace.Namespace{}, err
	}
	entry, err := r.store.Get(ctx, r.keys.namespace(name))
	if err != nil {
		return namespace.Namespace{}, storeError(namespace.Resource, name, err)
	}
	return decodeNamespace(entry)
}

// Create creates a namespace and its gate (rule R6), and returns the stored namespace:
// Active, with the registry's finalizer in spec.finalizers (rule R5). If the name is empty
// and generateName is set, Create generates a name, and tries others if it is in use. The
// errors are [namespace.ErrExists], [namespace.ErrInvalid], [namespace.ErrBadRequest], and
// [namespace.ErrUnknownOutcome] if the namespace may exist or may still appear.
func (r *Registry) Create(ctx context.Context, n namespace.Namespace) (namespace.Namespace, error) {
	if n.ResourceVersion != "" {
		return namespace.Namespace{}, badRequest(namespace.Resource, clip(n.Name), "resourceVersion should not be set on objects to be created")
	}
	at := time.Now()
	var made namespace.Namespace // of the last attempt
	entry, built, err := r.create(ctx, creation{
		resource: namespace.Resource, name: n.Name, prefix: n.GenerateName,
		build: func(name, uid string) (store.Entry, store.Txn, error) {
			made = n
			made.Name = name
			made = namespace.PrepareCreate(made, r.finalizer, uid, at)
			if err := declare.ValidateCreate(made); err != nil {
				return store.Entry{}, store.Txn{}, err
			}
			if !r.hasAdmission() {
				return r.insertion(ctx, made)
			}
			var entry store.Entry
			var txn store.Txn
			var err error
			made, entry, txn, err = r.insertAdmitted(ctx, made, at)
			return entry, txn, err
		},
	}, r.dry)
	switch {
	case err != nil:
		return namespace.Namespace{}, err
	case built:
		made.ResourceVersion = createdVersion(entry)
	default:
		if made, err = decodeNamespace(entry); err != nil {
			return namespace.Namespace{}, err
		}
	}
	return withWarnings(ctx, namespace.Namespace{}, made), nil
}

// insertion returns the transaction that creates n and its gate.
func (c *core) insertion(ctx context.Context, n namespace.Namespace) (store.Entry, store.Txn, error) {
	value, err := encodeNamespace(n)
	if err == nil {
		err = c.checkNamespaceSize(n, value)
	}
	key := c.keys.namespace(n.Name)
	do := []store.Operation{store.Put(key, value), c.openGate(n)}
	if err == nil {
		do, err = c.appendDeclarations(ctx, do, namespace.Namespace{}, n, nil)
	}
	return store.Entry{Key: key, Value: value}, store.Txn{If: []store.Condition{store.Absent(key)}, Do: do}, err
}

// Update replaces the metadata that a client may set: labels, annotations, ownerReferences,
// finalizers of the object itself, managedFields. It silently keeps spec.finalizers (rule R4)
// and status. If n has a resourceVersion or a uid, the stored namespace must have the same
// ([namespace.ErrConflict]). An update that changes nothing writes nothing. An update that
// takes the last finalizer from a terminating namespace removes it (rule R1), and returns its
// last state.
//
// If the annotations declare other protections, waivers, holds or graces than before, the same
// commit writes an audit record with the actor of ctx (audit.WithActor). So does any other
// write that changes declarations.
func (r *Registry) Update(ctx context.Context, n namespace.Namespace) (namespace.Namespace, error) {
	return r.replaceNamespace(ctx, n, Update, namespace.PrepareUpdate, validateUpdate(time.Now()))
}

// UpdateStatus replaces only the status, under the conditions of [Registry.Update].
func (r *Registry) UpdateStatus(ctx context.Context, n namespace.Namespace) (namespace.Namespace, error) {
	return r.replaceNamespace(ctx, n, UpdateStatus, namespace.PrepareStatus, namespace.ValidateStatus)
}

// Finalize replaces only spec.finalizers (rule R4), under the conditions of
// [Registry.Update]. If a terminating namespace then has no finalizers of either kind, the
// same write removes it (rule R1), and Finalize returns its last state. A finalizer that is
// added to a terminating namespace is an event of [Registry.Terminating].
func (r *Registry) Finalize(ctx context.Context, n namespace.Namespace) (namespace.Namespace, error) {
	return r.replaceNamespace(ctx, n, Finalize, namespace.PrepareFinalize, namespace.ValidateFinalize)
}

func (r *Registry) replaceNamespace(ctx context.Context, asked namespace.Namespace, op Verb,
	prepare func(old, asked namespace.Namespace) namespace.Namespace, validate func(old, next namespace.Namespace) error,
) (namespace.Namespace, error) {
	if err := checkRequest(namespace.Resource, asked.Meta); err != nil {
		return namespace.Namespace{}, err
	}
	var old, next namespace.Namespace
	entry, removed, err := r.mutate(ctx, r.target(asked.Name), r.dry, func(entry store.Entry) (m mutation, err error) {
		if old, err = decodeNamespace(entry); err != nil {
			return mutation{}, err
		}
		if err := checkCurrent(namespace.Resource, old.Meta, asked.Meta); err != nil {
			return mutation{}, err
		}
		next = prepare(old, asked)
		if err := validate(old, next); err != nil {
			return mutation{}, err
		}
		if !r.hasAdmission() {
			return r.namespaceMutation(ctx, old, next, entry)
		}
		m, next, err = r.admittedMutation(ctx, op, old, next, prepare, validate,
			func(old, next namespace.Namespace) (mutation, error) {
				return r.namespaceMutation(ctx, old, next, entry)
			})
		return m, err
	})
	return namespaceResult(ctx, old, next, entry, removed, err)
}

// validateUpdate returns [declare.ValidateUpdate] for a request at now.
func validateUpdate(now time.Time) func(old, next namespace.Namespace) error {
	return func(old, next namespace.Namespace) error { return declare.ValidateUpdate(old, next, now) }
}

// namespaceMutation returns the replacement of old by next.
func (c *core) namespaceMutation(ctx context.Context, old, next namespace.Namespace, entry store.Entry) (mutation, error) {
	if namespace.Removable(next) {
		do, err := c.appendDeclarations(ctx, []store.Operation{c.forgetTermination(next)}, old, next, nil)
		return mutation{remove: true, do: do}, err
	}
	value, err := encodeNamespace(next)
	if err != nil || bytes.Equal(value, entry.Value) {
		return mutation{noop: true}, err
	}
	if err := c.checkNamespaceSize(next, value); err != nil {
		return mutation{}, err
	}
	m := mutation{value: value}
	if added, _ := old.Spec.Finalizers.Diff(next.Spec.Finalizers); len(added) > 0 && next.Phase() == phase.Terminating {
		m.do = []store.Operation{c.recordTermination(next)} // an event for the controller of the finalizer
	}
	m.do, err = c.appendDeclarations(ctx, m.do, old, next, value)
	return m, err
}

// namespaceResult returns the result of a request that replaced old by next.
func namespaceResult(ctx context.Context, old, next namespace.Namespace, entry store.Entry, removed bool, err error) (namespace.Namespace, error) {
	if err != nil {
		return namespace.Namespace{}, err
	}
	if removed {
		next.ResourceVersion = formatVersion(entry.Revision)
		next.Status.Phase = next.Phase()
		return next, nil
	}
	if next, err = decodeNamespace(entry); err != nil {
		return namespace.Namespace{}, err
	}
	return withWarnings(ctx, old, next), nil
}

// Delete requests the deletion of a namespace and returns it: Terminating since now, or since
// the first request. The same commit deletes its gate, so that no more content is created in
// it (rule R6). A second deletion changes nothing (rule R3). If the namespace has no
// finalizers, the commit removes it (rule R1).
//
// A namespace with a grace ([declare.GraceAnnotation]) is put on hold instead and returned
// Active. A deletion during the hold changes nothing; a deletion after the end of the hold
// makes the namespace Terminating ([declare.PrepareDelete]). Package hold requests the
// latter: some process must run it. The admission chain first sees the Delete, as in a dry
// run, and then the Update that sets the hold. If a plugin removes the hold again, the error
// is [namespace.ErrForbidden] and [ErrAdmission].
//
// The errors are [namespace.ErrNotFound]; [namespace.ErrConflict] for preconditions;
// [namespace.ErrForbidden] for an immortal name, regardless of whether the namespace exists,
// for a protected namespace, and for an unreadable grace; and [namespace.ErrInvalid] if the
// store has no room for a hold.
func (r *Registry) Delete(ctx context.Context, name string, only namespace.Preconditions) (namespace.Namespace, error) {
	if err := r.checkDeletion(name, only); err != nil {
		return namespace.Namespace{}, err
	}
	var before, next namespace.Namespace // before is the state to which warnings compare
	complete := false                    // next is the stored namespace, except for its version
	entry, removed, err := r.mutate(ctx, r.target(name), r.dry, func(entry store.Entry) (mutation, error) {
		complete = false
		old, err := decodeNamespace(entry)
		if err != nil {
			return mutation{}, err
		}
		before = old
		if err := declare.ValidateDelete(old, only); err != nil {
			return mutation{}, err
		}
		if old.Phase() == phase.Terminating {
			return mutation{noop: true}, nil
		}
		if next, err = declare.PrepareDelete(old, audit.Actor(ctx), time.Now()); err != nil {
			return mutation{}, err
		}
		var m mutation
		switch {
		case next.Phase() == phase.Active:
			before = withoutHold(old)
			m, next, err = r.holdMutation(ctx, old, next, entry)
			return m, err
		case !r.hasAdmission():
			complete = true
			return r.terminationMutation(ctx, old, next)
		}
		m, next, err = r.admittedMutation(ctx, Delete, old, next, nil, nil,
			func(old, next namespace.Namespace) (mutation, error) { return r.terminationMutation(ctx, old, next) })
		return m, err
	})
	if complete && !removed && err == nil {
		next.ResourceVersion = formatVersion(entry.Revision)
		return withWarnings(ctx, before, next), nil
	}
	return namespaceResult(ctx, before, next, entry, removed, err)
}

// checkDeletion refuses a deletion that is invalid regardless of the stored namespace.
func (r *Registry) checkDeletion(name string, only namespace.Preconditions) error {
	if err := checkSegment(namespace.Resource, name); err != nil {
		return err
	}
	if err := checkPreconditions(namespace.Resource, name, only); err != nil {
		return err
	}
	if slices.Contains(r.immortal, name) {
		return declare.ValidateDelete(namespace.Namespace{Meta: namespace.Meta{Name: name}}, only, name)
	}
	return nil
}

// terminationMutation returns the change from old, which is Active, to next, which is
// Terminating. It closes the gate. Without finalizers the namespace is removed at once.
func (c *core) terminationMutation(ctx context.Context, old, next namespace.Namespace) (m mutation, err error) {
	if m.remove = namespace.Removable(next); !m.remove {
		if m.value, err = encodeNamespace(next); err != nil {
			return mutation{}, err
		}
	}
	m.do, err = c.appendDeclarations(ctx, c.beginTermination(next), old, next, m.value)
	return m, err
}

// checkRequest refuses a request whose metadata cannot name a stored object.
func checkRequest(resource string, asked namespace.Meta) error {
	if err := checkSegment(resource, asked.Name); err != nil {
		return err
	}
	return checkPreconditions(resource, asked.Name, namespace.Preconditions{ResourceVersion: asked.ResourceVersion})
}

func checkPreconditions(resource, name string, p namespace.Preconditions) error {
	if _, err := parseVersion(resource, p.ResourceVersion); err != nil {
		return badRequest(resource, name, "%v", err)
	}
	return nil
}

// checkCurrent refuses a write for another incarnation or version.
func checkCurrent(resource string, old, asked namespace.Meta) error {
	if err := (namespace.Preconditions{UID: asked.UID}).Check(resource, old); err != nil {
		return err
	}
	if v := asked.ResourceVersion; v != "" && v != "0" && v != old.ResourceVersion {
		return modified(resource, old.Name, nil)
	}
	return nil
}

// checkNamespaceSize refuses an Active namespace that takes more than three quarters of the
// maximum value. The rest is for the deletion timestamp and for the conditions of the parties,
// which must be written before the namespace can be removed (rules R9 and R12). A hold may
// take up to half of the rest, since a DELETE may set it.
func (c *core) checkNamespaceSize(n namespace.Namespace, value []byte) error {
	if !n.DeletionTimestamp.IsZero() {
		return nil
	}
	key := len(c.keys.namespaces()) + len(n.Name)
	rest := c.maxValue(key) / 4
	return c.checkSize(namespace.Resource, n.Name, key, len(value), rest-min(holdSize(n), rest/2))
}

// holdSize returns the size of the hold of n in its JSON form; zero without a hold.
func holdSize(n namespace.Namespace) int {
	hold, held := n.Annotations[declare.HoldAnnotation]
	if !held {
		return 0
	}
	value, err := json.Marshal(hold)
	if err != nil { // strings always encode
		return 0
	}
	return len(`"":,`) + len(declare.HoldAnnotation) + len(value)
}

// Count returns the numbers of Active and of Terminating namespaces at one revision. It counts
// gates and termination entries, without reading namespaces. The store counts them if it can
// ([store.Counter]); otherwise Count lists their keys. Most stores visit every key, so the cost
// grows with the number of namespaces: cache the result if you need it often.
func (r *Registry) Count(ctx context.Context) (active, terminating int, err error) {
	now, err := r.store.List(ctx, store.Query{Prefix: r.keys.terminations(), Limit: 1})
	if err != nil {
		return 0, 0, storeError(namespace.Resource, "", err)
	}
	if active, err = r.count(ctx, store.Query{Prefix: r.keys.gates(), At: now.Position}); err != nil {
		return 0, 0, err
	}
	if !now.More {
		return active, len(now.Entries), nil
	}
	if terminating, err = r.count(ctx, store.Query{Prefix: r.keys.terminations(), At: now.Position}); err != nil {
		return 0, 0, err
	}
	return active, terminating, nil
}

func (c *core) count(ctx context.Context, q store.Query) (int, error) {
	if c.counter != nil {
		n, err := c.counter.Count(ctx, q)
		if err != nil {
			return 0, storeError(namespace.Resource, "", err)
		}
		return n, nil
	}
	q.Limit = chunk
	for n := 0; ; {
		page, err := c.store.List(ctx, q)
		if err != nil {
			return 0, storeError(namespace.Resource, "", err)
		}
		n += len(page.Entries)
		if !page.More || len(page.Entries) == 0 {
			return n, nil
		}
		q.After = page.Entries[len(page.Entries)-1].Key
	}
}

type warningsKey struct{}

// WithWarnings returns a context under which writes to namespaces, including dry runs, call
// warn with each of their [declare.Warnings]. A [Registry.Delete] that finds the namespace
// on hold repeats the warnings of the Delete that put it on hold. The write calls warn before
// it returns, in its goroutine. Failed writes do not call it.
func WithWarnings(ctx context.Context, warn func(text string)) context.Context {
	return context.WithValue(ctx, warningsKey{}, warn)
}

// withWarnings reports the warnings about a write that replaced old by next, and returns next.
func withWarnings(ctx context.Context, old, next namespace.Namespace) namespace.Namespace {
	if warn, ok := ctx.Value(warningsKey{}).(func(string)); ok {
		for _, text := range declare.Warnings(old, next) {
			warn(text)
		}
	}
	return next
}

// WaitRemoved waits until the incarnation uid of a namespace is removed, then returns nil.
// It returns nil at once if the namespace does not exist or is another incarnation. It does
// not request the deletion. Failed reads are retried with a backoff of up to five seconds.
// If ctx ends first the error wraps its cause and the last failed read, if any. WaitRemoved
// returns [namespace.ErrBadRequest] for an empty uid or an invalid name, and [ErrClosed] or
// [store.ErrClosed] after Close.
//
// A watch from the resourceVersion of a DELETE cannot replace it: if the namespace had no
// finalizers, the DELETE itself removed it, and no event follows.
func (r *Registry) WaitRemoved(ctx context.Context, name, uid string) error {
	if err := checkSegment(namespace.Resource, name); err != nil {
		return err
	}
	if uid == "" {
		return badRequest(namespace.Resource, name, "the uid is empty: name the incarnation to wait for")
	}
	delay := backoff.Exponential{Min: 10 * time.Millisecond, Max: 5 * time.Second}
	var last error
	for failures := 0; ; failures++ {
		began := time.Now()
		removed, err := r.watchRemoval(ctx, name, uid)
		switch {
		case removed:
			return nil
		case errors.Is(err, ErrClosed) || errors.Is(err, store.ErrClosed):
			return storeError(namespace.Resource, name, err)
		case ctx.Err() == nil:
			last = err
		}
		wait := delay.Delay(failures)
		if time.Since(began) > wait {
			failures = 0 // only a working watch resets the backoff
		}
		if err := backoff.Sleep(ctx, wait); err != nil {
			return fmt.Errorf("registry: namespace %q with uid %s is not removed yet: %w", name, uid, errors.Join(err, last))
		}
	}
}

// watchRemoval lists and watches once. It reports whether the incarnation is removed; if
// not, it returns the reason why the watch ended.
func (r *Registry) watchRemoval(ctx context.Context, name, uid string) (removed bool, err error) {
	key := r.keys.namespace(name)
	page, err := r.store.List(ctx, store.Query{Prefix: key, Limit: 1})
	if err != nil {
		return false, err
	}
	if len(page.Entries) == 0 || page.Entries[0].Key != key {
		return true, nil
	}
	d, err := parseEntry(page.Entries[0])
	if err != nil {
		return false, err
	}
	if !d.HasUID(uid) {
		return true, nil
	}
	for change, err := range r.namespaces.Watch(ctx, r.keys.namespaces(), page.Position) {
		if err != nil {
			return false, err
		}
		for i := range change.Events {
			if e := &change.Events[i]; e.Key == key && e.Deleted {
				return true, nil
			}
		}
	}
	return false, context.Cause(ctx)
}
