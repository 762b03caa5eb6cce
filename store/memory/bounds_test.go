package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

// TestRetainBytes checks that the store retains only the changes that fit, but always the newest
// one.
func TestRetainBytes(t *testing.T) {
	s, err := New(&Options{RetainBytes: 10_000})
	require.NoError(t, err)
	defer s.Close()
	for i := range 100 {
		_, err := s.Commit(context.Background(), store.Txn{Do: []store.Operation{store.Put("key", make([]byte, 900))}})
		require.NoError(t, err)
		require.LessOrEqual(t, s.bytes, 10_000)
		require.GreaterOrEqual(t, s.log.len(), min(i+1, 8))
	}
	for range 2 {
		_, err = s.Commit(context.Background(), store.Txn{Do: []store.Operation{store.Put("key", make([]byte, 20_000))}})
		require.NoError(t, err)
	}
	require.Equal(t, 1, s.log.len())
	require.Equal(t, 1, s.tables.history.Len())
}

// TestListLong lists more keys than one locked step reads, during writes. Every page shows one
// revision.
func TestListLong(t *testing.T) {
	const keys = 3 * scanAtOnce
	s, err := New(&Options{Retain: 1})
	require.NoError(t, err)
	defer s.Close()
	ctx := context.Background()
	put := func(value byte) {
		for i := 0; i < keys; i += keys / 2 { // two transactions, each with one value
			txn := store.Txn{}
			for k := range keys / 2 {
				txn.Do = append(txn.Do, store.Put(fmt.Sprintf("%06d", i+k), []byte{value}))
			}
			_, err := s.Commit(ctx, txn)
			require.NoError(t, err)
		}
	}
	put(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for value := range byte(8) {
			put(value)
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		page, err := s.List(ctx, store.Query{})
		require.NoError(t, err, "a listing of now is never gone")
		require.Len(t, page.Entries, keys)
		halves := []store.Entry{page.Entries[0], page.Entries[keys/2]}
		for i, e := range page.Entries {
			require.Equal(t, halves[i/(keys/2)].Revision, e.Revision)
		}
		require.Equal(t, page.Position.Revision, max(halves[0].Revision, halves[1].Revision))
	}
}

// impatient is a context that ends after a number of calls of Err.
type impatient struct {
	context.Context
	looks int
}

func (c *impatient) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestListLongEnds shows that a long listing checks its context repeatedly, even where it skips
// entries.
func TestListLongEnds(t *testing.T) {
	s, err := New(nil)
	require.NoError(t, err)
	defer s.Close()
	ctx := context.Background()
	const at = 1
	for i := range 3 * scanAtOnce { // all entries but one are newer than the position
		_, err := s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put(fmt.Sprintf("%06d", i), nil)}})
		require.NoError(t, err)
	}
	for _, position := range []store.Position{{}, {Revision: at}} {
		q := store.Query{At: position}
		_, err = s.List(&impatient{ctx, 2}, q)
		require.ErrorIs(t, err, context.Canceled)
		page, err := s.List(&impatient{ctx, 10}, q)
		require.NoError(t, err)
		require.NotEmpty(t, page.Entries)
	}
}

func TestRing(t *testing.T) {
	var r ring
	next, first := store.Revision(0), store.Revision(0)
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		if r.len() > 0 && random.IntN(3) == 0 {
			require.Equal(t, first, r.pop().Position.Revision)
			first++
		} else {
			r.push(store.Change{Position: store.Position{Revision: next}})
			next++
		}
		require.Equal(t, int(next-first), r.len())
		if r.len() > 0 {
			i := random.IntN(r.len())
			require.Equal(t, first+store.Revision(i), r.at(i).Position.Revision)
		}
	}
}
