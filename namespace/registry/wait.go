package registry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/store"
)

// WaitRemoved waits until the incarnation uid of a namespace is removed, then returns nil.
// It returns nil at once if the namespace does not exist or is another incarnation. It does
// not request the deletion. Failed reads are retried with a backoff of up to five seconds.
// If ctx ends first the error wraps its cause and the last failed read, if any. WaitRemoved
// returns [namespace.ErrBadRequest] for an empty uid or an invalid name, and [ErrClosed] or
// [store.ErrClosed] after Close.
//
// A watch from the resourceVersion of a DELETE cannot replace it: if no finalizer held the
// namespace, the DELETE itself removed it, and no event follows.
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
			failures = 0 // only a working watch resets the backoff
		}
		if err := backoff.Sleep(ctx, delay-rand.N(delay/4)); err != nil {
			return fmt.Errorf("registry: namespace %q with uid %s is still there: %w", name, uid, errors.Join(err, last))
		}
	}
}

// watchRemoval lists and watches once. It reports whether the incarnation is removed; if
// not, it returns the reason why the watch ended.
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
