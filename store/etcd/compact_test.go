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

// In each round, one of several compactors does the work. It drops only history that is older than
// its last round.
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
	round(two) // loses
	second := put(t, s, "k", "2")
	require.False(t, gone(t, s, first))
	round(one)
	third := put(t, s, "k", "3")
	round(two) // loses again
	require.True(t, gone(t, s, first), "everything before the first round of the winner")
	require.False(t, gone(t, s, second), "later commits stay")

	// The winner pauses. The other one takes over and keeps a round of history of its own.
	round(two)
	require.True(t, gone(t, s, second))
	require.False(t, gone(t, s, third))
	fourth := put(t, s, "k", "4")
	round(two)
	require.False(t, gone(t, s, fourth))
	// The winner returns with old knowledge and does no harm.
	before := one.last
	round(one)
	require.Greater(t, one.last, before)
	require.False(t, gone(t, s, fourth))

	// Another client removes the key.
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

// Options.Compact runs the compactor until the store is closed.
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

// A full database refuses the election. It is compacted all the same, because only that makes
// room.
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
