package kubernetes_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes/internal/simulated"
)

// healthy has the five conditions as Kubernetes writes them if nothing is wrong.
var healthy = []string{
	"NamespaceDeletionDiscoveryFailure False ResourcesDiscovered: All resources successfully discovered",
	"NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully parsed",
	"NamespaceDeletionContentFailure False ContentDeleted: All content successfully deleted, may be waiting on finalization",
	"NamespaceContentRemaining False ContentRemoved: All content successfully removed",
	"NamespaceFinalizersRemaining False ContentHasNoFinalizers: All content-preserving finalizers finished",
}

const (
	unanswered = "not every resource type could be discovered, deleted and listed"
	unasked    = "not every resource type gave a full answer: some wait for others to be empty, or were not fully listed"

	contentUnknown    = "NamespaceContentRemaining Unknown ContentUnknown: No remaining resources were seen, but "
	finalizersUnknown = "NamespaceFinalizersRemaining Unknown FinalizersUnknown: No remaining finalizers were seen, but "
)

// but returns the healthy conditions with some of them replaced.
func but(changed map[int]string) []string {
	all := slices.Clone(healthy)
	for i, message := range changed {
		all[i] = message
	}
	return all
}

// Conditions after one pass. The texts are those of Kubernetes, except where Kubernetes claims
// more than it knows; kubernetes/kubernetes#138208 is the case of remaining pods.
func TestR9_Conditions(t *testing.T) {
	held := simulated.Object{Name: "h", Finalizers: []string{"example.com/f"}}
	hold := func(of int, objects ...simulated.Object) func(*world) {
		return func(w *world) { w.Put("n", of, objects...) }
	}
	for _, tt := range []struct {
		name string
		set  func(*world)
		want []string
	}{
		{"objects are held", hold(ofWidgets, held, simulated.Object{Name: "i", Finalizers: []string{"a/b", "example.com/f"}}), but(map[int]string{
			3: "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: widgets.example.com has 2 resource instances",
			4: "NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: a/b in 1 resource instances, example.com/f in 2 resource instances",
		})},
		{"pods are left: #138208", hold(ofPods, simulated.Object{Name: "p", Grace: time.Minute}), but(map[int]string{
			3: "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: pods. has 1 resource instances",
			4: finalizersUnknown + unasked,
		})},
		{"a group fails", func(w *world) { w.failed = groupFailed }, but(map[int]string{
			0: "NamespaceDeletionDiscoveryFailure True DiscoveryFailed: Discovery failed for some groups, 1 failing: " +
				"unable to retrieve the complete list of server APIs: metrics.example.com/v1: down",
			3: contentUnknown + unanswered, 4: finalizersUnknown + unanswered,
		})},
		{"two groups fail", func(w *world) {
			w.failed = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{
				{Group: "z", Version: "v1"}: errors.New("down"), {Group: "a", Version: "v1"}: errors.New("down too"),
			}}
		}, but(map[int]string{
			0: "NamespaceDeletionDiscoveryFailure True DiscoveryFailed: Discovery failed for some groups, 2 failing: " +
				"unable to retrieve the complete list of server APIs: a/v1: down too, z/v1: down",
			3: contentUnknown + unanswered, 4: finalizersUnknown + unanswered,
		})},
		{"discovery fails", func(w *world) {
			w.failed = apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
		}, but(map[int]string{
			0: "NamespaceDeletionDiscoveryFailure True DiscoveryFailed: forbidden: no",
			3: contentUnknown + unanswered, 4: finalizersUnknown + unanswered,
		})},
		{"a group version makes no sense", func(w *world) {
			w.extra = []*metav1.APIResourceList{{GroupVersion: "a/b/c", APIResources: []metav1.APIResource{
				{Name: "things", Namespaced: true, Verbs: metav1.Verbs{"delete"}},
			}}}
		}, but(map[int]string{
			1: "NamespaceDeletionGroupVersionParsingFailure True GroupVersionParsingFailed: unexpected GroupVersion string: a/b/c",
			3: contentUnknown + unanswered, 4: finalizersUnknown + unanswered,
		})},
		{"a type fails", func(w *world) {
			w.requests = func(_ context.Context, r simulated.Request) error {
				if r.Resource == configs && r.Verb == simulated.List {
					return errors.New("down")
				}
				return nil
			}
		}, but(map[int]string{
			2: "NamespaceDeletionContentFailure True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: configmaps: list: down",
			3: contentUnknown + unanswered, 4: finalizersUnknown + unanswered,
		})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "", noWait)
				w.create(t, "n")
				tt.set(w)
				w.delete(t, "n")
				for range 2 { // the second pass uses the discovery of the first
					result, _ := w.pass(t, "n", deleter.Report{})
					require.Empty(t, cmp.Diff(tt.want, messages(t, result.Namespace)))
				}
			})
		})
	}
}

// An empty namespace is not reported as empty while content may still arrive.
func TestR9_ConditionsWhileProvisional(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, stock, kubernetes.Options{})
		w.create(t, "n")
		w.delete(t, "n")
		result, err := w.pass(t, "n", deleter.Report{})
		require.NoError(t, err)
		const later = "new objects may still appear; the next pass checks again"
		require.Empty(t, cmp.Diff(but(map[int]string{3: contentUnknown + later, 4: finalizersUnknown + later}), messages(t, result.Namespace)))
		require.Equal(t, 5*time.Second, result.After)
	})
}
