package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres"
)

// openThrough opens a store through p, on a pool that pings before each use and sets no time
// limit for the answer.
func openThrough(t *testing.T, p *proxy, schema string, options *postgres.Options) *postgres.Store {
	t.Helper()
	config, err := pgxpool.ParseConfig(p.dsn() + "&pool_max_conns=6")
	require.NoError(t, err)
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true }
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	s, err := postgres.New(t.Context(), pool, schema, options)
	require.NoError(t, err)
	t.Cleanup(func() {
		p.cutAll()
		require.NoError(t, s.Close())
	})
	return s
}

// Silent connections do not block the committer or watches forever.
func TestFaultConnectionsFallSilent(t *testing.T) {
	t.Parallel()
	hurry := postgres.Hurried(postgres.Options{NoListen: true, Poll: 20 * time.Millisecond}, 200*time.Millisecond, time.Second, 0, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // which the test does not need
	defer cancel()
	t.Run("committer", func(t *testing.T) {
		p := newProxy(t, server(t).Addr())
		s := openThrough(t, p, newSchema(), hurry)
		put(t, s, "k", "1")
		p.silence()
		_, err := s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("k", []byte("2"))}})
		require.NoError(t, err)
	})
	t.Run("watch", func(t *testing.T) {
		p := newProxy(t, server(t).Addr())
		schema := newSchema()
		s := openThrough(t, p, schema, hurry)
		other := openAt(t, server(t).DSN("postgres"), schema, nil)
		silenced := false
		for c, err := range s.Watch(ctx, "", store.Position{}) {
			require.NoError(t, err)
			if !silenced {
				silenced = true
				p.silence()
				put(t, other, "k", "1")
			}
			if len(c.Events) > 0 {
				break
			}
		}
		require.NoError(t, ctx.Err())
	})
}

// A process that becomes silent in the middle of a batch of messages loses the writer lock,
// although the server considers it busy.
func TestFaultHalfABatch(t *testing.T) {
	t.Parallel()
	dsn := server(t).DSN("postgres")
	schema := newSchema()
	s := openAt(t, dsn, schema, postgres.Hurried(postgres.Options{}, 100*time.Millisecond, 0, 0, 300*time.Millisecond))
	put(t, s, "k", "1")
	stopped, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { _ = stopped.Close(context.Background()) }() // it is disconnected
	pipeline := stopped.PgConn().StartPipeline(t.Context())
	pipeline.SendQueryParams("begin", nil, nil, nil, nil)
	pipeline.SendQueryParams("SELECT set_config('idle_in_transaction_session_timeout', '100ms', true)", nil, nil, nil, nil)
	pipeline.SendQueryParams(postgres.WriterLock(schema), nil, nil, nil, nil)
	pipeline.SendFlushRequest()
	require.NoError(t, pipeline.Flush())
	for range 3 {
		_, err := pipeline.GetResults()
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // which the test does not need
	defer cancel()
	_, err = s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("k", []byte("2"))}})
	require.NoError(t, err)
}
