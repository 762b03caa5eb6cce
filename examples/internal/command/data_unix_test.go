//go:build unix

package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Data goes to no place that another user owns, can write to, or leads elsewhere.
func TestDataIsTheUsersOwn(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(t *testing.T, dir string) (path string)
		want string // matches the error; empty: none
		file bool   // the path of a file
	}{
		{"missing", func(_ *testing.T, dir string) string { return filepath.Join(dir, "a", "b") }, "", false},
		{"there", func(_ *testing.T, dir string) string { return dir }, "", false},
		{"a link", func(t *testing.T, dir string) string {
			require.NoError(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
			require.NoError(t, os.Symlink("real", filepath.Join(dir, "link")))
			return filepath.Join(dir, "link")
		}, "is a symbolic link", false},
		{"a link of the user's own on the way", func(t *testing.T, dir string) string {
			require.NoError(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
			require.NoError(t, os.Symlink("real", filepath.Join(dir, "link")))
			return filepath.Join(dir, "link", "data")
		}, "", false},
		{"open to all", func(t *testing.T, dir string) string {
			require.NoError(t, os.Chmod(dir, 0o777))
			return dir
		}, "other users can write to", false},
		{"open to all, and sticky", func(t *testing.T, dir string) string {
			require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
			return dir
		}, "name a directory of your own$", false},
		{"below what is open to all", func(t *testing.T, dir string) string {
			require.NoError(t, os.Chmod(dir, 0o777))
			return filepath.Join(dir, "data")
		}, "other users can replace", false},
		{"below a directory for temporary files", func(t *testing.T, dir string) string {
			require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
			return filepath.Join(dir, "data")
		}, "", false},
		{"of another user", func(t *testing.T, dir string) string {
			give(t, dir)
			return dir
		}, "belongs to another user", false},
		{"below that of another user", func(t *testing.T, dir string) string {
			require.NoError(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
			give(t, dir)
			return filepath.Join(dir, "data")
		}, "other users can replace", false},

		{"a new file", func(_ *testing.T, dir string) string { return filepath.Join(dir, "a", "f") }, "", true},
		{"a file", func(t *testing.T, dir string) string { return write(t, filepath.Join(dir, "f"), 0o600) }, "", true},
		{"a file behind a link of the user's own", func(t *testing.T, dir string) string {
			require.NoError(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
			require.NoError(t, os.Symlink("real", filepath.Join(dir, "link")))
			return filepath.Join(dir, "link", "f")
		}, "", true},
		{"a directory", func(_ *testing.T, dir string) string { return dir }, "is no file", true},
		{"a file that is a link", func(t *testing.T, dir string) string {
			write(t, filepath.Join(dir, "f"), 0o600)
			require.NoError(t, os.Symlink("f", filepath.Join(dir, "link")))
			return filepath.Join(dir, "link")
		}, "is a symbolic link", true},
		{"a dangling link", func(t *testing.T, dir string) string {
			require.NoError(t, os.Symlink("nothing", filepath.Join(dir, "link")))
			return filepath.Join(dir, "link")
		}, "is a symbolic link", true},
		{"a file open to all", func(t *testing.T, dir string) string { return write(t, filepath.Join(dir, "f"), 0o666) }, "other users can write to", true},
		{"a file of another user", func(t *testing.T, dir string) string {
			path := write(t, filepath.Join(dir, "f"), 0o644)
			give(t, path)
			return path
		}, "belongs to another user", true},
		{"a file in a directory for temporary files", func(t *testing.T, dir string) string {
			require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
			return filepath.Join(dir, "f")
		}, "name a directory of your own$", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check := Dir
			if tt.file {
				check = File
			}
			path := tt.make(t, t.TempDir())
			err := check(path)
			if tt.want != "" {
				require.Error(t, err)
				require.Regexp(t, tt.want, err.Error())
				return
			}
			require.NoError(t, err)
			if !tt.file {
				info, err := os.Lstat(path)
				require.NoError(t, err)
				require.Zero(t, info.Mode().Perm()&0o022)
			}
		})
	}
}

func write(t *testing.T, path string, mode os.FileMode) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, nil, mode))
	require.NoError(t, os.Chmod(path, mode)) // whatever the umask
	return path
}

// give gives path to another user, which only root can.
func give(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	require.NoError(t, os.Lchown(path, 65534, 65534))
}

func TestState(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/state")
	dir, err := State("p")
	require.NoError(t, err)
	require.Equal(t, "/state/nslifecycle/p", dir)
	t.Setenv("XDG_STATE_HOME", "relative")
	t.Setenv("HOME", "/home/me")
	dir, err = State("p")
	require.NoError(t, err)
	require.Equal(t, "/home/me/.local/state/nslifecycle/p", dir)
	t.Setenv("HOME", "")
	_, err = State("p")
	require.ErrorContains(t, err, "there is no directory of your own")
}
