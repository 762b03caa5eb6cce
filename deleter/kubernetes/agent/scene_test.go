package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// scene is an API server with clients.
type scene struct {
	kubeconfig string
	server     *process
	connection *rest.Config
	core       *client.CoreV1Client
	rest       rest.Interface // without the rate limit of a client
}

// newScene starts an API server with 60 additional types.
func newScene(t *testing.T, flags ...string) *scene {
	t.Helper()
	s := &scene{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	s.start(t, flags...)
	return s
}

// start starts or restarts the API server.
func (s *scene) start(t *testing.T, flags ...string) {
	t.Helper()
	if len(flags) == 0 || flags[0] != "--data" {
		flags = append([]string{"--store", "memory"}, flags...)
	}
	flags = append(flags, "--listen", "127.0.0.1:0", "--types", "60", "--write-kubeconfig", s.kubeconfig)
	s.server = startAPIServer(t, flags...)
	s.server.until(t, "get namespaces")
	var err error
	s.connection, err = clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	require.NoError(t, err)
	s.connection.QPS = -1
	s.core, err = client.NewForConfig(s.connection)
	require.NoError(t, err)
	s.rest = s.core.RESTClient()
}

// agent starts an agent as a process.
func (s *scene) agent(t *testing.T, flags ...string) *process {
	t.Helper()
	return startAgent(t, append([]string{"--kubeconfig", s.kubeconfig}, flags...)...)
}

// create creates a namespace with finalizers, and objects named "type/name".
func (s *scene) create(t *testing.T, name string, finalizers []corev1.FinalizerName, objects ...string) *corev1.Namespace {
	t.Helper()
	ns, err := s.core.Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NamespaceSpec{Finalizers: finalizers},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	for _, o := range objects {
		s.put(t, name, o)
	}
	return ns
}

// put creates the object "type/name" with finalizers.
func (s *scene) put(t *testing.T, namespace, object string, finalizers ...string) {
	t.Helper()
	kind, name, _ := strings.Cut(object, "/")
	path := strings.TrimSuffix(s.path(namespace, object), "/"+name)
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"name": name, "finalizers": finalizers},
		"spec":     map[string]any{"size": 1}, // required by widgets
	})
	require.NoError(t, err)
	if kind == "configmaps" || kind == "secrets" {
		body, err = json.Marshal(map[string]any{"metadata": map[string]any{"name": name, "finalizers": finalizers}})
		require.NoError(t, err)
	}
	require.NoError(t, s.rest.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).Do(t.Context()).Error())
}

// path returns the path of the object "type/name".
func (s *scene) path(namespace, object string) string {
	root := "/apis/example.com/v1"
	if strings.HasPrefix(object, "configmaps") || strings.HasPrefix(object, "secrets") {
		root = "/api/v1"
	}
	return root + "/namespaces/" + namespace + "/" + object
}

// release removes the finalizers of an object.
func (s *scene) release(t *testing.T, namespace, object string) {
	t.Helper()
	require.NoError(t, s.rest.Patch(types.MergePatchType).AbsPath(s.path(namespace, object)).Body([]byte(`{"metadata":{"finalizers":null}}`)).Do(t.Context()).Error())
}

// left returns the remaining objects of some types, as "type/name".
func (s *scene) left(t *testing.T, namespace string, kinds ...string) []string {
	t.Helper()
	var objects []string
	for _, kind := range kinds {
		var list metav1.PartialObjectMetadataList
		text, err := s.rest.Get().AbsPath(s.path(namespace, kind)).SetHeader("Accept", "application/json").DoRaw(t.Context())
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &list))
		for _, o := range list.Items {
			objects = append(objects, kind+"/"+o.Name)
		}
	}
	return objects
}

// remove deletes a namespace and returns it.
func (s *scene) remove(t *testing.T, name string) *corev1.Namespace {
	t.Helper()
	ns := &corev1.Namespace{}
	require.NoError(t, s.rest.Delete().Resource("namespaces").Name(name).Do(t.Context()).Into(ns))
	return ns
}

// await watches a namespace from a version on until a condition holds.
func (s *scene) await(t *testing.T, name, from string, until func(watch.EventType, *corev1.Namespace) bool) *corev1.Namespace {
	t.Helper()
	w, err := s.core.Namespaces().Watch(t.Context(), metav1.ListOptions{ResourceVersion: from})
	require.NoError(t, err)
	defer w.Stop()
	for e := range w.ResultChan() {
		if ns, ok := e.Object.(*corev1.Namespace); ok && ns.Name == name && until(e.Type, ns) {
			return ns
		}
	}
	t.Fatal("the watch ended first")
	return nil
}

func gone(kind watch.EventType, _ *corev1.Namespace) bool { return kind == watch.Deleted }

// conditions formats the conditions of a namespace.
func conditions(ns *corev1.Namespace) string {
	var b strings.Builder
	for _, c := range ns.Status.Conditions {
		fmt.Fprintf(&b, "    %s %s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	return b.String()
}

// masked replaces addresses, which differ between runs.
func masked(text string) string {
	return regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(text, "ADDRESS")
}

// front is a proxy of the API server that injects failures.
type front struct {
	address string

	mu      sync.Mutex
	backend *url.URL
	before  func(http.ResponseWriter, *http.Request) bool // whether to forward; nil: always
	methods map[string]int
	cut     func() // closes the connections of clients
}

// newFront returns a front that listens.
func newFront(t *testing.T, s *scene) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &front{methods: map[string]int{}}
	f.lead(t, s)
	f.open(t, l)
	return f
}

// open serves on l until the test ends.
func (f *front) open(t *testing.T, l net.Listener) {
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(f.target()) },
		FlushInterval: -1, // watches
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.methods[r.Method]++
		before := f.before
		f.mu.Unlock()
		if before == nil || before(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	_ = server.Listener.Close() // replaced
	server.Listener = l
	server.Start()
	f.address, f.cut = server.URL, server.CloseClientConnections
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
}

// lead directs the front to the API server of s.
func (f *front) lead(t *testing.T, s *scene) {
	t.Helper()
	backend, err := url.Parse(s.connection.Host)
	require.NoError(t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.backend = backend
}

func (f *front) target() *url.URL {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.backend
}

// meet sets a filter for requests; nil removes it.
func (f *front) meet(before func(http.ResponseWriter, *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = before
}

// user writes a kubeconfig for another user.
func (s *scene) user(t *testing.T, name string) string {
	t.Helper()
	k, err := clientcmd.LoadFromFile(s.kubeconfig)
	require.NoError(t, err)
	require.Contains(t, k.Contexts, name)
	k.CurrentContext = name
	return s.write(t, k)
}

// write writes a kubeconfig file.
func (s *scene) write(t *testing.T, k *api.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*k, path))
	return path
}
