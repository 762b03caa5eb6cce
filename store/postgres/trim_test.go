package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres"
)

// records counts the records of a schema.
type records struct {
	tb     testing.TB
	pool   *pgxpool.Pool
	schema string
}

func recordsOf(tb testing.TB, schema string) records {
	tb.Helper()
	return records{tb, newPool(tb, server(tb).DSN("postgres")+"&pool_max_conns=1"), schema}
}

// through returns the number of records up to a revision.
func (r records) through(revision store.Revision) (rows int) {
	r.tb.Helper()
	err := r.pool.QueryRow(context.Background(), fmt.Sprintf("SELECT count(*) FROM %s.log WHERE revision <= %d", r.schema, revision)).Scan(&rows)
	require.NoError(r.tb, err)
	return rows
}

// dropped waits until there are no records up to a revision, and requires that the later ones
// remain.
func (r records) dropped(through store.Revision, rest int) {
	r.tb.Helper()
	require.Eventually(r.tb, func() bool { return r.through(through) == 0 }, 20*time.Second, 5*time.Millisecond, "old records are dropped")
	require.Equal(r.tb, rest, r.through(1<<60))
}

// Compact of any process drops the records, whatever the defaults of the role.
func TestCompactDropsRecords(t *testing.T) {
	t.Parallel()
	for _, defaults := range []string{"", "&default_transaction_read_only=on&default_transaction_isolation=serializable"} {
		schema := newSchema()
		s := openAt(t, server(t).DSN("postgres")+defaults, schema, &postgres.Options{Poll: 10 * time.Millisecond})
		log := recordsOf(t, schema)
		for i := range 20 {
			put(t, s, "k", fmt.Sprint(i))
		}
		require.NoError(t, s.Compact(t.Context(), 15))
		log.dropped(15, 5)
		put(t, s, "k", "again")
		require.NoError(t, s.Compact(t.Context(), 18))
		log.dropped(18, 3)

		// As if the compacting process had no time to drop records.
		execute(t, server(t).DSN("postgres"), "UPDATE "+schema+".meta SET compacted = 20")
		log.dropped(20, 1)
	}
}

// Records that another session had locked are dropped later.
func TestLockedRecordsAreDroppedLater(t *testing.T) {
	t.Parallel()
	s, schema := openNew(t, &postgres.Options{Poll: 10 * time.Millisecond})
	log := recordsOf(t, schema)
	for i := range 10 {
		put(t, s, "k", fmt.Sprint(i))
	}
	tx, err := newPool(t, server(t).DSN("postgres")).Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), "SELECT FROM "+schema+".log WHERE revision = 3 FOR UPDATE")
	require.NoError(t, err)
	require.NoError(t, s.Compact(t.Context(), 8))
	require.Eventually(t, func() bool { return log.through(8) == 1 }, 20*time.Second, 5*time.Millisecond, "all others are dropped")
	require.NoError(t, tx.Rollback(t.Context()))
	log.dropped(8, 2)
}

// A process that knew another history of the schema drops only the old records of the current
// one, or revisions would be used twice.
func TestTrimGoesByTheDatabase(t *testing.T) {
	t.Parallel()
	dsn := server(t).DSN("postgres")
	a, schema := openNew(t, &postgres.Options{Poll: 10 * time.Millisecond})
	log := recordsOf(t, schema)
	for i := range 50 {
		put(t, a, "k", fmt.Sprint(i))
	}
	require.NoError(t, a.Compact(t.Context(), 50))
	log.dropped(50, 0)
	execute(t, dsn, "DROP SCHEMA "+schema+" CASCADE") // as a restore does
	b := openAt(t, dsn, schema, nil)
	for i := range 20 {
		put(t, b, fmt.Sprint(i), "v")
	}
	require.NoError(t, b.Compact(t.Context(), 1))
	log.dropped(1, 19)
	require.NoError(t, a.Compact(t.Context(), 2))
	log.dropped(2, 18)
	require.EqualValues(t, 21, put(t, b, "new", "v"), "the next revision")
}
