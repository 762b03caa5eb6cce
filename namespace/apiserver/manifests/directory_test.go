package manifests_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/manifests"
)

func TestDirectory(t *testing.T) {
	e, f := newEnv(t).space(), newFolder(t)
	s := e.syncer(f.source(), nil)
	f.write("b.yaml", docs(configmap("b1", "1"), configmap("b2", "1")))
	f.write("a.json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`)
	f.write("c.yml", configmap("c", "1"))
	f.write(".hidden.yaml", configmap("hidden", "1"))
	f.write("README.md", "nothing")
	require.NoError(t, os.Mkdir(filepath.Join(f.path, "sub.yaml"), 0o700))
	require.NoError(t, os.Symlink(filepath.Join(f.path, "sub.yaml"), filepath.Join(f.path, "link.yaml")))
	elsewhere := newFolder(t)
	elsewhere.write("d", configmap("d", "1"))
	require.NoError(t, os.Symlink(filepath.Join(elsewhere.path, "d"), filepath.Join(f.path, "d.yaml")))
	require.Empty(t, cmp.Diff(manifests.Result{Created: 5}, e.sync(s)))
	require.Empty(t, cmp.Diff(manifests.Result{Unchanged: 5}, e.sync(s)))
	f.write("b.yaml", configmap("b2", "2"))
	require.Empty(t, cmp.Diff(manifests.Result{Updated: 1, Deleted: 1, Unchanged: 3}, e.sync(s)))
	f.remove("a.json")
	f.remove("d.yaml")
	require.Empty(t, cmp.Diff(manifests.Result{Deleted: 2, Unchanged: 2}, e.sync(s)))
	require.Contains(t, e.get(configmaps, "c").Annotations[manifests.Annotation], `"source":"file:`+f.path+`","file":"c.yml","object":"configmaps/c"`)
}

// A missing directory and unreadable files delete nothing.
func TestDirectoryFailures(t *testing.T) {
	e, f := newEnv(t).space(), newFolder(t)
	f.write("a.yaml", configmap("a", "1"))
	src := f.source()
	s := e.syncer(src, nil)
	e.sync(s)
	before := e.position()

	away := f.path + ".away"
	require.NoError(t, os.Rename(f.path, away))
	_, err := s.Sync(e.ctx)
	require.ErrorIs(t, err, manifests.ErrSource)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, os.WriteFile(f.path, nil, 0o600))
	_, err = s.Sync(e.ctx)
	require.ErrorIs(t, err, manifests.ErrSource)
	require.NoError(t, os.Remove(f.path))
	require.NoError(t, os.Rename(away, f.path))

	f.write("a.yaml", strings.Repeat("#", 1<<20+1))
	result, err := s.Sync(e.ctx)
	require.ErrorContains(t, err, "it has 1048577 bytes, at most 1048576 are allowed")
	require.Equal(t, 1, result.Kept)
	f.remove("a.yaml")
	require.NoError(t, syscall.Mkfifo(filepath.Join(f.path, "a.yaml"), 0o600))
	result, err = s.Sync(e.ctx)
	require.ErrorContains(t, err, "it is not a regular file")
	require.Equal(t, 1, result.Kept)
	f.remove("a.yaml")
	require.NoError(t, os.Symlink("/nowhere/at/all", filepath.Join(f.path, "a.yaml")))
	result, err = s.Sync(e.ctx)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, 1, result.Kept)

	few, err := manifests.Directory(f.path, &manifests.DirectoryOptions{MaxFiles: 1})
	require.NoError(t, err)
	f.write("b.yaml", configmap("b", "1"))
	_, err = e.syncer(few, nil).Sync(e.ctx)
	require.ErrorIs(t, err, manifests.ErrSource)
	require.ErrorContains(t, err, "more than 1 files")
	require.Equal(t, before, func() any { f.remove("b.yaml"); return e.position() }())

	ended, cancel := context.WithCancel(e.ctx)
	cancel()
	_, err = src.Read(ended)
	require.ErrorIs(t, err, context.Canceled)
}

// The source does not read a recently modified file, and keeps its objects.
func TestChangingFile(t *testing.T) {
	e, f := newEnv(t).space(), newFolder(t)
	src, err := manifests.Directory(f.path, &manifests.DirectoryOptions{MinAge: 30 * time.Minute})
	require.NoError(t, err)
	f.write("a.yaml", docs(configmap("a", "1"), configmap("b", "1"))) // an hour ago
	s := e.syncer(src, nil)
	e.sync(s)
	require.NoError(t, os.WriteFile(filepath.Join(f.path, "a.yaml"), []byte(configmap("a", "2")), 0o600)) // modified now
	require.Empty(t, cmp.Diff(manifests.Result{Kept: 2, Changing: 1}, e.sync(s)))
	require.Empty(t, cmp.Diff(manifests.Result{Kept: 2, Changing: 1}, e.sync(e.syncer(src, nil))), "after a restart")
	f.write("a.yaml", docs(configmap("a", "2"), configmap("b", "2")))
	require.Empty(t, cmp.Diff(manifests.Result{Updated: 2}, e.sync(s)))
}

// Run syncs again within a second if a file was modified recently.
func TestDirectoryRun(t *testing.T) {
	f := newFolder(t)
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t).space()
		ctx, cancel := context.WithCancel(e.ctx)
		src := f.source()
		var looks []manifests.Result
		ended := make(chan error, 1)
		s := e.syncer(src, &manifests.Options{Interval: time.Minute, Synced: func(r manifests.Result, err error) {
			looks = append(looks, r)
			if err != nil {
				t.Error(err)
			}
		}})
		path := filepath.Join(f.path, "a.yaml")
		require.NoError(t, os.WriteFile(path, []byte(configmap("a", "1")), 0o600))
		just := time.Now().Add(-time.Millisecond)
		require.NoError(t, os.Chtimes(path, just, just))
		go func() { ended <- s.Run(ctx) }()
		synctest.Wait()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		f.remove("a.yaml")
		time.Sleep(time.Minute)
		synctest.Wait()
		cancel()
		require.NoError(t, <-ended)
		require.Empty(t, cmp.Diff([]manifests.Result{{Changing: 1}, {Created: 1}, {Deleted: 1}}, looks))
	})
}

func TestDirectoryBadInput(t *testing.T) {
	for _, path := range []string{"", "a\x00b"} {
		_, err := manifests.Directory(path, nil)
		require.Error(t, err, "%q", path)
	}
	for _, o := range []manifests.DirectoryOptions{{MaxFile: -1}, {MaxFiles: -1}, {MinAge: -1}} {
		_, err := manifests.Directory("x", &o)
		require.Error(t, err, "%+v", o)
	}
	src, err := manifests.Directory("relative", nil)
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(strings.TrimPrefix(src.Name(), "file:")))
	_, err = src.Read(t.Context())
	require.True(t, errors.Is(err, fs.ErrNotExist))
}
