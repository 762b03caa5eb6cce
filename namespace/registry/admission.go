package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/store"
)

// Admission is a plugin that sees each write before it is committed. It may change the
// objects, add conditions and further writes to the transaction, or refuse the write with an
// error. [Options].Admission is an ordered chain: each plugin sees the changes of those before
// it. The gate (rule R6) and the immortal names are not part of the chain and always apply.
//
// The registry calls Admit again, with everything read again, for each attempt to commit.
// Admit must therefore have no effects except through w. It may read through a registry, but
// must not write through one, not even in a dry run. It is called by many goroutines at once.
// An update that changes nothing passes the chain, but commits nothing.
//
// A [*namespace.Error], and an error of a method of w, is returned to the client unchanged.
// Any other error becomes [namespace.ErrForbidden] with a message such as
// `widgets "a" is forbidden: ` before its text.
//
// The deletions of a pass do not go through the chain: no plugin can keep a terminating
// namespace from becoming empty (rule R12). For the same reason a plugin should not refuse
// [Finalize], nor writes in a terminating namespace.
type Admission interface {
	Admit(ctx context.Context, w *Write) error
}

// ErrAdmission is in the chain of an error about an admission plugin that made an object
// invalid or misused a [Write]. The error names the plugin.
var ErrAdmission = errors.New("registry: admission failed")

// Write is one attempt to commit a change of one namespace, or of objects of one type in one
// namespace (several if a collection is deleted). It is valid until Admit returns, in the
// goroutine of that call. A plugin may change the New of a change; everything else is
// read-only, including maps and slices.
//
// A plugin may change the fields that the client could have changed by this operation, and in
// a Create or an Update also the status of an object. The registry silently restores all other
// fields, as it does for clients.
type Write struct {
	Namespace string // of the objects; for a namespace its own name; empty: cluster-scoped
	DryRun    bool   // nothing is committed; see [Registry.DryRun]

	Itself  *NamespaceChange // the change of the namespace; nil: none
	Objects []ObjectChange

	attempt *admission
}

// NamespaceChange is a change of a namespace.
type NamespaceChange struct {
	Verb     Verb
	Old, New *namespace.Namespace // Old is nil for a Create; New is nil for a removal
}

// ObjectChange is a change of an object.
type ObjectChange struct {
	Type     Type
	Verb     Verb
	Old, New *Object // Old is nil for a Create; New is nil for a removal
}

// Verb is the kind of a client's request.
type Verb uint8

// The verbs. An Update or Finalize that takes the last finalizer from an object that is
// being deleted removes it; New is then nil.
//
// Setting or ending a hold is an Update. If a client requests a delayed deletion
// ([Registry.DeleteAfter], [declare.GraceAnnotation]), the chain first sees a Delete in a
// dry run. The Delete itself follows at the end of the hold, from package hold.
const (
	Create Verb = iota + 1
	Update
	UpdateStatus
	Finalize
	Delete // New is the object with its deletionTimestamp, or nil if it is removed
)

// String returns the verb as Kubernetes writes it in admission reviews.
func (v Verb) String() string {
	switch v {
	case Create:
		return "CREATE"
	case Update:
		return "UPDATE"
	case UpdateStatus:
		return "UPDATE status"
	case Finalize:
		return "UPDATE finalize"
	case Delete:
		return "DELETE"
	}
	return "none"
}

// admission collects the reads and writes of the plugins during one attempt. It reads every
// entry once, so that all plugins see the same.
type admission struct {
	core      *core
	namespace string
	resource  string // of the write, for messages
	name      string
	own       func(key string) bool // reports whether the write itself is about the key

	gate     gateUse
	reads    []readSet
	replaced []*replacement
}

// readSet is the result of one Get or List.
type readSet struct {
	content  *Content
	prefix   string
	complete bool // all entries of the prefix
	stale    bool // read before RequireGate: only to be replaced
	entries  []store.Entry
}

// replacement is another object that the transaction writes, or requires unchanged.
type replacement struct {
	content *Content
	before  store.Entry
	value   []byte // nil: remove it
}

// entry returns the replaced object, at the revision at which it was read.
func (r *replacement) entry() store.Entry {
	return store.Entry{Key: r.before.Key, Value: r.value, Revision: r.before.Revision}
}

func (c *core) hasAdmission() bool { return len(c.admission) > 0 }

// admit calls the plugins. After each it calls restrict, which restores the fields that the
// plugin may not change and validates the rest.
func (a *admission) admit(ctx context.Context, w *Write, restrict func() error) error {
	w.attempt = a
	for i, plugin := range a.core.admission {
		if err := plugin.Admit(ctx, w); err != nil {
			if ctx.Err() != nil {
				return storeError(a.resource, a.name, err)
			}
			return a.refusal(err)
		}
		if err := restrict(); err != nil {
			return fmt.Errorf("%w: plugin %d (%T) made %s %q invalid: %w", ErrAdmission, i, plugin, a.resource, a.name, err)
		}
	}
	return nil
}

// refusal converts the error of a plugin into the answer to the client.
func (a *admission) refusal(err error) error {
	var typed *namespace.Error
	var read readError
	if errors.As(err, &typed) || errors.As(err, &read) || errors.Is(err, ErrAdmission) {
		return err
	}
	object := a.resource
	if a.name != "" {
		object = fmt.Sprintf("%s %q", a.resource, a.name)
	}
	return &namespace.Error{
		Kind: namespace.ErrForbidden, Resource: a.resource, Name: a.name, Err: err,
		Message: fmt.Sprintf("%s is forbidden: %v", object, err),
	}
}

// join adds the conditions and writes requested by plugins to a transaction. If plugins use
// the gate, the revision that they saw replaces a cached one. The nil admission adds nothing.
func (a *admission) join(ctx context.Context, conditions []store.Condition, do []store.Operation) ([]store.Condition, []store.Operation, error) {
	if a == nil {
		return conditions, do, nil
	}
	conditions, do, err := a.joinGate(ctx, conditions, do)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range a.replaced {
		conditions = append(conditions, store.At(r.before.Key, r.before.Revision))
		switch {
		case r.value == nil:
			do = append(do, store.Delete(r.before.Key))
		case !bytes.Equal(r.value, r.before.Value):
			do = append(do, store.Put(r.before.Key, r.value))
		}
	}
	return conditions, do, nil
}

// joinMutation is join for a mutation, which is then built again if one of the joined
// conditions fails.
func (a *admission) joinMutation(ctx context.Context, m mutation) (mutation, error) {
	if a == nil || m.noop {
		return m, nil
	}
	var err error
	m.retry = true
	m.ifAlso, m.do, err = a.join(ctx, m.ifAlso, m.do)
	return m, err
}

// edit is the change that a request makes to one object. The chain replaces *next.
type edit struct {
	key  string
	old  *Object // nil: it is created
	next *Object // nil: it is removed
}

// admitObjects passes edits of objects in ns through the chain.
func (c *Content) admitObjects(ctx context.Context, ns string, op Verb, edits ...edit) (*admission, error) {
	changes := make([]ObjectChange, len(edits))
	w := &Write{Namespace: ns, DryRun: c.dry, Objects: changes}
	a := &admission{core: c.core, namespace: ns, resource: c.resource}
	for i, e := range edits {
		changes[i] = ObjectChange{Type: c.typ, Verb: op}
		if e.old != nil {
			old := *e.old
			changes[i].Old, a.name = &old, old.Name
		}
		if e.next != nil {
			next := e.next.DeepCopy()
			changes[i].New, a.name = &next, next.Name
		}
	}
	if len(edits) > 1 {
		a.name = ""
	}
	a.own = func(key string) bool {
		return slices.ContainsFunc(edits, func(e edit) bool { return e.key == key })
	}
	err := a.admit(ctx, w, func() error {
		for i, e := range edits {
			if e.next == nil || op == Delete { // the chain cannot change a deletion
				continue
			}
			if err := c.restrict(op, e, changes[i].New); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, e := range edits {
		if e.next == nil || op == Delete {
			continue
		}
		if err := c.take(op, e, *changes[i].New); err != nil {
			return nil, fmt.Errorf("%w: the plugins made %s %q invalid: %w", ErrAdmission, c.resource, e.next.Name, err)
		}
	}
	return a, nil
}

// restrict restores the fields of made that a plugin may not change.
func (c *Content) restrict(op Verb, e edit, made *Object) error {
	if op == UpdateStatus {
		status, managed := made.Fields[statusField], made.ManagedFields
		*made = e.next.DeepCopy()
		made.Fields, made.ManagedFields = withStatus(made.Fields, status), managed
	}
	made.TypeMeta, made.Name, made.Namespace = e.next.TypeMeta, e.next.Name, e.next.Namespace
	made.setOwned(e.next.Meta)
	if !made.DeletionTimestamp.IsZero() {
		made.Finalizers = e.next.Finalizers
	}
	if e.old == nil {
		return c.validate(*made)
	}
	return c.validateUpdate(*e.old, *made)
}

// take replaces the object of an edit by the result of the chain.
func (c *Content) take(op Verb, e edit, made Object) error {
	fields, wrong := compactFields(made.Fields)
	if err := c.typ.Invalid(clip(made.Name), wrong); err != nil {
		return err
	}
	made.Fields = fields
	if op == Update {
		made = c.replacing(*e.old, made)
	}
	*e.next = made
	return nil
}

// admittedReplacement passes a replacement through the chain and returns its mutation. The objects are
// passed by value, so that they stay on the stack without a chain.
func (c *Content) admittedReplacement(ctx context.Context, ns string, op Verb, entry store.Entry, old, next Object) (mutation, Object, error) {
	e := edit{key: entry.Key, old: &old, next: &next}
	if removable(next.Meta) {
		e.next = nil
	}
	a, err := c.admitObjects(ctx, ns, op, e)
	if err != nil {
		return mutation{}, next, err
	}
	m, err := c.replacementMutation(next, entry)
	if err == nil {
		m, err = a.joinMutation(ctx, m)
	}
	return m, next, err
}

// admittedDeletion passes a deletion through the chain. next is old with its
// deletion timestamp.
func (c *Content) admittedDeletion(ctx context.Context, ns string, m mutation, entry store.Entry, old, next Object) (mutation, error) {
	a, err := c.admitObjects(ctx, ns, Delete, deletionEdit(entry, m, old, next))
	if err != nil {
		return mutation{}, err
	}
	return a.joinMutation(ctx, m)
}

func deletionEdit(entry store.Entry, m mutation, old, next Object) edit {
	if m.remove {
		return edit{key: entry.Key, old: &old}
	}
	return edit{key: entry.Key, old: &old, next: &next}
}

// namespaceEdit is the change that a request makes to a namespace. The chain replaces *next.
type namespaceEdit struct {
	op        Verb
	old, next *namespace.Namespace                          // no old: it is created; no next: it is removed
	prepare   func(namespace.Namespace) namespace.Namespace // restores the fields that op may not change
	validate  func(namespace.Namespace) error
}

var errRemovable = errors.New("only a client can remove the last finalizer")

// admitNamespace passes an edit of a namespace through the chain.
func (r *Registry) admitNamespace(ctx context.Context, name string, e namespaceEdit) (*admission, error) {
	change := &NamespaceChange{Verb: e.op}
	if e.old != nil {
		old := *e.old
		change.Old = &old
	}
	if e.next != nil {
		next := e.next.DeepCopy()
		change.New = &next
	}
	key := r.keys.namespace(name)
	a := &admission{
		core: r.core, namespace: name, resource: namespace.Resource, name: name,
		own: func(k string) bool { return k == key },
	}
	err := a.admit(ctx, &Write{Namespace: name, DryRun: r.dry, Itself: change}, func() error {
		if e.next == nil || e.op == Delete { // the chain cannot change a deletion
			return nil
		}
		change.New.Name = name
		made := e.prepare(*change.New)
		if err := e.validate(made); err != nil {
			return err
		}
		if namespace.Removable(made) {
			return errRemovable
		}
		*e.next, *change.New = made, made.DeepCopy()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// admittedMutation passes a change of a namespace through the chain and builds its mutation. The
// namespaces are passed by value, so that they stay on the stack without a chain.
func (r *Registry) admittedMutation(ctx context.Context, op Verb, old, next namespace.Namespace,
	prepare func(old, asked namespace.Namespace) namespace.Namespace, validate func(old, next namespace.Namespace) error,
	build func(old, next namespace.Namespace) (mutation, error),
) (mutation, namespace.Namespace, error) {
	e := namespaceEdit{
		op: op, old: &old, next: &next,
		prepare:  func(n namespace.Namespace) namespace.Namespace { return prepare(old, n) },
		validate: func(n namespace.Namespace) error { return validate(old, n) },
	}
	if namespace.Removable(next) {
		e.next = nil
	}
	a, err := r.admitNamespace(ctx, old.Name, e)
	if err != nil {
		return mutation{}, next, err
	}
	m, err := build(old, next)
	if err == nil {
		m, err = a.joinMutation(ctx, m)
	}
	return m, next, err
}

// insertAdmitted passes the creation of a namespace through the chain and returns the result
// and the transaction that creates it.
func (r *Registry) insertAdmitted(ctx context.Context, n namespace.Namespace, at time.Time) (namespace.Namespace, store.Entry, store.Txn, error) {
	uid := n.UID
	a, err := r.admitNamespace(ctx, n.Name, namespaceEdit{
		op: Create, next: &n, validate: declare.ValidateCreate,
		prepare: func(n namespace.Namespace) namespace.Namespace {
			return namespace.PrepareCreate(n, r.finalizer, uid, at)
		},
	})
	if err != nil {
		return n, store.Entry{}, store.Txn{}, err
	}
	entry, txn, err := r.insertion(ctx, n)
	if err == nil {
		txn.If, txn.Do, err = a.join(ctx, txn.If, txn.Do)
	}
	return n, entry, txn, err
}

// content returns the content of a type that w may read.
func (w *Write) content(resource namespace.ResourceType) (*admission, *Content, string, error) {
	a := w.attempt
	c, err := a.core.content(resource)
	if err != nil && validateTypeName(resource) == nil {
		c, err = a.core.undeclaredContent(resource), nil
	}
	if err != nil {
		return nil, nil, "", err
	}
	switch {
	case !c.typ.Namespaced:
		return a, c, "", nil
	case a.namespace == "":
		return nil, nil, "", badRequest(c.resource, "", "%s belong to namespaces: the write of a cluster-scoped object cannot read them", c.resource)
	}
	return a, c, a.namespace, nil
}

// readError is a failure to read, as opposed to a refusal.
type readError struct{ error }

func (e readError) Unwrap() error { return e.error }

// Get returns an object of the write's namespace, or a cluster-scoped one, as it is stored or
// as an earlier plugin replaces it. It returns [namespace.ErrNotFound] if there is none.
// Objects of the write itself are returned as they are stored. Get reads each object once in an
// attempt. An undeclared type counts as namespaced; objects that another version of the host
// has stored can be read, but not replaced. For a type that no registry can declare the error
// is [namespace.ErrNotFound].
//
// Get puts no condition on the commit: see [Write.Replace] and [Write.RequireGate].
func (w *Write) Get(ctx context.Context, resource namespace.ResourceType, name string) (Object, error) {
	a, c, ns, err := w.content(resource)
	if err != nil {
		return Object{}, err
	}
	t, err := c.target(ns, name)
	if err != nil {
		return Object{}, err
	}
	if r := a.replacement(t.key); r != nil {
		if r.value == nil {
			return Object{}, notFound(c.resource, name)
		}
		return readObject(r.entry())
	}
	for _, r := range a.reads {
		for _, e := range r.entries {
			if e.Key == t.key && !r.stale {
				return readObject(e)
			}
		}
	}
	entry, err := a.core.store.Get(ctx, t.key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Object{}, notFound(c.resource, name)
	case err != nil:
		return Object{}, readError{storeError(c.resource, name, err)}
	}
	a.reads = append(a.reads, readSet{content: c, entries: []store.Entry{entry}})
	return readObject(entry)
}

func readObject(e store.Entry) (Object, error) {
	o, err := decodeObject(e)
	if err != nil {
		err = readError{err}
	}
	return o, err
}

// List returns all objects of a type in the write's namespace, or of a cluster-scoped type,
// ordered by name. The conditions of [Write.Get] apply.
func (w *Write) List(ctx context.Context, resource namespace.ResourceType) ([]Object, error) {
	a, c, ns, err := w.content(resource)
	if err != nil {
		return nil, err
	}
	entries, err := a.list(ctx, c, c.keys.content(c.typ.Name(), ns))
	if err != nil {
		return nil, readError{storeError(c.resource, "", err)}
	}
	objects := make([]Object, 0, len(entries))
	for _, e := range entries {
		if r := a.replacement(e.Key); r != nil {
			if r.value == nil {
				continue
			}
			e = r.entry()
		}
		o, err := readObject(e)
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}

func (a *admission) list(ctx context.Context, c *Content, prefix string) ([]store.Entry, error) {
	for _, r := range a.reads {
		if r.complete && !r.stale && r.prefix == prefix {
			return r.entries, nil
		}
	}
	page, err := a.core.store.List(ctx, store.Query{Prefix: prefix})
	if err != nil {
		return nil, err
	}
	a.reads = append(a.reads, readSet{content: c, prefix: prefix, complete: true, entries: page.Entries})
	return page.Entries, nil
}

// Replace makes the commit write updated in place of old, which must be another object that
// Get or List has returned. If old has changed by then, the write is tried again. The registry
// restores the metadata that it owns; everything else may change, including the status. An
// updated that equals old only requires that old is unchanged. An object that is being deleted
// and loses its last finalizer is removed.
//
// Derive the replacement from the objects before and after the write; do not count requests.
// After an unknown outcome the registry cannot distinguish this write from an identical write
// of another client. If the other one landed, this write reports success, but only the other
// one's replacements were made.
//
// If several plugins replace one object, the later passes the result of its own Get or List as
// old. An outdated old, an object that was not read, and an object of the write itself are
// [ErrAdmission]; an updated that cannot be stored is [namespace.ErrInvalid].
func (w *Write) Replace(old, updated Object) error {
	a := w.attempt
	before, c := a.find(old)
	if c == nil {
		return fmt.Errorf("%w: %s %q of resourceVersion %s was not read by this write: replace objects that Get or List return",
			ErrAdmission, clip(old.Kind), clip(old.Name), clip(old.ResourceVersion))
	}
	if a.own(before.Key) {
		return fmt.Errorf("%w: %s %q is an object of the write itself: change its New", ErrAdmission, c.resource, old.Name)
	}
	earlier := a.replacement(before.Key)
	if earlier != nil {
		if was, err := encodeObject(old); err != nil || !bytes.Equal(was, earlier.value) {
			return fmt.Errorf("%w: %s %q was replaced since it was read: read it again", ErrAdmission, c.resource, old.Name)
		}
	}
	value, err := c.replacementValue(before, updated)
	if err != nil {
		return err
	}
	if earlier == nil {
		earlier = &replacement{content: c, before: before}
		a.replaced = append(a.replaced, earlier)
	}
	earlier.value = value
	return nil
}

// replacementValue returns the value that replaces the object of an entry by updated, or nil
// if the object is removed.
func (c *Content) replacementValue(entry store.Entry, updated Object) ([]byte, error) {
	old, err := decodeObject(entry)
	if err != nil {
		return nil, err
	}
	if updated.Name != old.Name || updated.Namespace != old.Namespace || updated.UID != old.UID {
		return nil, fmt.Errorf("%w: the replacement of %s %q must be the same object, with its name, namespace and uid", ErrAdmission, c.resource, old.Name)
	}
	asked, err := c.normalize(old.Namespace, updated)
	if err != nil {
		return nil, err
	}
	next := c.replacing(old, asked)
	if err := c.validateUpdate(old, next); err != nil {
		return nil, err
	}
	if removable(next.Meta) {
		return nil, nil
	}
	return c.encode(next)
}

// find returns the entry and the content that an object was read from; no content: none.
func (a *admission) find(o Object) (store.Entry, *Content) {
	readFrom := func(e store.Entry, c *Content) bool {
		prefix, ok := strings.CutSuffix(e.Key, o.Name)
		return ok && o.Kind == c.typ.Kind && o.APIVersion == c.typ.APIVersion() && o.ResourceVersion == formatVersion(e.Revision) &&
			prefix == c.keys.content(c.typ.Name(), o.Namespace)
	}
	for _, r := range a.replaced {
		if readFrom(r.before, r.content) {
			return r.before, r.content
		}
	}
	for _, r := range a.reads {
		for _, e := range r.entries {
			if readFrom(e, r.content) {
				return e, r.content
			}
		}
	}
	return store.Entry{}, nil
}

func (a *admission) replacement(key string) *replacement {
	for _, r := range a.replaced {
		if r.before.Key == key {
			return r
		}
	}
	return nil
}
