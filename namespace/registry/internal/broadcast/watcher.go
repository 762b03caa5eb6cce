package broadcast

import (
	"context"

	"github.com/nslifecycle/nslifecycle/store"
)

// watcher is one loop over a [Shared.Watch].
type watcher[T any] struct {
	shared *Shared[T]
	prefix string
	yield  func(*Change[T], error) bool

	at     store.Revision // everything up to here was yielded
	stream *stream[T]     // nil before it joined
	queue  *subscriber[T]
}

// catchUp yields changes from a store watch of its own until the shared stream
// takes over. It reports whether to go on.
func (w *watcher[T]) catchUp(ctx context.Context, after store.Position) bool {
	var joined store.Revision
	for change, err := range w.shared.store.Watch(ctx, w.prefix, after) {
		if err != nil {
			w.yield(nil, err)
			return false
		}
		w.at = change.Position.Revision
		if !w.yield(w.shared.wrap(change), nil) {
			return false
		}
		if w.stream == nil && change.Bookmark() {
			w.queue = newSubscriber[T]()
			var position store.Position
			w.stream, position = w.shared.join(w.prefix, change.Position, w.queue)
			joined = position.Revision
		}
		if w.stream != nil && w.at >= joined {
			return true
		}
	}
	return false
}

// follow yields what the shared stream delivers.
func (w *watcher[T]) follow(ctx context.Context) {
	var changes []*Change[T]
	for {
		var err error
		changes, err = w.queue.take(ctx, changes)
		if err != nil {
			w.yield(nil, err)
			return
		}
		for i, c := range changes {
			changes[i] = nil // the caller may take long
			if c.Position.Revision <= w.at {
				continue
			}
			if ctx.Err() != nil {
				w.yield(nil, context.Cause(ctx))
				return
			}
			w.at = c.Position.Revision
			if !w.yield(c, nil) {
				return
			}
		}
	}
}

func (w *watcher[T]) leave() {
	if w.stream != nil {
		w.shared.leave(w.prefix, w.stream, w.queue)
	}
}
