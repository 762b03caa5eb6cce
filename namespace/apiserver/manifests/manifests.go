// Package manifests keeps the objects of a namespace in step with files or with a document at a URL
// (design proposal of Kubernetes, "Kubelet"). The namespace is the one associated with the id of a
// machine or cluster.
//
//	files, err := manifests.Directory("/etc/manifests", nil)
//	s, err := manifests.New(r, "node-7", files, &manifests.Options{CreateNamespace: true})
//	err = s.Run(ctx)
//
// Files contain YAML or JSON objects of the registry's resource types. A file may have several
// documents or lists. The source decodes objects as the API server does for the same kinds
// ([Options].Kinds), and strictly: unknown and duplicate fields are errors. The source creates an
// object that appears, updates one that changes, and deletes one that disappears.
//
// # Ownership
//
// Objects of a source have an annotation ([Annotation]) with the names of the source and the file.
// The source updates and deletes only these objects, on condition that their uid and version have
// not changed since it read them. It reports an object that it does not own ([ErrForeign]) and a
// second document for an object ([ErrDuplicate]), and leaves the object unchanged. Names are used
// verbatim.
//
// A source restores labels, annotations and fields of its objects to the document. It keeps fields
// that other clients add, such as defaults and a status. It keeps their labels and annotations until
// the document changes. It sets the document's finalizers at creation only.
//
// # Failures
//
// A failed read never deletes objects: neither a missing directory or failing server, nor an empty,
// half-written or invalid file. The objects of such a file stay unchanged, also across restarts and
// if another file now has them, until the file is readable or removed. An unreadable file
// without existing objects may be a renamed one: until it can be read, the source deletes nothing. A
// file is accepted completely or not at all.
//
// # Termination
//
// In a terminating namespace nothing is created (rule R6). The source waits without an error. It
// never creates a namespace again that it has seen. If another client does, the source fills the new
// incarnation.
package manifests

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Source provides files. [Directory] and [URL] return sources. A Syncer calls it from one goroutine
// at a time.
type Source interface {
	// Name identifies the source in the annotations of its objects. It must be short and
	// printable, and must not change across restarts.
	Name() string
	// Read returns all current files in a stable order. File names are unique and stable. If Read
	// returns an error, the Syncer changes nothing.
	Read(ctx context.Context) ([]File, error)
}

// File contains documents. It is accepted completely or not at all.
type File struct {
	Name string
	Data []byte // YAML or JSON; must not be modified
	// Err is the reason why an existing file could not be read. The Syncer keeps its objects. It
	// does not report [ErrChanging] as a problem.
	Err error
}

var (
	// ErrForeign reports an existing object that the source does not own.
	ErrForeign = errors.New("the object exists and does not belong to this source")
	// ErrDuplicate reports a second document for an object.
	ErrDuplicate = errors.New("an earlier document describes the same object")
	// ErrDocument reports a malformed file.
	ErrDocument = errors.New("invalid document")
	// ErrSource reports a source that could not be read.
	ErrSource = errors.New("the source cannot be read")
	// ErrChanging reports a file that was modified recently and may be incomplete. A later sync
	// reads it.
	ErrChanging = errors.New("the file was modified recently")
)

// Options are the options of a [Syncer]. Zero fields and a nil *Options mean the defaults.
type Options struct {
	// Name replaces the source's name.
	Name string
	// CreateNamespace creates a missing namespace, unless the Syncer has seen the namespace before.
	CreateNamespace bool
	// Interval is the time between syncs of [Syncer.Run]. Default: 10 s. MaxInterval is the longest
	// time between syncs while the source or the registry fails. Default: 5 min, or Interval if
	// that is longer.
	Interval, MaxInterval time.Duration
	// MaxObjects limits the objects of the source. Default: 10,000. If there are more, a sync
	// changes nothing and returns an error.
	MaxObjects int
	// Kinds are the kinds that an API server over the registry serves. Pass the same list to both.
	// The Syncer decodes objects with the Go type or schema of their kind, and applies Default and
	// Validate. Objects of a type without a kind may have any fields; a server with a built-in kind
	// for the type may fail to encode them as protobuf. A kind without a type in the registry is
	// an error.
	Kinds []kinds.Kind
	// Synced receives the outcome of each sync of [Syncer.Run]. May be nil.
	Synced func(Result, error)
}

func (o Options) withDefaults() Options {
	o.Interval = cmp.Or(o.Interval, 10*time.Second)
	o.MaxInterval = cmp.Or(o.MaxInterval, max(5*time.Minute, o.Interval))
	o.MaxObjects = cmp.Or(o.MaxObjects, 10_000)
	return o
}

func (o Options) validate() error {
	switch {
	case o.Interval < 0:
		return fmt.Errorf("manifests: Options.Interval is %v: it must not be negative", o.Interval)
	case o.MaxObjects < 0:
		return fmt.Errorf("manifests: Options.MaxObjects is %d: it must not be negative", o.MaxObjects)
	case o.MaxInterval < o.Interval:
		return fmt.Errorf("manifests: Options.MaxInterval is %v: it must be at least Interval (%v)", o.MaxInterval, o.Interval)
	case o.Name == "" || len(o.Name) > maxName || !utf8.ValidString(o.Name):
		return fmt.Errorf("manifests: the name %.80q of the source must be valid UTF-8 of 1 to %d bytes", o.Name, maxName)
	}
	return nil
}

const maxName = 1024 // bytes

// Result is the outcome of one sync.
type Result struct {
	Created, Updated, Deleted int
	Unchanged                 int  // objects that match their documents
	Kept                      int  // objects kept because a file could not be read
	Changing                  int  // files that were modified recently
	Deleting                  int  // wanted objects whose deletion has not finished
	Waiting                   bool // the namespace is missing or terminating; the sync changed nothing
}

// Writes returns the number of created, updated and deleted objects.
func (r Result) Writes() int { return r.Created + r.Updated + r.Deleted }

// Problem is the error of one file or object. It does not affect others.
type Problem struct {
	File   string
	Object string // such as "configmaps/a"; empty for an error of the whole file
	Err    error
}

// Error implements error.
func (p *Problem) Error() string {
	where := p.Object
	if where == "" || p.File != "" {
		where = strings.TrimSuffix(fmt.Sprintf("%q: %s", p.File, p.Object), ": ")
	}
	return fmt.Sprintf("manifests: %s: %v", where, p.Err)
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Syncer keeps a namespace in step with a source. Its methods are safe for concurrent use, and
// serialize syncs.
type Syncer struct {
	registry *registry.Registry
	source   Source
	types    typeIndex
	codec    *codec.Codec
	ns       string
	options  Options

	lock     chan struct{}       // held during a sync; guards the fields below
	seen     bool                // a sync has found or created the namespace
	verified map[string]verified // by key
	decoded  map[string]decoded  // the files of the last sync, by name
}

// decoded is an immutable decoded file. The sum identifies its data.
type decoded struct {
	sum       [sha256.Size]byte
	documents []document
	err       error
}

// verified is an object version that matches the document with the hash.
type verified struct{ version, hash string }

// New returns a Syncer that keeps the namespace with the name id in step with src. Two Syncers of
// one namespace need sources with different names. New does no I/O.
func New(r *registry.Registry, id string, src Source, o *Options) (*Syncer, error) {
	if wrong := namespace.ValidateName(id); len(wrong) > 0 {
		return nil, fmt.Errorf("manifests: the id %.80q is not a namespace name: %s", id, strings.Join(wrong, "; "))
	}
	var opts Options
	if o != nil {
		opts = *o
	}
	opts = opts.withDefaults()
	opts.Name = cmp.Or(opts.Name, src.Name())
	if err := opts.validate(); err != nil {
		return nil, err
	}
	types, err := indexTypes(r.Types(), opts.Kinds)
	if err != nil {
		return nil, err
	}
	reader, err := codec.New(opts.Kinds)
	if err != nil {
		return nil, fmt.Errorf("manifests: Options.Kinds: %w", err)
	}
	return &Syncer{
		registry: r, source: src, types: types, codec: reader, ns: id, options: opts,
		lock: make(chan struct{}, 1), verified: map[string]verified{},
	}, nil
}

// Run syncs every Interval until ctx ends, then returns nil. While the source or the registry fails,
// the time between syncs doubles up to MaxInterval.
func (s *Syncer) Run(ctx context.Context) error {
	retry := backoff.Exponential{Min: s.options.Interval, Max: s.options.MaxInterval}
	failures := 0
	for {
		result, failed, err := s.sync(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if s.options.Synced != nil {
			s.options.Synced(result, err)
		}
		wait := s.options.Interval
		if failed {
			wait = retry.Bound(failures)
			failures++
		} else {
			failures = 0
			if result.Changing > 0 {
				wait = min(wait, time.Second)
			}
		}
		if backoff.Sleep(ctx, wait) != nil {
			return nil
		}
	}
}

// Sync syncs once, for hosts with their own loop. If it fails for some files or objects, the error
// joins a [*Problem] for each. If the source or the registry fails, the error matches [ErrSource] or
// is the registry's. A second sync of the same documents writes nothing.
func (s *Syncer) Sync(ctx context.Context) (Result, error) {
	result, _, err := s.sync(ctx)
	return result, err
}
