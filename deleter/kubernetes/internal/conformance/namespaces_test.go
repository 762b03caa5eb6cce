package conformance

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/store"
)

// Namespaces over HTTP are what a controller relies on, in both encodings.
func TestNamespacesConform(t *testing.T) {
	for name, encoding := range map[string]string{"JSON": runtime.ContentTypeJSON, "protobuf": runtime.ContentTypeProtobuf} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(t *testing.T) controllertest.Backend {
				h := start(t, 0)
				config := h.config()
				config.ContentType = encoding
				return h.backend(t, config)
			})
		})
	}
}

// They are it also where the server cannot select what terminates.
func TestNamespacesConformWithoutSelector(t *testing.T) {
	controllertest.Run(t, func(t *testing.T) controllertest.Backend {
		h := start(t, 0)
		return h.backend(t, &rest.Config{Host: refusing(t, h.address), QPS: -1})
	})
}

// backend is the host as its clients see and change it. What they create is held by
// its finalizers only.
func (h *host) backend(t *testing.T, config *rest.Config) controllertest.Backend {
	t.Helper()
	c, err := kubernetes.ForConfig(config, nil)
	require.NoError(t, err)
	// As in Kubernetes something is there from the start. The resource version of a store
	// without any history, "0", means "any" to a watch.
	_, err = h.registry.Create(t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: "default"}})
	require.NoError(t, err)
	return controllertest.Backend{
		Namespaces: c.Namespaces(),
		Create:     h.registry.Create,
		Delete: func(ctx context.Context, name string) error {
			_, err := h.registry.Delete(ctx, name, namespace.Preconditions{})
			return err
		},
		Forget: func(ctx context.Context) error {
			page, err := h.store.List(ctx, store.Query{Prefix: "/", Limit: 1})
			if err != nil {
				return err
			}
			return h.store.(store.Compactor).Compact(ctx, page.Position.Revision)
		},
	}
}

// refusing is a server in front of another that refuses every field selector.
func refusing(t *testing.T, address string) string {
	t.Helper()
	to, err := url.Parse(address)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("fieldSelector") == "" {
			proxy.ServeHTTP(w, r)
			return
		}
		status := apierrors.NewBadRequest("field label not supported: status.phase").ErrStatus
		status.Kind, status.APIVersion = "Status", "v1"
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(status)
	}))
	t.Cleanup(s.Close)
	return s.URL
}
