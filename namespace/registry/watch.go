package registry

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/broadcast"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
	"github.com/nslifecycle/nslifecycle/store"
)

// EventType is the type of an [Event]. The zero value is invalid.
type EventType uint8

// The types of events, as seen through the selectors of the watch.
const (
	Added    EventType = iota + 1 // the object was created, or matches now
	Modified                      // the object was changed, and matched before
	Deleted                       // the object was removed, or no longer matches; Object is its last state
	Bookmark                      // all events up to ResourceVersion were delivered; there is no Object
)

// String returns the type as it is written on the wire.
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
	// ResourceVersion is the version at which a watch resumes after this event. If one commit
	// changed several objects, all events but the last have the version before that commit, so
	// that a resumed watch repeats events instead of losing some.
	ResourceVersion string

	source    *broadcast.Event[T]      // nil for a bookmark, and outside of a watch
	encodings *broadcast.Encodings     // nil outside of a watch
	meta      func(*T) *namespace.Meta // of kind[T]
}

// Encoded returns the result of encode for the event. All watchers that share a change share
// the result, or the error: encode runs once for each change, Type and form. The bytes are
// read-only and live as long as the change.
//
// A form names an encoding; encode must depend only on the form and the event, and must not
// change the event, which is as it was delivered even if Object has changed since. Use few
// forms. Watchers of one resource type in one namespace, or in all namespaces, share their
// changes, except for those that they read to catch up. Encoded is safe for concurrent use.
func (e Event[T]) Encoded(form string, encode func(Event[T]) ([]byte, error)) ([]byte, error) {
	if e.encodings == nil {
		return encode(e)
	}
	return e.encodings.Get(uint8(e.Type), form, func() ([]byte, error) {
		delivered, err := e.delivered()
		if err != nil {
			return nil, err
		}
		return encode(delivered)
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

// removed returns the last state of the object, at the version of the event. It is a function
// of its own so that only deletions move an object to the heap.
func (e *Event[T]) removed() (T, error) {
	object, err := e.source.Before()
	if err == nil {
		e.meta(&object).ResourceVersion = e.ResourceVersion
	}
	return object, err
}

// WatchOptions selects objects and the start of a watch.
type WatchOptions struct {
	Labels selector.Labels
	Fields selector.Fields // as in [ListOptions]
	// ResourceVersion is the version of a list or an event; the watch begins after it. Empty
	// means now. "0", the version of a list of a new store, means the beginning of history, or
	// [namespace.ErrGone] if the store no longer has it.
	ResourceVersion string
	// Repeat is for clients that take the ResourceVersion from an object instead of an
	// event, as clients of Kubernetes do. If the commit at that version wrote several of
	// the watched objects, the client may have seen only some of them. The watch then
	// repeats the whole commit, or ends with [namespace.ErrGone] if the commit is compacted.
	Repeat bool
	// Shared makes the objects of events share memory with other watchers instead of copying
	// it: their maps, slices and pointers are read-only.
	Shared bool
}

// Watch yields the changes of namespaces, in order, each once, until the caller breaks or ctx
// ends; the last error is then the cause of ctx. It runs in the caller's goroutine. The first
// bookmark follows all changes from before the loop began. Later bookmarks advance the
// resource version of a quiet watch.
//
// The watch ends with [namespace.ErrGone] if its resource version is too old, or if the caller
// falls too far behind: list, and watch from the list's version. A version that the store has
// not reached ends it with [namespace.ErrBadRequest] and [*store.FutureError], a closed
// registry with [ErrClosed].
func (r *Registry) Watch(ctx context.Context, o WatchOptions) iter.Seq2[Event[namespace.Namespace], error] {
	return watch(ctx, r.core, r.namespaces, namespaceKind, namespace.Resource, r.keys.namespaces(), r.keys.onlyNamespace(o.Fields), o)
}

func watch[T any](ctx context.Context, c *core, shared *broadcast.Shared[T], k kind[T], resource, prefix, key string, o WatchOptions,
) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		match, err := k.match(o.Labels, o.Fields)
		if err != nil {
			yield(Event[T]{}, err)
			return
		}
		after, err := c.watchStart(ctx, resource, o.ResourceVersion)
		if err != nil {
			yield(Event[T]{}, err)
			return
		}
		w := watcher[T]{kind: k, match: match, key: key, shared: o.Shared, yield: yield}
		begin := after
		if o.Repeat {
			begin = w.repeat.before(after)
		}
		err = w.follow(shared.Watch(ctx, prefix, begin))
		if w.repeat.refused(err) {
			if err = c.completeAt(ctx, prefix, after, err); err == nil {
				err = w.follow(shared.Watch(ctx, prefix, after))
			}
		}
		if err != nil {
			yield(Event[T]{}, watchError(resource, w.repeat.clientError(err)))
		}
	}
}

// watchStart returns the position of a resourceVersion. A store accepts revision zero as the
// beginning of history only together with its epoch, which is not part of a version.
func (c *core) watchStart(ctx context.Context, resource, version string) (store.Position, error) {
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

func watchError(resource string, err error) error {
	if errors.Is(err, store.ErrGone) {
		return &namespace.Error{
			Kind: namespace.ErrGone, Resource: resource, Err: err,
			Message: "too old resource version: list again and watch from there: " + err.Error(),
		}
	}
	return storeError(resource, "", err)
}

// watcher converts shared changes into the events of one watch.
type watcher[T any] struct {
	kind[T]
	match   func(T) bool // nil: everything
	key     string       // the only key that can match; empty: any
	shared  bool         // do not copy objects
	synced  bool         // all changes from before the watch began were delivered
	skipped int          // consecutive commits since then without an event for this watch
	repeat  repeat
	yield   func(Event[T], error) bool
}

// maxSkipped is the number of commits without an event after which a watch gets a bookmark.
// The store sends bookmarks only while there are no commits.
const maxSkipped = 100

// follow yields the events of changes. It returns nil if the caller breaks, and otherwise the
// error that ended the changes.
func (w *watcher[T]) follow(changes iter.Seq2[*broadcast.Change[T], error]) error {
	for change, err := range changes {
		if err != nil {
			return err
		}
		seen, err := seenBefore(&w.repeat, change)
		if err != nil {
			return err
		}
		if !seen && !w.change(change) {
			return nil
		}
	}
	return nil
}

// change yields the events of one commit, and reports whether to continue.
func (w *watcher[T]) change(c *broadcast.Change[T]) bool {
	if len(c.Events) == 0 {
		w.synced = true
		return w.bookmark(c)
	}
	yielded := false
	for i := range c.Events {
		event, err := w.event(&c.Events[i])
		if err != nil {
			w.yield(Event[T]{}, err)
			return false
		}
		if event.Type == 0 {
			continue
		}
		if yielded = true; !w.yield(event, nil) {
			return false
		}
	}
	if yielded || !w.synced {
		w.skipped = 0
		return true
	}
	if w.skipped++; w.skipped < maxSkipped {
		return true
	}
	return w.bookmark(c)
}

func (w *watcher[T]) bookmark(c *broadcast.Change[T]) bool {
	w.skipped = 0
	return w.yield(Event[T]{Type: Bookmark, ResourceVersion: c.Resume, encodings: &c.Encodings}, nil)
}

// event returns e as the watcher sees it, or the zero Event if it does not.
func (w *watcher[T]) event(e *broadcast.Event[T]) (Event[T], error) {
	if w.key != "" && w.key != e.Key { // compare before anything is decoded
		return Event[T]{}, nil
	}
	was, err := w.matchedBefore(e)
	if err != nil {
		return Event[T]{}, err
	}
	is := !e.Deleted
	if is && w.match != nil {
		now, err := e.Now()
		if err != nil {
			return Event[T]{}, err
		}
		is = w.match(now)
	}
	event := Event[T]{ResourceVersion: e.Resume, source: e, encodings: &e.Encodings, meta: w.meta}
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
	if !w.shared {
		event.Object = w.copy(event.Object)
	}
	return event, nil
}

// matchedBefore reports whether the object matched before e.
func (w *watcher[T]) matchedBefore(e *broadcast.Event[T]) (bool, error) {
	if e.Prev == nil || w.match == nil {
		return e.Prev != nil, nil
	}
	before, err := e.Before()
	return err == nil && w.match(before), err
}

// repeat implements [WatchOptions].Repeat. Several objects that one commit wrote have the same
// version, so a client that has seen one of them may not have seen the others. The watch
// begins before that commit, and omits it if the client has seen all of it.
type repeat struct {
	at store.Revision // the client's version; zero once it is resolved
}

// before returns the position at which the watch begins.
func (r *repeat) before(after store.Position) store.Position {
	if after.Revision <= 1 { // the first commit wrote one object, and revision zero means now
		return after
	}
	r.at = after.Revision
	after.Revision--
	return after
}

// refused reports whether the commit cannot be repeated because the store has compacted it.
func (r *repeat) refused(err error) bool {
	refused := r.at > 0 && errors.Is(err, store.ErrGone)
	if refused {
		r.at = 0
	}
	return refused
}

// clientError converts an error about the position before the commit into one about the
// client's version.
func (r *repeat) clientError(err error) error {
	var future *store.FutureError
	if r.at > 0 && errors.As(err, &future) {
		return &store.FutureError{Asked: r.at, Current: future.Current}
	}
	return err
}

// seenBefore reports whether the client has seen all of c.
func seenBefore[T any](r *repeat, c *broadcast.Change[T]) (bool, error) {
	at := r.at
	if at == 0 {
		return false, nil
	}
	if now := c.Position.Revision; now < at { // a bookmark: the store has not reached the version
		return false, &store.FutureError{Asked: at, Current: now}
	}
	r.at = 0
	return c.Position.Revision == at && len(c.Events) > 0 && !ambiguous(c), nil
}

// ambiguous reports whether an object before the last event of c carries c's version: a client
// that knows this version may have seen only that object. A deleted object does not count, since
// its event has a version of its own.
func ambiguous[T any](c *broadcast.Change[T]) bool {
	for i := range len(c.Events) - 1 {
		if !c.Events[i].Deleted {
			return true
		}
	}
	return false
}

// completeAt returns nil if a client that knows the version at position has seen every change
// of that commit under prefix. It returns gone, the reason why the commit cannot be repeated,
// if the client may have seen only a part: an object that the commit wrote has its version.
// A deleted object has it only in the last event of the commit.
func (c *core) completeAt(ctx context.Context, prefix string, position store.Position, gone error) error {
	query := store.Query{Prefix: prefix, At: position, Limit: chunk}
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

// Terminating yields, if after is empty, a [namespace.EventPresent] for each terminating
// namespace, then one [namespace.EventSynced], then the changes: an EventPresent for each
// namespace that becomes terminating, and for each finalizer added to a terminating one, and a
// [namespace.EventAbsent] for each removal. If after is the Token of an earlier event,
// Terminating yields the events since then, and an EventSynced after the last past event.
// Further EventSynced only advance the token.
//
// Terminating reads only the index of terminating namespaces, so its cost does not grow with
// the number of Active ones. The watch ends as [Registry.Watch] does; after
// [namespace.ErrGone] begin again with an empty token. A token of another method is
// [namespace.ErrBadRequest].
func (r *Registry) Terminating(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
	return watchIndex(ctx, r.core, r.keys.terminations(), after, func(uid string) (string, time.Time) { return uid, time.Time{} })
}

// watchIndex yields the entries of an index, a prefix below which a key exists for each
// namespace in some state, then a synced event, then the changes; with a token, the changes
// since then. [Registry.Terminating] documents the sequence.
func watchIndex(ctx context.Context, c *core, prefix, after string, decode indexDecoder) iter.Seq2[namespace.Event, error] {
	return func(yield func(namespace.Event, error) bool) {
		w := indexWatcher{
			core: c, prefix: prefix, decode: decode,
			yield: func(e namespace.Event) bool { return yield(e, nil) },
		}
		if err := w.run(ctx, after); err != nil {
			yield(namespace.Event{}, err)
		}
	}
}

// indexDecoder decodes the value of an entry.
type indexDecoder func(value string) (uid string, until time.Time)

// indexWatcher is one loop over an index.
type indexWatcher struct {
	*core
	prefix string
	decode indexDecoder
	yield  func(namespace.Event) bool // reports whether to continue
	synced bool                       // omit the next bookmark, which would repeat a synced event
}

// run yields events until the caller breaks, or returns the error that ended them.
func (w *indexWatcher) run(ctx context.Context, after string) error {
	position, key, ok := decodeToken(w.prefix, after)
	switch {
	case after == "":
		var err error
		if position, ok, err = w.list(ctx); err != nil || !ok {
			return err
		}
		w.synced = true
	case !ok || key != "":
		return badRequest(namespace.Resource, "", "the token is not one of an earlier event: begin again with an empty token")
	}
	return w.watch(ctx, position)
}

// list yields all entries, and returns their position and whether to continue.
func (w *indexWatcher) list(ctx context.Context) (store.Position, bool, error) {
	q := store.Query{Prefix: w.prefix, Limit: chunk}
	for {
		page, err := w.store.List(ctx, q)
		if err != nil {
			return store.Position{}, false, watchError(namespace.Resource, err)
		}
		for _, e := range page.Entries {
			if !w.yield(w.event(namespace.EventPresent, e.Key, string(e.Value), "")) {
				return store.Position{}, false, nil
			}
		}
		if !page.More || len(page.Entries) == 0 {
			return page.Position, w.yield(namespace.Event{Type: namespace.EventSynced, Token: w.token(page.Position)}), nil
		}
		q.At, q.After = page.Position, page.Entries[len(page.Entries)-1].Key
	}
}

func (w *indexWatcher) watch(ctx context.Context, after store.Position) error {
	token := w.token(after)
	for change, err := range w.indexes.Watch(ctx, w.prefix, after) {
		switch {
		case err != nil:
			return watchError(namespace.Resource, err)
		case len(change.Events) == 0 && w.synced:
			w.synced = false
		case len(change.Events) == 0:
			if !w.yield(namespace.Event{Type: namespace.EventSynced, Token: w.token(change.Position)}) {
				return nil
			}
		case !w.change(change, token):
			return nil
		}
		token = w.token(change.Position)
	}
	return nil
}

// change yields the events of one commit. Only the last one advances the token.
func (w *indexWatcher) change(c *broadcast.Change[string], token string) bool {
	for n := range c.Events {
		e := &c.Events[n]
		if n == len(c.Events)-1 {
			token = w.token(c.Position)
		}
		kind, value := namespace.EventPresent, e.Value
		if e.Deleted {
			kind, value = namespace.EventAbsent, nil
			if e.Prev != nil {
				value = e.Prev.Value
			}
		}
		if !w.yield(w.event(kind, e.Key, string(value), token)) {
			return false
		}
	}
	return true
}

func (w *indexWatcher) token(position store.Position) string {
	return encodeToken(w.prefix, position, "")
}

func (w *indexWatcher) event(kind namespace.EventType, key, value, token string) namespace.Event {
	e := namespace.Event{Type: kind, Name: strings.TrimPrefix(key, w.prefix), Token: token}
	uid, until := w.decode(value)
	e.UID = uid
	if kind == namespace.EventPresent {
		e.Until = until
	}
	return e
}
