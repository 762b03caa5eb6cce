package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
)

// builds is the agent's own storage: a file for each build, in a directory for each
// incarnation, in one for each namespace. So nothing that is done to one incarnation
// touches another of the same name.
type builds struct{ root *os.Root }

func openBuilds(dir string) (builds, error) {
	if err := command.Dir(dir); err != nil {
		return builds{}, err
	}
	root, err := os.OpenRoot(dir) // names come over the wire: none leads out of it
	return builds{root}, err
}

// fill creates the builds that are missing, and returns how many.
func (b builds) fill(namespace string, uid types.UID, number int) (created int, err error) {
	dir := filepath.Join(namespace, string(uid))
	if err := b.root.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	for i := range number {
		f, err := b.root.OpenFile(filepath.Join(dir, fmt.Sprintf("build-%04d", i)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			return created, err
		}
		created++
	}
	return created, nil
}

// purge removes the builds of an incarnation, and returns how many there were.
func (b builds) purge(namespace string, uid types.UID) (int, error) {
	dir := filepath.Join(namespace, string(uid))
	entries, err := b.list(dir)
	if err != nil {
		return 0, err
	}
	if err := b.root.RemoveAll(dir); err != nil {
		return 0, err
	}
	others, err := b.list(namespace)
	if err != nil || len(others) > 0 {
		return len(entries), err
	}
	return len(entries), b.root.RemoveAll(namespace)
}

// incarnations returns those of a namespace that something is kept of.
func (b builds) incarnations(namespace string) ([]types.UID, error) {
	names, err := b.list(namespace)
	uids := make([]types.UID, 0, len(names))
	for _, name := range names {
		uids = append(uids, types.UID(name))
	}
	return uids, err
}

// namespaces returns those that something is kept of.
func (b builds) namespaces() ([]string, error) { return b.list(".") }

// list returns the names in a directory; none where it does not exist.
func (b builds) list(dir string) ([]string, error) {
	entries, err := fs.ReadDir(b.root.FS(), filepath.ToSlash(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}
