package guard_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store/postgres"
	"github.com/nslifecycle/nslifecycle/store/postgres/guard"
	"github.com/nslifecycle/nslifecycle/store/postgres/pgtest"
)

var (
	serverMu sync.Mutex
	shared   *pgtest.Server
	schemas  atomic.Int64
)

func TestMain(m *testing.M) {
	result := m.Run()
	if shared != nil {
		if err := shared.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			result = 1
		}
	}
	os.Exit(result)
}

// dsn returns the database of the server that the tests share. Without PostgreSQL
// they are skipped, or fail when NSLIFECYCLE_REQUIRE_SERVERS is set.
func dsn(tb testing.TB) string {
	tb.Helper()
	serverMu.Lock()
	defer serverMu.Unlock()
	if shared == nil {
		s, err := pgtest.Start(context.Background(), nil)
		if errors.Is(err, pgtest.ErrNotInstalled) && os.Getenv("NSLIFECYCLE_REQUIRE_SERVERS") == "" {
			tb.Skip(err)
		}
		require.NoError(tb, err)
		shared = s
	}
	return shared.DSN("postgres")
}

// host is a service with a table of its own beside the store.
type host struct {
	tb       testing.TB
	ctx      context.Context
	pool     *pgxpool.Pool
	store    *postgres.Store
	registry *registry.Registry
	guard    *guard.Guard
	schema   string
	table    string
}

func newHost(tb testing.TB) *host {
	tb.Helper()
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, dsn(tb)+"&pool_max_conns=24")
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	schema := fmt.Sprintf("g%d", schemas.Add(1))
	s, err := postgres.New(ctx, pool, schema, nil)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	r, err := registry.New(s, nil)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, r.Close())
		require.NoError(tb, registrytest.Check(ctx, s, "registry"))
	})
	g, err := guard.New(s, "")
	require.NoError(tb, err)
	h := &host{tb: tb, ctx: ctx, pool: pool, store: s, registry: r, guard: g, schema: schema, table: "orders_" + schema}
	h.exec(fmt.Sprintf("CREATE TABLE %s (tenant text NOT NULL, id bigserial PRIMARY KEY)", h.table))
	return h
}

func (h *host) exec(text string, args ...any) {
	h.tb.Helper()
	_, err := h.pool.Exec(h.ctx, text, args...)
	require.NoError(h.tb, err)
}

func (h *host) create(name string) namespace.Namespace {
	h.tb.Helper()
	n, err := h.registry.Create(h.ctx, namespace.Namespace{Meta: namespace.Meta{Name: name}})
	require.NoError(h.tb, err)
	return n
}

func (h *host) terminate(ctx context.Context, name string) error {
	_, err := h.registry.Delete(ctx, name, namespace.Preconditions{})
	return err
}

// orders counts the rows of a tenant.
func (h *host) orders(tenant string) (n int) {
	h.tb.Helper()
	require.NoError(h.tb, h.pool.QueryRow(h.ctx, fmt.Sprintf("SELECT count(*) FROM %s WHERE tenant = $1", h.table), tenant).Scan(&n))
	return n
}

// begin begins a transaction that ends with the test at the latest.
func (h *host) begin() pgx.Tx {
	h.tb.Helper()
	tx, err := h.pool.Begin(h.ctx)
	require.NoError(h.tb, err)
	h.tb.Cleanup(func() { _ = tx.Rollback(h.ctx) }) // mostly it has ended
	return tx
}
