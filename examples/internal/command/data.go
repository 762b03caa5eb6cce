package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nslifecycle/nslifecycle/store"
)

// StateAbout says in --help where [State] is.
const StateAbout = "$XDG_STATE_HOME/nslifecycle or ~/.local/state/nslifecycle"

// State returns where a program keeps what it calls name by default: in a directory of the
// user's own, below $XDG_STATE_HOME or ~/.local/state.
func State(name string) (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) { // as the specification demands
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("there is no directory of your own to keep data in, name one: %w", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "nslifecycle", name), nil
}

// Dir makes sure that path is a directory that only this user and root can write, and
// that no other user can replace: neither it nor a directory above it. It creates what is
// missing, for this user alone. A symbolic link is refused, since its owner decides where
// the data goes.
func Dir(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link: name the directory itself", path)
	case !own(info):
		return fmt.Errorf("%s belongs to another user: name a directory of your own", path)
	case othersWrite(info) && info.Mode()&fs.ModeSticky != 0: // of all users, such as /tmp
		return fmt.Errorf("other users can write to %s: name a directory of your own", path)
	case othersWrite(info):
		return fmt.Errorf("other users can write to %s: name a directory of your own, or chmod go-w it", path)
	}
	return above(path)
}

// File makes sure that path is, or can become, a file of this user that no other user can
// replace. It creates the directory if that is missing.
func File(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		if err := above(path); err != nil { // the links too
			return err
		}
		dir = resolved
	}
	if err := Dir(dir); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link: name the file itself", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file", path)
	case !own(info):
		return fmt.Errorf("%s belongs to another user: name a file of your own", path)
	case othersWrite(info):
		return fmt.Errorf("other users can write to %s: chmod go-w it", path)
	}
	return nil
}

// above makes sure that no other user can replace an entry on the way to path: whatever
// is above it belongs to this user or root, and others cannot write there, unless the
// directory is sticky. Links on the way are followed.
func above(path string) error {
	resolved, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return err
	}
	for _, start := range []string{filepath.Dir(path), resolved} {
		for dir := start; ; dir = filepath.Dir(dir) {
			info, err := os.Lstat(dir)
			if err != nil {
				return err
			}
			link := info.Mode()&fs.ModeSymlink != 0
			shared := !link && othersWrite(info) && info.Mode()&fs.ModeSticky == 0
			if shared || !own(info) && !ofRoot(info) {
				return fmt.Errorf("other users can replace %s, since they can write to %s: name a place of your own", path, dir)
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return nil
}

// Opening returns the error of opening the store whose file is at path in terms of flags;
// nil for nil.
func Opening(path string, err error) error {
	if errors.Is(err, store.ErrInUse) {
		return &redacted{err, fmt.Sprintf("--data: another process has %s open: end it, or give it time with --wait", path)}
	}
	return About("--data", err)
}
