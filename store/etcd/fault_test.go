package etcd

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/nslifecycle/nslifecycle/store"
)

// A full database refuses writes. Writes in progress when it fills may succeed, so their outcome
// is unknown. Reads, watches, checked reads and deletions still work. After compaction, writes
// work again.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	server := ownServer(t, "--quota-backend-bytes", fmt.Sprint(16<<20))
	client := rawClient(t, server.URL)
	big := openAt(t, newPrefix(), quick(), server.URL)
	small := put(t, big, "small", "v")
	l := newLoad(t, []string{server.URL})
	l.run(func() {
		var err error
		for i := 0; err == nil; i++ {
			require.Less(t, i, 100, "the quota must be exhausted by now")
			value := bytes.Repeat([]byte{byte(i)}, 1<<20)
			_, err = big.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("big", value)}})
			if errors.Is(err, store.ErrUnknownOutcome) { // this write crossed the quota
				var e store.Entry
				e, err = big.Get(t.Context(), "big")
				require.NoError(t, err)
				require.True(t, bytes.Equal(value, e.Value), "an unknown outcome here means that the write took effect; otherwise the refusal is definite")
			}
		}
		require.ErrorIs(t, err, store.ErrFull)
		l.awaitFault(store.ErrFull)

		e, err := big.Get(t.Context(), "small")
		require.NoError(t, err)
		require.Equal(t, small, e.Revision)
		_, err = big.Commit(t.Context(), store.Txn{If: []store.Condition{store.At("small", small)}})
		require.NoError(t, err, "a checked read")
		r, err := big.Commit(t.Context(), store.Txn{If: []store.Condition{store.At("small", small)}, Do: []store.Operation{store.Delete("small"), store.Delete("big")}})
		require.NoError(t, err, "deletions make room")
		_, err = Open(t.Context(), []string{server.URL}, newPrefix(), nil)
		require.ErrorIs(t, err, store.ErrFull)

		require.NoError(t, big.Compact(t.Context(), r))
		// Compaction continues in the background, and a write that was refused before may raise
		// the alarm once more.
		require.Eventually(t, func() bool {
			_, err := client.Defragment(t.Context(), server.URL)
			require.NoError(t, err)
			_, err = client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
			require.NoError(t, err)
			_, err = big.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("big", nil)}})
			return err == nil
		}, time.Minute, 50*time.Millisecond)
	})
	put(t, big, "big", "again")
}

// awaitFault waits until a writer has got an error.
func (l *load) awaitFault(target error) {
	require.Eventually(l.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.ContainsFunc(l.errs, func(err error) bool { return errors.Is(err, target) })
	}, time.Minute, time.Millisecond)
}

// Under load, the history is compacted to the newest revision again and again. Neither current
// listings nor watches that keep up notice it.
func TestCompactionUnderLoad(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	s := openAt(t, newPrefix(), quick(), server.URL)
	newLoad(t, []string{server.URL}).run(func() {
		for range 40 {
			require.NoError(t, s.Compact(t.Context(), put(t, s, "k", "v")))
		}
	})
}

// Under load, a server is killed and restarted on its data.
func TestServerKilledUnderLoad(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	newLoad(t, []string{server.URL}).run(func() {
		server.Kill()
		require.NoError(t, server.Restart(t.Context()))
	})
}
