package main

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store/postgres/pgtest"
)

func TestOutput(t *testing.T) {
	_, err := pgtest.Find()
	if errors.Is(err, pgtest.ErrNotInstalled) && os.Getenv("NSLIFECYCLE_REQUIRE_SERVERS") == "" {
		t.Skip(err)
	}
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, nil))
	const want = `started a temporary PostgreSQL server
tenants acme and globex are Active
tenant acme is Terminating
orders created since it is Terminating: 0
tenant acme is removed
orders of acme: 0
orders of globex: 1
one more order for acme: namespaces "acme" not found
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
	require.Error(t, run(t.Context(), &out, []string{"--dsn", "postgres://x@127.0.0.1:1/x", "--schema", "A B"}))
}
