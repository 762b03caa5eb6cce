package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
)

// Content serves the objects of one resource type. Create one with [Registry.Content]. All
// methods are safe for concurrent use.
//
// The argument ns is the namespace of the request, empty for a cluster-scoped type. An object
// may also name its namespace itself; both must agree.
type Content struct {
	*core
	typ      Type
	record   *typeRecordCache // of a namespaced type
	kind     kind[Object]
	resource string // the name of the type, for messages
	dry      bool
}

// ObjectList is a page of objects.
type ObjectList struct {
	namespace.TypeMeta
	namespace.ListMeta `json:"metadata"`
	Items              []Object `json:"items"`
}

// Content returns the objects of a declared type, or [namespace.ErrNotFound]. Writes through
// the view of [Registry.DryRun] change nothing.
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
	return &Content{core: c, typ: t.Type, record: t.record, kind: t.kind, resource: t.Name().String()}, nil
}

// Type returns the declaration of the type.
func (c *Content) Type() Type { return c.typ.copy() }

// Get returns the current object, or [namespace.ErrNotFound].
func (c *Content) Get(ctx context.Context, ns, name string) (Object, error) {
	t, err := c.target(ns, name)
	if err != nil {
		return Object{}, err
	}
	entry, err := c.store.Get(ctx, t.key)
	if err != nil {
		return Object{}, storeError(c.resource, name, err)
	}
	return decodeObject(entry)
}

// Create creates an object in a namespace that is Active at that very commit (rule R6), and
// returns the stored object. The object may omit its namespace, kind and apiVersion; if it has
// them, they must match the request ([namespace.ErrBadRequest]). Names are unique per type and
// namespace. An object with only a generateName gets a generated name. If the type
// has Status, Create silently drops the status.
//
// A terminating namespace is [namespace.ErrTerminating], a missing one
// [namespace.ErrNotFound]. After [namespace.ErrUnknownOutcome] the object may exist, or may
// still appear in the same incarnation of the namespace; the error has its name, even a
// generated one.
func (c *Content) Create(ctx context.Context, ns string, o Object) (Object, error) {
	if o.ResourceVersion != "" {
		return Object{}, badRequest(c.resource, clip(o.Name), "resourceVersion should not be set on objects to be created")
	}
	o, err := c.normalize(ns, o)
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
	var made Object   // of the last attempt
	var recorded bool // that attempt writes the type record
	entry, built, err := c.create(ctx, creation{
		resource: c.resource, name: o.Name, prefix: o.GenerateName,
		build: func(name, uid string) (entry store.Entry, txn store.Txn, err error) {
			made = o
			made.Name = name
			made.setOwned(namespace.Meta{UID: uid, CreationTimestamp: at, Generation: c.nextGeneration(0)})
			if err := c.validate(made); err != nil {
				return store.Entry{}, store.Txn{}, err
			}
			var a *admission
			if c.hasAdmission() {
				if a, err = c.admitCreation(ctx, ns, &made); err != nil {
					return store.Entry{}, store.Txn{}, err
				}
			}
			if entry, txn, recorded, err = c.insertion(ctx, ns, made); err == nil {
				txn.If, txn.Do, err = a.join(ctx, txn.If, txn.Do)
			}
			return entry, txn, err
		},
		classifyConflict: func(ctx context.Context, name string, conflict *store.ConflictError) error {
			return c.classifyConflict(ctx, ns, name, conflict)
		},
	}, c.dry)
	switch {
	case err != nil:
		return Object{}, err
	case built:
		if recorded && !c.dry {
			c.record.Store(&typeRecord{entry.Revision, typeActive})
		}
		made.Meta = made.Meta.DeepCopy() // normalize has copied the fields
		made.ResourceVersion = createdVersion(entry)
		return made, nil
	}
	return decodeObject(entry)
}

// admitCreation passes a new object through the chain. If the namespace is not Active, that
// refusal takes precedence over one of the chain.
func (c *Content) admitCreation(ctx context.Context, ns string, o *Object) (*admission, error) {
	a, err := c.admitObjects(ctx, ns, Create, edit{key: c.keys.content(c.typ.Name(), ns) + o.Name, next: o})
	if err != nil {
		if inactive := c.refuseInactive(ctx, ns, o.Name); inactive != nil {
			return nil, inactive
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
	if c.typ.Namespaced { // the gate comes first, so that its conflict is the one reported
		open, err := c.requireGate(ctx, ns, o.Name)
		if err != nil {
			return store.Entry{}, store.Txn{}, false, err
		}
		txn.If = append(make([]store.Condition, 0, 3), open, store.Absent(key))
		recorded = c.record.join(&txn)
	}
	return store.Entry{Key: key, Value: value}, txn, recorded, nil
}

// classifyConflict explains the conflict of a create. It returns nil if the next attempt may
// succeed.
//
//	condition on   cause                          result
//	type record    the cached record is outdated  cache the current one, retry
//	gate           the cached gate is outdated    forget it; retry if the gate exists
//	gate           the namespace is not Active    ErrTerminating or ErrNotFound
//	any other key  a plugin's read is outdated    retry if the key exists or the namespace is Active
func (c *Content) classifyConflict(ctx context.Context, ns, name string, conflict *store.ConflictError) error {
	switch key := conflict.Condition.Key; {
	case c.typ.Namespaced && key == c.record.key:
		c.record.Store(newTypeRecord(conflict.Current))
		return nil
	case key == c.keys.gate(ns):
		c.gates.remove(ns)
	}
	if conflict.Current != nil {
		return nil
	}
	return c.refuseInactive(ctx, ns, name)
}

// prefix returns the prefix of the keys of all objects in ns.
func (c *Content) prefix(ns string) (string, error) {
	if ns == "" {
		return c.keys.content(c.typ.Name(), ""), nil
	}
	if err := c.checkNamespace(ns); err != nil {
		return "", err
	}
	return c.keys.content(c.typ.Name(), ns), nil
}

// checkNamespace refuses a request in the wrong scope.
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

// normalize returns the object of a request in the form that is stored: with kind, apiVersion
// and namespace, and with compact copies of its fields.
func (c *Content) normalize(ns string, o Object) (Object, error) {
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
	fields, wrong := compactFields(o.Fields)
	o.Fields = fields
	return o, c.typ.Invalid(clip(strings.ToValidUTF8(o.Name, "\uFFFD")), wrong)
}

// setOwned copies the metadata that the registry owns from kept.
func (o *Object) setOwned(kept namespace.Meta) {
	o.SelfLink = ""
	o.UID = kept.UID
	o.ResourceVersion = ""
	o.Generation = kept.Generation
	o.CreationTimestamp = kept.CreationTimestamp
	o.DeletionTimestamp = kept.DeletionTimestamp
	o.DeletionGracePeriodSeconds = nil
	if kept.DeletionGracePeriodSeconds != nil { // a copy, which plugins cannot change
		seconds := *kept.DeletionGracePeriodSeconds
		o.DeletionGracePeriodSeconds = &seconds
	}
}

func (c *Content) validate(o Object) error {
	wrong := namespace.ValidateMeta(o.Meta, namespace.NameRule{Subdomain: true, Namespaced: c.typ.Namespaced})
	return c.typ.Invalid(clip(o.Name), wrong)
}

func (c *Content) validateUpdate(old, next Object) error {
	if err := c.validate(next); err != nil {
		return err
	}
	if old.DeletionTimestamp.IsZero() {
		return nil
	}
	return c.typ.Invalid(next.Name, namespace.NoNewFinalizers(old.Meta, next.Meta))
}

// encode encodes an object that the store has room for.
func (c *Content) encode(o Object) ([]byte, error) {
	value, err := encodeObject(o)
	most := MaxObject
	if !o.DeletionTimestamp.IsZero() {
		most += deletionGrowth // its finalizers must be removable (rule R12)
	}
	if err == nil && len(value) > most {
		err = &namespace.Error{
			Kind: namespace.ErrInvalid, Resource: c.resource, Name: o.Name, Err: store.ErrTooLarge,
			Message: fmt.Sprintf("%s %q has %d bytes, at most %d are allowed", c.resource, o.Name, len(value), most),
		}
	}
	if err == nil && o.DeletionTimestamp.IsZero() {
		key := len(c.keys.content(c.typ.Name(), o.Namespace)) + len(o.Name)
		err = c.checkSize(c.resource, o.Name, key, len(value), deletionGrowth)
	}
	return value, err
}

// Update replaces an object, also in a terminating namespace, and returns the stored object.
// If o has a resourceVersion or a uid, the stored object must have the same
// ([namespace.ErrConflict]). A change outside of metadata and status increments the
// generation, unless the type is Ungenerated. An update that changes nothing writes nothing.
// An update that takes the last finalizer from an object that is being deleted removes it, and
// returns its last state; such an object cannot get new finalizers. If the type has Status,
// Update silently keeps the status.
func (c *Content) Update(ctx context.Context, ns string, o Object) (Object, error) {
	return c.replaceObject(ctx, ns, o, Update, func(old, asked Object) Object {
		if c.typ.Status {
			asked.Fields = withStatus(asked.Fields, old.Fields[statusField])
		}
		return c.replacing(old, asked)
	})
}

// UpdateStatus replaces the field status of an object, under the conditions of
// [Content.Update], and returns the stored object. It also replaces metadata.managedFields
// unless they are nil. It does not increment the generation. If the type does not have Status,
// the error is [namespace.ErrNotFound].
func (c *Content) UpdateStatus(ctx context.Context, ns string, o Object) (Object, error) {
	if !c.typ.Status {
		return Object{}, &namespace.Error{
			Kind: namespace.ErrNotFound, Resource: c.resource, Name: clip(o.Name),
			Message: fmt.Sprintf("%s %q: the resource type has no status: declare it with Status", c.resource, clip(o.Name)),
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

// replacing returns asked with the metadata that the registry owns, as the replacement of old.
func (c *Content) replacing(old, asked Object) Object {
	kept := old.Meta
	if !sameSpec(old.Fields, asked.Fields) {
		kept.Generation = c.nextGeneration(kept.Generation)
	}
	asked.setOwned(kept)
	return asked
}

// nextGeneration returns the generation after the given one, or 0 for an Ungenerated type.
func (c *Content) nextGeneration(generation int64) int64 {
	if c.typ.Ungenerated {
		return 0
	}
	return generation + 1
}

func (c *Content) replaceObject(ctx context.Context, ns string, o Object, op Verb, prepare func(old, asked Object) Object) (Object, error) {
	o, err := c.normalize(ns, o)
	if err != nil {
		return Object{}, err
	}
	if err := checkRequest(c.resource, o.Meta); err != nil {
		return Object{}, err
	}
	t, err := c.target(ns, o.Name)
	if err != nil {
		return Object{}, err
	}
	var next Object
	entry, removed, err := c.mutate(ctx, t, c.dry, func(entry store.Entry) (mutation, error) {
		old, err := decodeObject(entry)
		if err != nil {
			return mutation{}, err
		}
		if err := checkCurrent(c.resource, old.Meta, o.Meta); err != nil {
			return mutation{}, err
		}
		next = prepare(old, o)
		if err := c.validateUpdate(old, next); err != nil {
			return mutation{}, err
		}
		if c.hasAdmission() {
			var m mutation
			m, next, err = c.admittedReplacement(ctx, ns, op, entry, old, next)
			return m, err
		}
		return c.replacementMutation(next, entry)
	})
	return objectResult(next, entry, removed, err)
}

// replacementMutation returns the replacement of an entry by next.
func (c *Content) replacementMutation(next Object, entry store.Entry) (mutation, error) {
	if removable(next.Meta) {
		return mutation{remove: true}, nil
	}
	value, err := c.encode(next)
	return mutation{value: value, noop: err == nil && bytes.Equal(value, entry.Value)}, err
}

// removable reports whether an object must be removed instead of stored.
func removable(m namespace.Meta) bool {
	return !m.DeletionTimestamp.IsZero() && m.Finalizers.IsZero()
}

func objectResult(next Object, entry store.Entry, removed bool, err error) (Object, error) {
	if err != nil {
		return Object{}, err
	}
	if removed {
		next = next.DeepCopy()
		next.ResourceVersion = formatVersion(entry.Revision)
		return next, nil
	}
	return decodeObject(entry)
}

// Delete deletes an object, also in a terminating namespace, and returns its last state. If
// the object has metadata.finalizers, Delete only sets its deletionTimestamp, once; the write
// that removes the last finalizer then removes the object. The errors are
// [namespace.ErrNotFound], and [namespace.ErrConflict] for preconditions.
func (c *Content) Delete(ctx context.Context, ns, name string, only namespace.Preconditions) (Object, error) {
	t, err := c.target(ns, name)
	if err != nil {
		return Object{}, err
	}
	if err := checkPreconditions(c.resource, name, only); err != nil {
		return Object{}, err
	}
	var next Object
	entry, removed, err := c.mutate(ctx, t, c.dry, func(entry store.Entry) (mutation, error) {
		if next, err = decodeObject(entry); err != nil {
			return mutation{}, err
		}
		if err := only.Check(c.resource, next.Meta); err != nil {
			return mutation{}, err
		}
		old := next
		m, err := deletionMutation(&next, time.Now())
		if err != nil || m.noop || !c.hasAdmission() {
			return m, err
		}
		return c.admittedDeletion(ctx, ns, m, entry, old, next)
	})
	return objectResult(next, entry, removed, err)
}

// deletionMutation returns the deletion of o. It sets the deletion timestamp of o if finalizers
// retain it.
func deletionMutation(o *Object, at time.Time) (mutation, error) {
	retained := !o.Finalizers.IsZero()
	switch {
	case retained && !o.DeletionTimestamp.IsZero():
		return mutation{noop: true}, nil
	case !retained:
		return mutation{remove: true}, nil
	}
	o.DeletionTimestamp = phase.At(at)
	o.DeletionGracePeriodSeconds = new(int64)
	value, err := encodeObject(*o)
	return mutation{value: value}, err
}

// RemoveObject deletes one object, if it still has the given uid, and removes the finalizers in
// release from it by the same write. It reports whether no object of that uid exists any more;
// otherwise other finalizers retain it, as after [Content.Delete]. Package force uses it for
// objects that a namespace left behind, so it works regardless of the phase of the namespace.
// It never touches an object of another uid, and therefore no other incarnation (rule R8). For
// a cluster-scoped type ns is empty.
//
// If the namespace is Active, or the type is cluster-scoped, the removal passes the admission
// chain as a [Content.Delete] does. Otherwise it does not, like the deletions of a pass: the
// remaining objects must be removable (rule R12). An empty uid is [namespace.ErrBadRequest],
// an undeclared type [namespace.ErrNotFound].
func (r *Registry) RemoveObject(ctx context.Context, resource namespace.ResourceType, ns, name, uid string, release []finalizer.Name) (gone bool, err error) {
	c, err := r.Content(resource)
	if err != nil {
		return false, err
	}
	t, err := c.target(ns, name)
	if err != nil {
		return false, err
	}
	if uid == "" {
		return false, badRequest(c.resource, name, "the uid is empty: name the object to remove")
	}
	replaced := false // the stored object has another uid
	var refused error // by the chain, with an error of any kind
	_, gone, err = c.mutate(ctx, t, c.dry, func(entry store.Entry) (mutation, error) {
		old, err := decodeObject(entry)
		if err != nil {
			return mutation{}, err
		}
		if replaced = old.UID != uid; replaced {
			return mutation{noop: true}, nil
		}
		next, m, err := removalMutation(old, release)
		if err != nil || m.noop || !c.hasAdmission() {
			return m, err
		}
		m, refused = c.admittedRemoval(ctx, ns, m, entry, old, next)
		return m, refused
	})
	if refused == nil && errors.Is(err, namespace.ErrNotFound) {
		return true, nil
	}
	return gone || replaced && err == nil, err
}

// removalMutation returns the deletion of old without the finalizers in release.
func removalMutation(old Object, release []finalizer.Name) (next Object, m mutation, err error) {
	next = old
	for _, name := range release {
		next.Finalizers = next.Finalizers.Without(name)
	}
	m, err = deletionMutation(&next, time.Now())
	if err == nil && m.noop && !next.Finalizers.Equal(old.Finalizers) { // the deletion timestamp was set before
		m = mutation{}
		m.value, err = encodeObject(next)
	}
	return next, m, err
}

// admittedRemoval passes a removal through the chain if the namespace has a gate. If it
// has none, the commit requires that it still has none.
func (c *Content) admittedRemoval(ctx context.Context, ns string, m mutation, entry store.Entry, old, next Object) (mutation, error) {
	if ns != "" {
		key := c.keys.gate(ns)
		gate, err := c.read(ctx, key)
		if err != nil {
			return mutation{}, storeError(namespace.Resource, ns, err)
		}
		if gate == nil {
			m.ifAlso, m.retry = append(m.ifAlso, store.Absent(key)), true
			return m, nil
		}
	}
	return c.admittedDeletion(ctx, ns, m, entry, old, next)
}

// List returns a page of the objects in a namespace, or in all namespaces if ns is empty,
// ordered by namespace and name.
func (c *Content) List(ctx context.Context, ns string, o ListOptions) (ObjectList, error) {
	prefix, err := c.prefix(ns)
	if err != nil {
		return ObjectList{}, err
	}
	items, meta, err := list(ctx, c.core, c.kind, c.resource, prefix, c.onlyKey(ns, prefix, o.Fields), o)
	return ObjectList{
		TypeMeta: namespace.TypeMeta{Kind: c.typ.Kind + "List", APIVersion: c.typ.APIVersion()},
		ListMeta: meta, Items: items,
	}, err
}

// Watch yields the events of the objects in a namespace, or in all namespaces if ns is empty,
// as [Registry.Watch] does.
func (c *Content) Watch(ctx context.Context, ns string, o WatchOptions) iter.Seq2[Event[Object], error] {
	prefix, err := c.prefix(ns)
	if err != nil {
		return func(yield func(Event[Object], error) bool) { yield(Event[Object]{}, err) }
	}
	return watch(ctx, c.core, c.objects, c.kind, c.resource, prefix, c.onlyKey(ns, prefix, o.Fields), o)
}
