package postgres_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// backendAt returns a store in a new schema with a short history. Its second handle has
// connections of its own, as in another process.
func backendAt(tb testing.TB, dsn string, options postgres.Options) storetest.Backend {
	schema := newSchema()
	if options.Retain == 0 {
		options.Retain = 256
	}
	open := func(options postgres.Options) (*postgres.Store, error) {
		s, err := postgres.Open(context.Background(), dsn, schema, &options)
		if err == nil {
			tb.Cleanup(func() { _ = s.Close() })
		}
		return s, err
	}
	latest, err := open(options)
	require.NoError(tb, err)
	again := func(options postgres.Options) (store.Store, error) {
		if err := latest.Close(); err != nil {
			return nil, err
		}
		s, err := open(options)
		latest = s
		return s, err
	}
	return storetest.Backend{
		Store:    latest,
		Limits:   latest.Limits(),
		Compacts: true,
		Counts:   true,
		Slow:     true,
		History:  576, // Retain and its slack; twice as many exceed the queue of a watch too
		Second:   func(context.Context) (store.Store, error) { return open(options) },
		Reopen:   func(context.Context) (store.Store, error) { return again(options) },
		Deep: func(ctx context.Context) (store.Store, error) {
			return postgres.Open(ctx, dsn, newSchema(), nil)
		},
		NewEpoch: func(context.Context) (store.Store, error) {
			restored := options
			restored.NewEpoch = true
			return again(restored)
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	dsn := server(t).DSN("postgres")
	storetest.Run(t, func(tb testing.TB) storetest.Backend { return backendAt(tb, dsn, postgres.Options{}) })
}

func BenchmarkStore(b *testing.B) {
	dsn := server(b).DSN("postgres")
	storetest.Bench(b, func(tb testing.TB) storetest.Backend { return backendAt(tb, dsn, postgres.Options{Retain: 100_000}) })
}
