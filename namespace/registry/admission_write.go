package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store"
)

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
