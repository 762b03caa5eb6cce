package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
)

func TestMain(m *testing.M) { programs.Main(m, main) }

func TestConduct(t *testing.T) {
	data := filepath.Join(t.TempDir(), "quickstart.db")
	programs.Conduct{Args: []string{"--data", data, "--objects", "1000000"}, Ready: "created"}.Check(t)
}

// What others could have put in its place is no place for data; by default none can.
func TestDataOfOthers(t *testing.T) {
	shared := t.TempDir()
	require.NoError(t, os.Chmod(shared, 0o777|os.ModeSticky))
	var out bytes.Buffer
	require.ErrorContains(t, run(t.Context(), &out, []string{"--data", filepath.Join(shared, "q.db")}), "--data: other users can write to "+shared)
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	require.NoError(t, run(t.Context(), &out, nil))
	require.Contains(t, out.String(), "data: "+state+"/nslifecycle/quickstart.db")
}

// What differs from run to run: times, names, and how often the intruder tried.
var masks = []struct {
	pattern *regexp.Regexp
	mask    string
}{
	{regexp.MustCompile(`(?m)^data: .*$`), "data: FILE"},
	{regexp.MustCompile(`(?m)^ *[0-9.]+ ms `), "TIME"},
	{regexp.MustCompile(`intruder-[a-z0-9]+`), "intruder-NAME"},
	{regexp.MustCompile(`[0-9]+ events, `), ""}, // the intruder may come too late for any
	{regexp.MustCompile(`intruder: [0-9]+ (.*), [0-9]+ (.*), [0-9]+ `), "intruder: N $1, N $2, N "},
}

func masked(output string) []string {
	for _, m := range masks {
		output = m.pattern.ReplaceAllString(output, m.mask)
	}
	return strings.Split(strings.TrimSpace(output), "\n")
}

// TestStory holds the story to testdata/story.txt. The parties work at the same
// time, so the order of lines is checked only where there is one.
func TestStory(t *testing.T) {
	golden, err := os.ReadFile("testdata/story.txt")
	require.NoError(t, err)
	data := filepath.Join(t.TempDir(), "quickstart.db")
	for _, round := range []string{"on a new file", "again on the same file"} {
		t.Run(round, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, run(t.Context(), &out, []string{"--data", data}))
			got := masked(out.String())
			want := strings.Split(strings.TrimSpace(string(golden)), "\n")
			if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))); diff != "" {
				t.Errorf("lines, sorted (-want +got):\n%s\noutput:\n%s", diff, out.String())
			}
			requireOrder(t, got,
				`created: Active, finalizers ["openshift.com/origin" "kubernetes"]`,
				"stored 300 objects",
				"DELETE",
				`is now: Terminating, finalizers ["openshift.com/origin" "kubernetes"]`,
				`is now: Terminating, finalizers ["openshift.com/origin"]`,
				"is copied, its finalizer goes",
				"finalizers []: removed from storage",
				"left behind: 0",
			)
		})
	}
}

// requireOrder checks that lines has the parts in that order.
func requireOrder(t *testing.T, lines []string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		i := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, part) })
		require.GreaterOrEqual(t, i, 0, "%q is missing, or comes too early, in\n%s", part, strings.Join(lines, "\n"))
		lines = lines[i+1:]
	}
}

// TestKilledAnywhere kills the program at random moments of its story; run again
// on the same file it always comes to the same end.
func TestKilledAnywhere(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	data := filepath.Join(t.TempDir(), "quickstart.db")
	killed := 0
	for range 12 {
		life := time.Duration(random.Int64N(int64(150 * time.Millisecond)))
		ctx, cancel := context.WithTimeout(t.Context(), life) // its end is SIGKILL
		p := programs.Self(t, "--data", data, "--objects", "500", "--parallelism", "4")
		context.AfterFunc(ctx, p.Kill)
		if code, fault := p.Exit(); code != 0 {
			require.Error(t, ctx.Err(), "it failed by itself:\n%s", fault)
			killed++
		}
		cancel()
	}
	t.Logf("killed %d times", killed)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, []string{"--data", data, "--objects", "500"}))
	requireOrder(t, masked(out.String()), "finalizers []: removed from storage", "left behind: 0")
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	require.ErrorIs(t, run(ctx, &out, []string{"--data", filepath.Join(t.TempDir(), "q.db")}), context.Canceled)
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"unknown flag", []string{"--colour"}, "colour"},
		{"argument", []string{"now"}, `unexpected argument "now"`},
		{"negative objects", []string{"--objects", "-1"}, "--objects is -1"},
		{"no parallelism", []string{"--parallelism", "0"}, "--parallelism is 0"},
		{"no such file", []string{"--namespace", filepath.Join(dir, "absent.json")}, "--namespace: open "},
		{"not JSON", []string{"--namespace", file("text.json", "development")}, "--namespace: the namespace in "},
		{"bad name", []string{"--namespace", file("name.json", `{"metadata":{"name":"../etc"},"spec":{"finalizers":["openshift.com/origin"]}}`)}, "metadata.name"},
		{"immortal", []string{"--namespace", file("default.json", `{"metadata":{"name":"default"},"spec":{"finalizers":["openshift.com/origin"]}}`)}, "this namespace may not be deleted"},
		{"no name", []string{"--namespace", file("generate.json", `{"metadata":{"generateName":"a-"}}`)}, "has no metadata.name"},
		{"not OpenShift's", []string{"--namespace", file("plain.json", `{"metadata":{"name":"a"}}`)}, `lacks "openshift.com/origin"`},
		{"somebody else's", []string{"--namespace", file("else.json", `{"metadata":{"name":"a"},"spec":{"finalizers":["openshift.com/origin","example.com/nobody"]}}`)}, `the finalizer "example.com/nobody"`},
		{"not a store", []string{"--data", file("text.db", strings.Repeat("text ", 4096))}, "--data: store: open "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			args := append([]string{"--data", filepath.Join(t.TempDir(), "q.db")}, tt.args...)
			require.ErrorContains(t, run(t.Context(), &out, args), tt.want)
		})
	}
}
