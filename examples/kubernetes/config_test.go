package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
)

func TestBadInput(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"unknown flag", []string{"--colour"}, "colour"},
		{"argument", []string{"now"}, `unexpected argument "now"`},
		{"bad finalizer", []string{"--finalizer", "a b"}, `--finalizer is "a b"`},
		{"unqualified finalizer", []string{"--finalizer", "agent"}, "fully qualified"},
		{"no finalizer", []string{"--finalizer", ""}, `--finalizer is ""`},
		{"no type", []string{"--only", ""}, `"" is no type`},
		{"one type too many", []string{"--only", "configmaps,"}, `"" is no type`},
		{"a type in capitals", []string{"--except", "ConfigMaps"}, `"ConfigMaps" is no type such as configmaps or widgets.example.com`},
		{"a type with a path", []string{"--only", "../pods"}, "is no type"},
		{"a type without its group", []string{"--only", "widgets."}, `"widgets." is no type`},
		{"no group", []string{"--except-groups", ""}, `"" is no group`},
		{"a group with a version", []string{"--except-groups", "apps/v1"}, `"apps/v1" is no group`},
		{"a wait in words", []string{"--wait", "soon"}, "soon"},
		{"twice without a wait", []string{"--wait", "-1s", "--quiet-twice"}, "--quiet-twice ends a wait, and --wait is -1s"},
		{"few workers", []string{"--workers", "3"}, "--workers is 3, it must be at least 4"},
		{"negative workers", []string{"--workers", "-1"}, "--workers is -1"},
		{"negative rate", []string{"--qps", "-1"}, "--qps is -1"},
		{"no rate at all", []string{"--qps", "NaN"}, "--qps is NaN"},
		{"an endless rate", []string{"--qps", "Inf"}, "--qps is +Inf"},
		{"negative burst", []string{"--qps", "1", "--burst", "-1"}, "--burst is -1"},
		{"burst without a rate", []string{"--burst", "1"}, "--burst needs --qps"},
		{"no lease namespace", []string{"--lease-namespace", ""}, `--lease-namespace is ""`},
		{"bad lease namespace", []string{"--lease-namespace", "a/b"}, `--lease-namespace is "a/b"`},
		{"bad lease name", []string{"--lease-name", "../a"}, `--lease-name is "../a"`},
		{"short lease", []string{"--lease-duration", "999ms"}, "--lease-duration is 999ms, it must be whole seconds"},
		{"broken lease", []string{"--lease-duration", "1500ms"}, "--lease-duration is 1.5s"},
		{"negative lease", []string{"--lease-duration", "-1s"}, "--lease-duration is -1s"},
		{"no such name", []string{"--explain", "a/b"}, `--explain is "a/b"`},
		{"two ends", []string{"--dry-run", "--explain", "a"}, "--dry-run and --explain both end"},
		{"a lease for ever", []string{"--lease-duration", "2400h"}, "--lease-duration is 2400h0m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(tt.args, io.Discard)
			require.ErrorContains(t, err, tt.want)
			var usage *command.UsageError
			require.ErrorAs(t, err, &usage)
		})
	}
}

// What cannot work is said at the start.
func TestBadStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(broken, []byte("{"), 0o600))
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no such kubeconfig", []string{"--kubeconfig", filepath.Join(dir, "absent")}, "absent"},
		{"broken kubeconfig", []string{"--kubeconfig", broken}, "--kubeconfig: "},
		{"empty kubeconfig", []string{"--kubeconfig", empty}, "no API server is known: name one by --kubeconfig or --server"},
		{"a directory", []string{"--kubeconfig", dir}, "--kubeconfig: "},
		{"bad address", []string{"--server", "http://[::1"}, "::1"},
		{"bad place to listen", []string{"--server", "http://127.0.0.1:1", "--listen", "127.0.0.1:port"}, "--listen: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parse(tt.args, io.Discard)
			require.NoError(t, err)
			require.ErrorContains(t, run(t.Context(), io.Discard, slog.New(slog.DiscardHandler), c), tt.want)
		})
	}
}

// The exit code tells a wrong command line from what went wrong.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for code, args := range map[int][]string{
		0: {"--help"},
		1: {"--kubeconfig", "/dev/null/file"},
		2: {"--workers", "1"},
	} {
		p := programs.Self(t, args...)
		got, fault := p.Exit()
		require.Equal(t, code, got, "%v: %s", args, fault)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	c, err := parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, finalizer.Kubernetes, c.finalizer)
	require.Equal(t, "nslifecycle-kubernetes", c.lease.name)
	require.NotEmpty(t, c.lease.identity)
	other, err := parse(nil, io.Discard)
	require.NoError(t, err)
	require.NotEqual(t, c.lease.identity, other.lease.identity, "replicas on one host differ")
	c, err = parse([]string{"--only", "configmaps,widgets.example.com", "--only", "pods", "--except-groups", "a.b,c"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []namespace.ResourceType{{Name: "configmaps"}, {Name: "widgets", Group: "example.com"}, {Name: "pods"}}, c.only)
	require.Equal(t, []string{"a.b", "c"}, c.exceptGroups)
	_, err = parse([]string{"--help"}, io.Discard)
	require.ErrorIs(t, err, flag.ErrHelp)
}

// Two finalizers never share a lease, and every finalizer can have one.
func TestLeaseName(t *testing.T) {
	t.Parallel()
	require.Equal(t, "nslifecycle-example.com-agent", leaseName("example.com/agent"))
	seen := map[string]finalizer.Name{}
	for _, f := range []finalizer.Name{
		"kubernetes", "foregroundDeletion", "example.com/agent", "example.com/Agent", "example.com/a_b", "example.com/a-b",
		"example.com-a/b", "example.com/a._b",
	} {
		require.NoError(t, f.Validate())
		name := leaseName(f)
		require.Empty(t, seen[name], "%s and %s", f, seen[name])
		seen[name] = f
		_, err := parse([]string{"--finalizer", string(f)}, io.Discard)
		require.NoError(t, err)
	}
}

// A failure that differs in ports and times only is the same.
func TestAlike(t *testing.T) {
	t.Parallel()
	read := func(port int) string {
		return fmt.Sprintf("read tcp 127.0.0.1:%d->127.0.0.1:8080: connection reset", port)
	}
	require.Equal(t, alike(read(1)), alike(read(65535)))
	require.NotEqual(t, alike(read(1)), alike("refused"))
}
