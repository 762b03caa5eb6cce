package postgres

import (
	"context"
	"slices"
	"sync"

	"github.com/nslifecycle/nslifecycle/store"
)

// The bounds of one batch: what one transaction of the server commits together.
const (
	batchRequests = 512
	batchBytes    = 8 << 20
	batchLoad     = 64 << 20 // of stored values at the keys it touches, if it is not one request
)

// request is a transaction, or a compaction, on its way through the committer.
type request struct {
	ctx        context.Context // of the caller
	conditions []store.Condition
	operations []store.Operation
	compact    bool
	revision   store.Revision // to compact to
	bytes      int
	done       chan answer // takes the one answer without waiting

	// Guarded by the queue's lock.
	taken     bool // by the committer: it is not in the queue any more
	submitted bool // its outcome is not the caller's to decide any more
	withdrawn bool // by the caller
}

type answer struct {
	revision store.Revision
	err      error
}

// newRequest copies txn: the caller may do with its slices what it wants as soon
// as Commit has returned, also when the committer is not done with them.
func newRequest(ctx context.Context, txn store.Txn) *request {
	r := &request{ctx: ctx, conditions: slices.Clone(txn.If), operations: slices.Clone(txn.Do), done: make(chan answer, 1)}
	for i := range r.operations {
		op := &r.operations[i]
		if !op.Delete {
			op.Value = append(make([]byte, 0, len(op.Value)), op.Value...) // not nil, which would be NULL
		}
		r.bytes += len(op.Key) + len(op.Value)
	}
	return r
}

// keys adds the keys that r asks of and writes to all.
func (r *request) keys(all map[string]struct{}) {
	for i := range r.conditions {
		all[r.conditions[i].Key] = struct{}{}
	}
	for i := range r.operations {
		all[r.operations[i].Key] = struct{}{}
	}
}

// queue holds the requests until the committer takes them. It needs no bound of
// its own: at least half of the requests belong to a caller that waits.
type queue struct {
	ready chan struct{} // one token: look again

	mu        sync.Mutex
	waiting   []*request
	withdrawn int // of those waiting
	closed    bool
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

// add reports whether it took r; a closed queue does not.
func (q *queue) add(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.waiting = append(q.waiting, r)
	q.signal()
	return true
}

// withdraw takes r back and reports whether that was in time.
func (q *queue) withdraw(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.submitted {
		return false
	}
	r.withdrawn = true
	if r.taken {
		return true
	}
	if q.withdrawn++; 2*q.withdrawn > len(q.waiting) { // the committer may not come by for long
		q.waiting = slices.DeleteFunc(q.waiting, func(r *request) bool { return r.withdrawn })
		q.withdrawn = 0
	}
	return true
}

// take appends the next requests to batch, within the bounds of a batch, in the
// order of their arrival. It reports whether the queue is still open.
func (q *queue) take(batch []*request) ([]*request, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := 0, 0
	for _, r := range q.waiting {
		if len(batch) == batchRequests || len(batch) > 0 && size+r.bytes > batchBytes {
			break
		}
		n++
		if r.withdrawn {
			q.withdrawn--
			continue
		}
		r.taken = true
		size += r.bytes
		batch = append(batch, r)
	}
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	if rest > 0 {
		q.signal()
	}
	return batch, !q.closed
}

// submit returns those of the requests that were not withdrawn: from now on they
// cannot be.
func (q *queue) submit(requests []*request) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	kept := requests[:0]
	for _, r := range requests {
		if !r.withdrawn {
			r.submitted = true
			kept = append(kept, r)
		}
	}
	return kept
}

// giveBack undoes take for requests that do not fit into the batch.
func (q *queue) giveBack(requests []*request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range requests {
		switch {
		case q.closed:
			r.submitted = true
			r.done <- answer{err: store.ErrClosed}
			continue
		case r.withdrawn:
			q.withdrawn++
		}
		r.taken = false
	}
	if !q.closed && len(requests) > 0 {
		q.waiting = slices.Concat(requests, q.waiting)
		q.signal()
	}
}

// recall undoes submit for a request that has to wait after all.
func (q *queue) recall(requests ...*request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range requests {
		r.submitted = false
	}
}

// close makes the queue refuse requests and returns those that were not taken.
func (q *queue) close() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	rest := q.waiting
	for _, r := range rest {
		r.taken, r.submitted = true, true
	}
	q.waiting, q.withdrawn = nil, 0
	q.signal()
	return rest
}

func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
