package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
)

//go:embed development.json
var development []byte

func TestMain(m *testing.M) { programs.Main(m, main) }

// scene is an API server, and what agents need.
type scene struct {
	kubeconfig, data string
	core             *client.CoreV1Client
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), data: t.TempDir()}
	server := programs.Start(t, exec.Command(programs.APIServer(t), "--listen", "127.0.0.1:0", "--store", "memory", "--write-kubeconfig", s.kubeconfig))
	server.Until(t, "get namespaces")
	c, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	require.NoError(t, err)
	s.core, err = client.NewForConfig(c)
	require.NoError(t, err)
	return s
}

// agent starts an agent as a process.
func (s *scene) agent(t *testing.T, flags ...string) *programs.Process {
	t.Helper()
	return programs.Self(t, append([]string{"--kubeconfig", s.kubeconfig, "--data", s.data}, flags...)...)
}

// stored returns how many builds the agent has for a namespace.
func (s *scene) stored(t *testing.T, namespace string) int {
	t.Helper()
	builds, err := filepath.Glob(filepath.Join(s.data, namespace, "*", "build-*"))
	require.NoError(t, err)
	return len(builds)
}

// await watches the namespaces from a version on until one is so.
func (s *scene) await(t *testing.T, name, from string, so func(watch.EventType, *corev1.Namespace) bool) *corev1.Namespace {
	t.Helper()
	w, err := s.core.Namespaces().Watch(t.Context(), metav1.ListOptions{ResourceVersion: from})
	require.NoError(t, err)
	defer w.Stop()
	for e := range w.ResultChan() {
		if ns, ok := e.Object.(*corev1.Namespace); ok && ns.Name == name && so(e.Type, ns) {
			return ns
		}
	}
	t.Fatal("the watch ended first")
	return nil
}

func gone(kind watch.EventType, _ *corev1.Namespace) bool { return kind == watch.Deleted }

func holds(finalizers ...corev1.FinalizerName) func(watch.EventType, *corev1.Namespace) bool {
	return func(_ watch.EventType, ns *corev1.Namespace) bool { return cmp.Equal(finalizers, ns.Spec.Finalizers) }
}

// show prints a namespace as the document does.
func show(w io.Writer, ns *corev1.Namespace) {
	deletion := ""
	if ns.DeletionTimestamp != nil {
		deletion = "deletionTimestamp ..., "
	}
	fmt.Fprintf(w, "    %q: %sfinalizers %q, phase %s\n", ns.Name, deletion, ns.Spec.Finalizers, ns.Status.Phase)
}

// TestStory tells the design document's example of OpenShift and Kubernetes over the
// wire, step by step, and holds it to testdata/story.txt. The agent is killed before
// the end, so that each of the document's states can be seen.
func TestStory(t *testing.T) {
	t.Parallel()
	s, ctx := newScene(t), t.Context()
	var said strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }
	agent := s.agent(t)
	say("agent: %s", agent.Until(t, "watching"))

	say("OpenShift creates a namespace")
	var ns *corev1.Namespace
	require.NoError(t, json.Unmarshal(development, &ns))
	ns, err := s.core.Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	require.NoError(t, err)
	show(&said, ns)
	say("it creates a set of resources in it, and its own set in its own storage")
	for i := range 5 {
		_, err := s.core.ConfigMaps(ns.Name).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	say("agent: %s", agent.Until(t, "stored"))
	require.Equal(t, 3, s.stored(t, ns.Name))

	agent.Kill()
	say("the agent is killed; a user deletes the namespace")
	// The answer is what the DELETE itself wrote: neither party has acted on it yet.
	err = s.core.RESTClient().Delete().Resource("namespaces").Name(ns.Name).Do(ctx).Into(ns)
	require.NoError(t, err)
	show(&said, ns)
	_, err = s.core.ConfigMaps(ns.Name).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
	say("    late: %v", err)
	require.True(t, apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause))

	say("the namespace controller deletes all it knows of, and finalizes")
	ns = s.await(t, ns.Name, ns.ResourceVersion, holds("openshift.com/origin"))
	show(&said, ns)
	list, err := s.core.ConfigMaps(ns.Name).List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	say("    configmaps left: %d, builds left: %d", len(list.Items), s.stored(t, ns.Name))

	say("the agent is started again: it purges its own storage, and finalizes")
	agent = s.agent(t)
	show(&said, s.await(t, ns.Name, ns.ResourceVersion, gone))
	say("agent: %s", agent.Until(t, "purged"))
	say("agent: %s", agent.Until(t, "finalized"))
	_, err = s.core.Namespaces().Get(ctx, ns.Name, metav1.GetOptions{})
	say("    %v; builds left: %d", err, s.stored(t, ns.Name))

	golden, err := os.ReadFile(filepath.Join("testdata", "story.txt"))
	require.NoError(t, err)
	if diff := cmp.Diff(string(golden), said.String()); diff != "" {
		t.Errorf("story (-want +got):\n%s", diff)
	}
}

// Killed in the midst of its work, and started again, the agent comes to the same
// end: namespaces are held until their builds are gone, and then go.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	const kills, each = 5, 4
	s, ctx := newScene(t), t.Context()
	before, err := s.core.Namespaces().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	agent := s.agent(t, "--builds", "200")
	agent.Until(t, "watching")
	for i := range kills * each {
		_, err := s.core.Namespaces().Create(ctx, ours(fmt.Sprintf("n%02d", i)), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	for i := range kills * each {
		require.NoError(t, s.core.Namespaces().Delete(ctx, fmt.Sprintf("n%02d", i), metav1.DeleteOptions{}))
		if i%each == each-1 {
			agent.Until(t, "finalized") // and is at work on others
			agent.Kill()
			agent = s.agent(t, "--builds", "200")
		}
	}
	for i := range kills * each {
		name := fmt.Sprintf("n%02d", i)
		s.await(t, name, before.ResourceVersion, gone)
		require.Zero(t, s.stored(t, name))
	}
}

// ours is a namespace that the agent holds.
func ours(name string) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"openshift.com/origin"}},
	}
}

// What belongs to an incarnation that ended while nobody looked is purged, and that
// of a living one of the same name is not.
func TestForcedWhileAway(t *testing.T) {
	t.Parallel()
	s, ctx := newScene(t), t.Context()
	left, err := openBuilds(s.data)
	require.NoError(t, err)
	for _, name := range []string{"again", "never"} {
		_, err := left.fill(name, types.UID("ended-long-ago"), 2)
		require.NoError(t, err)
	}
	_, err = s.core.Namespaces().Create(ctx, ours("again"), metav1.CreateOptions{})
	require.NoError(t, err)
	agent := s.agent(t)
	agent.Until(t, `"never": purged 2 builds of one that has ended`)
	agent.Until(t, `"again": purged 2 builds of one that has ended`)
	agent.Until(t, `"again": stored 3 builds`)
	require.Equal(t, 3, s.stored(t, "again"))
	require.Zero(t, s.stored(t, "never"))
}

func TestConduct(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	programs.Conduct{
		Args:   []string{"--kubeconfig", s.kubeconfig, "--data", s.data},
		Ready:  "watching",
		Absent: []string{"--kubeconfig", filepath.Join(t.TempDir(), "absent")},
	}.Check(t)
}

// lines hands what is written to a test.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// A server that is not there, and one that is there again, are each reported once.
func TestUnreachableServer(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	var refused atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			if refused.Add(1) == 3 {
				up.Store(true)
			}
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Has("sendInitialEvents") {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
			return
		}
		if r.URL.Query().Has("watch") {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, `{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
	}))
	t.Cleanup(server.Close)
	ctx, stop := context.WithCancel(t.Context())
	defer func() { stop() }()
	said, failed, ended := make(lines, 10), make(lines, 10), make(chan error, 1)
	go func() { ended <- run(ctx, said, failed, []string{"--server", server.URL, "--data", t.TempDir()}) }()
	require.Contains(t, <-failed, "agent: namespaces cannot be watched, trying again at least once a minute: ")
	require.Equal(t, "agent: the API server answers again\n", <-failed)
	require.Equal(t, "watching namespaces for openshift.com/origin\n", <-said)
	require.Equal(t, int32(3), refused.Load())
	stop()
	require.NoError(t, <-ended)
	require.Empty(t, failed, "it is told once")

	ctx, stop = context.WithCancel(t.Context())
	go func() {
		ended <- run(ctx, said, failed, []string{"--server", "http://127.0.0.1:1", "--data", t.TempDir()})
	}()
	require.Contains(t, <-failed, "connection refused")
	stop()
	require.NoError(t, <-ended)
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"unknown flag", []string{"--colour"}, "colour"},
		{"argument", []string{"now"}, `unexpected argument "now"`},
		{"bad finalizer", []string{"--finalizer", "a b"}, `--finalizer is "a b"`},
		{"no finalizer", []string{"--finalizer", ""}, `--finalizer is ""`},
		{"negative builds", []string{"--builds", "-1"}, "--builds is -1"},
		{"a file for a directory", []string{"--server", "http://127.0.0.1:1", "--data", file}, "--data"},
		{"no such kubeconfig", []string{"--kubeconfig", filepath.Join(dir, "absent")}, "absent"},
		{"bad address", []string{"--server", "http://[::1", "--data", dir}, "::1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.ErrorContains(t, run(t.Context(), io.Discard, io.Discard, tt.args), tt.want)
		})
	}
}

// Names come over the wire; none leads out of the directory.
func TestNoWayOut(t *testing.T) {
	b, err := openBuilds(filepath.Join(t.TempDir(), "data"))
	require.NoError(t, err)
	for _, name := range []string{"..", "../a", "/etc"} {
		_, err := b.fill(name, "uid", 1)
		require.Error(t, err, name)
		_, err = b.fill("a", types.UID("../../"+name), 1)
		require.Error(t, err, name)
		_, err = b.purge(name, "..")
		require.Error(t, err, name)
	}
}
