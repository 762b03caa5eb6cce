// Package registry keeps namespaces, and content in them, in a [store.Store],
// and enforces the rules about them: what may be created, changed and removed,
// and when (rules R1 to R6, and R8).
//
// A [Registry] keeps the namespaces themselves. Content is declared as resource
// types ([ResourceType]) and reached through [Registry.Content]. Both speak in
// the terms of Kubernetes, with its semantics and its messages; refusals are
// [*namespace.Error]. [Registry.Deleter] deletes content for the passes of packages
// pass and controller, which work on a Registry.
//
// The heart of it is the gate: a key that exists exactly while its namespace is
// Active. Content is created in one commit with the check of the gate, and the
// commit that makes a namespace Terminating deletes the gate. So no content is
// ever created in a namespace that is not Active (rule R6), however requests
// interleave and however many processes share the store.
//
// What else a host asks of writes it says by a chain of links ([Admission]): each may
// change a write, refuse it, or have conditions and further writes join its commit, so
// that a count of objects, say, is exact without a lock.
//
// Deletion is complete at the current revision: no current read returns content of a removed
// namespace. Its values remain readable from older positions through [store.Store.Watch]
// and [store.Store.List] until the store compacts its history.
//
// Any number of registries, in any number of processes, may work on one store.
package registry

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/broadcast"
	"github.com/nslifecycle/nslifecycle/store"
)

// Options tunes a [Registry]. Zero fields take the defaults.
type Options struct {
	// Prefix is what all keys begin with, one or more path segments; default
	// "registry". Of two registries that are to be apart in one store, neither prefix
	// may begin with the segments of the other.
	Prefix string
	// Finalizer is added to spec.finalizers at creation when it is missing (rule
	// R5); default [finalizer.Kubernetes]. Its owner is [Registry.Party].
	Finalizer finalizer.Name
	// Immortal are the names of namespaces that cannot be deleted. Nil is the
	// default: "default", "kube-system", "kube-public"; empty and not nil is none.
	Immortal []string
	// Types are the resource types of content.
	Types []ResourceType
	// Admission is asked about every write that a client asks for, link by link; none
	// is the default, and costs nothing.
	Admission []Admission
	// Queue is how many events may wait for one watcher before its watch is ended
	// with [namespace.ErrGone]; default 10,000.
	Queue int
	// QueueBytes bounds the pending changes of one watcher by the size of the stored
	// objects before and after each change; default 32 MiB.
	QueueBytes int
}

const (
	defaultPrefix     = "registry"
	defaultQueue      = 10_000
	defaultQueueBytes = 32 << 20
)

// Registry keeps namespaces and content. Make one with [New]. All methods are
// safe for concurrent use. Values that methods take and return share nothing with
// the registry.
type Registry struct {
	*core
	dry bool
}

// core is what a registry shares with its dry-run view and its content handles.
type core struct {
	store     store.Store
	limits    store.Limits
	keys      layout
	finalizer finalizer.Name
	immortal  []string
	types     map[namespace.ResourceType]declared
	admission []Admission
	turns     turns
	gates     gates
	audit     *audit.Log // of declarations

	namespaces *broadcast.Shared[namespace.Namespace]
	objects    *broadcast.Shared[Object]
	index      *broadcast.Shared[string] // entries of .terminating and .hold
}

// declared is a declared type.
type declared struct {
	ResourceType
	record *typeMemory
}

// New returns a registry over s. Nil options are all defaults. Options that make
// no sense are refused with [namespace.ErrInvalid]. Nothing is read or written.
func New(s store.Store, options *Options) (*Registry, error) {
	if s == nil {
		return nil, invalidOption("the store is nil")
	}
	var o Options
	if options != nil {
		o = *options
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.Finalizer == "" {
		o.Finalizer = finalizer.Kubernetes
	}
	if o.Immortal == nil {
		o.Immortal = []string{"default", "kube-system", "kube-public"}
	}
	if o.Queue == 0 {
		o.Queue = defaultQueue
	}
	if o.QueueBytes == 0 {
		o.QueueBytes = defaultQueueBytes
	}
	if o.Queue < 0 {
		return nil, invalidOption("option Queue is %d, it must not be negative", o.Queue)
	}
	if o.QueueBytes < 0 {
		return nil, invalidOption("option QueueBytes is %d, it must not be negative", o.QueueBytes)
	}
	if err := o.Finalizer.Validate(); err != nil {
		return nil, invalidOption("option Finalizer: %v", err)
	}
	for _, name := range o.Immortal {
		if wrong := namespace.ValidateName(name); len(wrong) > 0 {
			return nil, invalidOption("option Immortal: no namespace can have the name %q", clip(name))
		}
	}
	for i, link := range o.Admission {
		if link == nil {
			return nil, invalidOption("option Admission: link %d of %d is nil", i, len(o.Admission))
		}
	}
	return newRegistry(s, o)
}

func newRegistry(s store.Store, o Options) (*Registry, error) {
	keys, err := newLayout(o.Prefix)
	if err != nil {
		return nil, err
	}
	log, err := audit.New(s, &audit.Options{Prefix: o.Prefix})
	if err != nil {
		return nil, err
	}
	types := make(map[namespace.ResourceType]declared, len(o.Types))
	for _, t := range o.Types {
		if err := t.check(); err != nil {
			return nil, err
		}
		if _, twice := types[t.Name()]; twice {
			return nil, invalidOption("resource type %q is declared twice", t.Name())
		}
		types[t.Name()] = declared{t.copy(), &typeMemory{key: keys.typeRecord(t.Name())}}
	}
	queue := broadcast.Limits{Events: o.Queue, Bytes: o.QueueBytes}
	return &Registry{core: &core{
		store:      s,
		limits:     store.LimitsOf(s),
		keys:       keys,
		finalizer:  o.Finalizer,
		immortal:   slices.Clone(o.Immortal),
		types:      types,
		admission:  slices.Clone(o.Admission),
		audit:      log,
		namespaces: broadcast.New(s, namespaceKind.decode, queue),
		objects:    broadcast.New(s, objectKind.decode, queue),
		index:      broadcast.New(s, decodeText, queue),
	}}, nil
}

// Party returns the primary party: the owner of the finalizer that the registry adds to
// every namespace ([Options].Finalizer). At least one process must run a pass or a
// controller for it. Packages pass and controller use it for the zero Party.
func (r *Registry) Party() namespace.Party {
	return namespace.Party{Finalizer: r.finalizer, Primary: true}
}

// Close ends all watches with [ErrClosed], refuses further ones, and waits for
// what they share to end. The store stays open: it is the caller's, and the other
// methods go on to work. It may be called more than once, and returns nil.
func (r *Registry) Close() error {
	r.namespaces.Close()
	r.objects.Close()
	r.index.Close()
	return nil
}

// Ping reads a key of the store. It returns the error of the read, for example
// [namespace.ErrUnavailable], or nil.
func (r *Registry) Ping(ctx context.Context) error {
	if _, err := r.read(ctx, r.keys.gate("default")); err != nil {
		return stored(namespace.Resource, "", err)
	}
	return nil
}

// DryRun returns a view of r whose writes are checked against what is stored,
// like any other, and answer what would be, but change nothing. What would be
// written has the resourceVersion of what it would replace.
func (r *Registry) DryRun() *Registry { return &Registry{core: r.core, dry: true} }

// Types returns the declared resource types, sorted by name and group.
func (r *Registry) Types() []ResourceType {
	types := make([]ResourceType, 0, len(r.types))
	for _, t := range r.types {
		types = append(types, t.copy())
	}
	slices.SortFunc(types, func(a, b ResourceType) int { return a.Name().Compare(b.Name()) })
	return types
}

// newUID returns a random UUID (version 4).
func newUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[:8], b[:4])
	hex.Encode(text[9:13], b[4:6])
	hex.Encode(text[14:18], b[6:8])
	hex.Encode(text[19:23], b[8:10])
	hex.Encode(text[24:], b[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}
