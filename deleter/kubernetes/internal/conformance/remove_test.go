package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
)

const held finalizer.Name = "example.com/held"

// Objects are removed over HTTP by uid, finalizers included, of custom and built-in types.
func TestRemove(t *testing.T) {
	for _, kind := range []schema.GroupVersionResource{
		{Group: "example.com", Version: "v1", Resource: "widgets"}, {Version: "v1", Resource: "configmaps"},
	} {
		t.Run(kind.Resource, func(t *testing.T) {
			h := start(t, 0)
			cluster, err := kubernetes.ForConfig(h.config(), nil)
			require.NoError(t, err)
			resource := namespace.ResourceType{Group: kind.Group, Name: kind.Resource}
			objects, err := h.registry.Content(resource)
			require.NoError(t, err)
			require.NoError(t, h.fill(t.Context(), objects, "n", []contenttest.Object{
				{Name: "plain"}, {Name: "held", Finalizers: []string{string(held), "example.com/other"}}, {Name: "stays"},
			}))
			remove := func(name, uid string, release ...finalizer.Name) bool {
				t.Helper()
				gone, err := cluster.RemoveObject(t.Context(), resource, "n", name, uid, release)
				require.NoError(t, err)
				return gone
			}
			uid := func(name string) string {
				t.Helper()
				o, err := objects.Get(t.Context(), "n", name)
				require.NoError(t, err)
				return o.UID
			}
			require.True(t, remove("plain", uid("plain")))
			require.True(t, remove("stays", "another"), "R8: the object with the uid is gone")
			one := uid("held")
			require.False(t, remove("held", one, held), "another finalizer holds it")
			o, err := objects.Get(t.Context(), "n", "held")
			require.NoError(t, err)
			require.Equal(t, []finalizer.Name{"example.com/other"}, o.Finalizers.Names())
			require.False(t, o.DeletionTimestamp.IsZero())
			require.True(t, remove("held", one, "example.com/other"))
			require.True(t, remove("held", one))
			names, err := namesOf(t.Context(), objects, "n")
			require.NoError(t, err)
			require.Equal(t, []string{"stays"}, names)
		})
	}
}

// Content that a forced namespace left behind can be removed over HTTP too.
func TestRemoveAfterTheNamespace(t *testing.T) {
	h := start(t, 0)
	cluster, err := kubernetes.ForConfig(h.config(), nil)
	require.NoError(t, err)
	widgets := namespace.ResourceType{Group: "example.com", Name: "widgets"}
	objects, err := h.registry.Content(widgets)
	require.NoError(t, err)
	require.NoError(t, h.fill(t.Context(), objects, "n", []contenttest.Object{{Name: "left", Finalizers: []string{string(held)}}}))
	o, err := objects.Get(t.Context(), "n", "left")
	require.NoError(t, err)
	_, err = h.registry.Delete(t.Context(), "n", namespace.Preconditions{})
	require.NoError(t, err)
	ns, err := cluster.Namespaces().Get(t.Context(), "n")
	require.NoError(t, err)
	ns.Spec.Finalizers = finalizer.Set{}
	_, err = cluster.Namespaces().Finalize(t.Context(), ns)
	require.NoError(t, err)

	gone, err := cluster.RemoveObject(t.Context(), widgets, "n", "left", o.UID, nil)
	require.NoError(t, err)
	require.False(t, gone, "its finalizer blocks it")
	gone, err = cluster.RemoveObject(t.Context(), widgets, "n", "left", o.UID, []finalizer.Name{held})
	require.NoError(t, err)
	require.True(t, gone)
}

// The same on Kubernetes' own API server.
func TestRemoveOnKubernetes(t *testing.T) {
	w := newWorld(t, realKubernetes(t, "admin"))
	cluster, err := kubernetes.ForConfig(w.config, nil)
	require.NoError(t, err)
	configMaps := namespace.ResourceType{Name: "configmaps"}
	ns := w.namespace(unique("swept")).Name
	require.NoError(t, w.createConfigMap(t.Context(), ns, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{string(held), "example.com/other"}},
	}))
	o, err := w.client.CoreV1().ConfigMaps(ns).Get(t.Context(), "held", metav1.GetOptions{})
	require.NoError(t, err)
	for _, step := range []struct {
		uid     string
		release []finalizer.Name
		gone    bool
	}{
		{"another", []finalizer.Name{held}, true},
		{string(o.UID), []finalizer.Name{held}, false},
		{string(o.UID), []finalizer.Name{"example.com/other"}, true},
		{string(o.UID), nil, true},
	} {
		gone, err := cluster.RemoveObject(t.Context(), configMaps, ns, "held", step.uid, step.release)
		require.NoError(t, err)
		require.Equal(t, step.gone, gone, "%+v", step)
	}
	names, err := w.configMapNames(t.Context(), ns)
	require.NoError(t, err)
	require.NotContains(t, names, "held")
}
