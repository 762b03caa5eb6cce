package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/etcd/internal/etcdtest"
)

func newCluster(t *testing.T) *etcdtest.Cluster {
	binary, err := shared.binary()
	require.NoError(t, err)
	c, err := etcdtest.StartCluster(t.Context(), etcdtest.Config{Binary: binary, Dir: t.TempDir(), Sync: true}, 3)
	require.NoError(t, err)
	t.Cleanup(c.Kill)
	return c
}

func leader(t *testing.T, c *etcdtest.Cluster) int {
	i, err := c.Leader(t.Context())
	require.NoError(t, err)
	return i
}

// Members of a cluster fail under load. No acknowledged write is lost, no refused write takes
// effect, every watch yields every commit once and in order, and the answers to clients are
// linearizable.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	t.Run("the leader is killed", func(t *testing.T) {
		newLoad(t, c.URLs()).run(func() {
			for range 2 {
				old := leader(t, c)
				c.Members[old].Kill()
				others := []*etcdtest.Server{c.Members[(old+1)%3], c.Members[(old+2)%3]}
				for _, m := range others {
					require.NoError(t, m.Wait(t.Context()))
				}
				require.NoError(t, c.Members[old].Restart(t.Context()))
			}
		})
		require.NoError(t, c.Wait(t.Context()))
	})
	for name, pick := range map[string]func(leader int) int{
		"the leader is cut off": func(leader int) int { return leader },
		"a follower is cut off": func(leader int) int { return (leader + 1) % 3 },
	} {
		t.Run(name, func(t *testing.T) {
			victim := pick(leader(t, c))
			prefix := newPrefix()
			captive := openAt(t, prefix, quick(), c.Members[victim].URL) // knows only the victim
			free := openAt(t, prefix, nil, c.URLs()...)
			next := pull(t, captive, "", store.Position{})
			_, err, _ := next()
			require.NoError(t, err)
			var during store.Revision
			newLoad(t, c.URLs()).run(func() {
				c.Isolate(victim)
				cutOff(t, captive)
				during = commitSoon(t, free, "during")
				c.Heal()
				require.NoError(t, c.Wait(t.Context()))
			})
			change := nextEvents(t, next)
			require.Equal(t, during, change.Position.Revision, "the watch at the victim continues after the partition")
			require.Len(t, change.Events, 1)
		})
	}
	t.Run("a member is slow", func(t *testing.T) {
		newLoad(t, c.URLs()).run(func() {
			for i := range 9 {
				m := c.Members[i%3]
				require.NoError(t, m.Pause())
				pause(t, 250*time.Millisecond)
				require.NoError(t, m.Resume())
				pause(t, 50*time.Millisecond)
			}
		})
	})
	t.Run("a member hangs", func(t *testing.T) {
		m := c.Members[(leader(t, c)+1)%3]
		newLoad(t, c.URLs()).run(func() {
			require.NoError(t, m.Pause())
			pause(t, 3*time.Second) // longer than the store waits for a stream
			require.NoError(t, m.Resume())
		})
	})
}

// pause lets a fault last for d.
func pause(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// cutOff waits until an isolated member has noticed its isolation. Before that, writes have an
// unknown outcome; after it, they are refused at once. None succeeds.
func cutOff(t *testing.T, captive *Store) {
	for {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := captive.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("captive", nil)}})
		cancel()
		require.Error(t, err)
		if errors.Is(err, rpctypes.ErrNoLeader) {
			require.NotErrorIs(t, err, store.ErrUnknownOutcome)
			return
		}
		require.ErrorIs(t, err, store.ErrUnknownOutcome)
	}
}

// commitSoon commits as soon as the rest of the cluster has a leader.
func commitSoon(t *testing.T, s *Store, key string) store.Revision {
	for i := 0; ; i++ {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		r, err := s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put(key, nil)}})
		cancel()
		if err == nil {
			return r
		}
		require.Less(t, i, 20, "%v", err)
	}
}
