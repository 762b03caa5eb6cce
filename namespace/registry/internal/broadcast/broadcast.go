// Package broadcast lets any number of watchers of one key prefix share one watch of the
// store, and decodes each event once for all of them.
//
// A watcher first catches up with a store watch of its own. At the first bookmark it joins
// the shared stream of its prefix, and keeps its own watch only until that has reached the
// point at which it joined. Both may deliver a change; the watcher drops the second by its
// revision. It therefore neither loses nor repeats a change, and in the steady state a prefix
// has one store watch, regardless of the number of watchers.
package broadcast

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/nslifecycle/nslifecycle/store"
)

// ErrClosed ends the watches of a closed registry.
var ErrClosed = errors.New("the registry is closed")

// Decode decodes an entry. Watchers share the result, which must not change.
type Decode[T any] func(store.Entry) (T, error)

// Shared is the shared streams of one store, for objects of type T. All methods are safe for
// concurrent use.
type Shared[T any] struct {
	store  store.Store
	decode Decode[T]
	limits Limits

	life  context.Context // ends with Close
	end   context.CancelCauseFunc
	tasks sync.WaitGroup

	mu      sync.Mutex // locked before stream.mu
	streams map[string]*stream[T]
}

// Limits bounds the pending changes of one watcher.
type Limits struct {
	Events int
	Bytes  int // of keys and values; decoded objects and encodings are a small multiple of it
}

// New returns the shared streams of s. A watcher whose pending changes exceed limits is
// ended with [store.ErrGone]. A single change may exceed limits.Bytes.
func New[T any](s store.Store, decode Decode[T], limits Limits) *Shared[T] {
	life, end := context.WithCancelCause(context.Background())
	return &Shared[T]{store: s, decode: decode, limits: limits, life: life, end: end, streams: map[string]*stream[T]{}}
}

// Close ends all watches with [ErrClosed], refuses further watches, and waits for the shared
// streams to end. It may be called more than once.
func (s *Shared[T]) Close() {
	s.mu.Lock() // no stream starts after this
	s.end(ErrClosed)
	s.mu.Unlock()
	s.tasks.Wait()
}

// Watch yields the changes that [store.Store.Watch] yields for the same arguments. Their
// events are decoded on demand. The loop ends with [ErrClosed] if s is closed.
func (s *Shared[T]) Watch(ctx context.Context, prefix string, after store.Position) iter.Seq2[*Change[T], error] {
	return func(yield func(*Change[T], error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if s.life.Err() != nil {
			yield(nil, ErrClosed)
			return
		}
		defer context.AfterFunc(s.life, func() { cancel(context.Cause(s.life)) })()

		w := watcher[T]{shared: s, prefix: prefix, yield: yield}
		defer w.leave()
		if w.catchUp(ctx, after) {
			w.follow(ctx)
		}
	}
}

// watcher is one loop over a [Shared.Watch].
type watcher[T any] struct {
	shared *Shared[T]
	prefix string
	yield  func(*Change[T], error) bool

	at     store.Revision // everything up to here was yielded
	stream *stream[T]     // nil before it joined
	queue  *queue[T]
}

// catchUp yields changes from a store watch of its own until the shared stream takes over. It
// reports whether to continue.
func (w *watcher[T]) catchUp(ctx context.Context, after store.Position) bool {
	var joined store.Revision // the first change of the shared stream is after it
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
			w.queue = newQueue[T]()
			w.stream, joined = w.shared.join(w.prefix, change.Position, w.queue)
		}
		if w.stream != nil && w.at >= joined {
			return true
		}
	}
	return false
}

// follow yields the changes of the shared stream.
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
			changes[i] = nil // free its memory while the caller works
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

// stream is one shared store watch.
type stream[T any] struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when its goroutine has ended

	mu     sync.Mutex
	at     store.Position // delivered up to here
	queues map[*queue[T]]struct{}
}

// join adds q to the stream of prefix, and returns the revision after which q gets its changes.
// If there is no stream, join starts one at after. It returns no stream if s is closed.
func (s *Shared[T]) join(prefix string, after store.Position, q *queue[T]) (*stream[T], store.Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return nil, after.Revision
	}
	st := s.streams[prefix]
	if st == nil {
		ctx, cancel := context.WithCancelCause(s.life)
		st = &stream[T]{at: after, queues: map[*queue[T]]struct{}{}, cancel: cancel, done: make(chan struct{})}
		s.streams[prefix] = st
		s.tasks.Go(func() { s.run(ctx, prefix, st) })
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.queues[q] = struct{}{}
	return st, st.at.Revision
}

// leave removes q from its stream. The last one ends the stream and waits for it.
func (s *Shared[T]) leave(prefix string, st *stream[T], q *queue[T]) {
	s.mu.Lock()
	st.mu.Lock()
	delete(st.queues, q)
	last := len(st.queues) == 0
	st.mu.Unlock()
	if last && s.streams[prefix] == st {
		delete(s.streams, prefix)
	}
	s.mu.Unlock()
	if last {
		st.cancel(nil)
		<-st.done
	}
}

// run delivers the changes of prefix until the watch fails or is canceled.
func (s *Shared[T]) run(ctx context.Context, prefix string, st *stream[T]) {
	defer close(st.done)
	failure := error(&store.Error{Op: "watch", Key: prefix, Err: errors.New("the watch ended without an error")})
	for change, err := range s.store.Watch(ctx, prefix, st.at) {
		if err != nil {
			failure = err
			break
		}
		st.deliver(s.wrap(change), s.limits)
	}
	s.mu.Lock()
	if s.streams[prefix] == st { // later watchers start a new stream
		delete(s.streams, prefix)
	}
	s.mu.Unlock()
	st.mu.Lock()
	defer st.mu.Unlock()
	for q := range st.queues {
		q.fail(failure)
	}
}

func (st *stream[T]) deliver(c *Change[T], limits Limits) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.at = c.Position
	for q := range st.queues {
		q.push(c, limits)
	}
}

// queue is the bounded queue of one watcher.
type queue[T any] struct {
	wake chan struct{} // has a value if there is something to take

	mu      sync.Mutex
	changes []*Change[T]
	pending Limits // the size of changes; bookmarks count as nothing, and never follow each other
	err     error
}

// maxReused is the maximum capacity of changes that is reused.
const maxReused = 64

func newQueue[T any]() *queue[T] {
	return &queue[T]{wake: make(chan struct{}, 1)}
}

// push adds c, or ends the watch if too much is pending. It never blocks.
func (q *queue[T]) push(c *Change[T], limits Limits) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return
	}
	last := len(q.changes) - 1
	if len(c.Events) == 0 && last >= 0 && len(q.changes[last].Events) == 0 {
		q.changes[last] = c // the later bookmark replaces the earlier one
		return
	}
	behind := q.pending.Events > 0 && len(c.Events) > 0
	q.pending.Events += len(c.Events)
	q.pending.Bytes += c.size()
	if behind && (q.pending.Events > limits.Events || q.pending.Bytes > limits.Bytes) {
		q.changes, q.err = nil, &store.Error{Op: "watch", Err: fmt.Errorf(
			"%w: more than %d events or %d bytes were waiting for this watcher", store.ErrGone, limits.Events, limits.Bytes)}
	} else {
		q.changes = append(q.changes, c)
	}
	q.signal()
}

// fail ends the watch after the pending changes.
func (q *queue[T]) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
		q.signal()
	}
}

func (q *queue[T]) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take waits for changes and returns all pending ones, or the error if there are none left.
// It may reuse used, the cleared result of an earlier call.
func (q *queue[T]) take(ctx context.Context, used []*Change[T]) ([]*Change[T], error) {
	if used = used[:0]; cap(used) > maxReused {
		used = nil
	}
	for {
		q.mu.Lock()
		changes, err := q.changes, q.err
		if len(changes) > 0 {
			q.changes, q.pending = used, Limits{}
		}
		q.mu.Unlock()
		if len(changes) > 0 {
			return changes, nil
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
