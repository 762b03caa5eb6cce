package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nslifecycle/nslifecycle/store"
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
	if err != nil {
		var conflict *store.ConflictError
		if errors.As(err, &conflict) {
			key = conflict.Condition.Key
		}
		return 0, &store.Error{Op: "commit", Key: key, Err: err}
	}
	return r, nil
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
	return s.submit(ctx, newRequest(ctx, txn))
}

// Compact implements [store.Compactor]. The records are dropped by and by.
func (s *Store) Compact(ctx context.Context, revision store.Revision) error {
	err := s.enter(ctx)
	if err == nil {
		defer s.calls.leave()
		if revision < 0 {
			err = fmt.Errorf("%w: the revision %d is negative", store.ErrInvalid, revision)
		} else {
			_, err = s.submit(ctx, &request{ctx: ctx, compact: true, revision: revision, done: make(chan answer, 1)})
		}
	}
	if err != nil {
		return &store.Error{Op: "compact", Err: err}
	}
	return nil
}

// submit hands r to the committer and waits for the answer.
func (s *Store) submit(ctx context.Context, r *request) (store.Revision, error) {
	if !s.queue.add(r) {
		return 0, store.ErrClosed
	}
	select {
	case a := <-r.done:
		return a.revision, a.err
	case <-ctx.Done():
	}
	if s.queue.withdraw(r) {
		return 0, context.Cause(ctx)
	}
	timer := time.NewTimer(s.patience)
	defer timer.Stop()
	select {
	case a := <-r.done:
		return a.revision, a.err
	case <-timer.C:
	}
	if s.queue.withdraw(r) { // it turned out that it has to wait for somebody
		return 0, context.Cause(ctx)
	}
	return 0, fmt.Errorf("%w: %w while it was being committed", store.ErrUnknownOutcome, context.Cause(ctx))
}

// run is the committer: it takes what waits and commits it, batch by batch. It
// takes nothing before it has a connection, so that until then requests can be
// withdrawn.
func (s *Store) run() {
	var requests []*request
	for {
		select {
		case <-s.queue.ready:
		case <-s.ctx.Done():
			return
		}
		conn, err := s.acquire(s.ctx)
		requests, _ = s.queue.take(requests[:0])
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
		r.done <- answer{err: err}
	}
}

// finish publishes what a turn has committed and answers its requests.
func (s *Store) finish(t *turn) {
	s.advance(t.batch.before, t.batch.changes)
	for i, r := range t.batch.decided {
		r.done <- t.batch.answers[i]
	}
	for _, w := range t.batch.waiting {
		s.queue.recall(w.request)
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
