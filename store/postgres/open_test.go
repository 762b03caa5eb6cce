package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres"
)

// database creates a database for one test and returns its DSN.
func database(tb testing.TB) (dsn string) {
	tb.Helper()
	name := "d" + newSchema()
	execute(tb, server(tb).DSN("postgres"), "CREATE DATABASE "+name)
	return server(tb).DSN(name)
}

// as returns dsn with another user.
func as(dsn, user string) string { return strings.Replace(dsn, "postgres@", user+"@", 1) }

// relations lists the relations of a database, without those of PostgreSQL.
func relations(tb testing.TB, dsn string) string {
	tb.Helper()
	var all string
	err := newPool(tb, dsn).QueryRow(context.Background(), `SELECT coalesce(string_agg(what, ' ' ORDER BY what), '') FROM (
		SELECT nspname AS what FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' UNION ALL
		SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname NOT LIKE 'pg_%' AND n.nspname <> 'information_schema') x`).Scan(&all)
	require.NoError(tb, err)
	return all
}

func TestBadInputOfOpen(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	open := func(dsn, schema string, o *postgres.Options) error {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		s, err := postgres.Open(ctx, dsn, schema, o)
		if err == nil {
			_ = s.Close()
		}
		return err
	}
	before := relations(t, dsn)
	for _, schema := range []string{"", "A", "1a", "a-b", "a b", "a\"b", "a.b", "é", "a\x00", "pg_a", "information_schema", strings.Repeat("a", 64)} {
		require.ErrorIs(t, open(dsn, schema, nil), store.ErrInvalid, "schema %q", schema)
	}
	for _, o := range []postgres.Options{{Retain: -1}, {Poll: -1}} {
		require.ErrorIs(t, open(dsn, "ok", &o), store.ErrInvalid, "%+v", o)
	}
	for _, wrong := range []string{"", "postgres://[", "host=x port=y", "pool_max_conns=x", "host=x sslmode=nonsense", "\x00"} {
		require.ErrorIs(t, open(wrong, "ok", nil), store.ErrInvalid, "dsn %q", wrong)
	}
	_, err := postgres.New(context.Background(), nil, "ok", nil)
	require.ErrorIs(t, err, store.ErrInvalid)
	ended, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("the caller gave up")
	cancel(cause)
	_, err = postgres.Open(ended, dsn, "ok", nil)
	require.ErrorIs(t, err, cause)

	require.ErrorContains(t, open(strings.Replace(dsn, "/ds", "/no", 1), "ok", nil), "the database does not exist")
	require.ErrorContains(t, open(as(dsn, "nobody_at_all"), "ok", nil), "check user, password")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, free.Close())
	require.ErrorContains(t, open("postgres://postgres@"+free.Addr().String()+"/x?sslmode=disable", "ok", nil), "connect")
	require.Equal(t, before, relations(t, dsn), "the content of the database after refusals")
}

// No error contains the password.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	execute(t, dsn, `DO $$ BEGIN CREATE ROLE secured LOGIN SUPERUSER PASSWORD 'right'; EXCEPTION WHEN duplicate_object THEN NULL; END $$`)
	s := openAt(t, as(dsn, "secured:right"), "ok", nil)
	put(t, s, "k", "v")
	_, err := postgres.Open(t.Context(), as(dsn, "secured:wr0ng"), "ok", nil)
	require.ErrorContains(t, err, "check user, password")
	require.NotContains(t, err.Error(), "wr0ng")
}

// No error quotes a DSN, where a password may be anywhere.
func TestPasswordsAreNotInErrors(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"postgres://u:hunter2@h:port/db":              "failed to parse as URL",
		"postgres://u:hunter2/@h/db":                  "failed to parse as URL",
		"postgres://u:`: invalid hunter2 (/@h/db":     "failed to parse as URL",
		"postgres://u@h/db?password=hunter2&port=y":   "invalid port",
		"postgres://h/db?password=hunter2&sslmode=no": "failed to configure TLS",
		"postgres://u:hunter2@h/db?pool_max_conns=x":  "cannot parse pool_max_conns",
		"host=x password = hunter2 port=y":            "invalid port",
		"host=x password='hunter2 hunter2' port=y":    "invalid port",
		"hunter2": "failed to parse as keyword/value",
		"postgres://u:hunter2@127.0.0.1:1/db?sslmode=allow": "connect",
	} {
		_, err := postgres.Open(t.Context(), dsn, "ok", nil)
		require.ErrorContains(t, err, want, dsn)
		require.NotContains(t, err.Error(), "hunter2", dsn)
	}
}

func TestForeignSchemaIsRefused(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	execute(t, dsn, `CREATE TABLE public.orders (id int);
		CREATE SCHEMA meta_of_others; CREATE TABLE meta_of_others.meta (magic text, format int4, epoch text, compacted int8);
		INSERT INTO meta_of_others.meta VALUES ('something else', 1, '', 0);
		CREATE SCHEMA functions; CREATE FUNCTION functions.f() RETURNS int LANGUAGE sql AS 'SELECT 1';
		CREATE SCHEMA empty`)
	before := relations(t, dsn)
	for _, schema := range []string{"public", "meta_of_others", "functions"} {
		_, err := postgres.Open(t.Context(), dsn, schema, nil)
		require.ErrorIs(t, err, postgres.ErrForeign, schema)
		require.ErrorContains(t, err, schema)
	}
	require.Equal(t, before, relations(t, dsn))
	put(t, openAt(t, dsn, "empty", nil), "k", "v")
}

func TestNewerFormatIsRefused(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	require.NoError(t, openAt(t, dsn, "ok", nil).Close())
	execute(t, dsn, "UPDATE ok.meta SET format = 99")
	_, err := postgres.Open(t.Context(), dsn, "ok", nil)
	require.ErrorIs(t, err, postgres.ErrFormat)
	require.ErrorContains(t, err, "format 99")
	execute(t, dsn, "UPDATE ok.meta SET format = 0")
	_, err = postgres.Open(t.Context(), dsn, "ok", nil)
	require.ErrorIs(t, err, postgres.ErrCorrupt)
	execute(t, dsn, "DELETE FROM ok.meta")
	_, err = postgres.Open(t.Context(), dsn, "ok", nil)
	require.ErrorIs(t, err, postgres.ErrCorrupt)
}

// A newer process that upgrades the schema under an older one stops it.
func TestNewerFormatUnderARunningStore(t *testing.T) {
	t.Parallel()
	s, schema := openNew(t, nil)
	put(t, s, "k", "v")
	execute(t, server(t).DSN("postgres"), "UPDATE "+schema+".meta SET format = 99")
	_, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("k", nil)}})
	require.ErrorIs(t, err, postgres.ErrFormat)
	_, err = s.List(t.Context(), store.Query{})
	require.ErrorIs(t, err, postgres.ErrFormat)
}

func TestPrivilegesThatAreMissing(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	require.NoError(t, openAt(t, dsn, "ok", nil).Close())
	role := "r" + newSchema()
	execute(t, dsn, "CREATE ROLE "+role+" LOGIN")
	before := relations(t, dsn)
	for _, step := range []struct{ schema, want, grant string }{
		{"another", "CREATE on the database", ""},
		{"ok", "USAGE on the schema", "GRANT USAGE ON SCHEMA ok TO " + role},
		{"ok", "SELECT", "GRANT SELECT ON ALL TABLES IN SCHEMA ok TO " + role}, // a read-only role
		{"ok", `UPDATE on table "ok"."meta"`, "GRANT UPDATE ON ok.meta TO " + role},
		{"ok", `INSERT on table "ok"."state"`, "GRANT INSERT, UPDATE, DELETE ON ok.state TO " + role},
		{"ok", `INSERT on table "ok"."log"`, "GRANT INSERT, UPDATE, DELETE ON ok.log TO " + role},
	} {
		_, err := postgres.Open(t.Context(), as(dsn, role), step.schema, nil)
		require.ErrorIs(t, err, postgres.ErrPrivilege, step.want)
		require.ErrorContains(t, err, step.want)
		if step.grant != "" {
			execute(t, dsn, step.grant)
		}
	}
	require.Equal(t, before, relations(t, dsn))
	put(t, openAt(t, as(dsn, role), "ok", nil), "k", "v")

	execute(t, dsn, "ALTER ROLE "+role+" SET default_transaction_read_only = on")
	execute(t, dsn, "ALTER ROLE "+role+" SET default_transaction_isolation = 'serializable'")
	execute(t, dsn, "ALTER ROLE "+role+" SET lock_timeout = '1ms'")
	execute(t, dsn, "ALTER ROLE "+role+" SET synchronous_commit = off")
	put(t, openAt(t, as(dsn, role), "ok", nil), "k", "the store's own settings count")
}

// Several stores of several processes open a schema at the same moment.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	const openers = 8
	var running sync.WaitGroup
	errs := make([]error, openers)
	for i := range openers {
		running.Go(func() {
			s, err := postgres.Open(context.Background(), dsn+"&pool_max_conns=2", "ok", nil)
			if err == nil {
				_, err = s.Commit(context.Background(), store.Txn{Do: []store.Operation{store.Put(fmt.Sprint(i), nil)}})
				err = errors.Join(err, s.Close())
			}
			errs[i] = err
		})
	}
	running.Wait()
	require.NoError(t, errors.Join(errs...))
	p, err := openAt(t, dsn, "ok", nil).List(t.Context(), store.Query{})
	require.NoError(t, err)
	require.Len(t, p.Entries, openers)
	require.EqualValues(t, openers, p.Position.Revision)
}

// A pool of the host stays open, and serves a second store.
func TestNewLeavesThePoolOpen(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(server(t).DSN("postgres"))
	require.NoError(t, err)
	config.MaxConns = 1 // one is enough
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	for range 2 {
		s, err := postgres.New(t.Context(), pool, newSchema(), nil)
		require.NoError(t, err)
		put(t, s, "k", "v")
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
	}
	require.NoError(t, pool.Ping(t.Context()))
	require.Zero(t, pool.Stat().AcquiredConns())
}

// A backup that is restored twice makes two histories, whose revisions lie apart.
func TestTwoRestoresOfOneBackup(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	var starts []store.Revision
	for range 2 {
		s := openAt(t, dsn, "ok", nil)
		backup := put(t, s, "k", "v")
		require.NoError(t, s.Close())
		s = openAt(t, dsn, "ok", &postgres.Options{NewEpoch: true})
		p, err := s.List(t.Context(), store.Query{})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.GreaterOrEqual(t, p.Position.Revision, backup+1<<40)
		require.Less(t, p.Position.Revision, backup+1<<51)
		starts = append(starts, p.Position.Revision)
		execute(t, dsn, "DROP SCHEMA ok CASCADE")
	}
	require.Greater(t, max(starts[0], starts[1])-min(starts[0], starts[1]), store.Revision(1000))
}

// Revisions do not run over, however often a store is restored.
func TestNoRoomForAnotherEpoch(t *testing.T) {
	t.Parallel()
	s, schema := openNew(t, nil)
	put(t, s, "k", "v")
	epoch := epochOf(t, s)
	require.NoError(t, s.Close())
	dsn := server(t).DSN("postgres")
	execute(t, dsn, fmt.Sprintf("UPDATE %s.meta SET compacted = %d", schema, int64(math.MaxInt64)-1<<50))
	_, err := postgres.Open(t.Context(), dsn, schema, &postgres.Options{NewEpoch: true})
	require.ErrorIs(t, err, store.ErrTooLarge)
	require.Equal(t, epoch, epochOf(t, openAt(t, dsn, schema, nil)), "nothing has changed")
}
