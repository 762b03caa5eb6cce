//go:build unix

package main

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
)

// SIGTERM stops the program with exit code 0.
func TestSignal(t *testing.T) {
	t.Parallel()
	p := programs.Self(t, "--listen", "127.0.0.1:0", "--data", t.TempDir())
	p.Until(t, "^serving on http://127.0.0.1:")
	p.Until(t, "get namespaces")
	p.Signal(t, syscall.SIGTERM)
	code, fault := p.Exit()
	require.Zero(t, code, fault)
}

func TestConduct(t *testing.T) {
	t.Parallel()
	programs.Conduct{
		Args:   []string{"--listen", "127.0.0.1:0", "--store", "memory"},
		Ready:  "get namespaces",
		Listen: []string{"--listen", "--debug-listen"},
		Absent: []string{"--store", "postgres", "--dsn", "postgres://x@127.0.0.1:1/x"},
	}.Check(t)
}

// No error message contains a password from an address, even if the address is malformed.
func TestPasswordIsNotPrinted(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--store", "postgres", "--dsn", "postgres://x:secret@127.0.0.1:1/x"},
		{"--store", "postgres", "--dsn", "postgres://x:secret@[::1"},
		{"--store", "postgres", "--dsn", "host=127.0.0.1 port=1 password=secret nonsense"},
	} {
		code, fault := programs.Self(t, args...).Exit()
		require.Equal(t, 1, code, fault)
		require.NotContains(t, fault, "secret")
	}
}

// The exit code distinguishes usage errors (2) from failures (1).
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for want, args := range map[int][]string{
		0: {"--help"},
		1: {"--data", "/dev/null/file"},
		2: {"--store", "mysql"},
	} {
		code, fault := programs.Self(t, args...).Exit()
		require.Equal(t, want, code, "%v: %s", args, fault)
	}
}
