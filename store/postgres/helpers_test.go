package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres"
	"github.com/nslifecycle/nslifecycle/store/postgres/pgtest"
)

// envRequire makes tests without a server fail instead of being skipped.
const envRequire = "NSLIFECYCLE_REQUIRE_SERVERS"

var (
	serverMu sync.Mutex
	shared   *pgtest.Server // of all tests that do not harm it
	schemas  atomic.Int64
)

func TestMain(m *testing.M) {
	if child() {
		return
	}
	result := m.Run()
	if shared != nil {
		if err := shared.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			result = 1
		}
	}
	os.Exit(result)
}

// server returns the server that the tests share.
func server(tb testing.TB) *pgtest.Server {
	tb.Helper()
	serverMu.Lock()
	defer serverMu.Unlock()
	if shared == nil {
		s, err := pgtest.Start(context.Background(), &pgtest.Options{
			Access: []string{"host all secured 127.0.0.1/32 scram-sha-256"},
		})
		skip(tb, err)
		shared = s
	}
	return shared
}

// ownServer returns a server that the test may harm.
func ownServer(tb testing.TB, options *pgtest.Options) *pgtest.Server {
	tb.Helper()
	s, err := pgtest.Start(tb.Context(), options)
	skip(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Stop()) })
	return s
}

func skip(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, pgtest.ErrNotInstalled) && os.Getenv(envRequire) == "" {
		tb.Skip(err)
	}
	require.NoError(tb, err)
}

// newSchema returns an unused schema name.
func newSchema() string { return fmt.Sprintf("s%d", schemas.Add(1)) }

// newPool returns a pool that is closed after the test.
func newPool(tb testing.TB, dsn string) *pgxpool.Pool {
	tb.Helper()
	p, err := pgxpool.New(context.Background(), dsn)
	require.NoError(tb, err)
	tb.Cleanup(p.Close)
	return p
}

// openAt opens a store and closes it after the test.
func openAt(tb testing.TB, dsn, schema string, options *postgres.Options) *postgres.Store {
	tb.Helper()
	s, err := postgres.Open(context.Background(), dsn, schema, options)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	return s
}

func openNew(tb testing.TB, options *postgres.Options) (*postgres.Store, string) {
	tb.Helper()
	schema := newSchema()
	return openAt(tb, server(tb).DSN("postgres"), schema, options), schema
}

func put(tb testing.TB, s store.Store, key, value string) store.Revision {
	tb.Helper()
	return commit(tb, s, store.Put(key, []byte(value)))
}

func commit(tb testing.TB, s store.Store, ops ...store.Operation) store.Revision {
	tb.Helper()
	r, err := s.Commit(context.Background(), store.Txn{Do: ops})
	require.NoError(tb, err)
	return r
}

func execute(tb testing.TB, dsn, sql string) {
	tb.Helper()
	p := newPool(tb, dsn)
	_, err := p.Exec(context.Background(), sql)
	require.NoError(tb, err)
}
