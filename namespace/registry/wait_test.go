package registry_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// WaitRemoved returns at once for an incarnation that is gone, however it went.
func TestWaitRemovedOfWhatIsGone(t *testing.T) {
	e := newEnv(t)
	neighbour := e.create("acme-2")
	for name, prepare := range map[string]func() string{
		"removed by its DELETE": func() string {
			n := e.create("acme")
			e.release("acme")
			e.terminate("acme")
			return n.UID
		},
		"removed by a finalize": func() string {
			n := e.create("acme")
			e.remove("acme")
			return n.UID
		},
		"recreated": func() string {
			n := e.create("acme")
			e.remove("acme")
			e.create("acme")
			return n.UID
		},
		"never there": func() string { return "u" },
	} {
		require.NoError(t, e.WaitRemoved(e.ctx, "acme", prepare()), name)
		require.NoError(t, e.removeAll(e.ctx, "acme"), name)
	}
	ended, cancel := context.WithCancel(e.ctx)
	cancel()
	require.ErrorIs(t, e.WaitRemoved(ended, "acme-2", neighbour.UID), context.Canceled)
}

// waiting starts WaitRemoved for the namespace acme, and returns its answer.
func (e *env) waiting(ctx context.Context, uid string) <-chan error {
	answer := make(chan error, 1)
	go func() { answer <- e.WaitRemoved(ctx, "acme", uid) }()
	synctest.Wait()
	return answer
}

// WaitRemoved waits as long as the incarnation is there, whatever else happens, and
// returns when it is removed, also if the name is taken at once.
func TestWaitRemovedWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		n := e.create("acme")
		answer := e.waiting(e.ctx, n.UID)
		e.create("acme-2")
		e.remove("acme-2")
		e.terminate("acme")
		synctest.Wait()
		require.Empty(t, answer)
		e.release("acme")
		next := e.create("acme")
		require.NoError(t, <-answer)

		cause := errors.New("no longer")
		ctx, cancel := context.WithCancelCause(e.ctx)
		answer = e.waiting(ctx, next.UID)
		cancel(cause)
		err := <-answer
		require.ErrorIs(t, err, cause)
		require.ErrorContains(t, err, `namespace "acme" with uid `+next.UID+" is still there: no longer")
	})
}

// compacting lets something happen before the first watch, and compacts the store then.
type compacting struct {
	*memory.Store
	before func()
}

func (s *compacting) Watch(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		if before := s.before; before != nil {
			s.before = nil
			before()
			page, err := s.List(ctx, store.Query{Limit: 1})
			if err == nil {
				err = s.Compact(ctx, page.Position.Revision)
			}
			if err != nil {
				yield(store.Change{}, err)
				return
			}
		}
		s.Store.Watch(ctx, prefix, after)(yield)
	}
}

// WaitRemoved lists again when its position is compacted.
func TestWaitRemovedOverCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		s := &compacting{Store: m}
		e := newEnvOver(t, s)
		n := e.create("acme")
		s.before = func() { e.remove("acme") }
		require.NoError(t, e.WaitRemoved(e.ctx, "acme", n.UID))
		require.Nil(t, s.before)
	})
}

// WaitRemoved survives a store that is out of order, and asks it ever more seldom.
func TestWaitRemovedBacksOff(t *testing.T) {
	for name, method := range map[string]string{"lists fail": "list", "watches end at once": "watch"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, plan, _ := faultyEnv(t)
				n := e.create("acme")
				var calls atomic.Int64
				p := storetest.Plan(func(a storetest.Attempt) storetest.Fault {
					if a.Method != method {
						return storetest.Fault{}
					}
					calls.Add(1)
					return storetest.Fault{Kind: storetest.Fail}
				})
				plan.Store(&p)
				ctx, cancel := context.WithTimeout(e.ctx, 10*time.Minute)
				defer cancel()
				err := e.WaitRemoved(ctx, "acme", n.UID)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, storetest.ErrInjected, "the last failure")
				require.Less(t, calls.Load(), int64(180))
				require.Greater(t, calls.Load(), int64(120), "the backoff is bounded")

				answer := e.waiting(e.ctx, n.UID)
				time.Sleep(time.Minute)
				plan.Store(nil)
				e.remove("acme")
				healed := time.Now()
				require.NoError(t, <-answer)
				require.LessOrEqual(t, time.Since(healed), 5*time.Second)
			})
		})
	}
}

func TestWaitRemovedIsRefused(t *testing.T) {
	e := newEnv(t)
	n := e.create("acme")
	require.ErrorIs(t, e.WaitRemoved(e.ctx, "acme", ""), namespace.ErrBadRequest)
	require.ErrorIs(t, e.WaitRemoved(e.ctx, "a/b", "u"), namespace.ErrBadRequest)
	require.NoError(t, e.Close())
	require.ErrorIs(t, e.WaitRemoved(e.ctx, "acme", n.UID), registry.ErrClosed)
}

// closedStore answers as a store that was closed.
type closedStore struct{ store.Store }

func (closedStore) List(context.Context, store.Query) (store.Page, error) {
	return store.Page{}, &store.Error{Op: "list", Err: store.ErrClosed}
}

func TestWaitRemovedOfAClosedStore(t *testing.T) {
	e := newEnv(t)
	r, err := registry.New(closedStore{e.store}, nil)
	require.NoError(t, err)
	require.ErrorIs(t, r.WaitRemoved(e.ctx, "acme", "u"), store.ErrClosed)
	require.NoError(t, r.Close())
}
