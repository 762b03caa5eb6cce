package clients

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
)

// The forms of bodies that typed clients use.
const (
	mediaJSON     = runtime.ContentTypeJSON
	mediaProtobuf = runtime.ContentTypeProtobuf
)

var (
	widgetResource    = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	configMapResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// typed returns a clientset that uses one media type only.
func (h *host) typed(t testing.TB, media string) *kubernetes.Clientset {
	t.Helper()
	c := h.config()
	c.ContentType, c.AcceptContentTypes = media, media
	clients, err := kubernetes.NewForConfig(c)
	require.NoError(t, err)
	return clients
}

// eachMedia runs f with both media types, each on its own server.
func eachMedia(t *testing.T, f func(t *testing.T, h *host, clients *kubernetes.Clientset)) {
	for name, media := range map[string]string{"json": mediaJSON, "protobuf": mediaProtobuf} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := plan{}.start(t)
			f(t, h, h.typed(t, media))
		})
	}
}

func newNamespace(name string, finalizers ...corev1.FinalizerName) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NamespaceSpec{Finalizers: finalizers}}
}

func newConfigMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
}

// next returns the next event of a watch, without bookmarks.
func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	for {
		select {
		case e, ok := <-w.ResultChan():
			require.True(t, ok, "the watch ended")
			if e.Type != watch.Bookmark {
				return e
			}
		case <-t.Context().Done():
			t.Fatal("the test ended first")
		}
	}
}

// A typed client can use every verb on namespaces.
func TestTypedNamespaces(t *testing.T) {
	eachMedia(t, func(t *testing.T, h *host, clients *kubernetes.Clientset) {
		ctx, namespaces := t.Context(), clients.CoreV1().Namespaces()
		before, err := namespaces.List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.Len(t, before.Items, 3)
		w, err := namespaces.Watch(ctx, metav1.ListOptions{ResourceVersion: before.ResourceVersion})
		require.NoError(t, err)
		defer w.Stop()

		ns, err := namespaces.Create(ctx, newNamespace("development", "openshift.com/origin"), metav1.CreateOptions{})
		require.NoError(t, err)
		require.Equal(t, corev1.NamespaceActive, ns.Status.Phase)
		require.Equal(t, []corev1.FinalizerName{"openshift.com/origin", "kubernetes"}, ns.Spec.Finalizers)
		require.Equal(t, "development", ns.Labels["kubernetes.io/metadata.name"])
		_, err = namespaces.Create(ctx, newNamespace("development"), metav1.CreateOptions{})
		require.True(t, apierrors.IsAlreadyExists(err), "%v", err)

		read, err := namespaces.Get(ctx, "development", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, ns, read)
		ns.Labels["team"] = "a"
		ns.Spec.Finalizers = nil // rule R4: an update does not change them
		ns, err = namespaces.Update(ctx, ns, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.Len(t, ns.Spec.Finalizers, 2)
		_, err = namespaces.Update(ctx, read, metav1.UpdateOptions{})
		require.True(t, apierrors.IsConflict(err), "%v", err)
		ns, err = namespaces.Patch(ctx, "development", types.StrategicMergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		ns.Status.Conditions = []corev1.NamespaceCondition{{Type: "example.com/Seen", Status: corev1.ConditionTrue}}
		ns, err = namespaces.UpdateStatus(ctx, ns, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.Len(t, ns.Status.Conditions, 1)

		require.NoError(t, namespaces.Delete(ctx, "development", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &ns.UID}}))
		other := types.UID("another")
		err = namespaces.Delete(ctx, "development", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
		require.True(t, apierrors.IsConflict(err), "%v", err)
		_, err = clients.CoreV1().ConfigMaps("development").Create(ctx, newConfigMap("late", nil), metav1.CreateOptions{})
		require.True(t, apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), "%v", err)

		require.Equal(t, watch.Added, next(t, w).Type)
		var last watch.Event
		for last = next(t, w); last.Type == watch.Modified; last = next(t, w) {
			ns = last.Object.(*corev1.Namespace)
			if ns.Status.Phase == corev1.NamespaceTerminating && len(ns.Spec.Finalizers) == 1 {
				require.Equal(t, corev1.FinalizerName("openshift.com/origin"), ns.Spec.Finalizers[0])
				ns.Spec.Finalizers = nil
				if _, err := namespaces.Finalize(ctx, ns, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
					require.NoError(t, err)
				}
			}
		}
		require.Equal(t, watch.Deleted, last.Type)
		_, err = namespaces.Get(ctx, "development", metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
	})
}

// A typed client can use every verb on content.
func TestTypedContent(t *testing.T) {
	eachMedia(t, func(t *testing.T, h *host, clients *kubernetes.Clientset) {
		ctx, configMaps := t.Context(), clients.CoreV1().ConfigMaps("default")
		for i := range 25 {
			c := newConfigMap(fmt.Sprintf("c%02d", i), map[string]string{"i": fmt.Sprint(i)})
			c.Labels = map[string]string{"even": fmt.Sprint(i%2 == 0)}
			c.BinaryData = map[string][]byte{"b": {0, 1, 0xff, byte(i)}}
			made, err := configMaps.Create(ctx, c, metav1.CreateOptions{})
			require.NoError(t, err)
			require.Equal(t, c.BinaryData, made.BinaryData)
			require.NotEmpty(t, made.UID)
		}
		requirePages(t, configMaps.List)
		even, err := configMaps.List(ctx, metav1.ListOptions{LabelSelector: "even=true", FieldSelector: fields.OneTermNotEqualSelector("metadata.name", "c00").String()})
		require.NoError(t, err)
		require.Len(t, even.Items, 12)

		c, err := configMaps.Get(ctx, "c07", metav1.GetOptions{})
		require.NoError(t, err)
		c.Data["i"] = "seven"
		updated, err := configMaps.Update(ctx, c, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.Equal(t, "seven", updated.Data["i"])
		same, err := configMaps.Update(ctx, updated, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.Equal(t, updated.ResourceVersion, same.ResourceVersion, "an update that changes nothing")
		for _, p := range []struct {
			kind types.PatchType
			text string
		}{
			{types.MergePatchType, `{"data":{"m":"1"}}`},
			{types.JSONPatchType, `[{"op":"add","path":"/data/j","value":"1"}]`},
			{types.StrategicMergePatchType, `{"data":{"s":"1"}}`},
		} {
			_, err := configMaps.Patch(ctx, "c07", p.kind, []byte(p.text), metav1.PatchOptions{})
			require.NoError(t, err, "%s", p.kind)
		}
		applied, err := configMaps.Apply(ctx, applycorev1.ConfigMap("c07", "default").WithData(map[string]string{"a": "1"}), metav1.ApplyOptions{FieldManager: "test"})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"i": "seven", "m": "1", "j": "1", "s": "1", "a": "1"}, applied.Data)

		require.NoError(t, configMaps.Delete(ctx, "c07", metav1.DeleteOptions{}))
		require.NoError(t, configMaps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "even=true"}))
		left, err := configMaps.List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.Len(t, left.Items, 11)

		made, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "g-"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(t, err)
		require.Regexp(t, `^g-[a-z0-9]{5}$`, made.Name)
		_, err = configMaps.Get(ctx, made.Name, metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
		_, err = configMaps.Create(ctx, newConfigMap("Bad", nil), metav1.CreateOptions{})
		require.True(t, apierrors.IsInvalid(err), "%v", err)
	})
}

// requirePages lists in pages of 10 while the objects change: a continue token pins the
// snapshot of the first page.
func requirePages(t *testing.T, list func(context.Context, metav1.ListOptions) (*corev1.ConfigMapList, error)) {
	t.Helper()
	var names []string
	var sizes []int
	var versions []string
	o := metav1.ListOptions{Limit: 10}
	for {
		page, err := list(t.Context(), o)
		require.NoError(t, err)
		for _, c := range page.Items {
			names = append(names, c.Name)
		}
		sizes, versions = append(sizes, len(page.Items)), append(versions, page.ResourceVersion)
		if page.Continue == "" {
			require.Nil(t, page.RemainingItemCount)
			break
		}
		require.NotNil(t, page.RemainingItemCount)
		require.Equal(t, int64(25-len(names)), *page.RemainingItemCount)
		o.Continue = page.Continue
	}
	require.Equal(t, []int{10, 10, 5}, sizes)
	require.Len(t, names, 25)
	require.Equal(t, []string{versions[0], versions[0], versions[0]}, versions)
}

// The dynamic client uses JSON for widgets.
func TestDynamic(t *testing.T) {
	t.Parallel()
	h := plan{}.start(t)
	client, err := dynamic.NewForConfig(h.config())
	require.NoError(t, err)
	ctx, widgets := t.Context(), client.Resource(widgetResource).Namespace("default")
	w, err := client.Resource(widgetResource).Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	defer w.Stop()

	made, err := widgets.Create(ctx, newWidget("engine", 3), metav1.CreateOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 1, made.GetGeneration())
	require.NoError(t, unstructured.SetNestedField(made.Object, int64(4), "spec", "size"))
	made, err = widgets.Update(ctx, made, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 2, made.GetGeneration())
	require.NoError(t, unstructured.SetNestedField(made.Object, true, "status", "ready"))
	made, err = widgets.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	require.NoError(t, err)
	ready, _, err := unstructured.NestedBool(made.Object, "status", "ready")
	require.NoError(t, err)
	require.True(t, ready)
	require.EqualValues(t, 2, made.GetGeneration())
	made, err = widgets.Apply(ctx, "engine", newWidget("engine", 5), metav1.ApplyOptions{FieldManager: "test", Force: true})
	require.NoError(t, err)
	size, _, err := unstructured.NestedInt64(made.Object, "spec", "size")
	require.NoError(t, err)
	require.EqualValues(t, 5, size)
	_, err = widgets.Create(ctx, newWidget("small", 0), metav1.CreateOptions{})
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	list, err := widgets.List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Equal(t, "WidgetList", list.GetKind())
	require.Len(t, list.Items, 1)
	require.NoError(t, widgets.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))

	var seen []watch.EventType
	for len(seen) == 0 || seen[len(seen)-1] != watch.Deleted {
		seen = append(seen, next(t, w).Type)
	}
	require.Equal(t, []watch.EventType{watch.Added, watch.Modified, watch.Modified, watch.Modified, watch.Deleted}, seen)
}

func newWidget(name string, size int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"size": size, "colour": "red"},
	}}
}

// The metadata client asks for PartialObjectMetadata, in protobuf where it can.
func TestMetadata(t *testing.T) {
	eachMedia(t, func(t *testing.T, h *host, clients *kubernetes.Clientset) {
		ctx := t.Context()
		client, err := metadata.NewForConfig(metadata.ConfigFor(h.config()))
		require.NoError(t, err)
		for i := range 3 {
			_, err := clients.CoreV1().ConfigMaps("default").Create(ctx, newConfigMap(fmt.Sprintf("c%d", i), map[string]string{"large": "text"}), metav1.CreateOptions{})
			require.NoError(t, err)
		}
		maps := client.Resource(configMapResource).Namespace("default")
		w, err := maps.Watch(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		defer w.Stop()
		require.Equal(t, watch.Added, next(t, w).Type)
		one, err := maps.Get(ctx, "c0", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, "c0", one.Name)
		require.NotEmpty(t, one.UID)
		list, err := maps.List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.Len(t, list.Items, 3)
		_, err = maps.Patch(ctx, "c0", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		require.NoError(t, maps.Delete(ctx, "c0", metav1.DeleteOptions{}))
		require.NoError(t, maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		list, err = maps.List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.Empty(t, list.Items)
	})
}
