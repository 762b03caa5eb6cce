package postgres_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres"
)

// A role without rights on the schema cannot delay writers or hosts: they wait only for rows,
// which it may not lock, and use no advisory locks, which any role may take.
func TestStrangerCannotHoldUpWriters(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // which the test does not need
	defer cancel()
	dsn := database(t)
	const schema = "ok"
	s := openAt(t, dsn, schema, nil)
	put(t, s, "gate", "v")
	execute(t, dsn, "DO $$ BEGIN CREATE ROLE stranger LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
	stranger, err := pgx.Connect(ctx, as(dsn, "stranger"))
	require.NoError(t, err)
	defer func() { require.NoError(t, stranger.Close(context.Background())) }()

	host, err := pgx.Connect(ctx, dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, host.Close(context.Background())) }()
	tx, err := host.Begin(ctx)
	require.NoError(t, err)
	require.NoError(t, s.HoldTx(ctx, tx, "gate"))
	deleted := make(chan error, 1)
	go func() {
		_, err := s.Commit(ctx, store.Txn{Do: []store.Operation{store.Delete("gate"), store.Put("deleted", nil)}})
		deleted <- err
	}()
	awaitLockWaiters(t, dsn, schema, 1)

	hash := func(kind, text string) int64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte("nslifecycle/" + kind + "/" + text))
		return int64(h.Sum64())
	}
	_, err = stranger.Exec(ctx, "SELECT pg_try_advisory_lock($1)", hash("lock", schema))
	require.NoError(t, err)
	for _, key := range []string{"gate", "other"} {
		_, err = stranger.Exec(ctx, "SELECT pg_try_advisory_lock($1::int4, $2::int4)", int32(hash("hold", schema)), int32(hash("key", key)))
		require.NoError(t, err)
	}
	var seen int
	require.NoError(t, stranger.QueryRow(ctx, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&seen))
	require.Zero(t, seen, "advisory locks of the store")
	for _, statement := range []string{
		"SELECT 1 FROM %s.meta FOR KEY SHARE", "SELECT 1 FROM %s.state FOR KEY SHARE", "DO $$ BEGIN LOCK TABLE %s.meta IN ACCESS SHARE MODE; END $$",
		"DO $$ BEGIN LOCK TABLE %s.state IN ACCESS SHARE MODE; END $$",
	} {
		_, err := stranger.Exec(ctx, fmt.Sprintf(statement, schema))
		require.ErrorContains(t, err, "permission denied", statement)
	}

	_, err = s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("other", nil)}})
	require.NoError(t, err)
	require.NoError(t, tx.Commit(ctx))
	require.NoError(t, <-deleted)
	tx, err = host.Begin(ctx)
	require.NoError(t, err)
	require.NoError(t, s.HoldTx(ctx, tx, "other"))
	require.NoError(t, tx.Commit(ctx))
	reopened := openAt(t, dsn, schema, nil)
	put(t, reopened, "other", "v")
	put(t, openAt(t, dsn, "another", nil), "k", "v")
}

// A transaction that holds an entry already does not wait for the deletion that waits for it.
// Another transaction does, and then finds no entry.
func TestHoldBesideADeletionThatWaits(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // which the test does not need
	defer cancel()
	dsn := server(t).DSN("postgres")
	schema := newSchema()
	s := openAt(t, dsn, schema, postgres.Hurried(postgres.Options{}, 0, 0, 20*time.Second, 0))
	put(t, s, "held", "v")
	pool := newPool(t, dsn)
	tx, err := pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	require.NoError(t, s.HoldTx(ctx, tx, "held"))
	deleted := make(chan error, 1)
	go func() {
		_, err := s.Commit(ctx, store.Txn{Do: []store.Operation{store.Delete("held")}})
		deleted <- err
	}()
	awaitLockWaiters(t, dsn, schema, 1)
	require.NoError(t, s.HoldTx(ctx, tx, "held"), "again")
	later := make(chan error, 1)
	go func() {
		tx, err := pool.Begin(ctx)
		if err == nil {
			err = s.HoldTx(ctx, tx, "held")
			_ = tx.Rollback(ctx)
		}
		later <- err
	}()
	awaitLockWaiters(t, dsn, schema, 2)
	require.NoError(t, tx.Commit(ctx))
	require.NoError(t, <-deleted)
	require.ErrorIs(t, <-later, store.ErrNotFound)
}

// awaitLockWaiters returns when n sessions wait for locks on tables of schema.
func awaitLockWaiters(t *testing.T, dsn, schema string, n int) {
	t.Helper()
	pool := newPool(t, dsn)
	require.Eventually(t, func() bool {
		var waiting int
		err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()
			AND position($1 IN query) > 0`, `"`+schema+`".`).Scan(&waiting)
		return err == nil && waiting >= n
	}, 20*time.Second, 2*time.Millisecond, "sessions that wait for a lock")
}
