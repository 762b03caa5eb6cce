package registry

import (
	"context"
	"iter"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/broadcast"
	"github.com/nslifecycle/nslifecycle/store"
)

// indexEvent tells of one entry of an index: a prefix below which a key tells of a
// namespace that it is in some state.
type indexEvent struct {
	kind        indexEventKind
	name, value string // of the entry that was put, or that is gone; none in a synced
	token       string
}

type indexEventKind uint8

const (
	entryPut indexEventKind = iota + 1
	entryGone
	synced // everything up to token was told
)

// follow yields what event makes of the entries of an index, then of a synced, then of
// what happens to them; with a token, what happened since. It is in terms of E what
// [Registry.Terminating] says.
func follow[E any](ctx context.Context, c *core, prefix, after string, event func(indexEvent) E) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		i := indexReader{
			core: c, prefix: prefix,
			tell: func(e indexEvent) bool { return yield(event(e), nil) },
		}
		if err := i.read(ctx, after); err != nil {
			var none E
			yield(none, err)
		}
	}
}

// indexReader is one loop over an index.
type indexReader struct {
	*core
	prefix string
	tell   func(indexEvent) bool // reports whether to go on
	synced bool                  // the first bookmark of the watch would repeat a synced
}

// read tells of everything until nobody wants to know more, or returns why there is no
// more.
func (i *indexReader) read(ctx context.Context, after string) error {
	position, key, ok := decodeToken(i.prefix, after)
	switch {
	case after == "":
		var err error
		if position, ok, err = i.list(ctx); err != nil || !ok {
			return err
		}
		i.synced = true
	case !ok || key != "":
		return badRequest(namespace.Resource, "", "the token is not one of an earlier event: start anew without")
	}
	return i.watch(ctx, position)
}

// list tells of all entries, and returns the position of that, and whether to go on.
func (i *indexReader) list(ctx context.Context) (store.Position, bool, error) {
	q := store.Query{Prefix: i.prefix, Limit: chunk}
	for {
		page, err := i.store.List(ctx, q)
		if err != nil {
			return store.Position{}, false, watchError(namespace.Resource, err)
		}
		for _, e := range page.Entries {
			if !i.tell(i.event(entryPut, e.Key, string(e.Value), "")) {
				return store.Position{}, false, nil
			}
		}
		if !page.More || len(page.Entries) == 0 {
			return page.Position, i.tell(indexEvent{kind: synced, token: i.token(page.Position)}), nil
		}
		q.At, q.After = page.Position, page.Entries[len(page.Entries)-1].Key
	}
}

func (i *indexReader) watch(ctx context.Context, after store.Position) error {
	token := i.token(after)
	for change, err := range i.index.Watch(ctx, i.prefix, after) {
		switch {
		case err != nil:
			return watchError(namespace.Resource, err)
		case len(change.Events) == 0 && i.synced:
			i.synced = false
		case len(change.Events) == 0:
			if !i.tell(indexEvent{kind: synced, token: i.token(change.Position)}) {
				return nil
			}
		case !i.change(change, token):
			return nil
		}
		token = i.token(change.Position)
	}
	return nil
}

// change tells of the events of one commit. Only the last one moves the token on.
func (i *indexReader) change(c *broadcast.Change[string], token string) bool {
	for n := range c.Events {
		e := &c.Events[n]
		if n == len(c.Events)-1 {
			token = i.token(c.Position)
		}
		kind, value := entryPut, e.Value
		if e.Deleted {
			kind, value = entryGone, nil
			if e.Prev != nil {
				value = e.Prev.Value
			}
		}
		if !i.tell(i.event(kind, e.Key, string(value), token)) {
			return false
		}
	}
	return true
}

func (i *indexReader) token(position store.Position) string {
	return encodeToken(i.prefix, position, "")
}

func (i *indexReader) event(kind indexEventKind, key, value, token string) indexEvent {
	return indexEvent{kind: kind, name: strings.TrimPrefix(key, i.prefix), value: value, token: token}
}

// Terminating yields, when after is empty, each namespace that is terminating
// now, then one [namespace.EventSynced], then what happens: each that becomes
// terminating, again with every finalizer that is added to a terminating one, and
// each that is removed. When after is the Token of an earlier event it yields what
// happened since, and an EventSynced as soon as that is caught up. Further
// EventSynced only move the token on.
//
// It reads the index of terminating namespaces alone, so that its cost does not
// grow with those that are Active. The watch ends as [Registry.Watch] does; after
// [namespace.ErrGone] start anew with an empty token. A token that this method did
// not make is [namespace.ErrBadRequest].
func (r *Registry) Terminating(ctx context.Context, after string) iter.Seq2[namespace.TerminationEvent, error] {
	return follow(ctx, r.core, r.keys.index(), after, func(e indexEvent) namespace.TerminationEvent {
		kinds := [...]namespace.TerminationEventType{
			entryPut: namespace.EventTerminating, entryGone: namespace.EventRemoved, synced: namespace.EventSynced,
		}
		return namespace.TerminationEvent{Type: kinds[e.kind], Name: e.name, UID: e.value, Token: e.token}
	})
}
