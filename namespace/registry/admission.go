package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/store"
)

// Admission looks at what is about to be committed. It may change the objects,
// have conditions and further writes join the same commit, or refuse it with an
// error. Options.Admission is an ordered chain of them: each sees what those
// before it made of the write. The gate (rule R6) and the immortal names are not
// links of the chain: they are always there, and what they refuse is refused in
// their words.
//
// Admit is called anew, with everything read again, for every attempt at a commit,
// so it must have no effects beyond w: it must not write through a registry, not
// even for a dry run, though it may read through one. It is called by many
// goroutines at once. An update that changes nothing is asked about, but commits
// nothing.
//
// A refusal that is a [*namespace.Error] is answered as it is, and so is what the
// methods of w fail with; any other is [namespace.ErrForbidden], and says `widgets
// "a" is forbidden:` before its text.
//
// What a pass deletes of a terminating namespace is not asked about: nothing may
// keep it from becoming empty (rule R12). For the same reason a link should not
// refuse [Finalize], nor what happens to a namespace that is terminating.
type Admission interface {
	Admit(ctx context.Context, w *Write) error
}

// ErrAdmission is in the chain of every error that says that a link of the
// admission chain did what it may not; the error names the link.
var ErrAdmission = errors.New("registry: admission broke a rule")

// Write is what one commit is about to do: to one namespace, or to objects of one
// type in one namespace (several, when a collection is deleted). It is valid until
// Admit returns, and belongs to the goroutine that called Admit. A link may change the
// New of its changes; everything else is read-only ([ErrAdmission]), also the maps and
// slices in it, which are not looked at again.
type Write struct {
	Namespace string // of the objects; for a namespace its own name; empty: cluster-scoped
	DryRun    bool   // it is only checked; see [Registry.DryRun]

	Itself  *NamespaceChange // what happens to the namespace itself; nil: nothing
	Objects []ObjectChange

	attempt *admission
}

// NamespaceChange is what a commit does to a namespace. New may be changed where the
// client could have changed it by this operation, and nowhere else ([ErrAdmission]).
// As for a client, the label [namespace.NameLabel] is put back in a Create or an
// Update, and the registry's finalizer in a Create (rule R5).
type NamespaceChange struct {
	Operation Operation
	Old, New  *namespace.Namespace // no Old: it is created. No New: it is removed
}

// ObjectChange is what a commit does to an object. New may be changed where the client
// could have changed it by this operation; in a Create or an Update also its status.
// Anything else is [ErrAdmission]: who it is, what the registry keeps in its metadata,
// what a deletion leaves of it, and the finalizers of an object that is being deleted.
type ObjectChange struct {
	Type      ResourceType
	Operation Operation
	Old, New  *Object // no Old: it is created. No New: it is removed
}

// Operation is what a client asked for. The zero value is none.
type Operation uint8

// The operations. An Update or Finalize that takes the last finalizer from what is
// being deleted removes it: it has no New then. What puts a namespace on hold and takes
// it off again is an Update. Where a client asked for its deletion
// ([Registry.DeleteAfter], [declare.GraceAnnotation]) that is asked about before, as a
// Delete in a dry run; the Delete itself comes when the hold is over, from whoever runs
// package hold. A hold that is set by the annotation is an Update alone.
const (
	Create Operation = iota + 1
	Update
	UpdateStatus
	Finalize
	Delete // New is what is left of the object: none, or with its deletionTimestamp set
)

// String returns the operation as Kubernetes writes it in admission reviews, where
// it has one.
func (o Operation) String() string {
	switch o {
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

// asks reports whether there is a chain to ask.
func (c *core) asks() bool { return len(c.admission) > 0 }

var (
	errOthers   = errors.New("the objects of a write cannot be others, nor more or fewer")
	errReadOnly = errors.New("what a write is about cannot be changed: only New can")
)

// ask asks link by link, and has check look at what each has made of w.
func (c *core) ask(ctx context.Context, w *Write, a *admission, check func() error) error {
	w.attempt = a
	defer func() { w.attempt = nil }()
	given := *w
	inside := context.WithValue(ctx, insideWrite{}, true)
	for i, link := range c.admission {
		if err := link.Admit(inside, w); err != nil {
			if ctx.Err() != nil {
				return stored(a.resource, a.name, err)
			}
			return a.refusal(err)
		}
		err := error(errReadOnly)
		if w.Namespace == given.Namespace && w.DryRun == given.DryRun && w.Itself == given.Itself && w.attempt == a {
			err = check()
		}
		if err != nil {
			return fmt.Errorf("%w: link %d (%T), about %s %q: %w", ErrAdmission, i, link, a.resource, a.name, err)
		}
	}
	return nil
}

// refusal is what a link failed with, as it is answered.
func (a *admission) refusal(err error) error {
	var typed *namespace.Error
	var read readError
	if errors.As(err, &typed) || errors.As(err, &read) || errors.Is(err, ErrAdmission) {
		return err
	}
	what := a.resource
	if a.name != "" {
		what = fmt.Sprintf("%s %q", a.resource, a.name)
	}
	return &namespace.Error{
		Kind: namespace.ErrForbidden, Resource: a.resource, Name: a.name, Err: err,
		Message: fmt.Sprintf("%s is forbidden: %v", what, err),
	}
}

// join adds what the links have had join the commit to its conditions and
// operations. The gate as the links have read it takes the place of a cached one.
func (a *admission) join(ctx context.Context, conditions []store.Condition, do []store.Operation) ([]store.Condition, []store.Operation, error) {
	if a == nil {
		return conditions, do, nil
	}
	if (a.hold || a.touch) && a.namespace != "" {
		if err := a.lookForGate(ctx); err != nil {
			return nil, nil, err
		}
		if a.gate != nil {
			conditions = holding(conditions, *a.gate)
			do = a.touching(do)
		} else { // a creation wants a gate as well: when there is one by now it is tried again
			conditions = append(conditions, store.Absent(a.core.keys.gate(a.namespace)))
		}
	}
	for _, r := range a.replaced {
		conditions = append(conditions, store.At(r.before.Key, r.before.Revision))
		switch {
		case r.value == nil:
			do = append(do, store.Delete(r.before.Key))
		case string(r.value) != string(r.before.Value):
			do = append(do, store.Put(r.before.Key, r.value))
		}
	}
	return conditions, do, nil
}

func holding(conditions []store.Condition, gate store.Entry) []store.Condition {
	for i := range conditions {
		if conditions[i].Key == gate.Key {
			conditions[i] = store.At(gate.Key, gate.Revision)
			return conditions
		}
	}
	return append(conditions, store.At(gate.Key, gate.Revision))
}

// touching adds the operation that rewrites the gate, if it is to be touched and
// the commit does not write it anyway.
func (a *admission) touching(do []store.Operation) []store.Operation {
	if !a.touch {
		return do
	}
	for i := range do {
		if do[i].Key == a.gate.Key {
			return do
		}
	}
	return append(do, store.Put(a.gate.Key, a.gate.Value))
}

// change is what a request does to one object.
type change struct {
	key  string
	old  *Object // nil: it is created
	next *Object // nil: it is removed; Object is replaced by what the links make of it
}

// admit asks the chain about changes to objects in ns, and puts in place what it
// makes of them. No chain: no admission.
func (c *Content) admit(ctx context.Context, ns string, op Operation, changes ...change) (*admission, error) {
	w := &Write{Namespace: ns, DryRun: c.dry, Objects: make([]ObjectChange, len(changes))}
	a := &admission{core: c.core, namespace: ns, resource: c.resource}
	for i, ch := range changes {
		o := ObjectChange{Type: c.typ, Operation: op}
		if ch.old != nil {
			old := *ch.old
			o.Old, a.name = &old, old.Name
		}
		if ch.next != nil {
			next := ch.next.DeepCopy()
			o.New, a.name = &next, next.Name
		}
		w.Objects[i] = o
	}
	if len(changes) > 1 {
		a.name = ""
	}
	a.own = func(key string) bool {
		return slices.ContainsFunc(changes, func(ch change) bool { return ch.key == key })
	}
	given := slices.Clone(w.Objects)
	if err := c.ask(ctx, w, a, func() error { return c.checkAdmitted(op, changes, given, w.Objects) }); err != nil {
		return nil, err
	}
	for i, ch := range changes {
		if ch.next == nil || op == Delete {
			continue
		}
		if err := c.settle(op, ch, *w.Objects[i].New); err != nil {
			return nil, fmt.Errorf("%w: what the links made of %s %q cannot be stored: %w", ErrAdmission, c.resource, ch.next.Name, err)
		}
	}
	return a, nil
}

// planAdmitted asks the chain about a replacement, and returns what it makes of it,
// and how that is planned. The objects are passed by value, so that they stay off the
// heap where there is no chain.
func (c *Content) planAdmitted(ctx context.Context, ns string, op Operation, entry store.Entry, old, next Object) (plan, Object, error) {
	ch := change{key: entry.Key, old: &old, next: &next}
	if removable(next.Meta) {
		ch.next = nil
	}
	a, err := c.admit(ctx, ns, op, ch)
	if err != nil {
		return plan{}, next, err
	}
	p, err := c.planReplacement(next, entry)
	if err != nil {
		return plan{}, next, err
	}
	p, err = a.planned(ctx, p)
	return p, next, err
}

// planAdmittedDeletion asks the chain about a deletion, which is planned as p.
func (c *Content) planAdmittedDeletion(ctx context.Context, ns string, p plan, entry store.Entry, old, next Object) (plan, error) {
	a, err := c.admit(ctx, ns, Delete, deletionOf(entry, p, old, next))
	if err != nil {
		return plan{}, err
	}
	return a.planned(ctx, p)
}

// deletionOf is the change that p makes of old: next is what is left of it, if
// anything is.
func deletionOf(entry store.Entry, p plan, old, next Object) change {
	if p.gone {
		return change{key: entry.Key, old: &old}
	}
	return change{key: entry.Key, old: &old, next: &next}
}

// settle puts what the links made of an object in the place of what was asked for.
func (c *Content) settle(op Operation, ch change, made Object) error {
	fields, wrong := compacted(made.Fields)
	if err := namespace.Invalid(c.typ.qualifiedKind(), c.resource, clip(made.Name), wrong); err != nil {
		return err
	}
	made.Fields = fields
	made.Meta = made.Meta.DeepCopy()
	if op == Update {
		made = c.updatedWhole(*ch.old, made)
	}
	*ch.next = made
	return nil
}

var (
	errIdentity = errors.New("who an object is, and what the registry keeps in its metadata, cannot be changed")
	errHeld     = errors.New("the finalizers of an object that is being deleted cannot be changed")
	errOnly     = errors.New("only what the client could change by this operation can be changed")
)

// checkAdmitted holds what a link made of the objects that it was given against what
// it may.
func (c *Content) checkAdmitted(op Operation, changes []change, given, made []ObjectChange) error {
	if len(made) != len(changes) {
		return errOthers
	}
	for i, ch := range changes {
		now := made[i].New
		switch {
		case made[i].Operation != op || made[i].Old != given[i].Old || !made[i].Type.equal(c.typ) ||
			ch.old != nil && (!sameOwned(made[i].Old.Meta, ch.old.Meta) || made[i].Old.TypeMeta != ch.old.TypeMeta):
			return errReadOnly
		case (now == nil) != (ch.next == nil):
			return errOthers
		case now == nil:
			continue
		case !sameOwned(now.Meta, ch.next.Meta) || now.TypeMeta != ch.next.TypeMeta:
			return errIdentity
		case !now.DeletionTimestamp.IsZero() && !now.Finalizers.Equal(ch.next.Finalizers):
			return errHeld
		}
		if err := c.checkOne(op, ch, *now); err != nil {
			return err
		}
	}
	return nil
}

func (c *Content) checkOne(op Operation, ch change, made Object) error {
	if op == UpdateStatus || op == Delete {
		if same, err := sameBut(op, made, *ch.next); !same || err != nil {
			return errors.Join(errOnly, err)
		}
	}
	if op == Delete {
		return nil // what is stored is marked whatever is wrong with it, as without a chain
	}
	if ch.old == nil {
		return c.validate(made)
	}
	return c.validateUpdate(*ch.old, made)
}

// sameOwned reports whether a and b agree on what is the registry's.
func sameOwned(a, b namespace.Meta) bool {
	grace := a.DeletionGracePeriodSeconds == nil && b.DeletionGracePeriodSeconds == nil ||
		a.DeletionGracePeriodSeconds != nil && b.DeletionGracePeriodSeconds != nil && *a.DeletionGracePeriodSeconds == *b.DeletionGracePeriodSeconds
	return grace && a.Name == b.Name && a.Namespace == b.Namespace && a.UID == b.UID && a.Generation == b.Generation &&
		a.ResourceVersion == b.ResourceVersion && a.SelfLink == b.SelfLink &&
		a.CreationTimestamp.Equal(b.CreationTimestamp) && a.DeletionTimestamp.Equal(b.DeletionTimestamp)
}

// sameBut reports whether a and b are the same but for what an operation changes.
func sameBut(op Operation, a, b Object) (bool, error) {
	if op == UpdateStatus {
		a.Fields, b.Fields = withStatus(a.Fields, nil), withStatus(b.Fields, nil)
		a.ManagedFields, b.ManagedFields = nil, nil
	}
	x, err := encodeObject(a)
	if err != nil {
		return false, err
	}
	y, err := encodeObject(b)
	return bytes.Equal(x, y), err
}

// planned has an admission join a plan, which is tried again then when one of its
// conditions does not hold.
func (a *admission) planned(ctx context.Context, p plan) (plan, error) {
	if a == nil || p.keep {
		return p, nil
	}
	var err error
	p.again = true
	p.If, p.with, err = a.join(ctx, p.If, p.with)
	return p, err
}

// insertion has an admission join the transaction that creates entry.
func (a *admission) insertion(ctx context.Context, entry store.Entry, txn store.Txn, err error) (store.Entry, store.Txn, error) {
	if a != nil && err == nil {
		txn.If, txn.Do, err = a.join(ctx, txn.If, txn.Do)
	}
	return entry, txn, err
}

// spaceChange is what a request does to a namespace.
type spaceChange struct {
	op        Operation
	old, next *namespace.Namespace // next is replaced by what the links make of it
	// prepare puts back what the operation may not change, validate finds what is wrong
	// then.
	prepare  func(namespace.Namespace) namespace.Namespace
	validate func(namespace.Namespace) error
}

// planAdmitted asks the chain about a change of a namespace, and returns what it
// makes of it, and how that is planned. The namespaces are passed by value, so that
// they stay off the heap where there is no chain.
func (r *Registry) planAdmitted(ctx context.Context, op Operation, old, next namespace.Namespace,
	prepare func(old, asked namespace.Namespace) namespace.Namespace, validate func(old, next namespace.Namespace) error,
	make func(old, next namespace.Namespace) (plan, error),
) (plan, namespace.Namespace, error) {
	ch := spaceChange{
		op: op, old: &old, next: &next,
		prepare:  func(n namespace.Namespace) namespace.Namespace { return prepare(old, n) },
		validate: func(n namespace.Namespace) error { return validate(old, n) },
	}
	if namespace.Removable(next) {
		ch.next = nil
	}
	a, err := r.admit(ctx, old.Name, ch)
	if err != nil {
		return plan{}, next, err
	}
	p, err := make(old, next)
	if err != nil {
		return plan{}, next, err
	}
	p, err = a.planned(ctx, p)
	return p, next, err
}

// insertAdmitted asks the chain about a namespace that is to be created, as
// [Registry.planAdmitted] does.
func (r *Registry) insertAdmitted(ctx context.Context, n namespace.Namespace, at time.Time) (namespace.Namespace, store.Entry, store.Txn, error) {
	uid := n.UID
	a, err := r.admit(ctx, n.Name, spaceChange{
		op: Create, next: &n, validate: declare.ValidateCreate,
		prepare: func(n namespace.Namespace) namespace.Namespace {
			return namespace.PrepareCreate(n, r.finalizer, uid, at)
		},
	})
	if err != nil {
		return n, store.Entry{}, store.Txn{}, err
	}
	entry, txn, err := r.insertion(ctx, n)
	entry, txn, err = a.insertion(ctx, entry, txn, err)
	return n, entry, txn, err
}

// admit asks the chain about a change of a namespace, and puts in place what it
// makes of it.
func (r *Registry) admit(ctx context.Context, name string, ch spaceChange) (*admission, error) {
	itself := &NamespaceChange{Operation: ch.op}
	if ch.old != nil {
		old := *ch.old
		itself.Old = &old
	}
	given := itself.Old
	if ch.next != nil {
		next := ch.next.DeepCopy()
		itself.New = &next
	}
	w := &Write{Namespace: name, DryRun: r.dry, Itself: itself}
	key := r.keys.namespace(name)
	a := &admission{
		core: r.core, namespace: name, resource: namespace.Resource, name: name,
		own: func(k string) bool { return k == key },
	}
	err := r.ask(ctx, w, a, func() error {
		switch {
		case (itself.New == nil) != (ch.next == nil) || len(w.Objects) > 0:
			return errOthers
		case itself.Operation != ch.op || itself.Old != given || given != nil && !sameOwned(given.Meta, ch.old.Meta):
			return errReadOnly
		}
		if itself.New == nil {
			return nil
		}
		return ch.settle(itself.New)
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// settle puts what a link made of the namespace in the place of what was asked for, and
// what a client may leave out back into it.
func (ch spaceChange) settle(made *namespace.Namespace) error {
	next := ch.prepare(*made)
	if ch.op == Create || ch.op == Update {
		made.Labels = maps.Clone(next.Labels)
	}
	if ch.op == Create {
		made.Spec = next.Spec
	}
	if err := ch.validate(next); err != nil {
		return err
	}
	if namespace.Removable(next) {
		return errHeld
	}
	was, err := encodeNamespace(*made)
	if err != nil {
		return err
	}
	is, err := encodeNamespace(next)
	if err != nil {
		return err
	}
	if made.Name != ch.next.Name || !made.DeletionTimestamp.Equal(ch.next.DeletionTimestamp) || !bytes.Equal(was, is) {
		return errOnly
	}
	*ch.next = next
	return nil
}

// admission is what Admit has read, and has had join, in one attempt at a commit.
// Everything is read once, so that all links see the same.
type admission struct {
	core      *core
	namespace string
	resource  string // of the write, in messages
	name      string
	own       func(key string) bool // the commit writes the key anyway

	gate     *store.Entry // nil: none, or not looked for
	looked   bool         // for the gate
	hold     bool
	touch    bool
	reads    []reading
	replaced []*replacement
}

// reading is what was read of one type.
type reading struct {
	content *Content
	prefix  string
	all     bool // these are all there are
	past    bool // before the gate was held: only to be replaced
	entries []store.Entry
}

// replacement is another object that the commit writes, or holds as it is.
type replacement struct {
	content *Content
	before  store.Entry
	value   []byte // nil: it is removed
}

// entry is the object as it is replaced, still of the revision that it was read at.
func (r *replacement) entry() store.Entry {
	return store.Entry{Key: r.before.Key, Value: r.value, Revision: r.before.Revision}
}

var errNoAttempt = fmt.Errorf("%w: a Write is valid until the Admit that was given it returns", ErrAdmission)

// content returns where the objects of a type are that w may read.
func (w *Write) content(resource namespace.ResourceType) (*admission, *Content, string, error) {
	a := w.attempt
	if a == nil {
		return nil, nil, "", errNoAttempt
	}
	c, err := a.core.content(resource)
	if err != nil && checkName(resource) == nil {
		c, err = a.core.undeclaredContent(resource), nil
	}
	if err != nil {
		return nil, nil, "", err
	}
	switch {
	case !c.typ.Namespaced:
		return a, c, "", nil
	case a.namespace == "":
		return nil, nil, "", badRequest(c.resource, "", "%s belong to namespaces: a write of what is cluster-scoped can read none", c.resource)
	}
	return a, c, a.namespace, nil
}

// readError is a failure to read, as opposed to a refusal.
type readError struct{ error }

func (e readError) Unwrap() error { return e.error }

// Get returns an object of the write's namespace, or a cluster-scoped one, as it
// is stored or as an earlier link replaces it; [namespace.ErrNotFound]. The
// objects of the write itself are returned as they are stored, before it. What is
// read once in an attempt is not read again. An undeclared type counts
// as namespaced; objects that another version of the host has stored can be read, but not
// replaced. For a type that no registry can declare the error is [namespace.ErrNotFound].
//
// Reading alone holds nothing: see [Write.Replace] and [Write.HoldGate].
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
			if e.Key == t.key && !r.past {
				return readObject(e)
			}
		}
	}
	entry, err := a.core.store.Get(ctx, t.key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Object{}, notFound(c.resource, name)
	case err != nil:
		return Object{}, readError{stored(c.resource, name, err)}
	}
	a.reads = append(a.reads, reading{content: c, entries: []store.Entry{entry}})
	return readObject(entry)
}

func readObject(e store.Entry) (Object, error) {
	o, err := decodeObject(e)
	if err != nil {
		err = readError{err}
	}
	return o, err
}

// List returns all objects of a type in the write's namespace, or of a
// cluster-scoped type, ordered by name, under the terms of [Write.Get].
func (w *Write) List(ctx context.Context, resource namespace.ResourceType) ([]Object, error) {
	a, c, ns, err := w.content(resource)
	if err != nil {
		return nil, err
	}
	prefix := c.keys.content(c.typ.Name(), ns)
	entries, err := a.list(ctx, c, prefix)
	if err != nil {
		return nil, readError{stored(c.resource, "", err)}
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
		if r.all && !r.past && r.prefix == prefix {
			return r.entries, nil
		}
	}
	page, err := a.core.store.List(ctx, store.Query{Prefix: prefix})
	if err != nil {
		return nil, err
	}
	a.reads = append(a.reads, reading{content: c, prefix: prefix, all: true, entries: page.Entries})
	return page.Entries, nil
}

// HoldGate has the commit happen only if nobody touches the gate of the namespace
// from now on ([Write.TouchGate]), and has Get and List read anew. Call it before the
// reads that it is to hold. It reports whether the namespace is Active. When it is not
// there is no gate, and that is what is held: a commit that comes when there is one
// again, of another incarnation, is tried anew.
func (w *Write) HoldGate(ctx context.Context) (active bool, err error) {
	a := w.attempt
	if a == nil {
		return false, errNoAttempt
	}
	if a.namespace == "" {
		return false, badRequest(a.resource, a.name, "what is cluster-scoped has no gate to hold")
	}
	if !a.hold {
		if err := a.lookForGate(ctx); err != nil {
			return false, err
		}
		a.hold = true
		for i := range a.reads {
			a.reads[i].past = true
		}
	}
	return a.gate != nil, nil
}

func (a *admission) lookForGate(ctx context.Context) error {
	if a.looked {
		return nil
	}
	entry, err := a.core.read(ctx, a.core.keys.gate(a.namespace))
	if err != nil {
		return readError{stored(namespace.Resource, a.namespace, err)}
	}
	a.looked, a.gate = true, entry
	return nil
}

// TouchGate has the commit rewrite the gate of the namespace, for the same
// incarnation, so that every write that held it before ([Write.HoldGate]) is tried
// again. An object that says what may be created, such as a quota, touches the gate
// when it is created: no write slips through that looked before there was one. A
// namespace that is not Active has no gate, and needs none; that there is none is held
// then, as by HoldGate.
func (w *Write) TouchGate() {
	if w.attempt != nil {
		w.attempt.touch = true
	}
}

// Replace has the commit write updated in place of old, another object of the
// write's namespace or a cluster-scoped one, which Get or List has returned; only
// if it is still the same by then, otherwise everything is tried again. What the
// registry keeps in the metadata stays as it is; everything else may change, also
// the status. An updated that equals old only holds it. An object that is being
// deleted and loses its last finalizer is removed.
//
// What is replaced must follow from the state before and after the write, not from how
// often somebody asked for it: after an unknown outcome, what somebody else has made
// identical counts as made by this write, with what joined theirs.
//
// Several may replace one object: the later takes as old what Get or List return
// by then. What was made of an older one, an object of the write itself, or an
// object that was not read before, is refused ([ErrAdmission]); one that may not be
// stored is [namespace.ErrInvalid].
func (w *Write) Replace(old, updated Object) error {
	a := w.attempt
	if a == nil {
		return errNoAttempt
	}
	before, c := a.find(old)
	if c == nil {
		return fmt.Errorf("%w: %s %q of resourceVersion %s was not read by this write: replace what Get or List return",
			ErrAdmission, clip(old.Kind), clip(old.Name), clip(old.ResourceVersion))
	}
	if a.own(before.Key) {
		return fmt.Errorf("%w: %s %q is what the write itself is about: change its New", ErrAdmission, c.resource, old.Name)
	}
	earlier := a.replacement(before.Key)
	if earlier != nil {
		if was, err := encodeObject(old); err != nil || !bytes.Equal(was, earlier.value) {
			return fmt.Errorf("%w: %s %q was replaced since it was read: read it again", ErrAdmission, c.resource, old.Name)
		}
	}
	value, err := c.replaced(before, updated)
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

// replaced returns what is stored when a link replaces the object of an entry; nil
// when it is removed.
func (c *Content) replaced(entry store.Entry, updated Object) ([]byte, error) {
	old, err := decodeObject(entry)
	if err != nil {
		return nil, err
	}
	if updated.Name != old.Name || updated.Namespace != old.Namespace || updated.UID != old.UID {
		return nil, fmt.Errorf("%w: what replaces %s %q must be the same object: name, namespace and uid stay", ErrAdmission, c.resource, old.Name)
	}
	asked, err := c.asked(old.Namespace, updated)
	if err != nil {
		return nil, err
	}
	next := c.updatedWhole(old, asked)
	if err := c.validateUpdate(old, next); err != nil {
		return nil, err
	}
	if removable(next.Meta) {
		return nil, nil
	}
	return c.encode(next)
}

// find returns the entry that was read of an object; no content: none.
func (a *admission) find(o Object) (store.Entry, *Content) {
	for _, r := range a.replaced {
		if a.is(r.before, r.content, o) {
			return r.before, r.content
		}
	}
	for _, r := range a.reads {
		for _, e := range r.entries {
			if a.is(e, r.content, o) {
				return e, r.content
			}
		}
	}
	return store.Entry{}, nil
}

// is reports whether o was read from the entry e of c.
func (a *admission) is(e store.Entry, c *Content, o Object) bool {
	name, ok := strings.CutSuffix(e.Key, o.Name)
	return ok && o.Kind == c.typ.Kind && o.APIVersion == c.typ.APIVersion() && o.ResourceVersion == formatVersion(e.Revision) &&
		name == c.keys.content(c.typ.Name(), o.Namespace)
}

func (a *admission) replacement(key string) *replacement {
	for _, r := range a.replaced {
		if r.before.Key == key {
			return r
		}
	}
	return nil
}
