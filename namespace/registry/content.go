package registry

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

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
