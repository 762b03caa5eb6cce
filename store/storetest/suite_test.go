package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/stretchr/testify/require"
)

// handle is a further handle on a store of this process: closing it leaves the
// store open.
type handle struct{ *memory.Store }

func (handle) Close() error { return nil }

// openMemory is the memory driver with stand-ins for what it does not offer, so that
// every case runs: a second handle and a crash are the same store seen again, a
// restored backup is a copy.
func openMemory(t testing.TB) Backend {
	const history = 1024
	m, err := memory.New(&memory.Options{History: history, Queue: 64, Bookmarks: 200 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() }) // the cases close it too
	again := func(context.Context) (store.Store, error) { return handle{m}, nil }
	return Backend{
		Store:    m,
		Limits:   m.Limits(),
		Compacts: true,
		History:  history,
		Second:   again,
		Reopen:   again,
		NewEpoch: func(ctx context.Context) (store.Store, error) { return copyOf(ctx, m) },
	}
}

// copyOf returns a new store with the entries of s.
func copyOf(ctx context.Context, s store.Store) (store.Store, error) {
	p, err := s.List(ctx, store.Query{})
	if err != nil {
		return nil, err
	}
	restored, err := memory.New(nil)
	if err != nil {
		return nil, err
	}
	for _, e := range p.Entries {
		if _, err := restored.Commit(ctx, store.Txn{Do: []store.Operation{store.Put(e.Key, e.Value)}}); err != nil {
			return nil, err
		}
	}
	return restored, nil
}

func TestMemory(t *testing.T) { Run(t, openMemory) }

func TestMemoryAtTheSizesOfASlowStore(t *testing.T) {
	Run(t, func(t testing.TB) Backend {
		b := openMemory(t)
		b.Slow = true
		return b
	})
}
