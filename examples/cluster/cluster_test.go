package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
	"github.com/nslifecycle/nslifecycle/store/postgres/pgtest"
)

// The test binary is the program too, and a replica of it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asReplica {
		main()
	}
	dir, err := os.MkdirTemp("", "cluster-test-")
	if err != nil {
		panic(err)
	}
	etcdProgram = sync.OnceValues(func() (string, error) { return findEtcd(dir) })
	code := programs.Run(m, main)
	_ = os.RemoveAll(dir) // it is in the system's place for such
	os.Exit(code)
}

func TestConduct(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, args []string) {
		programs.Conduct{Args: args, Ready: "replica c: started", Slow: "starting the store's server", Absent: []string{"--dsn", "postgres://x:secret@127.0.0.1:1/x"}}.Check(t)
	})
}

// requireServers, when it is set, makes a failure of a test that misses its server.
const requireServers = "NSLIFECYCLE_REQUIRE_SERVERS"

// etcdProgram returns the etcd to start.
var etcdProgram func() (string, error)

// findEtcd returns the etcd that NSLIFECYCLE_ETCD or PATH names, or builds the one
// that the driver's tests use.
func findEtcd(dir string) (string, error) {
	if program := os.Getenv("NSLIFECYCLE_ETCD"); program != "" {
		return program, nil
	}
	if program, err := exec.LookPath("etcd"); err == nil {
		return program, nil
	}
	program := filepath.Join(dir, "etcd")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join("..", "..", "store", "etcd", "internal", "etcdserver")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return "", errors.New("no etcd found (install etcd-server 3.5.13 or later, or set NSLIFECYCLE_ETCD), and none can be built: " + string(out))
	}
	return program, nil
}

// eachStore runs f with the flags that start a server of each kind, both at the
// same time.
func eachStore(t *testing.T, f func(t *testing.T, args []string)) {
	missing := func(t *testing.T, err error) {
		if os.Getenv(requireServers) != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Run(kindPostgres, func(t *testing.T) {
		t.Parallel()
		if _, err := pgtest.Find(); err != nil {
			missing(t, err)
		}
		f(t, []string{"--store", kindPostgres})
	})
	t.Run(kindEtcd, func(t *testing.T) {
		t.Parallel()
		program, err := etcdProgram()
		if err != nil {
			missing(t, err)
		}
		f(t, []string{"--etcd", program})
	})
}

// What differs from run to run.
var masks = []struct {
	pattern *regexp.Regexp
	mask    string
}{
	{regexp.MustCompile(`(?m)^ *[0-9.]+ s  `), ""},
	{regexp.MustCompile(`started (etcd|PostgreSQL) at .*`), "started SERVER"},
	{regexp.MustCompile(`process [0-9]+`), "process N"},
	{regexp.MustCompile(`[0-9.]+ s after`), "TIME after"},
	{regexp.MustCompile(`(emptied|content): ([abc] [0-9]+,? ?)+`), "$1: N"},
	{regexp.MustCompile(`(death|tenant): [0-9]+`), "$1: N"},
	{regexp.MustCompile(`at most [0-9]+`), "at most N"},
	{regexp.MustCompile(`passes: [0-9]+`), "passes: N"},
}

// What replicas say comes in an order of its own, and members as they learn of them.
var unordered = regexp.MustCompile(`(?m)^replica .*(members it knows of|silent|takes over|owns nothing|a call failed).*\n`)

// TestStory holds the story to testdata/story.txt.
func TestStory(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile(filepath.Join("testdata", "story.txt"))
	require.NoError(t, err)
	eachStore(t, func(t *testing.T, args []string) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), &out, append(args, "--tenants", "30")), "%s", &out)
		got := out.String()
		for _, m := range masks {
			got = m.pattern.ReplaceAllString(got, m.mask)
		}
		if diff := cmp.Diff(string(golden), unordered.ReplaceAllString(got, "")); diff != "" {
			t.Errorf("story (-want +got):\n%s\noutput:\n%s", diff, out.String())
		}
		require.Contains(t, got, "replica b has been silent for 1.5s, it is expelled")
		require.Contains(t, got, "members it knows of: 3")
	})
}

// On a store that is given the story can be told again, also when the last telling was
// interrupted in its midst and left tenants behind.
func TestAgainOnOneStore(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, args []string) {
		c, err := parse(args, io.Discard)
		require.NoError(t, err)
		server, err := c.server(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, server.stop()) }()
		given := []string{"--tenants", "12", "--dsn", server.address}
		if server.kind == kindEtcd {
			given[2] = "--endpoints"
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := &trigger{word: []byte("DELETE all"), pull: cancel}
		require.ErrorIs(t, run(ctx, first, given), context.Canceled, "%s", first)
		var again bytes.Buffer
		require.NoError(t, run(t.Context(), &again, given), "%s", &again)
		require.Regexp(t, `deleted [0-9]+ tenants that an earlier story had left`, again.String())
		require.Contains(t, again.String(), "content left behind: 0 objects")
	})
}

// trigger calls pull when the word is written. It embeds no buffer, whose WriteString
// would bypass Write.
type trigger struct {
	text bytes.Buffer
	word []byte
	pull func()
}

func (w *trigger) Write(p []byte) (int, error) {
	if bytes.Contains(p, w.word) {
		w.pull()
	}
	return w.text.Write(p)
}

func (w *trigger) String() string { return w.text.String() }

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"unknown flag", []string{"--colour"}, "colour"},
		{"argument", []string{"now"}, `unexpected argument "now"`},
		{"unknown store", []string{"--store", "mysql"}, `--store is "mysql", it must be etcd or postgres`},
		{"no tenants", []string{"--tenants", "0"}, "--tenants is 0"},
		{"negative tenants", []string{"--tenants", "-5"}, "--tenants is -5"},
		{"too many tenants", []string{"--tenants", "5001"}, "--tenants is 5001"},
		{"endpoints of PostgreSQL", []string{"--store", "postgres", "--endpoints", "x:1"}, "--endpoints is for etcd"},
		{"address of etcd", []string{"--store", "etcd", "--dsn", "x"}, "--dsn is for postgres"},
		{"two stores", []string{"--dsn", "x", "--endpoints", "x:1"}, "give one of them"},
		{"etcd that runs and to start", []string{"--etcd", "x", "--endpoints", "x:1"}, "give one of them"},
		{"no such program", []string{"--etcd", filepath.Join(dir, "absent")}, "absent"},
		{"a program that is none", []string{"--etcd", dir}, "--etcd"},
		{"bad address", []string{"--dsn", "postgres://[::1"}, "the DSN"},
		{"nobody at the address", []string{"--dsn", "postgres://nobody@127.0.0.1:1/none?sslmode=disable&connect_timeout=2"}, "refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			require.ErrorContains(t, run(t.Context(), &out, tt.args), tt.want)
		})
	}
}

// Without a server to start, the answer says what to install.
func TestNothingFound(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(pgtest.EnvBin, t.TempDir())
	var out bytes.Buffer
	err := run(t.Context(), &out, nil)
	require.ErrorContains(t, err, "no etcd found: install")
	require.ErrorContains(t, err, "no PostgreSQL server found")
}

func TestInterruptedEarly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	began := time.Now()
	require.Error(t, run(ctx, &out, []string{"--endpoints", "127.0.0.1:1"}))
	require.Less(t, time.Since(began), time.Minute)
	require.False(t, slices.Contains(strings.Split(out.String(), "\n"), "replica a"))
}
