package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// ErrNotInstalled reports that no PostgreSQL server was found, and how to install one.
var ErrNotInstalled = errors.New("no PostgreSQL server found")

// EnvBin names the directory of the programs initdb and postgres, if they are not in a usual
// place.
const EnvBin = "NSLIFECYCLE_POSTGRES_BIN"

// Find returns the directory of the programs of a PostgreSQL server: the one in the environment
// variable [EnvBin], in PATH, or the newest below /usr/lib/postgresql (Debian) and /usr/pgsql-*
// (Red Hat).
func Find() (string, error) {
	if dir := os.Getenv(EnvBin); dir != "" {
		if !complete(dir) {
			return "", fmt.Errorf("%w: %s is %q, which does not contain initdb and postgres", ErrNotInstalled, EnvBin, dir)
		}
		return dir, nil
	}
	if initdb, err := exec.LookPath("initdb"); err == nil && complete(filepath.Dir(initdb)) {
		return filepath.Dir(initdb), nil
	}
	var found []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"} {
		dirs, _ := filepath.Glob(pattern) // the patterns are well formed
		found = append(found, slices.DeleteFunc(dirs, func(dir string) bool { return !complete(dir) })...)
	}
	if len(found) == 0 {
		return "", fmt.Errorf("%w: install version 15 or later (Debian: apt-get install postgresql) or set %s to the directory of initdb and postgres",
			ErrNotInstalled, EnvBin)
	}
	return slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }), nil
}

func complete(dir string) bool {
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, program)); err != nil {
			return false
		}
	}
	return true
}

// version returns the number in the name of the directory above dir.
func version(dir string) int {
	name := filepath.Base(filepath.Dir(dir))
	for len(name) > 0 && (name[0] < '0' || name[0] > '9') {
		name = name[1:]
	}
	n, _ := strconv.Atoi(name) // zero sorts last
	return n
}
