package kubernetes_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes/internal/simulated"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// CVE-2024-7598: while a pod may exist, no other type is deleted or even listed.
func TestPodsFirst(t *testing.T) {
	down := apierrors.NewInternalError(errors.New("etcd"))
	for name, disturb := range map[string]struct{ set, mend func(*world) }{
		"a pod remains": {
			func(w *world) { w.Put("n", ofPods, simulated.Object{Name: "p", Finalizers: []string{"example.com/f"}}) },
			func(w *world) { w.Release("n", ofPods, "p") },
		},
		"pods fail": {
			func(w *world) {
				w.requests = func(_ context.Context, r simulated.Request) error {
					if r.Resource == pods {
						return down
					}
					return nil
				}
			},
			func(w *world) { w.requests = nil },
		},
		"pods cannot be discovered": {
			func(w *world) {
				w.hidden[pods] = true
				w.failed = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Version: "v1"}: down}}
			},
			func(w *world) { w.hidden, w.failed = nil, nil },
		},
		"another type cannot be read": {
			func(w *world) {
				w.hidden[pods] = true
				w.extra = []*metav1.APIResourceList{{GroupVersion: "a/b/c", APIResources: []metav1.APIResource{
					{Name: "pods", Namespaced: true, Verbs: metav1.Verbs{"delete"}},
				}}}
			},
			func(w *world) { w.hidden, w.extra = nil, nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "", noWait)
			w.create(t, "n")
			w.put(t, "n", ofWidgets, simulated.Object{Name: "a"})
			w.put(t, "n", ofConfigs, simulated.Object{Name: "a"})
			disturb.set(w)
			w.delete(t, "n")
			var report deleter.Report
			for range 2 {
				result, _ := w.pass(t, "n", report)
				require.True(t, result.Namespace.Spec.Finalizers.Has(owner.Finalizer))
				report = result.Report.Compact()
			}
			require.Zero(t, w.RequestsFor(widgets)+w.RequestsFor(configs))
			disturb.mend(w)
			w.removed(t, "n", report)
		})
	}
}

func TestOrderOfTheHost(t *testing.T) {
	w := newWorld(t, "", kubernetes.Options{Wait: -1, After: func(r namespace.ResourceType) []namespace.ResourceType {
		if r == pods {
			return []namespace.ResourceType{widgets}
		}
		return nil
	}})
	w.create(t, "n")
	w.put(t, "n", ofPods, simulated.Object{Name: "p"})
	w.put(t, "n", ofConfigs, simulated.Object{Name: "c"})
	w.put(t, "n", ofWidgets, simulated.Object{Name: "w", Finalizers: []string{"example.com/f"}})
	w.delete(t, "n")
	report := w.waits(t, "n", deleter.Report{})
	require.Equal(t, 2, w.Objects("n"))
	require.Zero(t, w.RequestsFor(pods))
	w.Release("n", ofWidgets, "w")
	w.removed(t, "n", report)
}
