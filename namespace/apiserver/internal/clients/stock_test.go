package clients

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
)

// stock makes the calls of Kubernetes' namespace controller in the same order.
type stock struct {
	namespaces typedcorev1.NamespaceInterface
	metadata   metadata.Interface
	discovery  discovery.DiscoveryInterface
}

// Kubernetes' namespace controller can delete a namespace of this server, without the
// controller of this project.
func TestStockNamespaceController(t *testing.T) {
	eachMedia(t, func(t *testing.T, _ *host, _ *kubernetes.Clientset) {
		h := plan{noController: true}.start(t)
		clients := h.typed(t, mediaProtobuf)
		if strings.HasSuffix(t.Name(), "json") {
			clients = h.typed(t, mediaJSON)
		}
		partial, err := metadata.NewForConfig(metadata.ConfigFor(h.config()))
		require.NoError(t, err)
		s := stock{clients.CoreV1().Namespaces(), partial, clients.Discovery()}
		widgets := fill(t, h, clients, "development")

		terminating := s.await(t, func(ns *corev1.Namespace) bool { return ns.DeletionTimestamp != nil }, func() {
			background := metav1.DeletePropagationBackground
			require.NoError(t, s.namespaces.Delete(t.Context(), "development", metav1.DeleteOptions{PropagationPolicy: &background}))
		})
		require.Equal(t, corev1.NamespaceTerminating, terminating.Status.Phase)

		// The first round deletes the content without finalizers and reports the rest.
		left, err := s.round(t.Context(), "development")
		require.NoError(t, err)
		require.Equal(t, 1, left, "the widget that a finalizer holds")
		ns, err := s.namespaces.Get(t.Context(), "development", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, "Some resources are remaining: widgets.example.com has 1 resource instances", ns.Status.Conditions[0].Message)

		// The owner removes the finalizer; the second round finds no content and finalizes.
		_, err = widgets.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		left, err = s.round(t.Context(), "development")
		require.NoError(t, err)
		require.Zero(t, left)
		_, err = s.namespaces.Get(t.Context(), "development", metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
	})
}

// fill creates a namespace with content of several types and one object with a finalizer.
func fill(t *testing.T, h *host, clients *kubernetes.Clientset, name string) dynamic.ResourceInterface {
	t.Helper()
	ctx := t.Context()
	client, err := dynamic.NewForConfig(h.config())
	require.NoError(t, err)
	widgets := client.Resource(widgetResource).Namespace(name)
	_, err = clients.CoreV1().Namespaces().Create(ctx, newNamespace(name), metav1.CreateOptions{})
	require.NoError(t, err)
	for i := range 10 {
		_, err := clients.CoreV1().ConfigMaps(name).Create(ctx, newConfigMap(fmt.Sprintf("c%d", i), nil), metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = clients.CoreV1().Secrets(name).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = widgets.Create(ctx, newWidget(fmt.Sprintf("w%d", i), 1), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	held := newWidget("held", 1)
	held.SetFinalizers([]string{"example.com/copy"})
	_, err = widgets.Create(ctx, held, metav1.CreateOptions{})
	require.NoError(t, err)
	return widgets
}

// await lists and watches, as the controller's informer does, and returns the first namespace
// that meets the condition after act.
func (s stock) await(t *testing.T, so func(*corev1.Namespace) bool, act func()) *corev1.Namespace {
	t.Helper()
	list, err := s.namespaces.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	w, err := s.namespaces.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true})
	require.NoError(t, err)
	defer w.Stop()
	act()
	for {
		e := next(t, w)
		ns, ok := e.Object.(*corev1.Namespace)
		require.True(t, ok && e.Type != watch.Error, "%v", e.Object)
		if so(ns) {
			return ns
		}
	}
}

// round is one sync of the controller: status, content, conditions, finalize. It returns the
// number of remaining objects.
func (s stock) round(ctx context.Context, name string) (int, error) {
	ns, err := s.namespaces.Get(ctx, name, metav1.GetOptions{})
	if err != nil || ns.DeletionTimestamp == nil {
		return 0, err
	}
	ns.Status.Phase = corev1.NamespaceTerminating
	if ns, err = s.namespaces.UpdateStatus(ctx, ns, metav1.UpdateOptions{}); err != nil {
		return 0, err
	}
	left, remaining, err := s.empty(ctx, name)
	if err != nil {
		return 0, err
	}
	if left > 0 {
		ns.Status.Conditions = []corev1.NamespaceCondition{{
			Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionTrue, Reason: "SomeResourcesRemain",
			Message: "Some resources are remaining: " + strings.Join(remaining, ", "),
		}}
		_, err = s.namespaces.UpdateStatus(ctx, ns, metav1.UpdateOptions{})
		return left, err
	}
	ns.Spec.Finalizers = slices.DeleteFunc(ns.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	_, err = s.namespaces.Finalize(ctx, ns, metav1.UpdateOptions{})
	return 0, err
}

// empty deletes the content of all types in discovery, type by type.
func (s stock) empty(ctx context.Context, name string) (left int, remaining []string, err error) {
	lists, err := discovery.ServerPreferredNamespacedResources(s.discovery)
	if err != nil {
		return 0, nil, err
	}
	deletable := discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"delete"}}, lists)
	resources, err := discovery.GroupVersionResources(deletable)
	if err != nil {
		return 0, nil, err
	}
	for resource := range resources {
		n, err := s.emptyOne(ctx, resource, name)
		if err != nil {
			return 0, nil, fmt.Errorf("%s: %w", resource, err)
		}
		if n > 0 {
			remaining = append(remaining, fmt.Sprintf("%s.%s has %d resource instances", resource.Resource, resource.Group, n))
		}
		left += n
	}
	slices.Sort(remaining)
	return left, remaining, nil
}

// emptyOne deletes the collection, and then each remaining item if its uid is still the listed
// one.
func (s stock) emptyOne(ctx context.Context, resource schema.GroupVersionResource, name string) (int, error) {
	objects := s.metadata.Resource(resource).Namespace(name)
	background := metav1.DeletePropagationBackground
	o := metav1.DeleteOptions{PropagationPolicy: &background}
	if err := objects.DeleteCollection(ctx, o, metav1.ListOptions{}); err != nil {
		return 0, err
	}
	list, err := objects.List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for _, item := range list.Items {
		o.Preconditions = &metav1.Preconditions{UID: &item.UID, ResourceVersion: &item.ResourceVersion}
		if err := objects.Delete(ctx, item.Name, o); err != nil && !apierrors.IsNotFound(err) {
			return 0, err
		}
	}
	return len(list.Items), nil
}
