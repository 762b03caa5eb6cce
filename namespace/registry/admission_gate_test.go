package registry_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// A link that held that a namespace has no gate is called again when there is another
// incarnation by the commit.
func TestHoldsThatThereIsNoGate(t *testing.T) {
	plain := admittedEnv(t, nil)
	var limits []int
	e := admittedEnv(t, plain.store, onWidgets(func(ctx context.Context, w *registry.Write) error {
		if _, err := w.HoldGate(ctx); err != nil {
			return err
		}
		all, err := w.List(ctx, counters)
		if limits = append(limits, len(all)); len(all) > 0 {
			return errFull
		}
		if w.Namespace == "x" {
			plain.create("x")
			plain.put(counters, "x", counter("none", 0))
		}
		return err
	}))
	w := e.content(widgets)
	_, err := w.Create(e.ctx, "x", object("a"))
	require.ErrorIs(t, err, errFull)
	require.Equal(t, []int{0, 1}, limits)
	require.False(t, e.hasWidget("x", "a"))
	_, err = w.Create(e.ctx, "y", object("a"))
	require.ErrorIs(t, err, namespace.ErrNotFound)
}

// reopening says of the first commit on condition that a key is absent that its outcome
// is unknown, and puts something there.
type reopening struct {
	store.Store
	key     string
	commits int
}

func (s *reopening) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if !slices.Contains(txn.If, store.Absent(s.key)) {
		return s.Store.Commit(ctx, txn)
	}
	if s.commits++; s.commits > 1 {
		return s.Store.Commit(ctx, txn)
	}
	_, err := s.Store.Commit(ctx, store.Txn{Do: []store.Operation{store.Put(s.key, []byte("u"))}})
	return 0, errors.Join(store.ErrUnknownOutcome, err)
}

// A commit in doubt that wanted no gate may still be made when there is one: it may go
// again. So a conflict about that is no answer, and nothing is done a second time.
func TestDoubtAboutAnAbsentGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		s := &reopening{Store: m, key: "/registry/.gate/x"}
		admitted := 0
		e := admittedEnv(t, s, onWidgets(func(ctx context.Context, w *registry.Write) error {
			admitted++
			_, err := w.HoldGate(ctx)
			return err
		}))
		e.create("x")
		e.put(widgets, "x", object("a"))
		e.terminate("x")
		admitted = 0
		_, err = e.content(widgets).Update(e.ctx, "x", object("a", "example.com/f"))
		require.ErrorIs(t, err, namespace.ErrUnknownOutcome)
		require.Equal(t, 1, admitted)
		_, err = m.Commit(e.ctx, store.Txn{Do: []store.Operation{store.Delete(s.key)}}) // it was nobody's
		require.NoError(t, err)
	})
}
