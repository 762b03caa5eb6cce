package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/groupcommit"
)

// Commit implements [store.Store]. The package documentation says what a context
// does that ends meanwhile.
func (s *Store) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	key := ""
	if len(txn.Do) > 0 {
		key = txn.Do[0].Key
	} else if len(txn.If) > 0 {
		key = txn.If[0].Key
	}
	r, err := s.commit(ctx, txn)
	return r, store.Wrap("commit", key, err)
}

func (s *Store) commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.calls.leave()
	if err := txn.Check(limits); err != nil {
		return 0, err
	}
	if len(txn.Do) == 0 {
		r, err := s.checkedRead(ctx, txn.If)
		return r, s.because(ctx, err)
	}
	work, size := newTransaction(txn)
	return s.queue.Do(ctx, work, size)
}

// Compact implements [store.Compactor]. The records are dropped by and by.
func (s *Store) Compact(ctx context.Context, revision store.Revision) error {
	return store.Wrap("compact", "", s.compact(ctx, revision))
}

func (s *Store) compact(ctx context.Context, revision store.Revision) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.leave()
	if revision < 0 {
		return fmt.Errorf("%w: revision %d is negative", store.ErrInvalid, revision)
	}
	_, err := s.queue.Do(ctx, &transaction{compact: true, revision: revision}, 0)
	return err
}

// batchLoad bounds the stored values at the keys of a batch of several requests.
const batchLoad = 64 << 20

// request is a transaction on its way through the queue.
type request = groupcommit.Request[*transaction]

// transaction is a copy of a [store.Txn], or a compaction to a revision.
type transaction struct {
	conditions []store.Condition
	operations []store.Operation
	compact    bool
	revision   store.Revision
}

// newTransaction copies txn and returns its size. The caller may reuse its slices when Commit
// has returned, even if the committer still uses the transaction.
func newTransaction(txn store.Txn) (t *transaction, size int) {
	t = &transaction{conditions: slices.Clone(txn.If), operations: slices.Clone(txn.Do)}
	for i := range t.operations {
		op := &t.operations[i]
		if !op.Delete {
			op.Value = append(make([]byte, 0, len(op.Value)), op.Value...) // nil would be NULL
		}
		size += len(op.Key) + len(op.Value)
	}
	return t, size
}

// keys adds the keys of the conditions and operations to all.
func (t *transaction) keys(all map[string]struct{}) {
	for i := range t.conditions {
		all[t.conditions[i].Key] = struct{}{}
	}
	for i := range t.operations {
		all[t.operations[i].Key] = struct{}{}
	}
}

// run is the committer: it takes what waits and commits it, batch by batch. It
// takes nothing before it has a connection, so that until then requests can be
// withdrawn.
func (s *Store) run() {
	var requests []*request
	for {
		select {
		case <-s.queue.Ready():
		case <-s.ctx.Done():
			return
		}
		conn, err := s.acquire(s.ctx)
		requests, _ = s.queue.Take(requests[:0])
		if len(requests) > 0 {
			s.process(conn, err, requests)
			clear(requests)
		} else if conn != nil {
			conn.Release()
		}
	}
}

// acquire waits for a connection until ctx ends. It abandons each attempt after a time limit
// and asks again, since the pool may be waiting for an unresponsive connection, which it then
// drops. It gives up if new connections stay unanswered for two attempts in a row.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	for unanswered := 0; unanswered < 2; { // one alone proves nothing: the connection may have just begun
		limited, cancel := context.WithTimeout(ctx, s.options.times.stall)
		conn, err := s.pool.Acquire(limited)
		late := limited.Err() != nil
		cancel()
		if err == nil || ctx.Err() != nil || !late {
			return conn, err
		}
		if pool := s.pool.Stat(); pool.ConstructingConns() > 0 && pool.IdleConns() == 0 {
			unanswered++
		} else {
			unanswered = 0
		}
	}
	return nil, fmt.Errorf("%w: no new connection in %v", errLate, 2*s.options.times.stall)
}

// attempts is how often a transaction is begun that fails before anything was
// submitted: a connection of the pool may be of before a restart of the server.
const attempts = 3

// process commits one batch and answers its requests. It releases conn, which is
// nil when there was err instead.
func (s *Store) process(conn *pgxpool.Conn, err error, requests []*request) {
	var t *turn
	for attempt := 1; err == nil; attempt++ {
		t = s.newTurn(conn.Conn(), nil)
		err = t.run(s.ctx, requests)
		conn.Release()
		if err == nil || t.submitted || s.ctx.Err() != nil {
			break
		}
		if timedOut(err) { // other writers hold the lock: that is no failure
			attempt--
		}
		if attempt == attempts {
			break
		}
		conn, err = s.acquire(s.ctx)
	}
	if err != nil {
		if t != nil {
			requests = t.requests
		}
		s.refuse(requests, t, err)
		return
	}
	s.finish(t)
}

// refuse answers requests that could not be committed.
func (s *Store) refuse(requests []*request, t *turn, err error) {
	switch {
	case t != nil && t.submitted && !definite(err):
		err = fmt.Errorf("%w: %w", store.ErrUnknownOutcome, explain(err))
	case s.ctx.Err() != nil:
		err = store.ErrClosed
	default:
		err = refusal(err)
	}
	for _, r := range requests {
		r.Finish(0, err)
	}
}

// finish publishes what a turn has committed and answers its requests.
func (s *Store) finish(t *turn) {
	s.advance(t.batch.before, t.batch.changes)
	for i, r := range t.batch.decided {
		r.Finish(t.batch.answers[i].revision, t.batch.answers[i].err)
	}
	for _, w := range t.batch.waiting {
		s.queue.Recall(w.request)
		s.wait(w)
	}
	if t.batch.head.compacted > t.batch.before.compacted {
		signal(s.janitor)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
