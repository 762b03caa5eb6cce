package etcd

import (
	"context"
	"testing"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/etcd/internal/etcdtest"
	"github.com/nslifecycle/nslifecycle/store/storetest"
	"github.com/stretchr/testify/require"
)

// backendOn makes backends on one server, each at a prefix of its own. Cases count revisions,
// which belong to the whole cluster, so no other test may write to the server.
func backendOn(server *etcdtest.Server) storetest.Open {
	return func(tb testing.TB) storetest.Backend {
		prefix := newPrefix()
		options := quick() // the cases wait for bookmarks
		handle := func(ctx context.Context) (*Store, error) { return Open(ctx, []string{server.URL}, prefix, options) }
		latest, err := handle(tb.Context())
		require.NoError(tb, err)
		return storetest.Backend{
			Store:    latest,
			Limits:   latest.Limits(),
			Compacts: true,
			Counts:   true,
			Slow:     true,
			Second:   func(ctx context.Context) (store.Store, error) { return handle(ctx) },
			Reopen: func(ctx context.Context) (store.Store, error) {
				server.Kill()
				if err := server.Restart(ctx); err != nil {
					return nil, err
				}
				return handle(ctx)
			},
			Deep: func(ctx context.Context) (store.Store, error) {
				return Open(ctx, []string{server.URL}, newPrefix(), options)
			},
			NewEpoch: func(ctx context.Context) (store.Store, error) {
				s, err := Open(ctx, []string{server.URL}, prefix, &Options{NewEpoch: true})
				if err != nil {
					return nil, err
				}
				now, err := s.List(ctx, store.Query{Limit: 1})
				if err != nil {
					return nil, err
				}
				return s, s.Compact(ctx, now.Position.Revision) // as etcdutl --mark-compacted does in a restore
			},
		}
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, backendOn(ownServer(t)))
}

func BenchmarkStore(b *testing.B) { storetest.Bench(b, backendOn(theServer(b))) }
