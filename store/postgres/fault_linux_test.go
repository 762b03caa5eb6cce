package postgres_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// smallDisk returns a directory on a disk of the given size. Only root can make one.
func smallDisk(t *testing.T, megabytes int) string {
	if os.Geteuid() != 0 {
		t.Skip("making a small disk needs root")
	}
	dir, err := os.MkdirTemp("", "pgdisk-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	mount := filepath.Join(dir, "disk")
	require.NoError(t, os.Mkdir(mount, 0o755))
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0777", megabytes)); err != nil {
		t.Skip("making a small disk is not allowed here: ", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(mount, syscall.MNT_DETACH)) })
	return mount
}

// incompressible returns n random bytes.
func incompressible(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}
