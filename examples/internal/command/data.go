package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nslifecycle/nslifecycle/store"
)

// StateAbout describes the directory of [State] in --help.
const StateAbout = "$XDG_STATE_HOME/nslifecycle or ~/.local/state/nslifecycle"

// State returns the default path for the data called name: in a directory of the user,
// below $XDG_STATE_HOME or ~/.local/state.
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

// Dir checks that path is a directory that only this user and root can write, and that no
// other user can replace it or a directory above it. It creates missing directories with
// mode 0700. It refuses a symbolic link, since the owner of the link decides where the data
// goes.
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

// File checks that path is, or can become, a file of this user that no other user can
// replace. It creates the directory if it is missing.
func File(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		if err := above(path); err != nil { // check symbolic links too
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

// above checks that no other user can replace an ancestor of path: every ancestor belongs
// to this user or root, and other users cannot write to it unless it is sticky. It follows
// symbolic links.
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

// Opening rewrites an error of opening the store at path in terms of flags. It returns nil
// if err is nil.
func Opening(path string, err error) error {
	if errors.Is(err, store.ErrInUse) {
		return &redacted{err, fmt.Sprintf("--data: another process has %s open: end it, or give it time with --wait", path)}
	}
	return About("--data", err)
}
