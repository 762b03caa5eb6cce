// Package sources registers the objects that files, or a document at a URL,
// describe into a namespace, and keeps them in step (design document, "Kubelet"):
// the namespace is the one associated with the id of the machine or cluster whose
// files they are.
//
//	manifests, err := sources.Directory("/etc/manifests", nil)
//	s, err := sources.New(r, "node-7", manifests, &sources.Options{CreateNamespace: true})
//	err = s.Run(ctx)
//
// Files hold YAML or JSON, several documents or lists too, of the resource types
// that the registry declares. They are read as the API server reads what it is sent
// for the same kinds ([Options].Kinds), and strictly: fields that a kind does not
// have, or that are given twice, make a file invalid. An object that appears in them is created, one that
// changes is updated, and one that disappears is deleted.
//
// # What it touches
//
// What a source has created carries an annotation ([Annotation]) that says so, and of
// which file it is. Only that is ever updated or deleted, with the uid and the version
// that were looked at as conditions. An object of the same name that is not the
// source's own is reported ([ErrForeign]) and left alone; so is a second document for
// an object ([ErrDuplicate]). Names are taken as they are given.
//
// Of what it owns, a source holds labels, annotations and all fields to what the
// document says. What others add (defaults, a status, labels of their own) stays,
// labels and annotations until the document changes the next time. Finalizers are
// taken from the document at creation and are others' from then on.
//
// # What goes wrong
//
// Whatever cannot be read deletes nothing: not a directory that is away or a server
// that fails, and not a file that is empty, half written or invalid; what such a file
// gave before stays as it is, also after a restart, until the file can be read or is
// gone. What has moved into another file by then is kept too. A file that no object is
// from yet, and that cannot be read, may be another under a new name: while there is
// such a file, nothing is deleted. A file is taken as a whole or not at all.
//
// # Termination
//
// Nothing is created in a namespace that is being deleted (rule R6); the source waits
// then, without an error, and never creates the namespace again once it has seen it.
// When somebody else creates it, the new incarnation is filled.
package sources

import (
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
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Source is where documents come from. [Directory] and [URL] are two. It is called
// by one goroutine at a time.
type Source interface {
	// Name tells the source from others in the marks of what it owns. It must stay the
	// same, also after restarts, and be short and printable.
	Name() string
	// Read returns all files that there are now, in the order in which they are taken.
	// Their names are unique and stay the same. An error says that nothing is known:
	// nothing is changed then.
	Read(ctx context.Context) ([]File, error)
}

// File is some documents that are taken as a whole or not at all.
type File struct {
	Name string
	Data []byte // YAML or JSON; must not change after
	// Err says that the file is there but could not be read: what it gave before is
	// kept. [ErrSettling] is no failure.
	Err error
}

var (
	// ErrForeign says that an object of that name is not the source's own.
	ErrForeign = errors.New("it exists and belongs to somebody else")
	// ErrDuplicate says that an earlier document is about the same object.
	ErrDuplicate = errors.New("an earlier document is about the same object")
	// ErrDocument says that a file is not what the source can register.
	ErrDocument = errors.New("invalid document")
	// ErrSource says that the source could not be read.
	ErrSource = errors.New("the source cannot be read")
	// ErrSettling says that a file has just been written, perhaps not to its end. It is
	// taken when it has stayed the same for a while.
	ErrSettling = errors.New("the file is being written")
)

// Options tunes a [Syncer]. Zero fields, and a nil *Options, take the defaults;
// negative ones are refused with [namespace.ErrInvalid].
type Options struct {
	// Name is used instead of that of the source.
	Name string
	// CreateNamespace creates the namespace when it is missing at the start; it is never
	// created again after the Syncer has seen it.
	CreateNamespace bool
	// Interval is how often [Syncer.Run] looks; default 10 s. MaxInterval is the longest
	// time between two looks while the source or the registry fails; default 5 min, or
	// Interval if that is longer.
	Interval, MaxInterval time.Duration
	// MaxObjects bounds the objects of the source; default 10,000. More are an error that
	// changes nothing.
	MaxObjects int
	// Kinds are those that an API server over the registry serves; give it the same
	// list. What belongs to a kind is read through its Go type or schema, completed by
	// its Default, and held against its Validate. A type of the registry without a kind
	// may have any fields: an object of it may then be one that no server of a built-in
	// kind can give out as protobuf. A kind that the registry does not declare is
	// refused.
	Kinds []kinds.Kind
	// Synced is told about each look of [Syncer.Run]; default: nobody is.
	Synced func(Result, error)
}

const (
	defaultInterval    = 10 * time.Second
	defaultMaxInterval = 5 * time.Minute
	defaultMaxObjects  = 10_000
	maxName            = 1024 // bytes
)

// Result is what one look has done.
type Result struct {
	Created, Updated, Deleted int
	Unchanged                 int  // objects that were as they should be
	Kept                      int  // objects that files that cannot be read now may have
	Settling                  int  // files that are being written
	Dying                     int  // objects that are to be there but still on their way out
	Waiting                   bool // the namespace is missing or being deleted: nothing was done
}

// Writes returns how many objects were written.
func (r Result) Writes() int { return r.Created + r.Updated + r.Deleted }

// Problem is what is wrong with one file or object. Others are not held up by it.
type Problem struct {
	File   string
	Object string // such as "configmaps/a"; empty: the file as a whole
	Err    error
}

// Error implements error.
func (p *Problem) Error() string {
	where := p.Object
	if where == "" || p.File != "" {
		where = strings.TrimSuffix(fmt.Sprintf("%q: %s", p.File, p.Object), ": ")
	}
	return fmt.Sprintf("sources: %s: %v", where, p.Err)
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Syncer keeps a namespace in step with a source. Make one with [New]. Its methods
// are safe for concurrent use; looks follow one another.
type Syncer struct {
	registry *registry.Registry
	source   Source
	types    typeIndex
	codec    *codec.Codec
	space    string
	name     string
	options  Options

	turn     chan struct{}       // held by a look
	seen     bool                // the namespace has been there
	verified map[string]verified // what was found as it should be
	decoded  map[string]decoded  // what the files of the last look hold
}

// decoded is what a file of those bytes holds. It is not changed.
type decoded struct {
	sum       [sha256.Size]byte
	documents []document
	err       error
}

// verified is a version of an object that is as its document wants it.
type verified struct{ version, hash string }

// New returns a Syncer that registers what src describes into the namespace of the
// given id, which is its name. Two Syncers of one namespace need sources of different
// names. Nothing is read or written yet. Arguments that make no sense are
// [namespace.ErrInvalid].
func New(r *registry.Registry, id string, src Source, o *Options) (*Syncer, error) {
	if r == nil {
		return nil, invalid("the registry is nil")
	}
	if src == nil {
		return nil, invalid("the source is nil")
	}
	if wrong := namespace.ValidateName(id); len(wrong) > 0 {
		return nil, invalid("the id %.80q is not the name of a namespace: %s", id, strings.Join(wrong, "; "))
	}
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if opts.Name == "" {
		opts.Name = src.Name()
	}
	if opts.Name == "" || len(opts.Name) > maxName || !utf8.ValidString(opts.Name) {
		return nil, invalid("the name %.80q of the source must be valid UTF-8 of 1 to %d bytes", opts.Name, maxName)
	}
	types, err := indexTypes(r.Types(), opts.Kinds)
	if err != nil {
		return nil, err
	}
	reader, err := codec.New(opts.Kinds)
	if err != nil {
		return nil, fmt.Errorf("sources: option Kinds: %w", err)
	}
	return &Syncer{
		registry: r, source: src, types: types, codec: reader, space: id, name: opts.Name, options: opts,
		turn: make(chan struct{}, 1), verified: map[string]verified{},
	}, nil
}

func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	for _, field := range []struct {
		name  string
		value int64
	}{{"Interval", int64(out.Interval)}, {"MaxInterval", int64(out.MaxInterval)}, {"MaxObjects", int64(out.MaxObjects)}} {
		if field.value < 0 {
			return out, invalid("option %s is negative", field.name)
		}
	}
	if out.Interval == 0 {
		out.Interval = defaultInterval
	}
	if out.MaxInterval == 0 {
		out.MaxInterval = max(defaultMaxInterval, out.Interval)
	}
	if out.MaxInterval < out.Interval {
		return out, invalid("option MaxInterval is %v, it must not be less than Interval, which is %v", out.MaxInterval, out.Interval)
	}
	if out.MaxObjects == 0 {
		out.MaxObjects = defaultMaxObjects
	}
	return out, nil
}

func invalid(format string, args ...any) error {
	return &namespace.Error{Kind: namespace.ErrInvalid, Message: "sources: " + fmt.Sprintf(format, args...)}
}

// Run looks at the source again and again until ctx ends; then it returns nil. What
// goes wrong is told to Options.Synced and tried again: after Interval, or while the
// source or the registry fails after a time that doubles up to MaxInterval.
func (s *Syncer) Run(ctx context.Context) error {
	delay := s.options.Interval
	for {
		result, broken, err := s.sync(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if s.options.Synced != nil {
			s.options.Synced(result, err)
		}
		wait := s.options.Interval
		switch {
		case broken:
			wait = delay
			delay = min(2*delay, s.options.MaxInterval)
		case result.Settling > 0:
			wait = min(wait, time.Second)
			fallthrough
		default:
			delay = s.options.Interval
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// Sync looks once, for hosts with a loop of their own, and returns what it did. The
// error joins a [*Problem] for everything that could not be done, or says why
// nothing could: then it matches [ErrSource], or is that of the registry. A second
// look at the same documents writes nothing.
func (s *Syncer) Sync(ctx context.Context) (Result, error) {
	result, _, err := s.sync(ctx)
	return result, err
}
