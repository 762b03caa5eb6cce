package registry

import (
	"context"
	"iter"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/broadcast"
	"github.com/nslifecycle/nslifecycle/store"
)

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
	return func(yield func(namespace.TerminationEvent, error) bool) {
		i := indexReader{core: r.core, yield: yield}
		position, key, ok := decodeToken(r.keys.index(), after)
		switch {
		case after == "":
			if position, ok = i.list(ctx); !ok {
				return
			}
			i.synced = true
		case !ok || key != "":
			yield(namespace.TerminationEvent{}, badRequest(namespace.Resource, "", "the token is not one of an earlier event: start anew without"))
			return
		}
		i.watch(ctx, position)
	}
}

// indexReader is one loop over [Registry.Terminating].
type indexReader struct {
	*core
	yield  func(namespace.TerminationEvent, error) bool
	synced bool // the first bookmark of the watch would repeat an EventSynced
}

// list yields what is terminating now, and returns the position of that, and
// whether to go on.
func (i *indexReader) list(ctx context.Context) (store.Position, bool) {
	q := store.Query{Prefix: i.keys.index(), Limit: chunk}
	for {
		page, err := i.store.List(ctx, q)
		if err != nil {
			i.yield(namespace.TerminationEvent{}, watchError(namespace.Resource, err))
			return store.Position{}, false
		}
		for _, e := range page.Entries {
			if !i.yield(i.event(namespace.EventTerminating, e.Key, string(e.Value), ""), nil) {
				return store.Position{}, false
			}
		}
		if !page.More || len(page.Entries) == 0 {
			return page.Position, i.yield(i.syncedAt(page.Position), nil)
		}
		q.At, q.After = page.Position, page.Entries[len(page.Entries)-1].Key
	}
}

func (i *indexReader) watch(ctx context.Context, after store.Position) {
	token := i.token(after)
	for change, err := range i.index.Watch(ctx, i.keys.index(), after) {
		switch {
		case err != nil:
			i.yield(namespace.TerminationEvent{}, watchError(namespace.Resource, err))
			return
		case len(change.Events) == 0 && i.synced:
			i.synced = false
		case len(change.Events) == 0:
			if !i.yield(i.syncedAt(change.Position), nil) {
				return
			}
		case !i.change(change, token):
			return
		}
		token = i.token(change.Position)
	}
}

// change yields the events of one commit. Only the last one moves the token on.
func (i *indexReader) change(c *broadcast.Change[string], token string) bool {
	for n := range c.Events {
		e := &c.Events[n]
		if n == len(c.Events)-1 {
			token = i.token(c.Position)
		}
		kind, value := namespace.EventTerminating, e.Value
		if e.Deleted {
			kind, value = namespace.EventRemoved, nil
			if e.Prev != nil {
				value = e.Prev.Value
			}
		}
		if !i.yield(i.event(kind, e.Key, string(value), token), nil) {
			return false
		}
	}
	return true
}

func (i *indexReader) token(position store.Position) string {
	return encodeToken(i.keys.index(), position, "")
}

func (i *indexReader) event(kind namespace.TerminationEventType, key, uid, token string) namespace.TerminationEvent {
	return namespace.TerminationEvent{Type: kind, Name: strings.TrimPrefix(key, i.keys.index()), UID: uid, Token: token}
}

func (i *indexReader) syncedAt(position store.Position) namespace.TerminationEvent {
	return namespace.TerminationEvent{Type: namespace.EventSynced, Token: i.token(position)}
}
