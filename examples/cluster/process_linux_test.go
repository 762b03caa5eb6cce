package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
)

// Whatever ends the program, nothing that it started runs on.
func TestNothingRunsOn(t *testing.T) {
	for name, signal := range map[string]os.Signal{"interrupted": os.Interrupt, "killed": os.Kill} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, args []string) {
				program := exec.Command(os.Args[0], append(args, "--tenants", "3000")...)
				dir, err := os.MkdirTemp("", "cluster-test-") // not the test's own: PostgreSQL runs as another user
				require.NoError(t, err)
				defer func() { _ = os.RemoveAll(dir) }() // what is killed leaves files behind
				require.NoError(t, os.Chmod(dir, 0o755))
				program.Env = append(os.Environ(), programs.AsProgram+"=1", "TMPDIR="+dir)
				out, in, err := os.Pipe()
				require.NoError(t, err)
				defer out.Close()
				program.Stdout = in
				require.NoError(t, program.Start())
				require.NoError(t, in.Close())
				text := readUntil(t, out, "replica c: started")
				pids := childrenOf(t, program.Process.Pid)
				require.GreaterOrEqual(t, len(pids), 4, "the server and three replicas:\n%s", text)
				require.NoError(t, program.Process.Signal(signal))
				require.Error(t, program.Wait())
				for _, pid := range pids {
					requireGone(t, pid)
				}
			})
		})
	}
}

// readUntil reads from r until it has read want, and goes on reading for nothing.
func readUntil(t *testing.T, r *os.File, want string) string {
	t.Helper()
	var text []byte
	for buffer := make([]byte, 4096); !bytes.Contains(text, []byte(want)); {
		n, err := r.Read(buffer)
		text = append(text, buffer[:n]...)
		require.NoError(t, err, "%s", text)
	}
	return string(text)
}

// childrenOf returns the processes that pid has started.
func childrenOf(t *testing.T, pid int) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	require.NoError(t, err)
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if os.IsNotExist(err) {
			continue // a thread has ended
		}
		require.NoError(t, err)
		for field := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(field)
			require.NoError(t, err)
			pids = append(pids, child)
		}
	}
	return pids
}

// requireGone waits until a process has ended; a zombie has. The kernel ends what is
// left by a parent soon, not at once.
func requireGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return true
		}
		_, after, _ := bytes.Cut(status, []byte(") "))
		return len(after) > 0 && after[0] == 'Z'
	}, 20*time.Second, 10*time.Millisecond, "process %d runs on", pid)
}
