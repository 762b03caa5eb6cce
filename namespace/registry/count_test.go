package registry_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// plain hides what a store offers beyond the contract, and counts listings.
type plain struct {
	store.Store
	lists int
}

func (p *plain) List(ctx context.Context, q store.Query) (store.Page, error) {
	p.lists++
	return p.Store.List(ctx, q)
}

func countStores(t *testing.T) map[string]func() store.Store {
	open := func() store.Store {
		s, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}
	return map[string]func() store.Store{
		"a store that counts":     open,
		"a store that only lists": func() store.Store { return &plain{Store: open()} },
	}
}

func TestCount(t *testing.T) {
	for name, open := range countStores(t) {
		t.Run(name, func(t *testing.T) {
			e := newEnvOver(t, open())
			check := func(active, terminating int) {
				t.Helper()
				a, n, err := e.Count(e.ctx)
				require.NoError(t, err)
				require.Equal(t, [2]int{active, terminating}, [2]int{a, n})
			}
			check(0, 0)
			for i := range 7 {
				e.create(fmt.Sprint("n", i))
			}
			e.put(configmaps, "n0", object("one"))
			check(7, 0)
			e.terminate("n3")
			check(6, 1)
			e.terminate("n4")
			e.terminate("n5")
			check(4, 3)
			e.terminate("n5")
			check(4, 3)
			e.release("n4")
			check(4, 2)
			e.release("n3")
			check(4, 1)
			e.create("n3")
			check(5, 1)
		})
	}
}

func TestCountOfMany(t *testing.T) {
	for name, open := range countStores(t) {
		t.Run(name, func(t *testing.T) {
			s := open()
			e := newEnvOver(t, s)
			const many = 2500
			for i := range many {
				e.create(fmt.Sprintf("n%04d", i))
			}
			p, listing := s.(*plain)
			if listing {
				p.lists = 0
			}
			active, terminating, err := e.Count(e.ctx)
			require.NoError(t, err)
			require.Equal(t, [2]int{many, 0}, [2]int{active, terminating})
			if listing {
				require.Greater(t, p.lists, 2, "it was read in one page")
			}
		})
	}
}

func TestCountFails(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	e := newEnvOver(t, s)
	e.create("one")
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	_, _, err = e.Count(ctx)
	require.ErrorIs(t, err, context.Canceled)

	_, _, err = (&env{Registry: newEnvOver(t, &gone{Store: s}).Registry}).Count(e.ctx)
	require.ErrorIs(t, err, namespace.ErrGone)
}

// gone has forgotten the revision by the time it is asked to count.
type gone struct{ store.Store }

func (g *gone) Count(context.Context, store.Query) (int, error) { return 0, store.ErrGone }
