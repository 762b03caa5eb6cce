package pgtest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store/postgres/pgtest"
)

const envChild = "NSLIFECYCLE_TEST_PARENT"

// With envChild set this binary starts a server, prints its address, and waits to be killed.
func TestMain(m *testing.M) {
	if os.Getenv(envChild) == "" {
		os.Exit(m.Run())
	}
	s, err := pgtest.Start(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Addr())
	fmt.Println(s.Dir())
	select {}
}

func start(t *testing.T) *pgtest.Server {
	s, err := pgtest.Start(t.Context(), nil)
	if errors.Is(err, pgtest.ErrNotInstalled) && os.Getenv("NSLIFECYCLE_REQUIRE_SERVERS") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	return s
}

func listens(address string) bool {
	conn, err := net.Dial("tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

func TestServer(t *testing.T) {
	s := start(t)
	require.True(t, listens(s.Addr()))
	for _, end := range []func() error{s.Halt, s.Kill} {
		require.NoError(t, end())
		require.False(t, listens(s.Addr()))
		require.NoError(t, end(), "it has ended already")
		require.NoError(t, s.Resume(t.Context()))
		require.True(t, listens(s.Addr()), "at the same address")
	}
	require.NoError(t, s.Stop())
	require.False(t, listens(s.Addr()))
	require.NoDirExists(t, s.Dir())
}

// A killed test leaves no server running.
func TestServerEndsWithItsParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a process with its parent")
	}
	start(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	address := lines.Text()
	require.True(t, lines.Scan())
	dir := lines.Text()
	require.True(t, filepath.IsAbs(dir))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.True(t, listens(address), address)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	require.Eventually(t, func() bool { return !listens(address) }, 20*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { // it writes until it has ended
		_, err := os.Stat(filepath.Join(dir, "data", "postmaster.pid"))
		return errors.Is(err, os.ErrNotExist)
	}, 20*time.Second, 10*time.Millisecond)
}

func TestBadInput(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	start(t)
	_, err := pgtest.Start(ended, nil)
	require.ErrorIs(t, err, context.Canceled)
	_, err = pgtest.Start(t.Context(), &pgtest.Options{Parent: filepath.Join(t.TempDir(), "absent")})
	require.ErrorIs(t, err, os.ErrNotExist)
	t.Setenv(pgtest.EnvBin, t.TempDir())
	_, err = pgtest.Start(t.Context(), nil)
	require.ErrorIs(t, err, pgtest.ErrNotInstalled)
	require.ErrorContains(t, err, pgtest.EnvBin)
}

func TestFindSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(pgtest.EnvBin, "")
	if _, err := pgtest.Find(); err != nil {
		require.ErrorIs(t, err, pgtest.ErrNotInstalled)
		require.ErrorContains(t, err, "apt-get install postgresql")
	}
}
