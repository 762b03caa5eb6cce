package conformance

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// host is an API server over a registry in memory, reached over HTTP. It runs no controller: the
// test is the controller.
type host struct {
	store    store.Store
	registry *registry.Registry
	address  string // http://127.0.0.1:port

	mu       sync.Mutex
	requests map[string]int // by method and path
}

// start starts a host with config maps, secrets, widgets.example.com and further custom types. It
// ends with the test, after a check of the rules.
func start(t testing.TB, further int) *host {
	t.Helper()
	list := []kinds.Kind{kinds.ConfigMaps(), kinds.Secrets(), kinds.Custom(custom("widgets", "Widget"))}
	for i := range further {
		n := strconv.Itoa(i)
		list = append(list, kinds.Custom(custom("things"+n, "Thing"+n)))
	}
	var types []registry.Type
	for _, k := range list {
		types = append(types, k.Type)
	}
	s, err := memory.New(nil)
	require.NoError(t, err)
	r, err := registry.New(s, &registry.Options{Types: types, Finalizer: finalizer.Kubernetes})
	require.NoError(t, err)
	server, err := apiserver.New(r, list, nil)
	require.NoError(t, err)
	h := &host{store: s, registry: r, requests: map[string]int{}}
	listener := httptest.NewServer(h.counting(server))
	h.address = listener.URL
	t.Cleanup(func() {
		require.NoError(t, server.Close()) // ends watches, which would delay the next line
		listener.Close()
		require.NoError(t, r.Close())
		require.NoError(t, registrytest.Check(context.WithoutCancel(t.Context()), s, "registry"))
		require.NoError(t, s.Close())
	})
	return h
}

func custom(resource, kind string) registry.Type {
	return registry.Type{Group: "example.com", Version: "v1", Resource: resource, Kind: kind, Namespaced: true, Status: true}
}

// counting counts requests.
func (h *host) counting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.requests[r.Method+" "+r.URL.Path]++
		h.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

// requested returns the number of requests whose method and path begin with prefix, such as "GET
// /api/v1/namespaces".
func (h *host) requested(prefix string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for request, times := range h.requests {
		if strings.HasPrefix(request, prefix) {
			n += times
		}
	}
	return n
}

// config returns a client configuration whose limits do not slow a test.
func (h *host) config() *rest.Config { return &rest.Config{Host: h.address, QPS: -1} }
