package registry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store"
)

// WaitRemoved waits until the incarnation uid of a namespace is gone, and returns nil: at
// once if it is gone already, or if the name belongs to another incarnation by now. It
// does not ask for the deletion. If ctx ends first the error wraps its cause, and the
// last failure to read if there was one; such failures are retried with a backoff of up to
// five seconds. Further errors are [namespace.ErrBadRequest] for an empty uid or a name
// that no namespace can have, and [ErrClosed] or [store.ErrClosed].
//
// A watch from the resourceVersion of a DELETE is no replacement: if nothing held the
// namespace, the DELETE removed it, and no event follows.
func (r *Registry) WaitRemoved(ctx context.Context, name, uid string) error {
	if err := checkSegment(namespace.Resource, name); err != nil {
		return err
	}
	if uid == "" {
		return badRequest(namespace.Resource, name, "the uid is empty: name the incarnation to wait for")
	}
	var last error
	for failures := 0; ; failures++ {
		began := time.Now()
		removed, err := r.watchRemoval(ctx, name, uid)
		switch {
		case removed:
			return nil
		case errors.Is(err, ErrClosed) || errors.Is(err, store.ErrClosed):
			return stored(namespace.Resource, name, err)
		case ctx.Err() == nil:
			last = err
		}
		delay := min(10*time.Millisecond<<min(failures, 10), 5*time.Second)
		if time.Since(began) > delay {
			failures = 0 // only a watch that lived resets the backoff
		}
		if err := sleep(ctx, delay-rand.N(delay/4)); err != nil {
			return fmt.Errorf("registry: namespace %q with uid %s is still there: %w", name, uid, errors.Join(err, last))
		}
	}
}

// watchRemoval lists and watches once. It reports whether the incarnation is gone; if
// not, the error says why the watch ended.
func (r *Registry) watchRemoval(ctx context.Context, name, uid string) (removed bool, err error) {
	key := r.keys.namespace(name)
	page, err := r.store.List(ctx, store.Query{Prefix: key, Limit: 1})
	if err != nil {
		return false, err
	}
	if len(page.Entries) == 0 || page.Entries[0].Key != key {
		return true, nil
	}
	h, err := decodeHeader(page.Entries[0].Value)
	if err != nil {
		return false, corrupt(page.Entries[0], err)
	}
	if h.UID != uid {
		return true, nil
	}
	for change, err := range r.namespaces.Watch(ctx, r.keys.namespaces(), page.Position) {
		if err != nil {
			return false, err
		}
		for i := range change.Events {
			if e := &change.Events[i]; e.Key == key && e.Deleted {
				return true, nil
			}
		}
	}
	return false, context.Cause(ctx)
}
