// Package postgres is the driver of [store.Store] for PostgreSQL 15 and later, on
// github.com/jackc/pgx/v5. Any number of processes share one store in one schema of a database.
//
//	s, err := postgres.New(ctx, pool, "lifecycle", nil)   // a pool of the host
//	s, err := postgres.Open(ctx, dsn, "lifecycle", nil)   // or its own
//
// The first opening creates the tables. A newer version of the driver upgrades them.
//
// # Guarantees
//
// An acknowledged commit is committed by PostgreSQL with synchronous_commit at least "on",
// whatever the default of the role. The connection must lead to the primary, so reads see every
// commit that any process has acknowledged. Revisions have no gaps.
//
// No decision depends on a clock, neither of the server nor of the clients.
//
// # Writing
//
// One goroutine per process commits. While one commit is in progress, further transactions
// gather, and the next commit takes them together (package groupcommit). One batch takes two
// round trips. A row lock serializes the processes; only roles with rights on the schema can take
// it. The server disconnects a process that stops in the middle of a commit after ten seconds. If
// the process stopped while it was sending, which the server takes for work in progress, another
// process of the same role disconnects it after thirty to forty seconds.
//
// A transaction whose context ends before it was submitted is withdrawn: nothing happened. After
// that, Commit waits a second for the result in spite of the context, and then returns
// [store.ErrUnknownOutcome]. It returns this error too if the connection breaks between COMMIT
// and its answer. An ERROR reported by the server is definite: nothing happened. A FATAL
// or PANIC, such as a shutdown, generally is not, nor is a connection error, which a pooler may
// have caused.
//
// If the server cannot be reached, is starting or stopping, or has too many connections, reads
// and commits that were not submitted fail with [store.ErrUnavailable]. A full disk is
// [store.ErrFull], unless it ends the server in the middle of COMMIT.
//
// # Holding entries in transactions of the host
//
// [Store.HoldTx] prevents the deletion of an entry until a transaction of the host ends. Package
// guard uses it for rows in tables of the host that are created only in Active namespaces. A
// deletion that must wait for a host's transaction delays no other commit.
//
// # Watching
//
// A process reads the log of changes once for all its watches. It does so after its own commits,
// after notifications (NOTIFY), and every [Options.Poll]. Lost notifications therefore only cost
// time. Other transactions of the server, however long, neither hide nor delay changes.
//
// # History
//
// The last [Options.Retain] commits can be watched from and listed at. Older ones are dropped
// gradually, or on request by [Store.Compact]. Until then a deleted value can be read from older
// positions. Its bytes stay in the tables until dead rows are vacuumed, and in the write-ahead
// log.
//
// # Backups
//
// Any backup of PostgreSQL contains the store. After a restore, open the store once with
// [Options.NewEpoch]. Stores that were open meanwhile end their watches with [store.ErrGone].
//
// # PgBouncer
//
// In transaction mode everything works except LISTEN. Set [Options.NoListen], so that watches
// rely on polling, and configure pgx not to prepare statements by name
// (default_query_exec_mode=exec in the DSN).
//
// # SQL view
//
// The view "namespaces" in the schema shows the namespaces of all registries in the store, for
// psql and other SQL tools. Its definition, with the columns, is in migrate.go.
package postgres
