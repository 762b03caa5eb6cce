// Package postgres is the driver of [store.Store] for PostgreSQL 15 and later, on
// github.com/jackc/pgx/v5: any number of processes share one store in one schema
// of a database.
//
//	s, err := postgres.New(ctx, pool, "lifecycle", nil)   // a pool of the host
//	s, err := postgres.Open(ctx, dsn, "lifecycle", nil)   // or its own
//
// The tables are made when the store is opened first, and brought up to date when
// a newer version of the driver opens it.
//
// # What it promises
//
// An acknowledged commit is what PostgreSQL calls committed, with
// synchronous_commit at least "on" whatever the role's default. Reads go to the
// server that is connected to, which must be the primary, and see every commit
// that any process was acknowledged. Revisions have no gaps.
//
// No clock decides anything: neither the server's nor those of the clients.
//
// # Writing
//
// One goroutine per process commits. While one commit is on its way, further
// transactions gather, and the next takes them together (group commit). One
// batch is two round trips. A row lock, which only roles with rights on the schema can
// take, serializes the processes. A process that stops in the middle of its turn
// loses it: the server disconnects it after ten
// seconds, or, when it stopped in the middle of what it sent, which the server takes
// for work in progress, another process of the same role that waits has it
// disconnected after thirty to forty.
//
// A transaction whose context ends before it was submitted is withdrawn: nothing
// happened. After that Commit waits a second for the result in spite of the
// context, then answers [store.ErrUnknownOutcome]; so it does when the connection
// is lost between COMMIT and its answer. An error that the server reports itself
// is definite: nothing happened. A connection error is not definite, since a pooler may
// have caused it.
//
// A server that cannot be reached, starts, stops or has too many connections is
// [store.ErrUnavailable], for reads and for commits that were not submitted. A full disk is
// [store.ErrFull], unless it ends the server in the middle of COMMIT.
//
// # Holding entries in transactions of the host
//
// [Store.HoldTx] holds an entry in place until a transaction of the host ends:
// nobody deletes it before. Package guard below this one makes of it what hosts
// want: rows of their own tables that are created only in Active namespaces. A
// deletion that has to wait for a host's transaction does so apart from all
// others, which go on.
//
// # Watching
//
// A process reads the log of changes once for all its watches. It is woken by
// its own commits and by NOTIFY, and looks every [Options.Poll] in any case: a
// notification is a wake-up, never the truth. Other transactions of the server,
// however long, neither hide nor delay changes.
//
// # History
//
// The last [Options.Retain] commits can be watched from and listed at; older ones
// are dropped gradually, or on request by [Store.Compact]. Until then a deleted value can
// be read from older positions. Its bytes stay in the tables until dead rows are vacuumed,
// and in the write-ahead log.
//
// # Backups
//
// Any backup of PostgreSQL is one. After a restore, open the store once with
// [Options.NewEpoch]. Stores that were open meanwhile end their watches with
// [store.ErrGone].
//
// # PgBouncer
//
// In transaction mode everything works but LISTEN: set [Options.NoListen], so that
// watches rely on polling, and let pgx not prepare statements by name
// (default_query_exec_mode=exec in the DSN).
//
// # For people
//
// The view "namespaces" in the schema shows the namespaces of all registries in
// the store, for psql and other SQL tools. See DESIGN.md in this directory.
package postgres
