package storetest

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/nslifecycle/nslifecycle/store"
)

// Recorder records the calls of clients to a store and its answers, to check the whole history
// for linearizability. Any number of goroutines may use its methods and its stores at once. The
// zero Recorder is ready to use.
type Recorder struct {
	// Start is the state of the store before the first recorded call; the zero Page
	// is an empty store.
	Start store.Page

	clock      atomic.Int64 // orders calls and returns
	mu         sync.Mutex
	operations []porcupine.Operation
}

// Store returns s with its gets, listings of now and commits recorded as calls of one client.
// Listings at a position, and watches, are not recorded. The check is faster if a client makes
// one call at a time.
//
// A call that failed with a definite error had no effect and is not recorded. A conflict and a
// "not found" are answers. A commit with [store.ErrUnknownOutcome] may have happened at any later
// time or never.
func (r *Recorder) Store(client int, s store.Store) store.Store {
	return &recorded{Store: s, recorder: r, client: client}
}

// Len returns the number of recorded calls.
func (r *Recorder) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.operations)
}

// Check returns nil if the recorded calls have an order that explains every answer and that keeps
// calls in order if one ended before the other began. The error is [ErrNotLinearizable] with the
// calls that fit no order, or [ErrUndecided] after timeout (zero: none).
//
// A commit with an unknown outcome may have taken effect at any moment after its call, or not at
// all. To find its revision if another call has seen it, its values must differ from those of all
// other commits. Record few such commits and some hundreds of calls, because the check is
// exponential in the number of concurrent calls.
func (r *Recorder) Check(timeout time.Duration) error {
	r.mu.Lock()
	history := slices.Clone(r.operations)
	r.mu.Unlock()
	return check(r.Start, history, timeout)
}

// input is the input of a recorded operation. Exactly one field is set.
type input struct {
	Get    string
	List   *store.Query
	Commit *store.Txn
}

// output is the output of a recorded operation.
type output struct {
	Entry    *store.Entry         // of a get; nil if not found
	Page     store.Page           // of a listing
	Revision store.Revision       // of an acknowledged commit
	Conflict *store.ConflictError // of a refused commit
	Unknown  bool                 // the outcome of a commit is unknown
}

// record records a call that began at the time called and has just returned.
func (r *Recorder) record(client int, called int64, call input, answer output) {
	returned := int64(math.MaxInt64)
	if !answer.Unknown {
		returned = r.clock.Add(1)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.operations = append(r.operations, porcupine.Operation{
		ClientId: client, Input: call, Output: answer, Call: called, Return: returned,
	})
}

// recorded is a store with the calls of one client recorded.
type recorded struct {
	store.Store
	recorder *Recorder
	client   int
}

// Limits implements [store.Limiter].
func (s *recorded) Limits() store.Limits { return store.LimitsOf(s.Store) }

func (s *recorded) Get(ctx context.Context, key string) (store.Entry, error) {
	called := s.recorder.clock.Add(1)
	e, err := s.Store.Get(ctx, key)
	switch {
	case err == nil:
		s.recorder.record(s.client, called, input{Get: key}, output{Entry: &e})
	case errors.Is(err, store.ErrNotFound):
		s.recorder.record(s.client, called, input{Get: key}, output{})
	}
	return e, err
}

func (s *recorded) List(ctx context.Context, q store.Query) (store.Page, error) {
	called := s.recorder.clock.Add(1)
	p, err := s.Store.List(ctx, q)
	if err == nil && q.At == (store.Position{}) {
		s.recorder.record(s.client, called, input{List: &q}, output{Page: p})
	}
	return p, err
}

func (s *recorded) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	called := s.recorder.clock.Add(1)
	copied := store.Txn{If: slices.Clone(txn.If), Do: slices.Clone(txn.Do)}
	for i := range copied.Do {
		copied.Do[i].Value = slices.Clone(copied.Do[i].Value)
	}
	call := input{Commit: &copied}
	r, err := s.Store.Commit(ctx, txn)
	var conflict *store.ConflictError
	switch {
	case err == nil:
		s.recorder.record(s.client, called, call, output{Revision: r})
	case errors.As(err, &conflict):
		s.recorder.record(s.client, called, call, output{Conflict: conflict})
	case errors.Is(err, store.ErrUnknownOutcome):
		s.recorder.record(s.client, called, call, output{Unknown: true})
	}
	return r, err
}
