// Package architecture holds the house rules as a test: which package may
// import which, and why. CONTRIBUTING.md draws the house.
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

// A room is a package and everything below it that has no room of its own.
type room struct {
	path  string
	floor int
	// own lists the packages outside the standard library and the lower floors that
	// the room may import.
	own []string
	// engine lists the prefixes of what a driver may import of its engine's client.
	engine []string
}

var rooms = []room{
	{path: "phase", floor: 0},
	{path: "finalizer", floor: 0, own: []string{"finalizer/syntax"}},
	{path: "finalizer/syntax", floor: 0},
	{path: "store", floor: 0},
	{path: "store/internal", floor: 0, own: []string{"store"}},
	{path: "store/memory", floor: 0, own: []string{"store", "store/internal", "github.com/tidwall/btree"}},
	{path: "store/bolt", floor: 0, own: []string{"store", "store/internal", "go.etcd.io/bbolt", "go.etcd.io/bbolt/errors"}},
	{path: "store/etcd", floor: 0, own: []string{"store", "store/internal"}, engine: []string{"go.etcd.io/etcd/", "google.golang.org/grpc", "go.uber.org/zap"}},
	{path: "store/postgres", floor: 0, own: []string{"store", "store/internal"}, engine: []string{"github.com/jackc/pgx/v5"}},
	{path: "store/postgres/guard", floor: 3, own: []string{"store/postgres", "deleter"}, engine: []string{"github.com/jackc/pgx/v5"}},
	{path: "store/storetest", floor: 0, own: []string{
		"store", "github.com/anishathalye/porcupine", "github.com/stretchr/testify/require",
		"github.com/google/go-cmp/cmp", "github.com/google/go-cmp/cmp/cmpopts",
	}},
	{path: "namespace", floor: 1},
	{path: "namespace/selector", floor: 1, own: []string{"namespace"}},
	{path: "namespace/observe/httpguard", floor: 2},
	{path: "namespace/members/replicas", floor: 2},
	{path: "namespace/operate/audit", floor: 2},
	{path: "namespace/members/parties", floor: 2},
	{path: "namespace/registry", floor: 2, own: []string{"deleter", "namespace/operate/audit"}},
	{path: "namespace/registry/registrytest", floor: 2, own: []string{"namespace/registry"}},
	{path: "deleter", floor: 2, own: []string{"golang.org/x/sync/errgroup", "golang.org/x/sync/semaphore", "go.uber.org/multierr"}},
	{path: "deleter/contenttest", floor: 2, own: []string{"deleter", "github.com/google/go-cmp/cmp"}},
	{path: "deleter/kubernetes", floor: 2, engine: clientGo, own: []string{"deleter"}},
	{path: "deleter/kubernetes/internal", floor: 2, engine: clientGo, own: []string{"deleter", "deleter/kubernetes"}},
	{path: "namespace/pass", floor: 3, own: []string{"go.uber.org/multierr"}},
	{path: "namespace/controller", floor: 3, own: []string{"namespace/pass"}},
	{path: "namespace/controller/controllertest", floor: 3, own: []string{"namespace/controller", "github.com/google/go-cmp/cmp"}},
	{path: "namespace/observe/explain", floor: 3, own: []string{"namespace/controller", "namespace/pass"}},
	{path: "namespace/operate/plan", floor: 3},
	{path: "namespace/operate/force", floor: 3},
	{path: "namespace/operate/hold", floor: 3},
	{path: "namespace/registry/upgradetest", floor: 4, own: []string{"namespace/registry"}},
	{path: "namespace/observe/debug", floor: 4},
	{path: "namespace/observe/prometheus", floor: 4, engine: []string{"github.com/prometheus/client_golang/"}},
	{path: "namespace/apiserver", floor: 4, engine: kubernetes, own: []string{
		"namespace/apiserver/authorization", "namespace/apiserver/kinds", "namespace/apiserver/internal",
		"namespace/apiserver/internal/codec", "namespace/apiserver/internal/openapi",
	}},
	{path: "namespace/apiserver/authorization", floor: 4, engine: kubernetes, own: []string{"namespace/apiserver/internal"}},
	{path: "namespace/apiserver/kinds", floor: 4, engine: kubernetes, own: []string{"namespace/apiserver/internal"}},
	{path: "namespace/apiserver/internal", floor: 4, engine: kubernetes, own: []string{
		"namespace/apiserver/authorization", "namespace/apiserver/kinds", "namespace/apiserver/internal/codec", "namespace/apiserver/internal/openapi",
		"github.com/evanphx/json-patch/v5", "google.golang.org/protobuf/encoding/protowire",
	}},
	{path: "namespace/apiserver/internal/codec", floor: 4, engine: kubernetes, own: []string{
		"namespace/apiserver/kinds", "namespace/apiserver/internal", "go.yaml.in/yaml/v2",
	}},
	{path: "namespace/apiserver/internal/openapi", floor: 4, engine: kubernetes, own: []string{
		"namespace/apiserver/kinds", "namespace/apiserver/internal",
		"github.com/google/gnostic-models/openapiv2", "github.com/google/gnostic-models/openapiv3", "google.golang.org/protobuf/proto",
	}},
	{path: "namespace/apiserver/quota", floor: 4, engine: kubernetes, own: []string{"namespace/apiserver/internal"}},
	{path: "namespace/apiserver/limitrange", floor: 4, engine: kubernetes, own: []string{"namespace/apiserver/internal"}},
	{path: "namespace/apiserver/sources", floor: 4, engine: kubernetes, own: []string{"namespace/apiserver/kinds", "namespace/apiserver/internal/codec"}},
	{path: "namespace/internal/architecture", floor: 5},
}

// kubernetes are the prefixes of what speaks the wire format of Kubernetes. No client
// of it is among them.
var kubernetes = []string{"k8s.io/api/", "k8s.io/apimachinery/", "k8s.io/kube-openapi/", "k8s.io/utils/", "sigs.k8s.io/"}

// clientGo are the prefixes of what speaks to a Kubernetes API as a client.
var clientGo = []string{"k8s.io/api/", "k8s.io/apimachinery/", "k8s.io/client-go/", "k8s.io/utils/"}

// forbidden edges hold whatever the floors say, unless a room lists the package as
// one of its own.
var forbidden = []struct{ from, to, why string }{
	{"deleter", "store", "the deleter empties any kind of storage; a store is one kind"},
	{"store", "deleter", "a store knows keys and values only"},
	{"namespace/pass", "namespace/registry", "a host may keep its namespaces anywhere; pass knows only its own interface"},
	{"namespace/controller", "namespace/registry", "a host may keep its namespaces anywhere; controller knows only its own interface"},
	{"namespace/registry", "store/memory", "drivers are the host's choice"},
	{"namespace/registry", "store/bolt", "drivers are the host's choice"},
	{"namespace/controller", "namespace/members/replicas", "a host may divide the work in its own way; controller knows only its own interface"},
}

type listed struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

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

// may reports whether a package in the room from may import to, and if not, why.
func may(from room, to string, standard bool) (string, bool) {
	if standard {
		return "", true
	}
	target, ours := roomOf(to)
	name := to
	if ours {
		name = target.path
	}
	for _, f := range forbidden {
		if inside(from.path, f.from) && inside(name, f.to) && !slices.Contains(from.own, name) {
			return f.why, false
		}
	}
	switch {
	case ours && target.path == from.path, slices.Contains(from.own, name):
		return "", true
	case slices.ContainsFunc(from.engine, func(prefix string) bool { return strings.HasPrefix(to, prefix) }):
		return "", true
	case !ours:
		return "a new dependency needs a reason in CONTRIBUTING.md, and an entry in the list of its room here", false
	case inside(name, "store") && name != "store" && name != "store/internal":
		return "no package names a concrete driver; the host passes a store.Store", false
	case target.floor < from.floor:
		return "", true
	}
	return "imports go down the floors, never up or sideways", false
}

func inside(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

func TestImportEdges(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Imports,Standard", module+"...")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("go list: %v\n%s", err, exit.Stderr)
	}
	require.NoError(t, err)

	var packages []listed
	standard := map[string]bool{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		standard[p.ImportPath] = p.Standard
		packages = append(packages, p)
	}

	checked := 0
	for _, p := range packages {
		rel, ours := strings.CutPrefix(p.ImportPath, module)
		if !ours || inside(rel, "examples") {
			continue
		}
		from, ok := roomOf(p.ImportPath)
		if !ok {
			t.Errorf("%s stands in no room; give it one here and in CONTRIBUTING.md", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if why, ok := may(from, imported, standard[imported]); !ok {
				t.Errorf("%s may not import %s: %s", rel, strings.TrimPrefix(imported, module), why)
			}
			checked++
		}
	}
	require.Greater(t, checked, 100, "go list found too little")
}

// The test above is only as good as its judgement.
func TestImportEdgesJudgement(t *testing.T) {
	for _, tt := range []struct {
		from, to string
		ok       bool
	}{
		{"store", module + "phase", false},
		{"namespace", module + "phase", true},
		{"namespace", module + "store", true},
		{"namespace", module + "namespace/registry", false},
		{"namespace/registry", module + "store/memory", false},
		{"namespace/registry", module + "store", true},
		{"deleter", module + "store", false},
		{"namespace/controller", module + "namespace/registry", false},
		{"namespace/controller", module + "deleter", true},
		{"store/memory", "go.etcd.io/bbolt", false},
		{"store/memory", module + "store/bolt", false},
		{"phase", "github.com/google/go-cmp/cmp", false},
	} {
		from, ok := roomOf(module + tt.from)
		require.True(t, ok, tt.from)
		_, got := may(from, tt.to, false)
		require.Equal(t, tt.ok, got, "%s -> %s", tt.from, tt.to)
	}
}
