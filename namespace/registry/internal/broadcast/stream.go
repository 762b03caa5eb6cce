package broadcast

import (
	"context"
	"fmt"
	"sync"

	"github.com/nslifecycle/nslifecycle/store"
)

// stream is one shared store watch.
type stream[T any] struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when its goroutine has ended

	mu          sync.Mutex
	at          store.Position // delivered up to here
	subscribers map[*subscriber[T]]struct{}
}

func (st *stream[T]) deliver(c *Change[T], limits Limits) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.at = c.Position
	for sub := range st.subscribers {
		sub.push(c, limits)
	}
}

func (st *stream[T]) fail(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for sub := range st.subscribers {
		sub.fail(err)
	}
}

// subscriber is the bounded queue of one watcher.
type subscriber[T any] struct {
	wake chan struct{} // holds a token when there is something to take

	mu      sync.Mutex
	queue   []*Change[T]
	waiting Limits // size of queue without bookmarks, of which at most one is between two changes
	err     error
}

func newSubscriber[T any]() *subscriber[T] {
	return &subscriber[T]{wake: make(chan struct{}, 1)}
}

// push adds c, or ends the watch when too much is waiting. It never blocks.
func (q *subscriber[T]) push(c *Change[T], limits Limits) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return
	}
	last := len(q.queue) - 1
	if len(c.Events) == 0 && last >= 0 && len(q.queue[last].Events) == 0 {
		q.queue[last] = c // of bookmarks in a row the last one says it all
		return
	}
	behind := q.waiting.Events > 0 && len(c.Events) > 0
	q.waiting.Events += len(c.Events)
	q.waiting.Bytes += c.size()
	if behind && (q.waiting.Events > limits.Events || q.waiting.Bytes > limits.Bytes) {
		q.queue, q.err = nil, &store.Error{Op: "watch", Err: fmt.Errorf(
			"%w: more than %d events or %d bytes were waiting for this watcher", store.ErrGone, limits.Events, limits.Bytes)}
	} else {
		q.queue = append(q.queue, c)
	}
	q.signal()
}

// fail ends the watch after what is waiting.
func (q *subscriber[T]) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
		q.signal()
	}
}

func (q *subscriber[T]) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take waits for changes and returns all that wait, or the error when there are
// no more. What an earlier call returned, cleared, may be used again.
func (q *subscriber[T]) take(ctx context.Context, used []*Change[T]) ([]*Change[T], error) {
	if used = used[:0]; cap(used) > most {
		used = nil
	}
	for {
		q.mu.Lock()
		queue, err := q.queue, q.err
		if len(queue) > 0 {
			q.queue, q.waiting = used, Limits{}
		}
		q.mu.Unlock()
		if len(queue) > 0 {
			return queue, nil
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

// most is how many changes a queue has room for at most when it is used again.
const most = 64
