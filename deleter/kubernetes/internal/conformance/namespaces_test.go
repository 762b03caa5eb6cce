package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/store"
)

// Namespaces over HTTP conform to the suite for controllers, in both encodings.
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

// They also conform if the server cannot select terminating namespaces.
func TestNamespacesConformWithoutSelector(t *testing.T) {
	controllertest.Run(t, func(t *testing.T) controllertest.Backend {
		h := start(t, 0)
		return h.backend(t, &rest.Config{Host: refusing(t, h.address), QPS: -1})
	})
}

// They conform on Kubernetes' own API server too.
func TestKubernetesNamespacesConform(t *testing.T) {
	config := realKubernetes(t, "admin")
	controllertest.Run(t, func(t *testing.T) controllertest.Backend {
		w := newWorld(t, config)
		c, err := kubernetes.ForConfig(config, nil)
		require.NoError(t, err)
		var made sync.Map // names that the case created
		t.Cleanup(func() { w.clear(c.Namespaces(), &made) })
		return controllertest.Backend{
			Namespaces: c.Namespaces(),
			Create: func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
				made.Store(ns.Name, nil)
				k := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}
				for _, f := range ns.Spec.Finalizers.All() {
					k.Spec.Finalizers = append(k.Spec.Finalizers, corev1.FinalizerName(f))
				}
				if _, err := w.client.CoreV1().Namespaces().Create(ctx, k, metav1.CreateOptions{}); err != nil {
					return namespace.Namespace{}, err
				}
				return c.Namespaces().Get(ctx, ns.Name)
			},
			Delete: func(ctx context.Context, name string) error {
				return w.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
			},
		}
	})
}

// A token that the server cannot resume causes a new list, whatever the server answers. An example
// is a token from before a restore.
func TestForeignTokens(t *testing.T) {
	h := start(t, 0)
	b := h.backend(t, h.config())
	tokensOfElsewhere(t, b.Namespaces.(controller.Namespaces))
}

func TestKubernetesForeignTokens(t *testing.T) {
	c, err := kubernetes.ForConfig(realKubernetes(t, "admin"), nil)
	require.NoError(t, err)
	tokensOfElsewhere(t, c.Namespaces())
}

func tokensOfElsewhere(t *testing.T, namespaces controller.Namespaces) {
	t.Helper()
	for _, token := range []string{"1000000000", "x", "0", "-1", "1 ", "99999999999999999999999"} {
		events := 0
		for _, err := range namespaces.Terminating(t.Context(), token) {
			require.ErrorIs(t, err, namespace.ErrGone, "%q", token)
			events++
		}
		require.Equal(t, 1, events)
	}
}

// clear removes the namespaces with these names.
func (w *world) clear(namespaces *kubernetes.Namespaces, names *sync.Map) {
	ctx := context.WithoutCancel(w.Context())
	for key := range names.Range {
		name := key.(string)
		err := w.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
		require.True(w, err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err), "%v", err)
		ns, err := namespaces.Get(ctx, name)
		if errors.Is(err, namespace.ErrNotFound) {
			continue // no finalizer blocked it any more
		}
		require.NoError(w, err)
		ns.Spec.Finalizers = finalizer.Set{}
		_, err = namespaces.Finalize(ctx, ns)
		require.NoError(w, err)
	}
}

// However many namespaces are Active, following the terminating ones takes one list and one watch,
// and the server sends only terminating ones.
func TestWatchCost(t *testing.T) {
	h := start(t, 0)
	config := h.config()
	var received atomic.Int64
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return receiving{next, &received} }
	b := h.backend(t, config)
	for i := range 1000 {
		_, err := b.Create(t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: fmt.Sprint("active", i)}})
		require.NoError(t, err)
	}
	begin := func(name string) {
		_, err := b.Create(t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: name}})
		require.NoError(t, err)
		require.NoError(t, b.Delete(t.Context(), name))
	}
	begin("first")
	var names []string
	for e, err := range b.Namespaces.(controller.Namespaces).Terminating(t.Context(), "") {
		require.NoError(t, err)
		names = append(names, e.Name)
		if e.Type == namespace.EventSynced {
			begin("second")
		}
		if e.Name == "second" {
			break
		}
	}
	require.Equal(t, []string{"first", "", "second"}, names)
	require.Equal(t, 2, h.requested("GET /api/v1/namespaces"))
	require.Less(t, received.Load(), int64(4000))
}

// receiving counts the bytes of answers.
type receiving struct {
	http.RoundTripper
	bytes *atomic.Int64
}

func (r receiving) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := r.RoundTripper.RoundTrip(request)
	if err == nil {
		answer.Body = receivingBody{answer.Body, r.bytes}
	}
	return answer, err
}

type receivingBody struct {
	io.ReadCloser
	bytes *atomic.Int64
}

func (b receivingBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.bytes.Add(int64(n))
	return n, err
}

// backend is the host through its clients. Only finalizers keep the namespaces that the suite
// creates.
func (h *host) backend(t *testing.T, config *rest.Config) controllertest.Backend {
	t.Helper()
	c, err := kubernetes.ForConfig(config, nil)
	require.NoError(t, err)
	// As in Kubernetes, there is an object from the start. The resource version "0" of an empty
	// store would mean "any" to a watch.
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

// refusing is a proxy that refuses every field selector.
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
