package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	cluster "github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
)

// control runs a controller of a party against an API server until the test ends.
func control(t *testing.T, config *rest.Config, party finalizer.Name, o *cluster.Options) {
	t.Helper()
	c, err := cluster.ForConfig(config, o)
	require.NoError(t, err)
	emptier, err := controller.New(c.Namespaces(), c.Deleter(), namespace.Party{Finalizer: party}, nil)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error)
	go func() { ended <- emptier.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
}

// runs makes names unique, because repeated tests of one binary share one server.
var runs atomic.Int64

func unique(name string) string { return fmt.Sprintf("%s%d", name, runs.Add(1)) }

// world is an API server with clients.
type world struct {
	*testing.T
	config *rest.Config
	client *kubernetes.Clientset
	meta   metadata.Interface
}

func newWorld(t *testing.T, config *rest.Config) *world {
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	meta, err := metadata.NewForConfig(config)
	require.NoError(t, err)
	return &world{T: t, config: config, client: client, meta: meta}
}

func (w *world) namespace(name string, finalizers ...corev1.FinalizerName) *corev1.Namespace {
	w.Helper()
	ns, err := w.client.CoreV1().Namespaces().Create(w.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NamespaceSpec{Finalizers: finalizers},
	}, metav1.CreateOptions{})
	require.NoError(w, err)
	return ns
}

func (w *world) configMaps(ns string, n int) {
	w.Helper()
	for i := range n {
		_, err := w.client.CoreV1().ConfigMaps(ns).Create(w.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}}, metav1.CreateOptions{})
		require.NoError(w, err)
	}
}

// post creates an object without a Go type.
func (w *world) post(path string, object map[string]any) {
	w.Helper()
	body, err := json.Marshal(object)
	require.NoError(w, err)
	require.NoError(w, w.client.RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).Do(w.Context()).Error())
}

// define creates a type with a CustomResourceDefinition and waits until discovery shows it.
func (w *world) define(group, resource, kind string) {
	w.Helper()
	w.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": resource + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"plural": resource, "kind": kind},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}},
		},
	})
	for !w.discovered(group, resource) {
		select {
		case <-w.Context().Done():
			require.NoError(w, context.Cause(w.Context()))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// discovered reports whether discovery shows a type. It does so some time after the type is
// served.
func (w *world) discovered(group, resource string) bool {
	lists, _ := w.client.Discovery().ServerPreferredNamespacedResources() // other tests add and remove types
	for _, list := range lists {
		if list.GroupVersion == group+"/v1" {
			return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource })
		}
	}
	return false
}

// patience bounds a wait for an expected event.
const patience = time.Minute

// await watches a namespace from a resource version on until so holds, and returns it.
func (w *world) await(from *corev1.Namespace, so func(watch.EventType, *corev1.Namespace) bool) *corev1.Namespace {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	events, err := w.client.CoreV1().Namespaces().Watch(ctx, metav1.ListOptions{
		ResourceVersion: from.ResourceVersion, FieldSelector: "metadata.name=" + from.Name,
	})
	require.NoError(w, err)
	defer events.Stop()
	last := ""
	for e := range events.ResultChan() {
		ns, ok := e.Object.(*corev1.Namespace)
		require.True(w, ok, "%+v", e.Object)
		if so(e.Type, ns) {
			return ns
		}
		last = fmt.Sprintf("%s %+v", e.Type, ns.Status)
	}
	require.FailNow(w, "the watch ended first", last)
	return nil
}

func removed(kind watch.EventType, _ *corev1.Namespace) bool { return kind == watch.Deleted }

// saying reports whether a condition of the namespace has a message.
func saying(message string) func(watch.EventType, *corev1.Namespace) bool {
	return func(_ watch.EventType, ns *corev1.Namespace) bool {
		for _, c := range ns.Status.Conditions {
			if c.Message == message {
				return true
			}
		}
		return false
	}
}

// delete deletes a namespace and returns it as in the answer, before any write of a controller.
func (w *world) delete(name string) *corev1.Namespace {
	w.Helper()
	ns := new(corev1.Namespace)
	require.NoError(w, w.client.CoreV1().RESTClient().Delete().Resource("namespaces").Name(name).Do(w.Context()).Into(ns))
	return ns
}

// force removes all finalizers of a namespace, so that nothing of the test remains.
func (w *world) force(name string) {
	w.Helper()
	require.NoError(w, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		ns, err := w.client.CoreV1().Namespaces().Get(w.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ns.Spec.Finalizers = nil
		_, err = w.client.CoreV1().Namespaces().Finalize(w.Context(), ns, metav1.UpdateOptions{})
		return err
	}))
}

func (w *world) count(gvr schema.GroupVersionResource, ns string) int {
	w.Helper()
	list, err := w.meta.Resource(gvr).Namespace(ns).List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	return len(list.Items)
}

// conditions returns the conditions of a namespace without their times.
func conditions(ns *corev1.Namespace) (list [][4]string) {
	for _, c := range ns.Status.Conditions {
		list = append(list, [4]string{string(c.Type), string(c.Status), c.Reason, c.Message})
	}
	return list
}

// In place of the stock namespace controller: pods are deleted first, and nothing else before they
// are gone (CVE-2024-7598). The conditions name blocked content. All five read as those of the
// stock controller, but never claim an emptiness that was not observed
// (kubernetes/kubernetes#138208).
func TestKubernetesDropIn(t *testing.T) {
	w := newWorld(t, realKubernetes(t, "admin"))
	control(t, w.config, finalizer.Kubernetes, &cluster.Options{QuietTwice: true})
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	widgets := schema.GroupVersionResource{Group: unique("dropin") + ".example.com", Version: "v1", Resource: "widgets"}
	w.define(widgets.Group, widgets.Resource, "Widget")

	ns := w.namespace(unique("dropin"))
	w.configMaps(ns.Name, 20)
	for name, finalizers := range map[string][]string{"free": nil, "held": {"example.com/hold"}} {
		w.post("/apis/"+widgets.Group+"/v1/namespaces/"+ns.Name+"/widgets", map[string]any{
			"apiVersion": widgets.Group + "/v1", "kind": "Widget", "metadata": map[string]any{"name": name, "finalizers": finalizers},
		})
	}
	// A running pod takes some time to end.
	_, err := w.client.CoreV1().Pods(ns.Name).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "busy"},
		Spec:       corev1.PodSpec{NodeName: "somewhere", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	ns = w.await(w.delete(ns.Name), saying("Some resources are remaining: pods. has 1 resource instances"))
	require.Empty(t, cmp.Diff([][4]string{
		{"NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", "All resources successfully discovered"},
		{"NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions", "All legacy kube types successfully parsed"},
		{"NamespaceDeletionContentFailure", "False", "ContentDeleted", "All content successfully deleted, may be waiting on finalization"},
		{"NamespaceContentRemaining", "True", "SomeResourcesRemain", "Some resources are remaining: pods. has 1 resource instances"},
		{"NamespaceFinalizersRemaining", "Unknown", "FinalizersUnknown", "No remaining finalizers were seen, but not every resource type gave a full answer: some wait for others to be empty, or were not fully listed"},
		{"NamespaceContentLastSeen", "True", "ContentSeen", `{"pods":1}`},
	}, conditions(ns)))
	require.Equal(t, 20, w.count(configMaps, ns.Name), "other content stays until the pod is gone")
	require.Equal(t, 2, w.count(widgets, ns.Name))

	now := int64(0) // done by the node when the pod has ended
	require.NoError(t, w.client.CoreV1().Pods(ns.Name).Delete(t.Context(), "busy", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	ns = w.await(ns, saying("Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"))
	require.Empty(t, cmp.Diff([][4]string{
		{"NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", "All resources successfully discovered"},
		{"NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions", "All legacy kube types successfully parsed"},
		{"NamespaceDeletionContentFailure", "False", "ContentDeleted", "All content successfully deleted, may be waiting on finalization"},
		{"NamespaceContentRemaining", "True", "SomeResourcesRemain", "Some resources are remaining: widgets." + widgets.Group + " has 1 resource instances"},
		{"NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"},
		{"NamespaceContentLastSeen", "True", "ContentSeen", `{"widgets.` + widgets.Group + `":1}`},
	}, conditions(ns)))
	require.Zero(t, w.count(configMaps, ns.Name))

	_, err = w.meta.Resource(widgets).Namespace(ns.Name).Patch(t.Context(), "held", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	w.await(ns, removed)
}

// A type that is defined and filled just before its namespace is deleted is content too (rule R7).
func TestKubernetesR7_NewType(t *testing.T) {
	w := newWorld(t, realKubernetes(t, "admin"))
	control(t, w.config, finalizer.Kubernetes, &cluster.Options{QuietTwice: true})
	before := w.namespace(unique("before-new-type"))
	w.await(w.delete(before.Name), removed) // fills the catalog
	ns := w.namespace(unique("new-type"))
	gadgets := schema.GroupVersionResource{Group: unique("newtype") + ".example.com", Version: "v1", Resource: "gadgets"}
	w.define(gadgets.Group, gadgets.Resource, "Gadget")
	w.post("/apis/"+gadgets.Group+"/v1/namespaces/"+ns.Name+"/gadgets", map[string]any{
		"apiVersion": gadgets.Group + "/v1", "kind": "Gadget", "metadata": map[string]any{"name": "held", "finalizers": []string{"example.com/hold"}},
	})
	ns = w.await(w.delete(ns.Name), saying("Some resources are remaining: gadgets."+gadgets.Group+" has 1 resource instances"))
	_, err := w.meta.Resource(gadgets).Namespace(ns.Name).Patch(t.Context(), "held", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	w.await(ns, removed)
}

// A missing permission for one type is a failure of that type alone.
func TestKubernetesForbiddenType(t *testing.T) {
	w := newWorld(t, realKubernetes(t, "admin"))
	role := func(kind, name string, more map[string]any) map[string]any {
		object := map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": map[string]any{"name": name}}
		for k, v := range more {
			object[k] = v
		}
		return object
	}
	name := unique("agent")
	w.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", role("ClusterRole", name, map[string]any{"rules": []any{
		map[string]any{"apiGroups": []string{""}, "resources": []string{"namespaces", "namespaces/status", "namespaces/finalize"}, "verbs": []string{"*"}},
		map[string]any{"apiGroups": []string{""}, "resources": []string{"configmaps", "pods"}, "verbs": []string{"list", "watch", "delete", "deletecollection"}},
	}}))
	w.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", role("ClusterRoleBinding", name, map[string]any{
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "guest"}},
	}))
	control(t, realKubernetes(t, "guest"), "example.com/agent", &cluster.Options{Wait: -1, Only: resources("configmaps", "secrets")})

	ns := w.namespace(unique("forbidden"), "example.com/agent")
	w.configMaps(ns.Name, 3)
	ns = w.await(w.delete(ns.Name), func(_ watch.EventType, ns *corev1.Namespace) bool {
		for _, c := range ns.Status.Conditions {
			if c.Type == "example.com/agent.NamespaceDeletionContentFailure" && c.Status == corev1.ConditionTrue {
				require.Contains(t, c.Message, `Failed to delete all resource types, 1 remaining: secrets: `)
				require.Contains(t, c.Message, `secrets is forbidden: User "guest" cannot`)
				return true
			}
		}
		return false
	})
	require.Zero(t, w.count(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, ns.Name))
	require.Contains(t, ns.Spec.Finalizers, corev1.FinalizerName("example.com/agent"))
	w.force(ns.Name)
}

func resources(names ...string) (list []namespace.ResourceType) {
	for _, name := range names {
		list = append(list, namespace.ResourceType{Name: name})
	}
	return list
}
