package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
	"github.com/nslifecycle/nslifecycle/store/postgres/pgtest"
)

// The test binary also runs the program as a process, so that tests can send signals to it.
func TestMain(m *testing.M) { programs.Main(m, main) }

// service is the program, running in this process.
type service struct {
	kubeconfig string
	out, log   *lines
	cancel     context.CancelFunc
	ended      chan error
}

// start runs the program until it serves requests. The cleanup of the test stops it.
func start(t *testing.T, args ...string) *service {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &service{
		kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"),
		out:        newLines(), log: newLines(), cancel: cancel, ended: make(chan error, 1),
	}
	args = append([]string{"--listen", "127.0.0.1:0", "--write-kubeconfig", s.kubeconfig}, args...)
	go func() { s.ended <- run(ctx, s.out, s.log, args) }()
	t.Cleanup(func() { s.stop(t) })
	select {
	case <-s.out.has("get namespaces"):
	case err := <-s.ended:
		s.ended <- nil // the cleanup receives again
		require.NoError(t, err)
	}
	return s
}

// stop ends the program and requires that it returns no error.
func (s *service) stop(t *testing.T) {
	t.Helper()
	s.cancel()
	require.NoError(t, <-s.ended)
	s.ended <- nil // stop may be called again
}

// as returns a client that uses the context of user in the kubeconfig. If user is empty, the
// client uses the current context.
func (s *service) as(t *testing.T, user string) *client.CoreV1Client {
	t.Helper()
	return as(t, s.kubeconfig, user)
}

func as(t *testing.T, kubeconfig, user string) *client.CoreV1Client {
	t.Helper()
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: user}).ClientConfig()
	require.NoError(t, err)
	core, err := client.NewForConfig(c)
	require.NoError(t, err)
	return core
}

// lines records the written text and closes a channel once the text contains a word.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	want map[string]chan struct{}
}

func newLines() *lines { return &lines{want: map[string]chan struct{}{}} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.text.Write(p)
	for word, found := range l.want {
		if bytes.Contains(l.text.Bytes(), []byte(word)) {
			close(found)
			delete(l.want, word)
		}
	}
	return n, err
}

func (l *lines) has(word string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := make(chan struct{})
	if bytes.Contains(l.text.Bytes(), []byte(word)) {
		close(found)
	} else {
		l.want[word] = found
	}
	return found
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// masked replaces values that differ between runs.
func masked(text, kubeconfig string) string {
	text = strings.ReplaceAll(text, kubeconfig, "FILE")
	return regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(text, "ADDRESS")
}

func newNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func newConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// remove deletes a namespace and waits for its removal.
func remove(t *testing.T, core *client.CoreV1Client, name string) {
	t.Helper()
	list, err := core.Namespaces().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	w, err := core.Namespaces().Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	require.NoError(t, err)
	defer w.Stop()
	require.NoError(t, core.Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}))
	for e := range w.ResultChan() {
		if ns, ok := e.Object.(*corev1.Namespace); ok && ns.Name == name && e.Type == watch.Deleted {
			return
		}
	}
	t.Fatal("the watch ended first")
}

// TestStores creates, fills and deletes a namespace in each kind of store. After a restart,
// a persistent store still has the other namespaces and their content.
func TestStores(t *testing.T) {
	t.Parallel()
	for kind, flags := range map[string]func(t *testing.T) []string{
		kindMemory: func(*testing.T) []string { return nil },
		kindBolt:   func(t *testing.T) []string { return []string{"--data", t.TempDir()} },
		kindPostgres: func(t *testing.T) []string {
			server, err := pgtest.Start(t.Context(), nil)
			if errors.Is(err, pgtest.ErrNotInstalled) && os.Getenv("NSLIFECYCLE_REQUIRE_SERVERS") == "" {
				t.Skip(err)
			}
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, server.Stop()) })
			return []string{"--dsn", server.DSN("postgres")}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"--store", kind}, flags(t)...)
			s := start(t, args...)
			core := s.as(t, "")
			for _, name := range []string{"goes", "stays"} {
				_, err := core.Namespaces().Create(t.Context(), newNamespace(name), metav1.CreateOptions{})
				require.NoError(t, err)
				_, err = core.ConfigMaps(name).Create(t.Context(), newConfigMap("settings"), metav1.CreateOptions{})
				require.NoError(t, err)
			}
			err := core.Namespaces().Delete(t.Context(), "default", metav1.DeleteOptions{})
			require.True(t, apierrors.IsForbidden(err), "%v", err)
			remove(t, core, "goes")
			s.stop(t)
			golden, err := os.ReadFile(filepath.Join("testdata", "output.txt"))
			require.NoError(t, err)
			if diff := cmp.Diff(string(golden), masked(s.out.String(), s.kubeconfig)); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			if kind == kindMemory {
				return
			}
			core = start(t, args...).as(t, "")
			_, err = core.ConfigMaps("stays").Get(t.Context(), "settings", metav1.GetOptions{})
			require.NoError(t, err)
			all, err := core.Namespaces().List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			var names []string
			for _, ns := range all.Items {
				names = append(names, ns.Name)
			}
			require.Equal(t, []string{"default", "kube-public", "kube-system", "stays"}, names)
		})
	}
}

// Without the controller, a deleted namespace stays Terminating until another client
// finalizes it.
func TestWithoutController(t *testing.T) {
	t.Parallel()
	core := start(t, "--store", kindMemory, "--controller=false").as(t, "")
	_, err := core.Namespaces().Create(t.Context(), newNamespace("a"), metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, core.Namespaces().Delete(t.Context(), "a", metav1.DeleteOptions{}))
	ns, err := core.Namespaces().Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, corev1.NamespaceTerminating, ns.Status.Phase)
	ns.Spec.Finalizers = nil
	_, err = core.Namespaces().Finalize(t.Context(), ns, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = core.Namespaces().Get(t.Context(), "a", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

// Types added by --types are discoverable and accept any fields. The controller deletes
// their objects.
func TestTypes(t *testing.T) {
	t.Parallel()
	s := start(t, "--store", kindMemory, "--types", "60")
	core := s.as(t, "")
	var found metav1.APIResourceList
	require.NoError(t, core.RESTClient().Get().AbsPath("/apis/example.com/v1").Do(t.Context()).Into(&found))
	var names []string
	for _, r := range found.APIResources {
		if r.Kind[0] == 'T' {
			names = append(names, r.Name)
		}
	}
	require.Len(t, names, 60)
	require.Subset(t, names, []string{"t001", "t060"})
	_, err := core.Namespaces().Create(t.Context(), newNamespace("a"), metav1.CreateOptions{})
	require.NoError(t, err)
	path := "/apis/example.com/v1/namespaces/a/t060"
	body := []byte(`{"apiVersion":"example.com/v1","kind":"T060","metadata":{"name":"x"},"any":{"fields":1}}`)
	require.NoError(t, core.RESTClient().Post().AbsPath(path).Body(body).Do(t.Context()).Error())
	text, err := core.RESTClient().Get().AbsPath(path, "x").DoRaw(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(text), `"any":{"fields":1}`)
	remove(t, core, "a")
	_, err = core.RESTClient().Get().AbsPath(path, "x").DoRaw(t.Context())
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

// With tokens and grants, the program serves HTTPS and each user may do only what the grants
// allow.
func TestTokensAndGrants(t *testing.T) {
	t.Parallel()
	s := start(t, "--store", kindMemory, "--verbose",
		"--tokens", filepath.Join("testdata", "tokens.csv"), "--grants", filepath.Join("testdata", "grants.json"))
	admin, alice := s.as(t, "admin"), s.as(t, "alice")
	for _, name := range []string{"team-a", "team-b"} {
		_, err := admin.Namespaces().Create(t.Context(), newNamespace(name), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	_, err := alice.ConfigMaps("team-a").Create(t.Context(), newConfigMap("settings"), metav1.CreateOptions{})
	require.NoError(t, err)
	for _, ns := range []string{"team-b", "nowhere"} { // the errors do not reveal which namespace exists
		_, err = alice.ConfigMaps(ns).Get(t.Context(), "settings", metav1.GetOptions{})
		require.ErrorContains(t, err, `configmaps "settings" is forbidden: User "alice" cannot get resource "configmaps" in API group "" in the namespace "`+ns+`"`)
	}
	told, err := admin.Events("team-b").Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	event := (<-told.ResultChan()).Object.(*corev1.Event)
	told.Stop()
	require.Equal(t, "Forbidden", event.Reason)
	require.Contains(t, event.Message, `User "alice" cannot get`)
	text, err := os.ReadFile(s.kubeconfig)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.kubeconfig, bytes.ReplaceAll(text, []byte("token-of-alice"), []byte("guess")), 0o600))
	_, err = s.as(t, "alice").ConfigMaps("team-a").List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsUnauthorized(err), "%v", err)
	s.stop(t)
	require.Contains(t, s.log.String(), "/api/v1/namespaces/team-b/configmaps/settings")
	require.NotContains(t, s.log.String(), "token-of-")
}

// The program reports invalid flags and failures at the start with their cause, and never
// prints a password.
func TestBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	locked := t.TempDir()
	start(t, "--data", locked)
	tokens := filepath.Join("testdata", "tokens.csv")
	for _, tt := range []struct {
		name  string
		args  []string
		want  string
		usage bool
	}{
		{"unknown flag", []string{"--colour"}, "colour", true},
		{"argument", []string{"now"}, `unexpected argument "now"`, true},
		{"unknown store", []string{"--store", "mysql"}, `--store is "mysql", must be bolt, memory or postgres`, true},
		{"directory of memory", []string{"--store", "memory", "--data", dir}, "--data needs --store bolt", true},
		{"no address", []string{"--store", "postgres"}, "--store postgres and --dsn need each other", true},
		{"fewer types than none", []string{"--types", "-1"}, "--types is -1, must be 0 to 1000", true},
		{"too many types", []string{"--types", "1001"}, "--types is 1001", true},
		{"types in words", []string{"--types", "many"}, "many", true},
		{"grants for nobody", []string{"--grants", "x"}, "--grants needs --tokens", true},
		{"open to other machines", []string{"--listen", ":0"}, "--insecure-listen, or let in only clients with --tokens", true},
		{"debug pages open to other machines", []string{"--tokens", tokens, "--debug-listen", "0.0.0.0:0"}, `--debug-listen is "0.0.0.0:0"`, true},
		{"a host with a port", []string{"--store", "memory", "--hosts", "console:8080"}, "flag -hosts: ", true},
		{"manifests nowhere", []string{"--store", "memory", "--manifests", "http://user:secret@"}, "--manifests: ", true},
		{"no such tokens", []string{"--tokens", filepath.Join(dir, "absent")}, "absent", false},
		{"empty tokens", []string{"--tokens", file("empty.csv", "\n")}, "has no tokens", false},
		{"token of nobody", []string{"--tokens", file("nobody.csv", "token\n")}, "a token and a user are required", false},
		{"one token twice", []string{"--tokens", file("twice.csv", "t,a\nt,b\n")}, "two users have the same token", false},
		{"bad grants", []string{"--tokens", tokens, "--grants", file("grants.json", `{"grants":[{"users":["a"]}]}`)}, "grants[0]", false},
		{"busy port", []string{"--data", dir, "--listen", busy.Addr().String()}, "address already in use", false},
		{"bad port", []string{"--data", dir, "--listen", "127.0.0.1:port"}, "--listen", false},
		{"busy port for debug pages", []string{"--data", dir, "--listen", "127.0.0.1:0", "--debug-listen", busy.Addr().String()}, "--debug-listen: ", false},
		{"a file for a directory", []string{"--data", file("file", "")}, "--data", false},
		{"locked", []string{"--data", locked}, "--data: another process has " + locked + " open: stop it, or wait for it with --wait", false},
		{"nobody at the address", []string{"--store", "postgres", "--dsn", "postgres://nobody@127.0.0.1:1/none?sslmode=disable&connect_timeout=2"}, "refused", false},
		{"kubeconfig nowhere", []string{"--store", "memory", "--listen", "127.0.0.1:0", "--write-kubeconfig", "/dev/null/k"}, "--write-kubeconfig", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := run(t.Context(), io.Discard, io.Discard, tt.args)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "secret")
			var usage *command.UsageError
			require.Equal(t, tt.usage, errors.As(err, &usage))
		})
	}
}
