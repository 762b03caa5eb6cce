package etcd

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/nslifecycle/nslifecycle/store"
)

func gone(t *testing.T, s *Store, r store.Revision) bool {
	t.Helper()
	_, err := s.List(t.Context(), store.Query{Limit: 1, At: store.Position{Revision: r}})
	if err != nil {
		require.ErrorIs(t, err, store.ErrGone)
	}
	return err != nil
}

// Of several compactors one does the work of a round, and what is dropped is older
// than its last round.
func TestCompactorElection(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	prefix := newPrefix()
	s := openAt(t, prefix, nil, server.URL)
	one, two := &compactor{store: s}, &compactor{store: openAt(t, prefix, nil, server.URL)}
	round := func(c *compactor) {
		t.Helper()
		require.NoError(t, c.round(t.Context()))
	}
	first := put(t, s, "k", "1")
	round(one) // elected; there is nothing to compact to yet
	round(two) // learns that it lost
	second := put(t, s, "k", "2")
	require.False(t, gone(t, s, first))
	round(one)
	third := put(t, s, "k", "3")
	round(two) // lost again
	require.True(t, gone(t, s, first), "everything before the first round of the winner")
	require.False(t, gone(t, s, second), "later commits stay")

	// The winner pauses: the other takes over, and keeps a round of its own.
	round(two)
	require.True(t, gone(t, s, second))
	require.False(t, gone(t, s, third))
	fourth := put(t, s, "k", "4")
	round(two)
	require.False(t, gone(t, s, fourth))
	// It returns with old knowledge and does no harm.
	before := one.last
	round(one)
	require.Greater(t, one.last, before)
	require.False(t, gone(t, s, fourth))

	// Somebody removes the key.
	_, err := rawClient(t, server.URL).Delete(t.Context(), s.keys.compactor)
	require.NoError(t, err)
	round(two)
	round(two)
	round(two)
	require.True(t, gone(t, s, fourth))
	require.False(t, gone(t, s, put(t, s, "k", "5")))

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, one.round(ended))
}

// The option runs it by itself, until the store is closed.
func TestCompactOption(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	prefix := newPrefix()
	s := openAt(t, prefix, &Options{Compact: 20 * time.Millisecond}, server.URL)
	other := openAt(t, prefix, &Options{Compact: 20 * time.Millisecond}, server.URL)
	r := put(t, s, "k", "1")
	for !gone(t, s, r) {
		put(t, s, "k", "2")
	}
	require.NoError(t, s.Close())
	require.NoError(t, other.Close())
	final := openAt(t, prefix, nil, server.URL)
	require.Len(t, keysUnder(t, rawClient(t, server.URL), prefix), 3, "the marker, the election, the entry")
	r = put(t, final, "k", "3")
	require.False(t, gone(t, final, r))
}

// A full database refuses the election, and is compacted all the same: that is the
// way out.
func TestCompactorWithoutSpace(t *testing.T) {
	t.Parallel()
	s := openAt(t, newPrefix(), quick(), ownServer(t).URL)
	c := &compactor{store: s}
	first := put(t, s, "k", "1")
	second := put(t, s, "k", "2")
	inner := s.kv
	for range 2 {
		s.kv = &scriptedKV{KVClient: inner, errs: []error{rpctypes.ErrGRPCNoSpace}, submitted: 1}
		require.NoError(t, c.round(t.Context()))
	}
	s.kv = inner
	require.True(t, gone(t, s, first))
	require.False(t, gone(t, s, second))
}
