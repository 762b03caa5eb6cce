package agent

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

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
		{"no type", []string{"--only", ""}, `"" is not a resource type`},
		{"one type too many", []string{"--only", "configmaps,"}, `"" is not a resource type`},
		{"a type in capitals", []string{"--except", "ConfigMaps"}, `"ConfigMaps" is not a resource type such as configmaps or widgets.example.com`},
		{"a type with a path", []string{"--only", "../pods"}, "is not a resource type"},
		{"a type without its group", []string{"--only", "widgets."}, `"widgets." is not a resource type`},
		{"no group", []string{"--except-groups", ""}, `"" is not an API group`},
		{"a group with a version", []string{"--except-groups", "apps/v1"}, `"apps/v1" is not an API group`},
		{"a wait in words", []string{"--wait", "soon"}, "soon"},
		{"twice without a wait", []string{"--wait", "-1s", "--quiet-twice"}, "--quiet-twice ends a wait early, but wait is -1s"},
		{"few workers", []string{"--workers", "3"}, "--workers is 3, must be at least 4"},
		{"negative workers", []string{"--workers", "-1"}, "--workers is -1"},
		{"negative rate", []string{"--qps", "-1"}, "--qps is -1"},
		{"no rate at all", []string{"--qps", "NaN"}, "--qps is NaN"},
		{"an endless rate", []string{"--qps", "Inf"}, "--qps is +Inf"},
		{"negative burst", []string{"--qps", "1", "--burst", "-1"}, "--burst is -1"},
		{"burst without a rate", []string{"--burst", "1"}, "--burst needs --qps"},
		{"a password", []string{"--server", "https://me:secret@example.com"}, "--server must not contain a user or a password"},
		{"pages for other machines", []string{"--debug-pages", "--listen", ":8080"}, `--listen is ":8080": other machines could read`},
		{"a host with a path", []string{"--hosts", "a,http://b"}, `--hosts: `},
		{"no lease namespace", []string{"--lease-namespace", ""}, `--lease-namespace is ""`},
		{"bad lease namespace", []string{"--lease-namespace", "a/b"}, `--lease-namespace is "a/b"`},
		{"bad lease name", []string{"--lease-name", "../a"}, `--lease-name is "../a"`},
		{"short lease", []string{"--lease-duration", "999ms"}, "--lease-duration is 999ms, must be whole seconds"},
		{"broken lease", []string{"--lease-duration", "1500ms"}, "--lease-duration is 1.5s"},
		{"negative lease", []string{"--lease-duration", "-1s"}, "--lease-duration is -1s"},
		{"no such name", []string{"--explain", "a/b"}, `--explain is "a/b"`},
		{"two ends", []string{"--dry-run", "--explain", "a"}, "--dry-run and --explain exclude each other"},
		{"a lease for ever", []string{"--lease-duration", "2400h"}, "--lease-duration is 2400h0m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(tt.args, io.Discard)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

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
		{"empty kubeconfig", []string{"--kubeconfig", empty}, "no API server is configured: set --kubeconfig or --server"},
		{"a directory", []string{"--kubeconfig", dir}, "--kubeconfig: "},
		{"bad address", []string{"--server", "http://[::1"}, "::1"},
		{"bad place to listen", []string{"--server", "http://127.0.0.1:1", "--listen", "127.0.0.1:port"}, "listen tcp"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parse(tt.args, io.Discard)
			require.NoError(t, err)
			require.ErrorContains(t, c.run(t.Context(), io.Discard), tt.want)
		})
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	c, err := parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, finalizer.Kubernetes, c.Finalizer)
	require.Equal(t, "nslifecycle-kubernetes", c.withDefaults().Lease.Name)
	require.NotEmpty(t, c.withDefaults().Lease.Identity)
	require.NotEqual(t, c.withDefaults().Lease.Identity, c.withDefaults().Lease.Identity, "replicas on one host differ")
	c, err = parse([]string{"--only", "configmaps,widgets.example.com", "--only", "pods", "--except-groups", "a.b,c"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []namespace.ResourceType{{Name: "configmaps"}, {Name: "widgets", Group: "example.com"}, {Name: "pods"}}, c.Content.Only)
	require.Equal(t, []string{"a.b", "c"}, c.Content.ExceptGroups)
	_, err = parse([]string{"--help"}, io.Discard)
	require.ErrorIs(t, err, flag.ErrHelp)
}

// Every finalizer gets a valid lease name of its own.
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

func TestWithoutDigits(t *testing.T) {
	t.Parallel()
	read := func(port int) string {
		return fmt.Sprintf("read tcp 127.0.0.1:%d->127.0.0.1:8080: connection reset", port)
	}
	require.Equal(t, withoutDigits(read(1)), withoutDigits(read(65535)))
	require.NotEqual(t, withoutDigits(read(1)), withoutDigits("refused"))
}
