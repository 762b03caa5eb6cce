package registry

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/broadcast"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
	"github.com/nslifecycle/nslifecycle/store"
)

// EventType is the kind of an [Event]. The zero value is none.
type EventType uint8

// The kinds of events, as seen through the selectors of the watch.
const (
	Added    EventType = iota + 1 // it was created, or has begun to match
	Modified                      // it was changed, and matched before
	Deleted                       // it was removed, or no longer matches; Object is as it was last
	Bookmark                      // everything up to ResourceVersion was delivered; there is no Object
)

// String returns the kind as it is written on the wire.
func (t EventType) String() string {
	switch t {
	case Added:
		return "ADDED"
	case Modified:
		return "MODIFIED"
	case Deleted:
		return "DELETED"
	case Bookmark:
		return "BOOKMARK"
	}
	return fmt.Sprintf("EventType(%d)", uint8(t))
}

// Event is a change of one object, or a bookmark.
type Event[T any] struct {
	Type   EventType
	Object T
	// ResourceVersion is where to resume after this event. In the midst of what one
	// commit did to several objects it is the version before that commit, so that
	// resuming repeats events of it rather than losing any.
	ResourceVersion string

	source    *broadcast.Event[T]      // where Object is from; nil: a bookmark, or not of a watch
	encodings *broadcast.Encodings     // nil: not of a watch
	meta      func(*T) *namespace.Meta // of kind[T]
}

// Encoded returns what encode makes of the event: once for the change, for what
// Type says of it, and for form, whoever of the watchers that share the change
// comes first. All of them get the same bytes, or the same error; they are
// read-only, and live as long as the change does.
//
// A form names a way of encoding, and encode may depend on the form and the event
// only. The event that it is given, which it must not change, is as it was
// delivered, whatever became of Object since. Forms should be few.
//
// Watchers that follow one resource type in one namespace, or in all, share their
// changes, but for those that they read to catch up. Encoded may be called by any
// number of goroutines at once.
func (e Event[T]) Encoded(form string, encode func(Event[T]) ([]byte, error)) ([]byte, error) {
	if e.encodings == nil {
		return encode(e)
	}
	return e.encodings.Get(uint8(e.Type), form, func() ([]byte, error) {
		pristine, err := e.delivered()
		if err != nil {
			return nil, err
		}
		return encode(pristine)
	})
}

// delivered returns the event with an object that is shared with other watchers.
func (e Event[T]) delivered() (Event[T], error) {
	if e.source == nil {
		return e, nil
	}
	var err error
	if e.Type == Deleted {
		e.Object, err = e.removed()
	} else {
		e.Object, err = e.source.Now()
	}
	return e, err
}

// removed returns the object as it was last, at the version of the event: that of the
// deletion, or in the midst of a commit the one before it. It is apart, so that only
// deletions move an object to the heap.
func (e *Event[T]) removed() (T, error) {
	object, err := e.source.Before()
	if err == nil {
		e.meta(&object).ResourceVersion = e.ResourceVersion
	}
	return object, err
}

// WatchOptions narrows a watch and says where it begins.
type WatchOptions struct {
	Labels selector.Labels
	Fields selector.Fields // those of [ListOptions]
	// ResourceVersion is that of a list or an event, after which the watch begins.
	// Empty is now. "0", the version of a list of a new store, is the beginning of
	// history, or [namespace.ErrGone] where that is no longer kept.
	ResourceVersion string
	// Repeat is for clients that take the ResourceVersion from an object instead of an
	// event, as clients of Kubernetes do. If the commit at that version wrote several of
	// the watched objects, the client may have seen only some of them. The watch then
	// repeats the whole commit, or ends with [namespace.ErrGone] if the commit is compacted.
	Repeat bool
	// Shared has events share what their objects refer to with other watchers,
	// instead of copying it for each: maps, slices and pointers in them are
	// read-only.
	Shared bool
}

// Watch yields what happens to namespaces, in order, each change once, until the
// caller breaks or ctx ends; then the last error is ctx's cause. It runs in the
// caller's goroutine. A bookmark tells when everything that had happened before
// the loop began was delivered, and from then on keeps the resource version of a
// quiet watch fresh.
//
// The watch ends with [namespace.ErrGone] when its resource version is too old,
// or when the caller falls too far behind: list, and watch from there. One that
// lies ahead of the store ends it with [namespace.ErrBadRequest], which is a
// [*store.FutureError] as well. It ends with [ErrClosed] when the registry is
// closed.
func (r *Registry) Watch(ctx context.Context, o WatchOptions) iter.Seq2[Event[namespace.Namespace], error] {
	return watch(ctx, r.core, r.namespaces, namespaceKind, namespace.Resource, r.keys.namespaces(), r.keys.oneNamespace(o.Fields), o)
}

func watch[T any](ctx context.Context, c *core, shared *broadcast.Shared[T], k kind[T], resource, prefix, key string, o WatchOptions,
) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		match, err := k.match(o.Labels, o.Fields)
		if err != nil {
			yield(Event[T]{}, err)
			return
		}
		after, err := c.position(ctx, resource, o.ResourceVersion)
		if err != nil {
			yield(Event[T]{}, err)
			return
		}
		v := view[T]{kind: k, match: match, key: key, shared: o.Shared, yield: yield}
		begin := after
		if o.Repeat {
			begin = v.resumption.resume(after)
		}
		if err = v.follow(shared.Watch(ctx, prefix, begin)); v.refused(err) {
			if err = c.complete(ctx, prefix, after, err); err == nil {
				err = v.follow(shared.Watch(ctx, prefix, after))
			}
		}
		if err != nil {
			yield(Event[T]{}, watchError(resource, v.asked(err)))
		}
	}
}

// follow yields what there is of changes, until the caller has enough of them, or
// returns why there are no more.
func (v *view[T]) follow(changes iter.Seq2[*broadcast.Change[T], error]) error {
	for change, err := range changes {
		if err != nil {
			return err
		}
		leaveOut, err := skip(&v.resumption, change)
		if err != nil {
			return err
		}
		if !leaveOut && !v.change(change) {
			return nil
		}
	}
	return nil
}

// position returns where a watch from a resourceVersion begins. The store takes
// revision zero for the beginning only together with its epoch, which is not part
// of a version.
func (c *core) position(ctx context.Context, resource, version string) (store.Position, error) {
	revision, err := parseVersion(resource, version)
	if err != nil || version == "" || revision > 0 {
		return store.Position{Revision: revision}, err
	}
	page, err := c.store.List(ctx, store.Query{Prefix: c.keys.namespaces(), Limit: 1})
	if err == nil && page.Position.Epoch == "" {
		err = fmt.Errorf("%w: the store does not name its history", store.ErrGone)
	}
	if err != nil {
		return store.Position{}, watchError(resource, err)
	}
	return store.Position{Epoch: page.Position.Epoch}, nil
}

// watchError is the end of a watch.
func watchError(resource string, err error) error {
	if errors.Is(err, store.ErrGone) {
		return &namespace.Error{
			Kind: namespace.ErrGone, Resource: resource, Err: err,
			Message: "too old resource version: list again and watch from there: " + err.Error(),
		}
	}
	return stored(resource, "", err)
}

// view is what one watcher sees of the changes that it shares with others.
type view[T any] struct {
	kind[T]
	match  func(T) bool // nil: everything
	key    string       // the only one that can match; empty: any
	shared bool         // objects are not copied
	synced bool         // what had happened before the watch began was delivered
	passed int          // commits since then of which the watcher saw nothing, one after another
	resumption
	yield func(Event[T], error) bool
}

// unseen is after how many commits of which a watcher sees nothing it gets a
// bookmark: the store's own ones come only where nothing happens.
const unseen = 100

// change yields the events of one commit, and reports whether to go on.
func (v *view[T]) change(c *broadcast.Change[T]) bool {
	if len(c.Events) == 0 {
		v.synced = true
		return v.bookmark(c)
	}
	seen := false
	for i := range c.Events {
		event, err := v.event(&c.Events[i])
		if err != nil {
			v.yield(Event[T]{}, err)
			return false
		}
		if event.Type == 0 {
			continue
		}
		if seen = true; !v.yield(event, nil) {
			return false
		}
	}
	if seen || !v.synced {
		v.passed = 0
		return true
	}
	if v.passed++; v.passed < unseen {
		return true
	}
	return v.bookmark(c)
}

func (v *view[T]) bookmark(c *broadcast.Change[T]) bool {
	v.passed = 0
	return v.yield(Event[T]{Type: Bookmark, ResourceVersion: c.Resume, encodings: &c.Encodings}, nil)
}

// event returns e as the watcher sees it; the zero Event when it does not.
func (v *view[T]) event(e *broadcast.Event[T]) (Event[T], error) {
	if v.key != "" && v.key != e.Key { // told before anything is decoded
		return Event[T]{}, nil
	}
	was, err := v.matched(e)
	if err != nil {
		return Event[T]{}, err
	}
	is := !e.Deleted
	if is && v.match != nil {
		now, err := e.Now()
		if err != nil {
			return Event[T]{}, err
		}
		is = v.match(now)
	}
	event := Event[T]{ResourceVersion: e.Resume, source: e, encodings: &e.Encodings, meta: v.meta}
	switch {
	case is && was:
		event.Type = Modified
	case is:
		event.Type = Added
	case was:
		event.Type = Deleted
	default:
		return Event[T]{}, nil
	}
	event, err = event.delivered()
	if err != nil {
		return Event[T]{}, err
	}
	if !v.shared {
		event.Object = v.copy(event.Object)
	}
	return event, nil
}

// matched reports whether the watcher saw the object before e.
func (v *view[T]) matched(e *broadcast.Event[T]) (bool, error) {
	if e.Prev == nil || v.match == nil {
		return e.Prev != nil, nil
	}
	before, err := e.Before()
	return err == nil && v.match(before), err
}

// resumption is how a watch goes on for a client that knows versions of objects
// only. Several objects that one commit wrote have the same one, so who has seen
// one of them may not have seen the others: that commit comes again.
type resumption struct {
	at store.Revision // zero: nothing is to be looked at any more
}

// resume returns where the watch is to begin instead of after: before the commit
// that may have to come again.
func (p *resumption) resume(after store.Position) store.Position {
	if after.Revision <= 1 { // the first commit wrote one object; before it is "now"
		return after
	}
	p.at = after.Revision
	after.Revision--
	return after
}

// refused reports whether a watch cannot begin before the commit because the commit is
// compacted.
func (p *resumption) refused(err error) bool {
	refused := p.at > 0 && errors.Is(err, store.ErrGone)
	if refused {
		p.at = 0
	}
	return refused
}

// complete returns nil if a client that knows the version at position has seen every change
// of that commit under prefix. It returns gone, the reason why the commit cannot be repeated,
// if the client may have seen only a part: an object that the commit wrote has its version.
// A deleted object has it only in the last event of the commit.
func (c *core) complete(ctx context.Context, prefix string, position store.Position, gone error) error {
	query := store.Query{Prefix: prefix, At: position, Limit: 500}
	for {
		page, err := c.store.List(ctx, query)
		if err != nil {
			return err
		}
		for _, entry := range page.Entries {
			if entry.Revision == position.Revision {
				return gone
			}
		}
		if !page.More || len(page.Entries) == 0 {
			return nil
		}
		query.At, query.After = page.Position, page.Entries[len(page.Entries)-1].Key
	}
}

// asked returns err as it is for the client's version when it is about the one that
// the watch was to begin at instead.
func (p *resumption) asked(err error) error {
	var future *store.FutureError
	if p.at > 0 && errors.As(err, &future) {
		return &store.FutureError{Asked: p.at, Current: future.Current}
	}
	return err
}

// skip reports whether c is to be left out, because the client has seen all of it.
func skip[T any](p *resumption, c *broadcast.Change[T]) (bool, error) {
	at := p.at
	if at == 0 {
		return false, nil
	}
	if now := c.Position.Revision; now < at { // it tells that nothing more has happened
		return false, &store.FutureError{Asked: at, Current: now}
	}
	p.at = 0
	return c.Position.Revision == at && len(c.Events) > 0 && !apart(c), nil
}

// apart reports whether a client could have seen a part of c and take its version
// for that of the whole. A deletion has a version that tells.
func apart[T any](c *broadcast.Change[T]) bool {
	for i := range len(c.Events) - 1 {
		if !c.Events[i].Deleted {
			return true
		}
	}
	return false
}
