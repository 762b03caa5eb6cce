package conformance

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	cluster "github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
)

const agent = "example.com/agent"

// control runs the host's own controller, as `kubernetes`, until the test ends.
func (h *host) control(t *testing.T) {
	t.Helper()
	d, err := h.registry.Deleter(nil)
	require.NoError(t, err)
	c, err := controller.New(h.registry, d, namespace.Party{Finalizer: finalizer.Kubernetes}, nil)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
}

// hold creates a config map with a finalizer.
func (w *world) hold(ns string) {
	w.Helper()
	_, err := w.client.CoreV1().ConfigMaps(ns).Create(w.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/hold"}}}, metav1.CreateOptions{})
	require.NoError(w, err)
}

func (w *world) letGo(ns string) {
	w.Helper()
	_, err := w.client.CoreV1().ConfigMaps(ns).Patch(w.Context(), "held", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(w, err)
}

// until is await for a condition that may hold already.
func (w *world) until(ns *corev1.Namespace, so func(*corev1.Namespace) bool) *corev1.Namespace {
	w.Helper()
	if so(ns) {
		return ns
	}
	return w.await(ns, func(_ watch.EventType, ns *corev1.Namespace) bool { return so(ns) })
}

// statuses returns the conditions of a namespace by type.
func statuses(ns *corev1.Namespace) map[string]string {
	m := map[string]string{}
	for _, c := range ns.Status.Conditions {
		m[string(c.Type)] = string(c.Status) + " " + c.Reason
	}
	return m
}

// waitingFor adds the conditions that a party writes while content is blocked.
func waitingFor(into map[string]string, prefix string) map[string]string {
	for what, status := range map[string]string{
		"NamespaceDeletionDiscoveryFailure":           "False ResourcesDiscovered",
		"NamespaceDeletionGroupVersionParsingFailure": "False ParsedGroupVersions",
		"NamespaceDeletionContentFailure":             "False ContentDeleted",
		"NamespaceContentRemaining":                   "True SomeResourcesRemain",
		"NamespaceFinalizersRemaining":                "True SomeFinalizersRemain",
		"NamespaceContentLastSeen":                    "True ContentSeen",
	} {
		into[prefix+what] = status
	}
	return into
}

// A second party works beside the server's own controller. Both empty the namespace and write
// conditions of their own. It is removed when both have finalized it, not before.
func TestTwoParties(t *testing.T) {
	h := start(t, 3)
	h.control(t)
	control(t, h.config(), agent, &cluster.Options{Wait: -1})
	twoParties(newWorld(t, h.config()))
}

// The same on Kubernetes' own API server, with both parties of this library.
func TestKubernetesTwoParties(t *testing.T) {
	config := realKubernetes(t, "admin")
	control(t, config, finalizer.Kubernetes, &cluster.Options{QuietTwice: true})
	control(t, config, agent, &cluster.Options{QuietTwice: true})
	twoParties(newWorld(t, config))
}

func twoParties(w *world) {
	both := waitingFor(waitingFor(map[string]string{}, ""), agent+".")
	var doomed []*corev1.Namespace
	for i := range 5 {
		ns := w.namespace(fmt.Sprint("parties", i), agent)
		require.ElementsMatch(w, []corev1.FinalizerName{"kubernetes", agent}, ns.Spec.Finalizers)
		w.configMaps(ns.Name, 3)
		w.hold(ns.Name)
		doomed = append(doomed, w.delete(ns.Name))
	}
	for i, ns := range doomed {
		doomed[i] = w.until(ns, func(ns *corev1.Namespace) bool { return cmp.Equal(both, statuses(ns)) })
		require.Len(w, doomed[i].Spec.Finalizers, 2)
	}
	for _, ns := range doomed {
		w.letGo(ns.Name)
		w.await(ns, removed)
	}
}

// A late party adds its finalizer while the namespace is terminating.
func TestLateParty(t *testing.T) {
	h := start(t, 0)
	w := newWorld(t, h.config())
	control(t, h.config(), agent, &cluster.Options{Wait: -1})
	ns := w.namespace("late")
	w.hold(ns.Name)
	ns = w.delete(ns.Name)
	ns.Spec.Finalizers = append(ns.Spec.Finalizers, agent)
	ns, err := w.client.CoreV1().Namespaces().Finalize(t.Context(), ns, metav1.UpdateOptions{})
	require.NoError(t, err)
	want := waitingFor(map[string]string{}, agent+".")
	ns = w.until(ns, func(ns *corev1.Namespace) bool { return cmp.Equal(want, statuses(ns)) })
	w.letGo(ns.Name)
	ns = w.until(ns, func(ns *corev1.Namespace) bool { return len(ns.Spec.Finalizers) == 1 })
	require.Equal(t, []corev1.FinalizerName{"kubernetes"}, ns.Spec.Finalizers)
}

// killing ends a context at one request, which is not sent.
type killing struct {
	http.RoundTripper
	at   func(*http.Request) bool
	kill context.CancelFunc
}

func (k killing) RoundTrip(r *http.Request) (*http.Response, error) {
	if k.at(r) {
		k.kill()
		return nil, context.Canceled
	}
	return k.RoundTripper.RoundTrip(r)
}

// If a controller is killed in mid-pass, at any request, the next one finishes the namespace (rule
// R11).
func TestR11_KilledInMidPass(t *testing.T) {
	for step, at := range map[string]func(*http.Request) bool{
		"list":   func(r *http.Request) bool { return r.Method == "GET" && strings.Contains(r.URL.Path, "/configmaps") },
		"delete": func(r *http.Request) bool { return r.Method == "DELETE" && strings.Contains(r.URL.Path, "/configmaps") },
		"second": func(r *http.Request) bool { return r.Method == "DELETE" && strings.Contains(r.URL.Path, "/widgets") },
		"status": func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/status") },
		"finish": func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/finalize") },
	} {
		t.Run(step, func(t *testing.T) {
			h := start(t, 0)
			w := newWorld(t, h.config())
			ns := w.namespace("n")
			w.configMaps(ns.Name, 10)
			for i := range 10 {
				w.post("/apis/example.com/v1/namespaces/n/widgets", map[string]any{
					"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": fmt.Sprint("w", i)},
				})
			}
			if step == "status" {
				w.hold(ns.Name)
			}
			ns = w.delete(ns.Name)

			ctx, kill := context.WithCancel(t.Context())
			config := h.config()
			config.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return killing{next, at, kill} }
			require.NoError(t, emptier(t, config).Run(ctx))
			ns, err := w.client.CoreV1().Namespaces().Get(t.Context(), ns.Name, metav1.GetOptions{})
			require.NoError(t, err, "the namespace must not be finished yet")

			control(t, h.config(), finalizer.Kubernetes, &cluster.Options{Wait: -1})
			if step == "status" {
				w.letGo(ns.Name)
			}
			w.await(ns, removed)
		})
	}
}

// emptier returns a controller that the test runs itself.
func emptier(t *testing.T, config *rest.Config) *controller.Controller {
	t.Helper()
	c, err := cluster.ForConfig(config, &cluster.Options{Wait: -1})
	require.NoError(t, err)
	e, err := controller.New(c.Namespaces(), c.Deleter(), namespace.Party{Finalizer: finalizer.Kubernetes}, nil)
	require.NoError(t, err)
	return e
}
