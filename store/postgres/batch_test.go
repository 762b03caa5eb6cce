package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres"
)

// together makes the committer take the transactions in one batch. It holds the writer lock until
// they are queued, and returns a channel for each result.
func together(t *testing.T, s *postgres.Store, schema string, txns ...store.Txn) []<-chan error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server(t).DSN("postgres"))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), postgres.WriterLock(schema))
	require.NoError(t, err)
	begin := func(txn store.Txn) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := s.Commit(context.Background(), txn)
			done <- err
		}()
		return done
	}
	first := begin(store.Txn{Do: []store.Operation{store.Put("first", nil)}})
	awaitLockWaiters(t, server(t).DSN("postgres"), schema, 1)
	var answers []<-chan error
	for i, txn := range txns {
		answers = append(answers, begin(txn))
		require.Eventually(t, func() bool { return s.Queued() == i+1 }, 20*time.Second, time.Millisecond, "it has gathered")
	}
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-first)
	return answers
}

// A put of a held entry does not wait for the host, even if a deletion of the entry, which
// must wait, is in the same batch.
func TestPutOfHeldEntryBesideItsDeletion(t *testing.T) {
	t.Parallel()
	s, schema := openNew(t, nil)
	put(t, s, "held", "1")
	tx, err := newPool(t, server(t).DSN("postgres")).Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	require.NoError(t, s.HoldTx(t.Context(), tx, "held"))
	answers := together(t, s, schema,
		store.Txn{Do: []store.Operation{store.Delete("held")}},
		store.Txn{Do: []store.Operation{store.Put("held", []byte("2"))}},
	)
	select {
	case err := <-answers[1]:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		require.Fail(t, "the put waits for the host")
	}
	select {
	case err := <-answers[0]:
		require.Fail(t, "the deletion did not wait", "%v", err)
	default:
	}
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-answers[0])
	_, err = s.Get(t.Context(), "held")
	require.ErrorIs(t, err, store.ErrNotFound)
}

// The values on the server bound a batch too, because deletions write little but log the deleted
// values. A single transaction above the bound is logged in several statements.
func TestStoredValuesBoundABatch(t *testing.T) {
	t.Parallel()
	s, schema := openNew(t, postgres.Light(postgres.Options{}, 1000))
	var all []store.Operation
	var txns []store.Txn
	for i := range 6 {
		key := fmt.Sprint("k", i)
		put(t, s, key, string(bytes.Repeat([]byte("v"), 400)))
		all = append(all, store.Delete(key))
		txns = append(txns, store.Txn{If: []store.Condition{store.Exists(key)}, Do: []store.Operation{store.Delete(key)}})
	}
	pool := newPool(t, server(t).DSN("postgres"))
	written := func() (transactions, statements int) {
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(DISTINCT xmin::text), count(DISTINCT (xmin::text, cmin::text)) FROM "+schema+
			".log WHERE deleted").Scan(&transactions, &statements))
		return transactions, statements
	}
	for _, done := range together(t, s, schema, txns...) {
		require.NoError(t, <-done)
	}
	transactions, statements := written()
	require.Equal(t, 3, transactions, "two values of 400 bytes in each")
	require.Equal(t, 3, statements)

	for i := range 6 {
		put(t, s, fmt.Sprint("k", i), string(bytes.Repeat([]byte("w"), 400)))
	}
	from, err := s.List(t.Context(), store.Query{})
	require.NoError(t, err)
	commit(t, s, all...)
	transactions, statements = written()
	require.Equal(t, 3+1, transactions)
	require.Equal(t, 3+3, statements)
	for c, err := range s.Watch(t.Context(), "", from.Position) {
		require.NoError(t, err)
		require.Len(t, c.Events, 6)
		break
	}
}
