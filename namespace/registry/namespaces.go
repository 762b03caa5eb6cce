package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
)

func (c *core) target(name string) target {
	return target{resource: namespace.Resource, name: name, key: c.keys.namespace(name)}
}

// Get returns the namespace as it is now, or [namespace.ErrNotFound].
func (r *Registry) Get(ctx context.Context, name string) (namespace.Namespace, error) {
	if err := checkSegment(namespace.Resource, name); err != nil {
		return namespace.Namespace{}, err
	}
	entry, err := r.store.Get(ctx, r.keys.namespace(name))
	if err != nil {
		return namespace.Namespace{}, stored(namespace.Resource, name, err)
	}
	return decodeNamespace(entry)
}

// Create creates a namespace, with its gate (rule R6), and returns it as stored:
// Active, and with the registry's finalizer in spec.finalizers (rule R5). With an
// empty name and a generateName a name is generated; a few are tried when one is
// taken. The errors are [namespace.ErrExists], [namespace.ErrInvalid] and
// [namespace.ErrBadRequest], and [namespace.ErrUnknownOutcome]: it may have been created,
// or may be yet.
func (r *Registry) Create(ctx context.Context, n namespace.Namespace) (namespace.Namespace, error) {
	if n.ResourceVersion != "" {
		return namespace.Namespace{}, badRequest(namespace.Resource, clip(n.Name), "resourceVersion should not be set on objects to be created")
	}
	at := time.Now()
	var made namespace.Namespace // by the last attempt
	entry, built, err := r.create(ctx, creation{
		resource: namespace.Resource, name: n.Name, prefix: n.GenerateName,
		build: func(name, uid string) (store.Entry, store.Txn, error) {
			made = n
			made.Name = name
			made = namespace.PrepareCreate(made, r.finalizer, uid, at)
			if err := declare.ValidateCreate(made); err != nil {
				return store.Entry{}, store.Txn{}, err
			}
			if !r.asks() {
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
		made.ResourceVersion = madeAt(entry)
	default:
		if made, err = decodeNamespace(entry); err != nil {
			return namespace.Namespace{}, err
		}
	}
	return warned(ctx, namespace.Namespace{}, made), nil
}

// insertion returns the transaction that creates n, with its gate.
func (c *core) insertion(ctx context.Context, n namespace.Namespace) (store.Entry, store.Txn, error) {
	value, err := encodeNamespace(n)
	if err == nil {
		err = c.roomForEnd(n, value)
	}
	key := c.keys.namespace(n.Name)
	do := []store.Operation{store.Put(key, value), store.Put(c.keys.gate(n.Name), []byte(n.UID))}
	if err == nil {
		do, err = c.alongside(ctx, do, namespace.Namespace{}, n, nil)
	}
	return store.Entry{Key: key, Value: value}, store.Txn{If: []store.Condition{store.Absent(key)}, Do: do}, err
}

// alongside adds to do what the commit that has next take the place of old writes
// because of what is declared about a namespace in its annotations. No old: it is
// created. Beside do it writes value.
func (c *core) alongside(ctx context.Context, do []store.Operation, old, next namespace.Namespace, value []byte) ([]store.Operation, error) {
	return c.declare(ctx, c.indexHold(do, old, next), old, next, value)
}

// Update replaces metadata that a client may set: labels, annotations,
// ownerReferences, finalizers of the object itself, managedFields. It keeps
// spec.finalizers (rule R4) and status, silently. With a resourceVersion or a uid
// the namespace must still be at it ([namespace.ErrConflict]); without, whatever
// is there is replaced. An update that changes nothing writes nothing. One that
// takes the last finalizer from a terminating namespace removes it (rule R1), and
// returns it as it was last.
//
// A change of what annotations declare (protections, waivers, holds and graces) is put on
// record by the same commit, under the name that audit.WithActor has set; so it is by every other
// write that makes one.
func (r *Registry) Update(ctx context.Context, n namespace.Namespace) (namespace.Namespace, error) {
	return r.replaceNamespace(ctx, n, Update, namespace.PrepareUpdate, validateUpdate(time.Now()))
}

// UpdateStatus replaces status and nothing else, under the conditions of
// [Registry.Update].
func (r *Registry) UpdateStatus(ctx context.Context, n namespace.Namespace) (namespace.Namespace, error) {
	return r.replaceNamespace(ctx, n, UpdateStatus, namespace.PrepareStatus, namespace.ValidateStatus)
}

// Finalize replaces spec.finalizers and nothing else (rule R4), under the
// conditions of [Registry.Update]. If that leaves a terminating namespace without
// finalizers of either kind it is removed in the same write (rule R1) and
// returned as it was last. A finalizer that is added to a terminating namespace is
// told to whoever follows [Registry.Terminating].
func (r *Registry) Finalize(ctx context.Context, n namespace.Namespace) (namespace.Namespace, error) {
	return r.replaceNamespace(ctx, n, Finalize, namespace.PrepareFinalize, namespace.ValidateFinalize)
}

func (r *Registry) replaceNamespace(ctx context.Context, asked namespace.Namespace, op Operation,
	prepare func(old, asked namespace.Namespace) namespace.Namespace, validate func(old, next namespace.Namespace) error,
) (namespace.Namespace, error) {
	if err := checkAsked(namespace.Resource, asked.Meta); err != nil {
		return namespace.Namespace{}, err
	}
	var old, next namespace.Namespace
	entry, gone, err := r.mutate(ctx, r.target(asked.Name), r.dry, func(entry store.Entry) (p plan, err error) {
		if old, err = decodeNamespace(entry); err != nil {
			return plan{}, err
		}
		if err := checkSame(namespace.Resource, old.Meta, asked.Meta); err != nil {
			return plan{}, err
		}
		next = prepare(old, asked)
		if err := validate(old, next); err != nil {
			return plan{}, err
		}
		if !r.asks() {
			return r.planNamespace(ctx, old, next, entry)
		}
		p, next, err = r.planAdmitted(ctx, op, old, next, prepare, validate,
			func(old, next namespace.Namespace) (plan, error) { return r.planNamespace(ctx, old, next, entry) })
		return p, err
	})
	return answer(ctx, old, next, entry, gone, err)
}

// validateUpdate returns [declare.ValidateUpdate] for a request made at now.
func validateUpdate(now time.Time) func(old, next namespace.Namespace) error {
	return func(old, next namespace.Namespace) error { return declare.ValidateUpdate(old, next, now) }
}

// planNamespace returns how next takes the place of old.
func (c *core) planNamespace(ctx context.Context, old, next namespace.Namespace, entry store.Entry) (plan, error) {
	if namespace.Removable(next) {
		do, err := c.alongside(ctx, []store.Operation{store.Delete(c.keys.terminating(next.Name))}, old, next, nil)
		return plan{gone: true, with: do}, err
	}
	value, err := encodeNamespace(next)
	if err != nil || bytes.Equal(value, entry.Value) {
		return plan{keep: true}, err
	}
	if err := c.roomForEnd(next, value); err != nil {
		return plan{}, err
	}
	p := plan{value: value}
	if added, _ := old.Spec.Finalizers.Diff(next.Spec.Finalizers); len(added) > 0 && next.Phase() == phase.Terminating {
		p.with = []store.Operation{store.Put(c.keys.terminating(next.Name), []byte(next.UID))} // wakes its controller
	}
	p.with, err = c.alongside(ctx, p.with, old, next, value)
	return p, err
}

// answer returns the result of a request that replaced old by next.
func answer(ctx context.Context, old, next namespace.Namespace, entry store.Entry, gone bool, err error) (namespace.Namespace, error) {
	if err != nil {
		return namespace.Namespace{}, err
	}
	if gone {
		next.ResourceVersion = formatVersion(entry.Revision)
		next.Status.Phase = next.Phase()
		return next, nil
	}
	if next, err = decodeNamespace(entry); err != nil {
		return namespace.Namespace{}, err
	}
	return warned(ctx, old, next), nil
}

// Delete asks for the deletion of a namespace, and returns it: since now, or
// since it was first asked for, Terminating. The same commit closes its gate, so
// that no content is created in it any more (rule R6). A second deletion changes
// nothing (rule R3). If nothing holds the namespace it is removed at once (rule
// R1).
//
// A namespace with a grace ([declare.GraceAnnotation]) is put on hold instead, and
// returned Active; a deletion while it is on hold changes nothing, and one from the end
// of the hold on makes it Terminating ([declare.PrepareDelete]). Package hold asks for
// that one: some process must run it. Admission is asked about the Delete first, as in a
// dry run, and then about the Update that sets the hold; one that takes the hold off
// again is [namespace.ErrForbidden] and [ErrAdmission].
//
// The errors are [namespace.ErrNotFound], [namespace.ErrConflict] for preconditions,
// and [namespace.ErrForbidden] for an immortal name, whether there is such a namespace
// or not, for a protected namespace, and for a grace that cannot be read; and
// [namespace.ErrInvalid] where the store has no room for a hold.
func (r *Registry) Delete(ctx context.Context, name string, only namespace.Preconditions) (namespace.Namespace, error) {
	if err := r.checkDeletion(name, only); err != nil {
		return namespace.Namespace{}, err
	}
	var before, next namespace.Namespace // before as the warnings compare it
	entry, gone, err := r.mutate(ctx, r.target(name), r.dry, func(entry store.Entry) (plan, error) {
		old, err := decodeNamespace(entry)
		if err != nil {
			return plan{}, err
		}
		before = old
		if err := declare.ValidateDelete(old, only); err != nil {
			return plan{}, err
		}
		if old.Phase() == phase.Terminating {
			return plan{keep: true}, nil
		}
		if next, err = declare.PrepareDelete(old, holder(ctx, old), time.Now()); err != nil {
			return plan{}, err
		}
		var p plan
		switch {
		case next.Phase() == phase.Active:
			before = withoutHold(old)
			p, next, err = r.planHold(ctx, old, next, entry)
			return p, err
		case !r.asks():
			return r.planDeletion(ctx, old, next)
		}
		p, next, err = r.planAdmitted(ctx, Delete, old, next, asMarked, anything,
			func(old, next namespace.Namespace) (plan, error) { return r.planDeletion(ctx, old, next) })
		return p, err
	})
	return answer(ctx, before, next, entry, gone, err)
}

// checkDeletion refuses the deletion of what cannot be deleted, whatever is stored.
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

// anything finds nothing wrong with what is made of old.
func anything(_, _ namespace.Namespace) error { return nil }

// asMarked returns old as it is marked, whatever else was made of it.
func asMarked(old, made namespace.Namespace) namespace.Namespace {
	return namespace.MarkDeleted(old, made.DeletionTimestamp.Time)
}

// planDeletion returns how old, an Active namespace, becomes next, which is
// terminating.
func (c *core) planDeletion(ctx context.Context, old, next namespace.Namespace) (plan, error) {
	closed := store.Delete(c.keys.gate(next.Name))
	if namespace.Removable(next) {
		do, err := c.alongside(ctx, []store.Operation{closed}, old, next, nil)
		return plan{gone: true, with: do}, err
	}
	value, err := encodeNamespace(next)
	if err != nil {
		return plan{}, err
	}
	do, err := c.alongside(ctx, []store.Operation{
		closed, store.Put(c.keys.terminating(next.Name), []byte(next.UID)),
	}, old, next, value)
	return plan{value: value, with: do}, err
}

// checkAsked refuses a request whose metadata cannot name a stored object.
func checkAsked(resource string, asked namespace.Meta) error {
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

// checkSame refuses a write that was meant for another incarnation or version.
func checkSame(resource string, old, asked namespace.Meta) error {
	if err := (namespace.Preconditions{UID: asked.UID}).Check(resource, old); err != nil {
		return err
	}
	if v := asked.ResourceVersion; v != "" && v != "0" && v != old.ResourceVersion {
		return modified(resource, old.Name, nil)
	}
	return nil
}

// Count returns how many namespaces are Active and how many are Terminating, both as
// of one revision. It reads no namespace: gates and the index are counted, by the store
// itself if it can ([store.Counter]), else by listing their keys. Counting is not free:
// most stores go through every key, so its cost grows with the number of namespaces, and
// who asks often keeps the answer for a while.
func (r *Registry) Count(ctx context.Context) (active, terminating int, err error) {
	now, err := r.store.List(ctx, store.Query{Prefix: r.keys.index(), Limit: 1})
	if err != nil {
		return 0, 0, stored(namespace.Resource, "", err)
	}
	if active, err = r.count(ctx, store.Query{Prefix: r.keys.gate(""), At: now.Position}); err != nil {
		return 0, 0, err
	}
	if !now.More {
		return active, len(now.Entries), nil
	}
	if terminating, err = r.count(ctx, store.Query{Prefix: r.keys.index(), At: now.Position}); err != nil {
		return 0, 0, err
	}
	return active, terminating, nil
}

func (c *core) count(ctx context.Context, q store.Query) (int, error) {
	if counter, ok := c.store.(store.Counter); ok {
		n, err := counter.Count(ctx, q)
		if err != nil {
			return 0, stored(namespace.Resource, "", err)
		}
		return n, nil
	}
	q.Limit = chunk
	for n := 0; ; {
		page, err := c.store.List(ctx, q)
		if err != nil {
			return 0, stored(namespace.Resource, "", err)
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
// on hold repeats the warnings of the Delete that put it on hold. warn is called before the
// write returns, in its goroutine, and not for failed writes.
func WithWarnings(ctx context.Context, warn func(text string)) context.Context {
	return context.WithValue(ctx, warningsKey{}, warn)
}

// warned reports the warnings about a write that replaced old by next, and returns next.
func warned(ctx context.Context, old, next namespace.Namespace) namespace.Namespace {
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
// A watch from the resourceVersion of a DELETE cannot replace it: if no finalizer held the
// namespace, the DELETE itself removed it, and no event follows.
func (r *Registry) WaitRemoved(ctx context.Context, name, uid string) error {
	if err := checkSegment(namespace.Resource, name); err != nil {
		return err
	}
	if uid == "" {
		return badRequest(namespace.Resource, name, "the uid is empty: name the incarnation to wait for")
	}
	var last error
	for failures := 0; ; failures++ {
		began := time.Now()
		removed, err := r.watchRemoval(ctx, name, uid)
		switch {
		case removed:
			return nil
		case errors.Is(err, ErrClosed) || errors.Is(err, store.ErrClosed):
			return stored(namespace.Resource, name, err)
		case ctx.Err() == nil:
			last = err
		}
		delay := min(10*time.Millisecond<<min(failures, 10), 5*time.Second)
		if time.Since(began) > delay {
			failures = 0 // only a working watch resets the backoff
		}
		if err := backoff.Sleep(ctx, delay-rand.N(delay/4)); err != nil {
			return fmt.Errorf("registry: namespace %q with uid %s is still there: %w", name, uid, errors.Join(err, last))
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
	h, err := decodeHeader(page.Entries[0].Value)
	if err != nil {
		return false, corrupt(page.Entries[0], err)
	}
	if h.UID != uid {
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
