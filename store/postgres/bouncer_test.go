package postgres_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store/postgres"
	"github.com/nslifecycle/nslifecycle/store/postgres/pgtest"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// bouncer starts PgBouncer in transaction mode and returns the DSN.
func bouncer(t *testing.T, server *pgtest.Server) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			const missing = "PgBouncer is not installed (Debian: apt-get install pgbouncer)"
			if os.Getenv(envRequire) != "" {
				t.Fatal(missing)
			}
			t.Skip(missing)
		}
	}
	host, port, err := net.SplitHostPort(server.Addr())
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().(*net.TCPAddr)
	require.NoError(t, l.Close())
	dir, err := os.MkdirTemp("", "pgbouncer-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	config := filepath.Join(dir, "pgbouncer.ini")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `[databases]
postgres = host=%s port=%s dbname=postgres user=postgres pool_size=10
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 200
server_login_retry = 1
`, host, port, address.Port), 0o644))
	cmd := exec.Command(program, config)
	cmd.SysProcAttr = pgtest.Attributes()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", address.String())
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, 20*time.Second, 10*time.Millisecond, "PgBouncer lets clients in")
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", address)
}

// The suite passes through PgBouncer in transaction mode, with polling and unnamed statements.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	server := ownServer(t, nil)
	dsn := bouncer(t, server)
	storetest.Run(t, func(tb testing.TB) storetest.Backend {
		b := backendAt(tb, dsn+"&default_query_exec_mode=exec", postgres.Options{NoListen: true, Poll: 10 * time.Millisecond})
		b.History, b.Deep = 0, nil // these long cases do not depend on the connection
		return b
	})
	t.Run("under fault", func(t *testing.T) {
		underFault(t, dsn+"&default_query_exec_mode=simple_protocol", &postgres.Options{NoListen: true, Poll: 10 * time.Millisecond}, func(h *history) {
			require.NoError(t, server.Kill())
			require.NoError(t, server.Resume(t.Context()))
			h.progress(40)
		})
	})
}
