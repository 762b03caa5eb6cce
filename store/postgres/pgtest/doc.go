// Package pgtest runs a temporary PostgreSQL server, for tests and examples: a
// new data directory, on the loopback interface, gone when it is stopped.
//
//	server, err := pgtest.Start(ctx, nil)
//	if errors.Is(err, pgtest.ErrNotInstalled) {
//		t.Skip(err) // says what to install
//	}
//	defer server.Stop()
//	pool, err := pgxpool.New(ctx, server.DSN("postgres"))
//
// The server ends with the process that started it, also when that is killed
// (on Linux). A process of root runs it as the user postgres or nobody, because
// PostgreSQL refuses to run as root.
package pgtest
