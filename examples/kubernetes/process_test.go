package main

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
)

func TestMain(m *testing.M) { programs.Main(m, main) }

func TestConduct(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	programs.Conduct{
		Args:   []string{"--kubeconfig", s.kubeconfig},
		Ready:  "health and metrics at",
		Listen: []string{"--listen"},
		Absent: []string{"--kubeconfig", filepath.Join(t.TempDir(), "absent")},
	}.Check(t)
}

// stop ends an agent in good order.
func stop(t *testing.T, agent *programs.Process) {
	t.Helper()
	agent.Signal(t, syscall.SIGTERM)
	code, fault := agent.Exit()
	require.Zero(t, code, fault)
	require.Contains(t, agent.Said(), "\nstopped\n")
	require.Empty(t, fault, "nothing but its own lines")
}
