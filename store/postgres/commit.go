package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/groupcommit"
)

// Commit implements [store.Store]. The package documentation describes what happens if the
// context ends meanwhile.
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
		return r, s.cause(ctx, err)
	}
	work, size := newTransaction(txn)
	return s.queue.Do(ctx, work, size)
}

// Compact implements [store.Compactor]. The records are dropped gradually.
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

// run is the committer. It commits batch after batch. It acquires a connection before it takes
// requests, so that requests can be withdrawn until then.
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

// acquire waits for a connection until ctx ends. It limits each attempt in time and then tries
// again, since the pool may be waiting for an unresponsive connection, which it then drops. It
// gives up if new connections get no answer in two attempts in a row.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	for unanswered := 0; unanswered < 2; { // one attempt proves nothing, because the connection may have just begun
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

// attempts is the number of attempts at a transaction that fails before it was submitted. A
// connection of the pool may be older than the last restart of the server.
const attempts = 3

// process commits one batch and returns the results to the callers. It releases conn, which is
// nil if err is not.
func (s *Store) process(conn *pgxpool.Conn, err error, requests []*request) {
	var t *writeTx
	for attempt := 1; err == nil; attempt++ {
		t = s.newWriteTx(conn.Conn(), nil)
		err = t.run(s.ctx, requests)
		conn.Release()
		if err == nil || t.submitted || s.ctx.Err() != nil {
			break
		}
		if timedOut(err) { // other writers hold the lock, which is no failure
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

// refuse finishes requests that could not be committed.
func (s *Store) refuse(requests []*request, t *writeTx, err error) {
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

// finish publishes the changes of a committed transaction and returns the results to the callers.
func (s *Store) finish(t *writeTx) {
	s.publishOwn(t.batch.before, t.batch.changes)
	for i, r := range t.batch.decided {
		r.Finish(t.batch.answers[i].revision, t.batch.answers[i].err)
	}
	for _, b := range t.batch.waiting {
		s.queue.Recall(b.request)
		s.commitBlocked(b)
	}
	if t.batch.head.compacted > t.batch.before.compacted {
		signal(s.trimSoon)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
