// Package architecture holds the rules of the house as a test: which package may import
// which. CONTRIBUTING.md draws the house.
package architecture

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/nslifecycle/nslifecycle/"

// A room is a package, with the packages below it that have no room of their own. It may
// import itself, every room on a lower floor, the standard library, and the libraries that
// it lists by the beginning of their paths.
//
// Rooms that must not know each other share a floor: a store and a deleter, a controller and
// a registry, a driver and everything but examples.
type room struct {
	floor     int
	path      string
	libraries []string
}

var rooms = []room{
	{0, "phase", nil},
	{0, "finalizer", nil},
	{0, "namespace/backoff", nil},
	{0, "namespace/internal/priority", nil},
	{0, "namespace/internal/show", nil},

	{1, "namespace", nil},
	{1, "namespace/internal/keypath", nil},

	{2, "store", nil},
	{2, "deleter", []string{"golang.org/x/sync/", "go.uber.org/multierr", goCmp}}, // go-cmp for contenttest
	{2, "namespace/declare", nil},
	{2, "namespace/selector", nil},
	{2, "namespace/internal/follow", nil},
	{2, "namespace/observe/httpguard", nil},

	{3, "store/watch", nil},
	{3, "store/groupcommit", nil},
	{3, "store/storetest", []string{"github.com/anishathalye/porcupine", testify, goCmp}},
	{3, "namespace/operate/audit", nil},
	{3, "namespace/pass", []string{"go.uber.org/multierr"}},

	{4, "namespace/controller", []string{goCmp}}, // for controllertest
	{4, "namespace/registry", nil},
	{4, "namespace/members", nil},
	{4, "namespace/operate", nil},

	{5, "namespace/observe/explain", nil},

	{6, "namespace/observe", []string{"github.com/prometheus/client_golang/"}},

	{7, "namespace/lifecycle", []string{"golang.org/x/sync/"}},
	{7, "namespace/apiserver", slices.Concat(wireFormat, []string{
		"github.com/evanphx/json-patch/v5", "github.com/google/gnostic-models/", "github.com/munnerz/goautoneg", "go.yaml.in/yaml/v2",
		"golang.org/x/sync/", "google.golang.org/protobuf/",
	})},

	{8, "namespace/registry/upgradetest", nil},
	{8, "store/memory", []string{"github.com/tidwall/btree"}},
	{8, "store/bolt", []string{"go.etcd.io/bbolt"}},
	{8, "store/etcd", []string{"go.etcd.io/etcd/", "google.golang.org/grpc", "go.uber.org/zap"}},
	{8, "store/postgres", []string{"github.com/jackc/pgx/v5"}},
	{8, "deleter/kubernetes", append(wireFormat, "k8s.io/client-go/")},
	{8, "namespace/internal", nil},

	{9, "deleter/kubernetes/agent", []string{"k8s.io/", "github.com/prometheus/client_golang/", "golang.org/x/sync/"}},
	{9, "examples", []string{""}}, // any library
}

const (
	testify = "github.com/stretchr/testify/require"
	goCmp   = "github.com/google/go-cmp/cmp"
)

// wireFormat is the wire format of Kubernetes. It has no client.
var wireFormat = []string{"k8s.io/api/", "k8s.io/apimachinery/", "k8s.io/kube-openapi/", "k8s.io/utils/", "sigs.k8s.io/"}

// roomOf returns the room of a package, and whether there is one.
func roomOf(importPath string) (room, bool) {
	rel, ok := strings.CutPrefix(importPath, module)
	if !ok {
		return room{}, false
	}
	for p := rel; p != "."; p = path.Dir(p) {
		if i := slices.IndexFunc(rooms, func(r room) bool { return r.path == p }); i >= 0 {
			return rooms[i], true
		}
	}
	return room{}, false
}

// check returns why a package in the room from may not import the package to, or "".
func check(from room, to string) string {
	if strings.HasPrefix(to, module) {
		target, ok := roomOf(to)
		switch {
		case !ok:
			return "the imported package has no room"
		case target.path != from.path && target.floor >= from.floor:
			return "imports go down the floors, never up or sideways"
		}
		return ""
	}
	if slices.ContainsFunc(from.libraries, func(prefix string) bool { return strings.HasPrefix(to, prefix) }) {
		return ""
	}
	return "a new dependency needs a reason in CONTRIBUTING.md, and an entry in the list of its room here"
}

type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
	Standard                           bool
	Module                             struct{ Path string }
}

// list returns the packages of the workspace and everything that they import.
func list(t *testing.T) []listed {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Imports,TestImports,XTestImports,Standard,Module", module+"...")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("go list: %v\n%s", err, exit.Stderr)
	}
	require.NoError(t, err)

	var packages []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		packages = append(packages, p)
	}
	return packages
}

func TestImportEdges(t *testing.T) {
	packages := list(t)
	standard := map[string]bool{}
	for _, p := range packages {
		standard[p.ImportPath] = p.Standard
	}
	checked := 0
	for _, p := range packages {
		rel, ours := strings.CutPrefix(p.ImportPath, module)
		if !ours {
			continue
		}
		from, ok := roomOf(p.ImportPath)
		if !ok {
			t.Errorf("%s has no room; give it one here and in CONTRIBUTING.md", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			checked++
			if standard[imported] {
				continue
			}
			if why := check(from, imported); why != "" {
				t.Errorf("%s may not import %s: %s", rel, strings.TrimPrefix(imported, module), why)
			}
		}
	}
	require.Greater(t, checked, 100, "go list found too little")
}

// No module imports an internal package of another module, not even in tests: nested modules
// use only what hosts can use, too.
func TestInternalPackagesStayInTheirModule(t *testing.T) {
	packages := list(t)
	moduleOf := map[string]string{}
	for _, p := range packages {
		moduleOf[p.ImportPath] = p.Module.Path
	}
	checked := 0
	for _, p := range packages {
		if !strings.HasPrefix(p.ImportPath, module) {
			continue
		}
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if !strings.HasPrefix(imported, module) || !slices.Contains(strings.Split(imported, "/"), "internal") {
				continue
			}
			checked++
			if from, to := p.Module.Path, moduleOf[imported]; from != to {
				t.Errorf("%s of module %s imports %s of module %s: export it or move it", p.ImportPath, from, imported, to)
			}
		}
	}
	require.Greater(t, checked, 10, "go list found too little")
}

// TestImportEdges is only as good as check.
func TestImportCheck(t *testing.T) {
	for _, tt := range []struct {
		from, to string
		ok       bool
	}{
		{"store", module + "deleter", false},
		{"namespace", module + "phase", true},
		{"namespace", module + "store", false},
		{"namespace", module + "namespace/declare", false},
		{"namespace", module + "namespace/registry", false},
		{"namespace/registry", module + "store/memory", false},
		{"namespace/registry", module + "store", true},
		{"namespace/pass", module + "namespace/registry", false},
		{"deleter", module + "store", false},
		{"namespace/controller", module + "namespace/members/replicas", false},
		{"namespace/controller", module + "namespace/registry", false},
		{"namespace/controller", module + "deleter", true},
		{"store/memory", "go.etcd.io/bbolt", false},
		{"store/memory", module + "store/bolt", false},
		{"phase", "github.com/google/go-cmp/cmp", false},
	} {
		from, ok := roomOf(module + tt.from)
		require.True(t, ok, tt.from)
		require.Equal(t, tt.ok, check(from, tt.to) == "", "%s -> %s", tt.from, tt.to)
	}
}
