package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store/postgres/pgtest"
)

// The program runs twice on one database and leaves no file behind.
func TestRun(t *testing.T) {
	server, err := pgtest.Start(t.Context(), nil)
	if os.Getenv("NSLIFECYCLE_REQUIRE_SERVERS") == "" && err != nil {
		t.Skip(err)
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Stop()) }()
	t.Chdir(t.TempDir())
	for range 2 {
		require.NoError(t, run(t.Context(), server.DSN("postgres")))
		left, err := os.ReadDir("files")
		require.NoError(t, err)
		require.Empty(t, left)
	}
}
