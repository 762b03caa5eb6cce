package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
)

// Content is the objects of one resource type. Make one with
// [Registry.Content]. All methods are safe for concurrent use.
//
// Methods take the namespace that the request was sent to, apart from the one
// that an object may name itself. For a cluster-scoped type it is empty.
type Content struct {
	*core
	typ      ResourceType
	record   *typeMemory // of a namespaced type
	kind     kind[Object]
	resource string // the type's name in messages
	dry      bool
}

// ObjectList is a page of objects.
type ObjectList struct {
	namespace.TypeMeta
	namespace.ListMeta `json:"metadata"`
	Items              []Object `json:"items"`
}

// Content returns the objects of a declared type, or [namespace.ErrNotFound]. On
// the view of [Registry.DryRun] its writes change nothing either.
func (r *Registry) Content(resource namespace.ResourceType) (*Content, error) {
	c, err := r.content(resource)
	if err != nil {
		return nil, err
	}
	c.dry = r.dry
	return c, nil
}

func (c *core) content(resource namespace.ResourceType) (*Content, error) {
	t, ok := c.types[resource]
	if !ok {
		return nil, &namespace.Error{
			Kind: namespace.ErrNotFound, Resource: clip(resource.String()),
			Message: fmt.Sprintf("the resource type %q is not declared: name it in Options.Types", clip(resource.String())),
		}
	}
	return &Content{core: c, typ: t.ResourceType, record: t.record, kind: kindOf(t.ResourceType), resource: t.Name().String()}, nil
}

// Type returns the declaration of the type.
func (c *Content) Type() ResourceType { return c.typ.copy() }

// Get returns the object as it is now, or [namespace.ErrNotFound].
func (c *Content) Get(ctx context.Context, ns, name string) (Object, error) {
	t, err := c.target(ns, name)
	if err != nil {
		return Object{}, err
	}
	entry, err := c.store.Get(ctx, t.key)
	if err != nil {
		return Object{}, stored(c.resource, name, err)
	}
	return decodeObject(entry)
}

// List returns a page of the objects in a namespace, or for the empty namespace
// of those in all namespaces, ordered by namespace and name.
func (c *Content) List(ctx context.Context, ns string, o ListOptions) (ObjectList, error) {
	prefix, err := c.prefix(ns)
	if err != nil {
		return ObjectList{}, err
	}
	items, meta, err := list(ctx, c.core, c.kind, c.resource, prefix, c.oneKey(ns, prefix, o.Fields), o)
	return ObjectList{
		TypeMeta: namespace.TypeMeta{Kind: c.typ.Kind + "List", APIVersion: c.typ.APIVersion()},
		ListMeta: meta, Items: items,
	}, err
}

// Watch yields what happens to the objects in a namespace, or for the empty
// namespace in all namespaces, as [Registry.Watch] does.
func (c *Content) Watch(ctx context.Context, ns string, o WatchOptions) iter.Seq2[Event[Object], error] {
	prefix, err := c.prefix(ns)
	if err != nil {
		return func(yield func(Event[Object], error) bool) { yield(Event[Object]{}, err) }
	}
	return watch(ctx, c.core, c.objects, c.kind, c.resource, prefix, c.oneKey(ns, prefix, o.Fields), o)
}

// Create creates an object in a namespace that is Active at that very commit
// (rule R6), and returns it as stored. The object may name its namespace, its
// kind and its apiVersion, or leave them out; others are
// [namespace.ErrBadRequest]. Names are unique per type and namespace; one is
// generated for an object with a generateName only. Of a type with Status a status
// is dropped, silently. Into a namespace that is
// being deleted the error is [namespace.ErrTerminating], into a missing one
// [namespace.ErrNotFound]. After [namespace.ErrUnknownOutcome] the object may exist, or may
// still appear in the same incarnation of the namespace; the error has its name, even a
// generated one.
func (c *Content) Create(ctx context.Context, ns string, o Object) (Object, error) {
	if o.ResourceVersion != "" {
		return Object{}, badRequest(c.resource, clip(o.Name), "resourceVersion should not be set on objects to be created")
	}
	o, err := c.asked(ns, o)
	if err != nil {
		return Object{}, err
	}
	if c.typ.Status {
		o.Fields = withStatus(o.Fields, nil)
	}
	if err := c.loadRecord(ctx); err != nil {
		return Object{}, err
	}
	at := phase.At(time.Now())
	var made Object   // by the last attempt
	var recorded bool // that attempt puts the type record
	entry, built, err := c.create(ctx, creation{
		resource: c.resource, name: o.Name, prefix: o.GenerateName,
		build: func(name, uid string) (entry store.Entry, txn store.Txn, err error) {
			made = o
			made.Name = name
			made.own(namespace.Meta{UID: uid, CreationTimestamp: at, Generation: c.nextGeneration(0)})
			if err := c.validate(made); err != nil {
				return store.Entry{}, store.Txn{}, err
			}
			var a *admission
			if c.asks() {
				if a, err = c.admitCreation(ctx, ns, &made); err != nil {
					return store.Entry{}, store.Txn{}, err
				}
			}
			entry, txn, recorded, err = c.insertion(ctx, ns, made)
			return a.insertion(ctx, entry, txn, err)
		},
		conflicted: func(ctx context.Context, name string, conflict *store.ConflictError) error {
			return c.conflicted(ctx, ns, name, conflict)
		},
	}, c.dry)
	switch {
	case err != nil:
		return Object{}, err
	case built:
		if recorded && !c.dry {
			c.record.Store(&typeRecord{entry.Revision, typeActive})
		}
		made.Meta = made.Meta.DeepCopy() // its fields are the registry's own already
		made.ResourceVersion = madeAt(entry)
		return made, nil
	}
	return decodeObject(entry)
}

// admitCreation asks the chain about an object that is to be created, and makes of
// it what the chain does. What the gate refuses is refused by the gate.
func (c *Content) admitCreation(ctx context.Context, ns string, o *Object) (*admission, error) {
	a, err := c.admit(ctx, ns, Create, change{key: c.keys.content(c.typ.Name(), ns) + o.Name, next: o})
	if err != nil && c.typ.Namespaced {
		if closed := c.blocked(ctx, ns, o.Name); closed != nil {
			return nil, closed
		}
	}
	return a, err
}

// insertion returns the transaction that creates o. It requires the current revision of the
// namespace's gate, so that it cannot land in another incarnation, however late it lands
// (rules R6 and R8), and it requires the type record. recorded reports whether the
// transaction puts that record.
func (c *Content) insertion(ctx context.Context, ns string, o Object) (entry store.Entry, txn store.Txn, recorded bool, err error) {
	value, err := c.encode(o)
	if err != nil {
		return store.Entry{}, store.Txn{}, false, err
	}
	key := c.keys.content(c.typ.Name(), ns) + o.Name
	txn = store.Txn{If: []store.Condition{store.Absent(key)}, Do: []store.Operation{store.Put(key, value)}}
	if c.typ.Namespaced { // the gate comes first: its refusal is the one to report
		open, err := c.openGate(ctx, ns, o.Name)
		if err != nil {
			return store.Entry{}, store.Txn{}, false, err
		}
		txn.If = append(make([]store.Condition, 0, 3), open, store.Absent(key))
		recorded = c.record.join(&txn)
	}
	return store.Entry{Key: key, Value: value}, txn, recorded, nil
}

// openGate returns the condition that the gate of ns has its cached revision, or its current
// one if none is cached.
func (c *Content) openGate(ctx context.Context, ns, name string) (store.Condition, error) {
	key := c.keys.gate(ns)
	if revision, ok := c.gates.revision(ns); ok {
		return store.At(key, revision), nil
	}
	for range attempts {
		gate, err := c.read(ctx, key)
		if err != nil {
			return store.Condition{}, stored(namespace.Resource, ns, err)
		}
		if gate != nil {
			c.gates.learn(ns, gate.Revision)
			return store.At(key, gate.Revision), nil
		}
		if err := c.blocked(ctx, ns, name); err != nil {
			return store.Condition{}, err
		}
	}
	return store.Condition{}, modified(namespace.Resource, ns, errBusy)
}

// conflicted explains the conflict of a create. It returns nil if the next attempt may
// succeed: after dropping an outdated gate from the cache, or updating the cached type record
// from the conflict.
func (c *Content) conflicted(ctx context.Context, ns, name string, conflict *store.ConflictError) error {
	switch key := conflict.Condition.Key; {
	case c.typ.Namespaced && key == c.record.key:
		c.record.Store(newTypeRecord(conflict.Current))
		return nil
	case key == c.keys.gate(ns):
		c.gates.forget(ns)
	}
	if conflict.Current != nil {
		return nil
	}
	return c.blocked(ctx, ns, name)
}

// blocked says why the gate of a namespace was closed; nil if it is open now, or
// if no gate guards the type.
func (c *Content) blocked(ctx context.Context, ns, name string) error {
	if !c.typ.Namespaced {
		return nil
	}
	entry, err := c.read(ctx, c.keys.namespace(ns))
	switch {
	case err != nil:
		return stored(c.resource, name, err)
	case entry == nil:
		return notFound(namespace.Resource, ns)
	}
	h, err := decodeHeader(entry.Value)
	if err != nil {
		return corrupt(*entry, err)
	}
	if h.DeletionTimestamp.IsZero() {
		return nil
	}
	return terminating(c.resource, name, ns)
}

// prefix returns what the keys of all objects in ns begin with.
func (c *Content) prefix(ns string) (string, error) {
	if ns == "" {
		return c.keys.content(c.typ.Name(), ""), nil
	}
	if err := c.checkNamespace(ns); err != nil {
		return "", err
	}
	return c.keys.content(c.typ.Name(), ns), nil
}

// checkNamespace refuses a request that is not sent to where the type's objects
// are.
func (c *Content) checkNamespace(ns string) error {
	switch {
	case c.typ.Namespaced && ns == "":
		return badRequest(c.resource, "", "an empty namespace may not be set when a resource name is provided")
	case c.typ.Namespaced:
		return checkSegment(namespace.Resource, ns)
	case ns != "":
		return badRequest(c.resource, "", "%s are cluster-scoped: no namespace may be given", c.resource)
	}
	return nil
}

func (c *Content) target(ns, name string) (target, error) {
	if err := c.checkNamespace(ns); err != nil {
		return target{}, err
	}
	if err := checkSegment(c.resource, name); err != nil {
		return target{}, err
	}
	return target{resource: c.resource, name: name, key: c.keys.content(c.typ.Name(), ns) + name}, nil
}

// asked returns what a client sent to a namespace, complete, and in the form that
// is stored. It shares nothing that is ever changed with what was sent.
func (c *Content) asked(ns string, o Object) (Object, error) {
	if err := c.checkNamespace(ns); err != nil {
		return o, err
	}
	switch {
	case o.Namespace != "" && o.Namespace != ns:
		return o, badRequest(c.resource, clip(o.Name), "the namespace of the provided object does not match the namespace sent on the request")
	case o.Kind != "" && o.Kind != c.typ.Kind:
		return o, badRequest(c.resource, clip(o.Name), "the kind of the provided object (%s) does not match the expected kind (%s)", clip(o.Kind), c.typ.Kind)
	case o.APIVersion != "" && o.APIVersion != c.typ.APIVersion():
		return o, badRequest(c.resource, clip(o.Name), "the API version in the data (%s) does not match the expected API version (%s)",
			clip(o.APIVersion), c.typ.APIVersion())
	}
	o.Kind, o.APIVersion, o.Namespace = c.typ.Kind, c.typ.APIVersion(), ns
	fields, wrong := compacted(o.Fields)
	o.Fields = fields
	return o, namespace.Invalid(c.typ.qualifiedKind(), c.resource, clip(strings.ToValidUTF8(o.Name, "\uFFFD")), wrong)
}

// own puts in place what is the registry's in the metadata.
func (o *Object) own(kept namespace.Meta) {
	o.SelfLink = ""
	o.UID = kept.UID
	o.ResourceVersion = ""
	o.Generation = kept.Generation
	o.CreationTimestamp = kept.CreationTimestamp
	o.DeletionTimestamp = kept.DeletionTimestamp
	o.DeletionGracePeriodSeconds = kept.DeletionGracePeriodSeconds
}

func (c *Content) validate(o Object) error {
	wrong := namespace.ValidateMeta(o.Meta, namespace.NameRule{Subdomain: true, Namespaced: c.typ.Namespaced})
	return namespace.Invalid(c.typ.qualifiedKind(), c.resource, clip(o.Name), wrong)
}

func (c *Content) encode(o Object) ([]byte, error) {
	value, err := encodeObject(o)
	if err == nil && len(value) > MaxObject {
		err = &namespace.Error{
			Kind: namespace.ErrInvalid, Resource: c.resource, Name: o.Name, Err: store.ErrTooLarge,
			Message: fmt.Sprintf("%s %q has %d bytes, at most %d are allowed", c.resource, o.Name, len(value), MaxObject),
		}
	}
	if err == nil && o.DeletionTimestamp.IsZero() {
		key := len(c.keys.root) + len(c.resource) + len("/") + len(o.Namespace) + len("/") + len(o.Name)
		err = c.roomFor(c.resource, o.Name, key, value, mark)
	}
	return value, err
}

// Update replaces an object, also in a namespace that is terminating, and returns
// it as stored. With a resourceVersion or a uid the object must still be at it
// ([namespace.ErrConflict]); without, whatever is there is replaced. A change of
// anything but metadata and status makes a new generation, unless the type is
// Ungenerated; an update that changes nothing writes nothing. One that takes the last finalizer from an object
// that is being deleted removes it, and returns it as it was last; new finalizers
// are refused then. Of a type with Status the status stays as it is, silently.
func (c *Content) Update(ctx context.Context, ns string, o Object) (Object, error) {
	return c.replaceObject(ctx, ns, o, Update, c.updated)
}

// updated returns what takes the place of old when a client sends asked.
func (c *Content) updated(old, asked Object) Object {
	if c.typ.Status {
		asked.Fields = withStatus(asked.Fields, old.Fields[statusField])
	}
	return c.updatedWhole(old, asked)
}

// updatedWhole returns what takes the place of old, also in its status.
func (c *Content) updatedWhole(old, asked Object) Object {
	kept := old.Meta
	if !sameSpec(old.Fields, asked.Fields) {
		kept.Generation = c.nextGeneration(kept.Generation)
	}
	asked.own(kept)
	return asked
}

// nextGeneration returns the generation after the given one, or 0 for an Ungenerated type.
func (c *Content) nextGeneration(generation int64) int64 {
	if c.typ.Ungenerated {
		return 0
	}
	return generation + 1
}

func (c *Content) validateUpdate(old, next Object) error {
	if err := c.validate(next); err != nil {
		return err
	}
	if old.DeletionTimestamp.IsZero() {
		return nil
	}
	return namespace.Invalid(c.typ.qualifiedKind(), c.resource, next.Name, namespace.NoNewFinalizers(old.Meta, next.Meta))
}

// removable reports whether an object must be removed in the write that made it
// so.
func removable(m namespace.Meta) bool {
	return !m.DeletionTimestamp.IsZero() && m.Finalizers.IsZero()
}

func answerObject(next Object, entry store.Entry, gone bool, err error) (Object, error) {
	if err != nil {
		return Object{}, err
	}
	if gone {
		next = next.DeepCopy()
		next.ResourceVersion = formatVersion(entry.Revision)
		return next, nil
	}
	return decodeObject(entry)
}

// Delete deletes an object, also in a namespace that is terminating, and returns
// it as it was last. An object with metadata.finalizers is marked instead: its
// deletionTimestamp is set, once, and it goes in the write that removes the last
// of them. The errors are [namespace.ErrNotFound], and [namespace.ErrConflict]
// for preconditions.
func (c *Content) Delete(ctx context.Context, ns, name string, only namespace.Preconditions) (Object, error) {
	t, err := c.target(ns, name)
	if err != nil {
		return Object{}, err
	}
	if err := checkPreconditions(c.resource, name, only); err != nil {
		return Object{}, err
	}
	var next Object
	entry, gone, err := c.mutate(ctx, t, c.dry, func(entry store.Entry) (plan, error) {
		if next, err = decodeObject(entry); err != nil {
			return plan{}, err
		}
		if err := only.Check(c.resource, next.Meta); err != nil {
			return plan{}, err
		}
		old := next
		p, err := planObjectDeletion(&next, time.Now())
		if err != nil || p.keep || !c.asks() {
			return p, err
		}
		return c.planAdmittedDeletion(ctx, ns, p, entry, old, next)
	})
	return answerObject(next, entry, gone, err)
}

// planObjectDeletion returns how o is deleted, and marks it.
func planObjectDeletion(o *Object, at time.Time) (plan, error) {
	held := !o.Finalizers.IsZero()
	switch {
	case held && !o.DeletionTimestamp.IsZero():
		return plan{keep: true}, nil
	case !held:
		return plan{gone: true}, nil
	}
	o.DeletionTimestamp = phase.At(at)
	o.DeletionGracePeriodSeconds = new(int64)
	value, err := encodeObject(*o)
	return plan{value: value}, err
}

const statusField = "status"

// withStatus returns the fields with another status; nil: none. It shares the
// values, not the map.
func withStatus(fields map[string]json.RawMessage, status json.RawMessage) map[string]json.RawMessage {
	if _, had := fields[statusField]; !had && status == nil {
		return fields
	}
	fields = maps.Clone(fields)
	delete(fields, statusField)
	if status != nil {
		if fields == nil {
			fields = map[string]json.RawMessage{}
		}
		fields[statusField] = status
	}
	if len(fields) == 0 {
		return nil
	}
	return fields
}

// UpdateStatus replaces the field status of an object, under the conditions of
// [Content.Update], and returns the object as stored. Nothing else changes, but
// metadata.managedFields unless they are nil. It makes no new generation. Of a type
// whose declaration does not have Status it is [namespace.ErrNotFound].
func (c *Content) UpdateStatus(ctx context.Context, ns string, o Object) (Object, error) {
	if !c.typ.Status {
		return Object{}, &namespace.Error{
			Kind: namespace.ErrNotFound, Resource: c.resource, Name: clip(o.Name),
			Message: fmt.Sprintf("%s %q: the resource type has no status: declare it with ResourceType.Status", c.resource, clip(o.Name)),
		}
	}
	return c.replaceObject(ctx, ns, o, UpdateStatus, func(old, asked Object) Object {
		managed := asked.ManagedFields
		asked.Meta, asked.Fields = old.Meta, withStatus(old.Fields, asked.Fields[statusField])
		asked.ResourceVersion = ""
		if managed != nil {
			asked.ManagedFields = managed
		}
		return asked
	})
}

// replaceObject carries out a request that replaces an object.
func (c *Content) replaceObject(ctx context.Context, ns string, o Object, op Operation, prepare func(old, asked Object) Object) (Object, error) {
	o, err := c.asked(ns, o)
	if err != nil {
		return Object{}, err
	}
	if err := checkAsked(c.resource, o.Meta); err != nil {
		return Object{}, err
	}
	t, err := c.target(ns, o.Name)
	if err != nil {
		return Object{}, err
	}
	var next Object
	entry, gone, err := c.mutate(ctx, t, c.dry, func(entry store.Entry) (plan, error) {
		old, err := decodeObject(entry)
		if err != nil {
			return plan{}, err
		}
		if err := checkSame(c.resource, old.Meta, o.Meta); err != nil {
			return plan{}, err
		}
		next = prepare(old, o)
		if err := c.validateUpdate(old, next); err != nil {
			return plan{}, err
		}
		if c.asks() {
			var p plan
			p, next, err = c.planAdmitted(ctx, ns, op, entry, old, next)
			return p, err
		}
		return c.planReplacement(next, entry)
	})
	return answerObject(next, entry, gone, err)
}

// planReplacement returns how next takes the place of what is stored.
func (c *Content) planReplacement(next Object, entry store.Entry) (plan, error) {
	if removable(next.Meta) {
		return plan{gone: true}, nil
	}
	value, err := c.encode(next)
	return plan{value: value, keep: err == nil && bytes.Equal(value, entry.Value)}, err
}

// Remove deletes one object, if it still has that uid, and takes the finalizers named
// in release off it by the same write. It reports whether no object of that uid is there
// any more: other finalizers may hold it, marked as [Content.Delete] marks it. It is
// for what was left of a namespace (package force), so it works whether that is Active,
// terminating, gone, or made again: no object of another uid is touched, hence none of
// another incarnation (rule R8). For a cluster-scoped type ns is empty.
//
// Where the namespace is Active, made again by now, admission is asked as by
// [Content.Delete], so that what counts goes on counting right, and what it refuses stays;
// so it is for a cluster-scoped type. Everywhere else it is not, as it is not by a pass:
// what is left must be able to go (rule R12). An empty uid is [namespace.ErrBadRequest],
// a type that is not declared [namespace.ErrNotFound].
func (r *Registry) Remove(ctx context.Context, resource namespace.ResourceType, ns, name, uid string, release []finalizer.Name) (gone bool, err error) {
	c, err := r.Content(resource)
	if err != nil {
		return false, err
	}
	t, err := c.target(ns, name)
	if err != nil {
		return false, err
	}
	if uid == "" {
		return false, badRequest(c.resource, name, "the uid is empty: say which object of that name is meant")
	}
	other := false
	var refused error // which may be of any kind
	_, gone, err = c.mutate(ctx, t, c.dry, func(entry store.Entry) (plan, error) {
		r, err := planRemoval(entry, uid, release)
		if other = r.other; err != nil || r.keep || !c.asks() {
			return r.plan, err
		}
		p, err := c.planAskedRemoval(ctx, ns, r, entry)
		refused = err
		return p, err
	})
	if refused == nil && errors.Is(err, namespace.ErrNotFound) {
		return true, nil
	}
	return gone || other && err == nil, err
}

// removal is how an object is deleted.
type removal struct {
	plan
	other     bool   // it is not the one that is meant
	old, next Object // as it is, and what is left of it if anything is
}

func planRemoval(entry store.Entry, uid string, release []finalizer.Name) (r removal, err error) {
	if r.old, err = decodeObject(entry); err != nil {
		return r, err
	}
	if r.old.UID != uid {
		r.keep, r.other = true, true
		return r, nil
	}
	r.next = r.old
	for _, name := range release {
		r.next.Finalizers = r.next.Finalizers.Without(name)
	}
	r.plan, err = planObjectDeletion(&r.next, time.Now())
	if err == nil && r.keep && !r.next.Finalizers.Equal(r.old.Finalizers) { // marked before
		r.plan = plan{}
		r.value, err = encodeObject(r.next)
	}
	return r, err
}

// planAskedRemoval has the chain asked where there is a gate, and the removal happen only
// without a gate where there is none.
func (c *Content) planAskedRemoval(ctx context.Context, ns string, r removal, entry store.Entry) (plan, error) {
	if ns != "" {
		gate := c.keys.gate(ns)
		is, err := c.read(ctx, gate)
		if err != nil {
			return plan{}, stored(namespace.Resource, ns, err)
		}
		if is == nil {
			r.If, r.again = append(r.If, store.Absent(gate)), true
			return r.plan, nil
		}
	}
	return c.planAdmittedDeletion(ctx, ns, r.plan, entry, r.old, r.next)
}
