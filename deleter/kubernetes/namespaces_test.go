package kubernetes

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Each method makes one request, to the sub-resource for it.
func TestRequestsOfNamespaces(t *testing.T) {
	t.Parallel()
	stored := dying("a", "u", "7", "kubernetes", "example.com/agent")
	client := fake.NewClientset(stored)
	n := namespacesOver(client.CoreV1().Namespaces())

	ns, err := n.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, phase.Terminating, ns.Phase())
	require.Equal(t, "u", ns.UID)
	require.True(t, ns.Spec.Finalizers.Has(finalizer.Kubernetes))

	ns.Status.Conditions = []phase.Condition{{Type: phase.ContentRemaining, Status: phase.True}}
	ns, err = n.UpdateStatus(t.Context(), ns)
	require.NoError(t, err)
	require.Len(t, ns.Status.Conditions, 1)

	ns.Spec.Finalizers = ns.Spec.Finalizers.Without("example.com/agent")
	_, err = n.Finalize(t.Context(), ns)
	require.NoError(t, err)

	var requests []string
	for _, a := range client.Actions() {
		requests = append(requests, a.GetVerb()+" "+a.GetSubresource())
	}
	require.Equal(t, []string{"get ", "update status", "create finalize"}, requests) // the fake records a finalize as a create
	sent := client.Actions()[2].(clienttesting.CreateAction).GetObject().(*corev1.Namespace)
	require.Equal(t, []corev1.FinalizerName{"kubernetes"}, sent.Spec.Finalizers)
	require.Equal(t, "u", string(sent.UID), "the write is not conditional")
	require.Equal(t, "7", sent.ResourceVersion, "the write is not conditional")
}

// The fakes of client-go, which have no resource versions, can be watched once.
func TestTerminatingOfFakes(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(dying("a", "u", ""), named("n", "o", ""))
	n := namespacesOver(client.CoreV1().Namespaces())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	opened := make(chan struct{})
	client.PrependWatchReactor("namespaces", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(a.GetResource(), "")
		close(opened)
		return true, w, err
	})
	deleted := make(chan error)
	var events []namespace.Event
	for e, err := range n.Terminating(ctx, "") {
		require.NoError(t, err)
		switch events = append(events, e); e.Type {
		case namespace.EventSynced:
			go func() {
				<-opened
				deleted <- client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("namespaces"), "", "a", metav1.DeleteOptions{})
			}()
			continue
		case namespace.EventPresent:
			continue
		}
		break
	}
	require.NoError(t, <-deleted)
	require.Equal(t, []namespace.Event{terminatingEvent("a", "u", ""), syncedEvent(events[1].Token), removedEvent("a", "u", events[2].Token)}, events)
}
