package registry

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/internal/keypath"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/broadcast"
	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/keylock"
	"github.com/nslifecycle/nslifecycle/store"
)

// Options configures a [Registry]. Zero fields take the defaults.
type Options struct {
	// Prefix is the first segment, or segments, of all keys; default "registry". If two
	// registries share a store, one prefix must not be the beginning of the other.
	Prefix string
	// Finalizer is added to spec.finalizers at creation if it is missing (rule R5); default
	// [finalizer.Kubernetes]. Its owner is [Registry.Party].
	Finalizer finalizer.Name
	// Immortal lists namespaces that cannot be deleted. Nil means
	// [namespace.DefaultImmortal]; an empty slice means none.
	Immortal []string
	// Types are the resource types of content.
	Types []Type
	// Admission is the chain of plugins that each write of a client passes, in order.
	Admission []Admission
	// WatchQueue is the number of events that may wait for one watcher before its watch ends with
	// [namespace.ErrGone]; default 10,000.
	WatchQueue int
	// WatchQueueBytes bounds the pending changes of one watcher by the size of the stored
	// objects before and after each change; default 32 MiB.
	WatchQueueBytes int
}

func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = keypath.DefaultPrefix
	}
	if o.Finalizer == "" {
		o.Finalizer = finalizer.Kubernetes
	}
	if o.Immortal == nil {
		o.Immortal = namespace.DefaultImmortal()
	}
	if o.WatchQueue == 0 {
		o.WatchQueue = 10_000
	}
	if o.WatchQueueBytes == 0 {
		o.WatchQueueBytes = 32 << 20
	}
	return o
}

// validate checks the options except Prefix and Types.
func (o Options) validate() error {
	if o.WatchQueue < 0 {
		return invalidOption("option WatchQueue is %d, it must not be negative", o.WatchQueue)
	}
	if o.WatchQueueBytes < 0 {
		return invalidOption("option WatchQueueBytes is %d, it must not be negative", o.WatchQueueBytes)
	}
	if err := o.Finalizer.Validate(); err != nil {
		return invalidOption("option Finalizer: %v", err)
	}
	for _, name := range o.Immortal {
		if wrong := namespace.ValidateName(name); len(wrong) > 0 {
			return invalidOption("option Immortal: %q is not a valid name of a namespace", clip(name))
		}
	}
	for i, plugin := range o.Admission {
		if plugin == nil {
			return invalidOption("option Admission: plugin %d of %d is nil", i, len(o.Admission))
		}
	}
	return nil
}

// Registry keeps namespaces and content. Create one with [New]. All methods are safe for
// concurrent use. Arguments and results share no memory with the registry.
type Registry struct {
	*core
	dry bool
}

// core is shared by a registry, its dry-run view and its Content handles.
type core struct {
	store     *formatStore
	counter   store.Counter // nil if the store cannot count
	limits    store.Limits
	keys      layout
	finalizer finalizer.Name
	immortal  []string
	types     map[namespace.ResourceType]declaredType
	admission []Admission
	locks     keylock.Locks // of keys that admission plugins write
	gates     gateCache
	audit     *audit.Log // of declarations

	namespaces *broadcast.Shared[namespace.Namespace]
	objects    *broadcast.Shared[Object]
	indexes    *broadcast.Shared[string] // entries of .terminating and .hold
}

// declaredType is a resource type of [Options].Types.
type declaredType struct {
	Type
	record *typeRecordCache
	kind   kind[Object]
}

// New returns a registry over s; nil options are all defaults. Invalid options are
// [namespace.ErrInvalid]. New does not use the store. The first call of a method checks the
// format of the stored data ([ErrFormat]); [Registry.Ping] does only that and one read.
func New(s store.Store, options *Options) (*Registry, error) {
	if s == nil {
		return nil, invalidOption("the store is nil")
	}
	if options == nil {
		options = &Options{}
	}
	o := options.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	keys, err := newLayout(o.Prefix)
	if err != nil {
		return nil, err
	}
	log, err := audit.New(s, &audit.Options{Prefix: o.Prefix})
	if err != nil {
		return nil, err
	}
	types := make(map[namespace.ResourceType]declaredType, len(o.Types))
	for _, t := range o.Types {
		if err := t.validate(); err != nil {
			return nil, err
		}
		if _, twice := types[t.Name()]; twice {
			return nil, invalidOption("resource type %q is declared twice", t.Name())
		}
		types[t.Name()] = declaredType{t.copy(), &typeRecordCache{key: keys.typeRecord(t.Name())}, objectKind(t.copy())}
	}
	counter, _ := s.(store.Counter)
	checked := &formatStore{Store: s, key: keys.format()}
	queue := broadcast.Limits{Events: o.WatchQueue, Bytes: o.WatchQueueBytes}
	return &Registry{core: &core{
		store:      checked,
		counter:    counter,
		limits:     store.LimitsOf(s),
		keys:       keys,
		finalizer:  o.Finalizer,
		immortal:   slices.Clone(o.Immortal),
		types:      types,
		admission:  slices.Clone(o.Admission),
		audit:      log,
		namespaces: broadcast.New(checked, decodeNamespace, queue),
		objects:    broadcast.New(checked, decodeObject, queue),
		indexes:    broadcast.New(checked, func(e store.Entry) (string, error) { return string(e.Value), nil }, queue),
	}}, nil
}

// Party returns the primary party: the owner of the finalizer that the registry adds to
// every namespace ([Options].Finalizer). At least one process must run a pass or a
// controller for it. Packages pass and controller use it for the zero Party.
func (r *Registry) Party() namespace.Party {
	return namespace.Party{Finalizer: r.finalizer, Primary: true}
}

// Close ends all watches with [ErrClosed], refuses further watches, and waits for their
// goroutines. It does not close the store, and the other methods continue to work. Close may
// be called more than once and returns nil.
func (r *Registry) Close() error {
	r.namespaces.Close()
	r.objects.Close()
	r.indexes.Close()
	return nil
}

// Ping reads one key of the store. It returns [ErrFormat] if this build cannot read the
// stored data, [namespace.ErrUnavailable] if the store does not answer, and nil if the
// registry can work.
func (r *Registry) Ping(ctx context.Context) error {
	if _, err := r.read(ctx, r.keys.gate("default")); err != nil {
		return storeError(namespace.Resource, "", err)
	}
	return nil
}

// DryRun returns a view of r whose writes are checked like any other write and return the
// expected result, but change nothing. The result has the resourceVersion of the stored
// object that the write would replace.
func (r *Registry) DryRun() *Registry { return &Registry{core: r.core, dry: true} }

// Types returns the declared resource types, sorted by name and group.
func (r *Registry) Types() []Type {
	types := make([]Type, 0, len(r.types))
	for _, t := range r.types {
		types = append(types, t.copy())
	}
	slices.SortFunc(types, func(a, b Type) int { return a.Name().Compare(b.Name()) })
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
