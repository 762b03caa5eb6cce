package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres/pgtest"
)

// benchServer syncs its commits, like a server in production.
func benchServer(b *testing.B) string {
	return ownServer(b, &pgtest.Options{Durable: true}).DSN("postgres")
}

// share divides b.N calls of f among clients and reports calls per second.
func share(b *testing.B, clients int, f func(client, i int) error) float64 {
	var next atomic.Int64
	var running sync.WaitGroup
	errs := make([]error, clients)
	b.ResetTimer()
	for c := range clients {
		running.Go(func() {
			for i := next.Add(1); i <= int64(b.N) && errs[c] == nil; i = next.Add(1) {
				errs[c] = f(c, int(i))
			}
		})
	}
	running.Wait()
	b.StopTimer()
	for _, err := range errs {
		require.NoError(b, err)
	}
	rate := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(rate, "commits/s")
	return rate
}

// BenchmarkRaw compares an update of the driver with the update of a program that works by
// hand: update a row if its version is as expected, and write a row to a log, in one
// statement, each client on a connection of its own.
func BenchmarkRaw(b *testing.B) {
	dsn := benchServer(b)
	value := make([]byte, 512)
	for _, clients := range []int{1, 64} {
		var raw, driver float64
		b.Run(fmt.Sprintf("clients=%d/raw", clients), func(b *testing.B) {
			raw = share(b, clients, rawUpdate(b, dsn, clients, value))
		})
		b.Run(fmt.Sprintf("clients=%d/driver", clients), func(b *testing.B) {
			s := openAt(b, dsn, newSchema(), nil)
			last := make([]store.Revision, clients)
			for c := range last {
				last[c] = commit(b, s, store.Put(fmt.Sprint("k", c), value))
			}
			driver = share(b, clients, func(c, _ int) (err error) {
				key := fmt.Sprint("k", c)
				last[c], err = s.Commit(context.Background(), store.Txn{
					If: []store.Condition{store.At(key, last[c])}, Do: []store.Operation{store.Put(key, value)},
				})
				return err
			})
			if raw > 0 {
				b.ReportMetric(driver/raw, "driver/raw")
			}
		})
	}
}

// rawUpdate returns the work of a client that uses PostgreSQL by hand.
func rawUpdate(b *testing.B, dsn string, clients int, value []byte) func(client, i int) error {
	ctx := context.Background()
	schema := newSchema()
	execute(b, dsn, fmt.Sprintf(`CREATE SCHEMA %[1]s;
		CREATE TABLE %[1]s.state (key bytea PRIMARY KEY, value bytea NOT NULL, version int8 NOT NULL) WITH (fillfactor = 85);
		CREATE TABLE %[1]s.log (id bigserial PRIMARY KEY, key bytea NOT NULL, value bytea NOT NULL, version int8 NOT NULL)`, schema))
	conns := make([]*pgx.Conn, clients)
	for c := range conns {
		conn, err := pgx.Connect(ctx, dsn)
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, conn.Close(ctx)) })
		conns[c] = conn
		_, err = conn.Exec(ctx, fmt.Sprintf("INSERT INTO %s.state VALUES ($1, $2, 0)", schema), fmt.Append(nil, "k", c), value)
		require.NoError(b, err)
	}
	text := fmt.Sprintf(`WITH u AS (UPDATE %[1]s.state SET value = $2, version = version + 1 WHERE key = $1 AND version = $3 RETURNING key, value, version)
		INSERT INTO %[1]s.log (key, value, version) SELECT key, value, version FROM u`, schema)
	versions := make([]int64, clients)
	return func(c, _ int) error {
		tag, err := conns[c].Exec(ctx, text, fmt.Append(nil, "k", c), value, versions[c])
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("client %d changed %d rows", c, tag.RowsAffected())
		}
		versions[c]++
		return err
	}
}
