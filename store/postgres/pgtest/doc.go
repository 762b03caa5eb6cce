// Package pgtest runs a temporary PostgreSQL server for tests and examples. The server has a new
// data directory, listens on the loopback interface only, and is removed when it stops.
//
//	server, err := pgtest.Start(ctx, nil)
//	if errors.Is(err, pgtest.ErrNotInstalled) {
//		t.Skip(err) // names the package to install
//	}
//	defer server.Stop()
//	pool, err := pgxpool.New(ctx, server.DSN("postgres"))
//
// On Linux the server ends with the process that started it, even if that is killed. A process of
// root runs it as the user postgres or nobody, because PostgreSQL refuses to run as root.
package pgtest
