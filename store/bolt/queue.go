package bolt

import (
	"slices"
	"sync"

	"github.com/nslifecycle/nslifecycle/store"
)

// The bounds of one batch: what one sync makes durable together.
const (
	batchRequests = 512
	batchBytes    = 8 << 20
)

// request is a transaction, or a compaction, on its way through the committer.
type request struct {
	conditions []store.Condition
	operations []operation
	compact    store.Revision // when not zero: compact to it, and nothing else
	bytes      int
	done       chan answer // takes the one answer without waiting
	taken      bool        // by the committer; guarded by the queue's lock
	withdrawn  bool        // by the caller; guarded by the queue's lock
}

// operation is a [store.Operation] with its value copied.
type operation struct {
	key    string
	record []byte // see newRecord; nil: delete
}

type answer struct {
	revision store.Revision
	err      error
}

// newRequest copies txn: the caller may do with its slices what it wants as soon
// as Commit has returned, also when the committer is not done with them.
func newRequest(txn store.Txn) *request {
	r := &request{done: make(chan answer, 1)}
	if len(txn.If) > 0 {
		r.conditions = append(make([]store.Condition, 0, len(txn.If)), txn.If...)
	}
	if len(txn.Do) > 0 {
		r.operations = make([]operation, len(txn.Do))
	}
	for i, op := range txn.Do {
		r.operations[i].key = op.Key
		if !op.Delete {
			r.operations[i].record = newRecord(op.Value)
		}
		r.bytes += len(op.Key) + len(op.Value)
	}
	return r
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
	if r.taken {
		return false
	}
	r.withdrawn = true
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
	n, bytes := 0, 0
	for _, r := range q.waiting {
		if len(batch) == batchRequests || len(batch) > 0 && bytes+r.bytes > batchBytes {
			break
		}
		n++
		if r.withdrawn {
			q.withdrawn--
			continue
		}
		r.taken = true
		bytes += r.bytes
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

// close makes the queue refuse requests and returns those that were not taken.
func (q *queue) close() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	rest := q.waiting
	for _, r := range rest {
		r.taken = true
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
