// Package broadcast lets any number of watchers of one key prefix share one
// watch of the store, and decodes each event once for all of them.
//
// A watcher first catches up by a store watch of its own. At the first bookmark
// it joins the shared stream of its prefix, and keeps its own watch only until
// that has reached the point at which it joined; what both delivered is dropped
// by its revision. So nothing is lost, nothing comes twice, and in the steady
// state there is one store watch for a prefix, however many follow it.
package broadcast

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"sync"

	"github.com/nslifecycle/nslifecycle/store"
)

// ErrClosed ends the watches of a registry that was closed.
var ErrClosed = errors.New("the registry is closed")

// Decode makes an object of an entry. What it returns is shared between
// watchers: nobody changes it.
type Decode[T any] func(store.Entry) (T, error)

// Shared are the shared streams of one store, for objects of type T. All methods
// are safe for concurrent use.
type Shared[T any] struct {
	store  store.Store
	decode Decode[T]
	limits Limits

	life  context.Context // ends with Close
	end   context.CancelCauseFunc
	tasks sync.WaitGroup

	mu      sync.Mutex // before stream.mu
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

// Close ends all watches with [ErrClosed], refuses further ones, and waits for
// the shared streams to end. It may be called more than once.
func (s *Shared[T]) Close() {
	s.mu.Lock() // so that no stream starts after this
	s.end(ErrClosed)
	s.mu.Unlock()
	s.tasks.Wait()
}

// Watch yields what [store.Store.Watch] yields for the same arguments, decoded
// on demand. The loop ends with [ErrClosed] when s is closed.
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

// join adds sub to the stream of prefix, which it starts after position if there
// is none, and returns the position up to which sub gets nothing from it. It
// returns no stream when s is closed.
func (s *Shared[T]) join(prefix string, position store.Position, sub *subscriber[T]) (*stream[T], store.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return nil, position
	}
	st := s.streams[prefix]
	if st == nil {
		ctx, cancel := context.WithCancelCause(s.life)
		st = &stream[T]{at: position, subscribers: map[*subscriber[T]]struct{}{}, cancel: cancel, done: make(chan struct{})}
		s.streams[prefix] = st
		s.tasks.Go(func() { s.run(ctx, prefix, st) })
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.subscribers[sub] = struct{}{}
	return st, st.at
}

// leave takes sub off its stream. The last one ends the stream and waits for it.
func (s *Shared[T]) leave(prefix string, st *stream[T], sub *subscriber[T]) {
	s.mu.Lock()
	st.mu.Lock()
	delete(st.subscribers, sub)
	last := len(st.subscribers) == 0
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

// run feeds the stream of prefix until it fails or is cancelled.
func (s *Shared[T]) run(ctx context.Context, prefix string, st *stream[T]) {
	defer close(st.done)
	var failure error
	for change, err := range s.store.Watch(ctx, prefix, st.at) {
		if err != nil {
			failure = err
			break
		}
		st.deliver(s.wrap(change), s.limits)
	}
	if failure == nil { // a watch that just ends breaks its contract; say something
		failure = &store.Error{Op: "watch", Key: prefix, Err: errors.New("the watch ended without an error")}
	}
	s.mu.Lock()
	if s.streams[prefix] == st { // later watchers start a new stream
		delete(s.streams, prefix)
	}
	s.mu.Unlock()
	st.fail(failure)
}

func (s *Shared[T]) wrap(change store.Change) *Change[T] {
	revision := change.Position.Revision
	c := &Change[T]{Position: change.Position, Resume: strconv.FormatInt(int64(revision), 10)}
	if len(change.Events) == 0 {
		return c
	}
	c.Events = make([]Event[T], len(change.Events))
	last := len(change.Events) - 1
	before := ""
	if last > 0 {
		before = strconv.FormatInt(int64(revision-1), 10)
	}
	for i := range c.Events {
		e := &c.Events[i]
		e.Event, e.revision, e.decode = change.Events[i], revision, s.decode
		e.Resume = before
	}
	c.Events[last].Resume = c.Resume
	return c
}
