//go:build unix

package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// SIGTERM ends the program in good order, also while a client watches: exit code 0.
func TestSignal(t *testing.T) {
	t.Parallel()
	program := exec.Command(os.Args[0], "--listen", "127.0.0.1:0", "--data", t.TempDir())
	program.Env = append(os.Environ(), asProgram+"=1")
	program.Stderr = t.Output()
	out, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	defer func() { _ = program.Process.Kill() }() // it is there only after a failure
	said := bufio.NewScanner(out)
	require.True(t, said.Scan())
	require.True(t, strings.HasPrefix(said.Text(), "serving on http://127.0.0.1:"), "%s", said.Text())
	require.True(t, said.Scan())
	require.NoError(t, program.Process.Signal(syscall.SIGTERM))
	for said.Scan() {
	}
	require.NoError(t, program.Wait())
}

// The exit code tells a wrong command line from what went wrong.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for code, args := range map[int][]string{
		0: {"--help"},
		1: {"--data", "/dev/null/file"},
		2: {"--store", "mysql"},
	} {
		program := exec.Command(os.Args[0], args...)
		program.Env = append(os.Environ(), asProgram+"=1")
		_ = program.Run() // the code is what matters
		require.Equal(t, code, program.ProcessState.ExitCode(), "%v", args)
	}
}
