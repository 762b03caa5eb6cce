package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
)

func TestMain(m *testing.M) { programs.Main(m, main) }

// stop ends an agent in good order.
func stop(t *testing.T, agent *programs.Process) {
	t.Helper()
	agent.Signal(t, os.Interrupt)
	code, fault := agent.Exit()
	require.Zero(t, code, fault)
	require.Contains(t, agent.Said(), "\nstopped\n")
	require.Empty(t, fault, "nothing but its own lines")
}
