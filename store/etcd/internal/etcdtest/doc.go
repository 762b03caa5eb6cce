// Package etcdtest runs real etcd servers for tests: one, or a cluster whose members
// can be killed, paused, and cut off from one another. The servers listen on
// loopback, write to a directory of the caller, and end with the process that
// started them.
//
// The binary is built from the module etcdserver beside this package; the
// environment variable NSLIFECYCLE_ETCD names another one, to test against another
// version.
package etcdtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// modulePath is the module whose tests this package serves.
const modulePath = "github.com/nslifecycle/nslifecycle/store/etcd"

// Build builds the server into dir and returns the path of the binary. The go
// command caches what it compiles, so only the first time takes long.
func Build(dir string) (string, error) {
	if path := os.Getenv("NSLIFECYCLE_ETCD"); path != "" {
		return path, nil
	}
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", modulePath)
	list.Stderr = os.Stderr
	root, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("finding the module %s: %w", modulePath, err)
	}
	binary := filepath.Join(dir, "etcdserver")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary, ".")
	build.Dir = filepath.Join(strings.TrimSpace(string(root)), "internal", "etcdserver")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the etcd server in %s: %w\n%s", build.Dir, err, output)
	}
	return binary, nil
}
