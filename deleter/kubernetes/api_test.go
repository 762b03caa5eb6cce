package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

var (
	podsResource = namespace.ResourceType{Name: "pods"}
	podsType     = typeInfo{gvr: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, verbs: canList | canDelete | canDeleteCollection | canWatch}
)

// api is an API server with the namespace "x" and pods in it, as far as content needs one, and
// real clients of it. Requests go over pipes, so that it works in virtual time too.
type api struct {
	t       *testing.T
	config  *rest.Config
	content metadata.Interface
	spaces  corev1client.NamespaceInterface
	target  deleter.Target

	mu       sync.Mutex
	uid      types.UID // of the namespace; empty if it does not exist
	active   bool
	pods     []metav1.ObjectMeta
	version  int
	requests []string // method and path of each request
	before   func(w http.ResponseWriter, r *http.Request) (answered bool)
	after    func(r *http.Request)
}

// pod returns an object without finalizers.
func pod(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "x", UID: types.UID("uid-of-" + name)}
}

func newAPI(t *testing.T, pods ...metav1.ObjectMeta) *api {
	t.Helper()
	a := &api{t: t, uid: "one", pods: pods, version: 10}
	a.target = deleter.Target{Namespace: "x", UID: "one", DeletedAt: time.Now()}
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: a}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	transport := &http.Transport{DialContext: l.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	a.connect(&rest.Config{Host: "http://api.test", QPS: -1, Transport: transport})
	return a
}

// connect creates the clients.
func (a *api) connect(config *rest.Config) {
	a.t.Helper()
	a.config = config
	clients, err := clientsFor(config, time.Minute)
	require.NoError(a.t, err)
	a.content, a.spaces = clients.Metadata, clients.Namespaces
}

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.IPAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// fences returns a new memory of incarnations over the api.
func (a *api) fences(recheck time.Duration) *incarnations {
	return newIncarnations(func(ctx context.Context, name string) (*corev1.Namespace, error) {
		return a.spaces.Get(ctx, name, metav1.GetOptions{})
	}, recheck)
}

// of returns the content of a type with a memory of incarnations of its own. No type is ever
// absent.
func (a *api) of(t typeInfo, recheck time.Duration) *content {
	never := func(context.Context, namespace.ResourceType) (bool, error) { return false, nil }
	return newContent(t, a.content, a.fences(recheck), never, false).(*content)
}

// asked returns the requests since the last call.
func (a *api) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	requests := a.requests
	a.requests = nil
	return requests
}

// names returns the names of the existing pods.
func (a *api) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := []string{}
	for _, p := range a.pods {
		names = append(names, p.Name)
	}
	return names
}

// replace replaces the namespace by another incarnation, with other pods of the same names.
func (a *api) replace(active bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.uid, a.active = "two", active
	for i := range a.pods {
		a.pods[i].UID += "-again"
	}
}

// remove removes the namespace with everything in it.
func (a *api) remove() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.uid, a.pods = "", nil
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	request := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/")
	if r.URL.Query().Get("watch") != "" {
		request = "WATCH " + strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/")
	}
	a.requests = append(a.requests, request)
	before, after := a.before, a.after
	a.mu.Unlock()
	if before != nil && before(w, r) {
		return
	}
	a.answer(w, r, strings.Split(strings.Trim(r.URL.Path, "/"), "/")[2:])
	if after != nil {
		after(r)
	}
}

// answer serves namespaces/x, namespaces/x/pods and namespaces/x/pods/name.
func (a *api) answer(w http.ResponseWriter, r *http.Request, path []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case len(path) == 2:
		a.namespace(w, path[1])
	case len(path) == 3 && r.Method == http.MethodGet:
		a.list(w, r)
	case len(path) == 3:
		a.pods = nil
		refuse(w, http.StatusOK, metav1.StatusSuccess, "")
	default:
		a.one(w, r, path[3])
	}
}

func (a *api) namespace(w http.ResponseWriter, name string) {
	if a.uid == "" {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, `namespaces "x" not found`)
		return
	}
	ns := corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: a.uid, DeletionTimestamp: &metav1.Time{Time: time.Now()}},
	}
	if a.active {
		ns.DeletionTimestamp = nil
	}
	write(w, http.StatusOK, ns)
}

// list serves a page. Its token is the number of objects listed so far.
func (a *api) list(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	list := metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(a.version)},
	}
	upTo := len(a.pods)
	if limit > 0 && from+limit < upTo {
		upTo = from + limit
		rest := int64(len(a.pods) - upTo)
		list.Continue, list.RemainingItemCount = strconv.Itoa(upTo), &rest
	}
	for _, p := range a.pods[min(from, upTo):upTo] {
		list.Items = append(list.Items, partial(p))
	}
	write(w, http.StatusOK, list)
}

func partial(m metav1.ObjectMeta) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: m,
	}
}

func (a *api) one(w http.ResponseWriter, r *http.Request, name string) {
	i := slices.IndexFunc(a.pods, func(p metav1.ObjectMeta) bool { return p.Name == name })
	if i < 0 {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("pods %q not found", name))
		return
	}
	if r.Method == http.MethodGet {
		write(w, http.StatusOK, partial(a.pods[i]))
		return
	}
	var options metav1.DeleteOptions
	if err := json.NewDecoder(r.Body).Decode(&options); err != nil {
		a.t.Errorf("delete options: %v", err)
	}
	if p := options.PropagationPolicy; p == nil || *p != metav1.DeletePropagationBackground {
		a.t.Errorf("the deletion of %s is not in the background", name)
	}
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != a.pods[i].UID {
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict, fmt.Sprintf("Operation cannot be fulfilled on pods %q: "+
			"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated",
			name, *p.UID, a.pods[i].UID))
		return
	}
	a.pods = slices.Delete(a.pods, i, i+1)
	refuse(w, http.StatusOK, metav1.StatusSuccess, "")
}

// refuse answers with a Status.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Message: message,
	}
	if code < 300 {
		status.Status, status.Reason = metav1.StatusSuccess, ""
	}
	write(w, code, status)
}

func write(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
}
