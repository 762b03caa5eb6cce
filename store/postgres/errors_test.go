package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres"
)

type unsent struct{ error }

func (unsent) SafeToRetry() bool { return true }

// Only an error that the server itself reports about the transaction, and a transaction that
// was never sent, are definite: a connection error may come from a pooler.
func TestDefinite(t *testing.T) {
	t.Parallel()
	server := func(severity, code string) error {
		return fmt.Errorf("commit: %w", &pgconn.PgError{Severity: severity, SeverityUnlocalized: severity, Code: code})
	}
	for i, tt := range []struct {
		err  error
		want bool
	}{
		{server("ERROR", "53100"), true},
		{server("ERROR", "40001"), true},
		{server("FATAL", "53100"), false},
		{server("FATAL", "57P01"), false},
		{server("ERROR", "57P01"), false},
		{server("ERROR", "57P02"), false},
		{server("ERROR", "57P03"), false},
		{server("ERROR", "08P01"), false}, // PgBouncer: server conn crashed
		{server("ERROR", "08006"), false},
		{server("ERROR", "40003"), false},
		{&pgconn.PgError{Severity: "ERROR", Code: "23505"}, true},
		{errors.New("the connection was reset"), false},
		{fmt.Errorf("commit: %w", unsent{errors.New("the message is too large")}), true},
		{postgres.BeforeCommit(server("PANIC", "53100")), true},
		{postgres.BeforeCommit(server("FATAL", "53200")), true},
		{postgres.BeforeCommit(server("FATAL", "57P01")), false},
		{postgres.BeforeCommit(errors.New("the connection was reset")), false},
		{server("PANIC", "53100"), false},
	} {
		require.Equal(t, tt.want, postgres.Definite(tt.err), "case %d: %v", i, tt.err)
	}
}

// A time limit of the driver is not reported as the end of the caller's context.
func TestLimitsOfTheDriverAreNotTheCallers(t *testing.T) {
	t.Parallel()
	schema := newSchema()
	dsn := server(t).DSN("postgres")
	s := openAt(t, dsn, schema, postgres.Hurried(postgres.Options{}, 0, 100*time.Millisecond, 0, 0))
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), postgres.WriterLock(schema))
	require.NoError(t, err)
	_, err = s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("k", nil)}})
	require.ErrorContains(t, err, "in time")
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, store.ErrUnknownOutcome)
}

// An acknowledged commit is durable, also on synchronous standbys, whatever the default of the
// role is.
func TestSynchronousCommitIsRaised(t *testing.T) {
	t.Parallel()
	dsn := server(t).DSN("postgres")
	for given, want := range map[string]string{"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply"} {
		schema := newSchema()
		s := openAt(t, dsn+"&synchronous_commit="+given, schema, nil)
		execute(t, dsn, fmt.Sprintf(`CREATE TABLE %[1]s.seen (setting text);
CREATE FUNCTION %[1]s.see() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO %[1]s.seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
CREATE TRIGGER see AFTER INSERT ON %[1]s.log FOR EACH STATEMENT EXECUTE FUNCTION %[1]s.see()`, schema))
		put(t, s, "k", "v")
		var seen string
		require.NoError(t, newPool(t, dsn).QueryRow(t.Context(), "SELECT setting FROM "+schema+".seen").Scan(&seen))
		require.Equal(t, want, seen, "given %s", given)
	}
}
