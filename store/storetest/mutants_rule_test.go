package storetest

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

type counter struct{ n atomic.Int64 }

func (c *counter) next() int64 { return c.n.Add(1) }

// checkThenAct checks gates before the commit, and commits the first create that passed its gate
// only after the content was listed after termination.
func checkThenAct(m *memory.Store, s *mutated) {
	var held atomic.Bool
	var listed atomic.Int64 // listings since the gate was deleted
	s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
		p, err := m.List(ctx, q)
		if strings.HasPrefix(q.Prefix, "content/0") {
			listed.Add(1)
		}
		return p, err
	}
	s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
		if len(txn.If) != 2 || !txn.If[0].Holds(current(m, txn.If[0].Key)) || held.Swap(true) {
			return m.Commit(ctx, txn)
		}
		for listed.Load() == 0 && ctx.Err() == nil {
			runtime.Gosched()
		}
		return m.Commit(ctx, store.Txn{If: txn.If[1:], Do: txn.Do})
	}
}

// optimistic refuses a create if the previous commit was of another key.
func optimistic(m *memory.Store, s *mutated) {
	var mu sync.Mutex
	status := false // the last commit was of the status
	s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
		mu.Lock()
		defer mu.Unlock()
		was := status
		status = txn.Do[0].Key == "status"
		if len(txn.If) > 0 && was && !status {
			return 0, conflictOf(txn.If[0], current(m, txn.If[0].Key))
		}
		return m.Commit(ctx, txn)
	}
}
