package main

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
	"github.com/nslifecycle/nslifecycle/store/postgres/pgtest"
)

func TestMain(m *testing.M) { programs.Main(m, main) }

func TestConduct(t *testing.T) {
	c := programs.Conduct{Absent: []string{"--dsn", "postgres://x:secret@127.0.0.1:1/x"}}
	if servers(t) {
		c.Ready = "starting a temporary PostgreSQL server"
	}
	c.Check(t)
}

// No error message contains the password of --dsn.
func TestPasswordIsNotPrinted(t *testing.T) {
	for _, dsn := range []string{"postgres://x:secret@127.0.0.1:1/x", "postgres://x:secret@[::1", "host=127.0.0.1 port=1 user=x password=secret", "password=secret nonsense"} {
		code, fault := programs.Self(t, "--dsn", dsn).Exit()
		require.Equal(t, 1, code, fault)
		require.NotContains(t, fault, "secret")
	}
}

// servers reports whether PostgreSQL is installed. Where tests require servers, it must be.
func servers(t *testing.T) bool {
	t.Helper()
	_, err := pgtest.Find()
	if os.Getenv("NSLIFECYCLE_REQUIRE_SERVERS") != "" {
		require.NoError(t, err)
	}
	return !errors.Is(err, pgtest.ErrNotInstalled)
}

func TestOutput(t *testing.T) {
	if !servers(t) {
		t.Skip(pgtest.ErrNotInstalled)
	}
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, nil))
	const want = `starting a temporary PostgreSQL server
tenants acme and globex are Active
tenant acme is Terminating
writers are refused
tenant acme is removed
orders of acme: 0
orders of globex: 1
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestBadInput(t *testing.T) {
	var out bytes.Buffer
	require.ErrorContains(t, run(t.Context(), &out, []string{"x"}), "unexpected argument")
	require.Error(t, run(t.Context(), &out, []string{"--nonsense"}))
	require.Error(t, run(t.Context(), &out, []string{"--dsn", "postgres://["}))
}
