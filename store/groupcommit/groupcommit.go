// Package groupcommit collects the transactions of concurrent writers into batches for one
// committer. While the committer writes one batch, further requests gather in the [Queue], and
// the next batch takes them together: many writers share one sync or one round trip, and a
// single writer waits for no other.
//
//	queue := groupcommit.New[store.Txn]()
//	go func() { // the committer
//		for range queue.Ready() {
//			batch, open := queue.Take(nil)
//			for _, r := range queue.Submit(batch) {
//				r.Finish(apply(r.Work))
//			}
//			if !open {
//				return
//			}
//		}
//	}()
//	revision, err := queue.Do(ctx, txn, size) // in Commit
//	queue.Close()                             // in Close
//
// The queue implements the rules of [store.Store] for contexts. A request whose context ends
// is withdrawn, if the committer has not submitted it to the engine: nothing happened. After
// that, the caller waits for the result in spite of its context, but for a second at most; then
// the error is [store.ErrUnknownOutcome].
package groupcommit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// The bounds of one batch.
const (
	MaxRequests = 512
	MaxBytes    = 8 << 20
)

// patience is how long a caller waits for a submitted request after its context has ended.
const patience = time.Second

// state is the state of a request.
//
//	state      the request is     calls that end the state
//	waiting    in the queue       Take, withdraw
//	taken      at the committer   Submit, Return, withdraw
//	submitted  in the engine      Finish, Recall
//	withdrawn  given up by its caller, whose context has ended
type state int

const (
	waiting state = iota
	taken
	submitted
	withdrawn
)

// Request is one transaction on its way through a [Queue].
type Request[W any] struct {
	Ctx  context.Context // of the caller
	Work W

	queue *Queue[W]
	size  int
	done  chan result // has room for the only result
	state state       // guarded by the lock of the queue
}

type result struct {
	revision store.Revision
	err      error
}

// Finish returns the result to the caller. The committer calls it once for each request that it
// has taken and not returned. It never blocks.
func (r *Request[W]) Finish(revision store.Revision, err error) {
	r.done <- result{revision, err}
}

// Queue holds requests until the committer takes them. It needs no bound of its own: each
// request has a caller that waits, except withdrawn ones, which are at most half of the queue.
type Queue[W any] struct {
	patience time.Duration
	ready    chan struct{} // one token

	mu        sync.Mutex
	requests  []*Request[W]
	withdrawn int // of requests
	closed    bool
}

// New returns an empty queue.
func New[W any]() *Queue[W] {
	return &Queue[W]{patience: patience, ready: make(chan struct{}, 1)}
}

// Do enqueues a request of size bytes and waits for its result.
func (q *Queue[W]) Do(ctx context.Context, work W, size int) (store.Revision, error) {
	return q.Enqueue(ctx, work, size).Wait()
}

// Enqueue adds a request of size bytes to the queue. If the queue is closed, the result of the
// request is [store.ErrClosed].
func (q *Queue[W]) Enqueue(ctx context.Context, work W, size int) *Request[W] {
	r := &Request[W]{Ctx: ctx, Work: work, queue: q, size: size, done: make(chan result, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		r.refuse()
		return r
	}
	q.requests = append(q.requests, r)
	q.signal()
	return r
}

// Wait waits for the result of the request.
func (r *Request[W]) Wait() (store.Revision, error) {
	select {
	case a := <-r.done:
		return a.revision, a.err
	case <-r.Ctx.Done():
	}
	if r.withdraw() {
		return 0, context.Cause(r.Ctx)
	}
	timer := time.NewTimer(r.queue.patience)
	defer timer.Stop()
	select {
	case a := <-r.done:
		return a.revision, a.err
	case <-timer.C:
	}
	if r.withdraw() { // the committer has recalled it
		return 0, context.Cause(r.Ctx)
	}
	return 0, fmt.Errorf("%w: %w during the commit", store.ErrUnknownOutcome, context.Cause(r.Ctx))
}

// withdraw withdraws the request unless it has been submitted, and reports whether it did.
func (r *Request[W]) withdraw() bool {
	q := r.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.state == submitted {
		return false
	}
	wasWaiting := r.state == waiting
	r.state = withdrawn
	if !wasWaiting {
		return true
	}
	if q.withdrawn++; 2*q.withdrawn > len(q.requests) { // the committer may hang
		q.requests = slices.DeleteFunc(q.requests, func(r *Request[W]) bool { return r.state == withdrawn })
		q.withdrawn = 0
	}
	return true
}

// Ready returns a channel that has a token if [Queue.Take] may return requests, or if the queue
// was closed.
func (q *Queue[W]) Ready() <-chan struct{} { return q.ready }

// Take appends the next requests to batch in the order of their arrival, up to [MaxRequests] and
// [MaxBytes], but at least one if there is any. It reports whether the queue is open. The
// callers may still withdraw the requests.
func (q *Queue[W]) Take(batch []*Request[W]) (_ []*Request[W], open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := 0, 0
	for _, r := range q.requests {
		if len(batch) == MaxRequests || len(batch) > 0 && size+r.size > MaxBytes {
			break
		}
		n++
		if r.state == withdrawn {
			q.withdrawn--
			continue
		}
		r.state = taken
		size += r.size
		batch = append(batch, r)
	}
	rest := copy(q.requests, q.requests[n:])
	clear(q.requests[rest:])
	q.requests = q.requests[:rest]
	if rest > 0 {
		q.signal()
	}
	return batch, !q.closed
}

// Submit returns the taken requests that are not withdrawn, in place. From now on their callers
// cannot withdraw them.
func (q *Queue[W]) Submit(requests []*Request[W]) []*Request[W] {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.DeleteFunc(requests, func(r *Request[W]) bool {
		if r.state == withdrawn {
			return true
		}
		r.state = submitted
		return false
	})
}

// Return puts taken requests back to the front of the queue.
func (q *Queue[W]) Return(requests []*Request[W]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var front []*Request[W]
	for _, r := range requests {
		switch {
		case r.state == withdrawn:
		case q.closed:
			r.refuse()
		default:
			r.state = waiting
			front = append(front, r)
		}
	}
	if len(front) > 0 {
		q.requests = append(front, q.requests...)
		q.signal()
	}
}

// Recall makes a submitted request a taken one, because the engine has not begun to write it.
func (q *Queue[W]) Recall(r *Request[W]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.state = taken
}

// Close refuses the requests in the queue, and later ones, with [store.ErrClosed].
func (q *Queue[W]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, r := range q.requests {
		if r.state == waiting {
			r.refuse()
		}
	}
	q.requests, q.withdrawn = nil, 0
	q.signal()
}

// refuse finishes a request of a closed queue. The caller holds the lock.
func (r *Request[W]) refuse() {
	r.state = submitted
	r.Finish(0, store.ErrClosed)
}

// Len returns the number of requests in the queue that the committer has not taken.
func (q *Queue[W]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.requests) - q.withdrawn
}

func (q *Queue[W]) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
