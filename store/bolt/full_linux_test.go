package bolt

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

const fullEnv = "BOLT_TEST_FULL" // be the process whose files may not grow

// If the file cannot grow, only transactions that need more space fail. The limit applies to a
// process, so the test runs in a child process.
func TestFullFile(t *testing.T) {
	t.Parallel()
	if os.Getenv(fullEnv) != "" {
		fillFile(t)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestFullFile$", "-test.count=1")
	child.Env = append(os.Environ(), fullEnv+"=1")
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func fillFile(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ) // the write fails instead
	path := filepath.Join(t.TempDir(), "store.db")
	s := openAt(t, path, nil)
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	room := limit
	limit.Cur = 1 << 20
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))

	value := bytes.Repeat([]byte("v"), 10_000)
	written := 0
	for ; ; written++ {
		_, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put(fmt.Sprint(written), value)}})
		if err != nil {
			require.ErrorIs(t, err, store.ErrFull)
			require.NotErrorIs(t, err, store.ErrUnknownOutcome)
			require.ErrorContains(t, err, syscall.EFBIG.Error()) // the engine keeps only the text
			break
		}
	}
	require.Greater(t, written, 10)
	require.Len(t, listAt(t, s, store.Position{}).Entries, written, "the acknowledged commits, and no more")
	commit(t, s, store.Delete("none")) // a checked read needs no space

	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &room))
	for i := range 100 {
		commit(t, s, store.Put(fmt.Sprint("more", i), value))
	}
	checkFile(t, s)
	require.NoError(t, s.Close())
	require.Len(t, listAt(t, openAt(t, path, nil), store.Position{}).Entries, written+100)
}

// On a full disk a transaction that needs more space fails, and nothing was written. After
// deletions in the file or on the disk the store works again.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a small disk needs root")
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=2m"); err != nil {
		t.Skip("making a small disk is not allowed here: ", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH)) })
	s := openAt(t, filepath.Join(disk, "store.db"), nil)
	ballast := filepath.Join(disk, "ballast")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 1<<20), 0o600))
	value := bytes.Repeat([]byte("v"), 10_000)
	written := 0
	for ; ; written++ {
		require.Less(t, written, 200)
		_, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put(fmt.Sprint(written), value)}})
		if err != nil {
			require.ErrorIs(t, err, store.ErrFull)
			require.ErrorContains(t, err, syscall.ENOSPC.Error())
			require.NotErrorIs(t, err, store.ErrUnknownOutcome)
			break
		}
	}
	require.Len(t, listAt(t, s, store.Position{}).Entries, written, "the acknowledged commits, and no more")
	require.NoError(t, os.Remove(ballast))
	put(t, s, "more", "v")
	checkFile(t, s)
}
