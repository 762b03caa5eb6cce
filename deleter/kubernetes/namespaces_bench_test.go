package kubernetes

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// usual returns a typical terminating namespace, with five conditions and managed fields.
func usual() *corev1.Namespace {
	k := dying("payments-staging", "6f3b2c1e-8a54-4f7d-9d5e-0c2b7a9e1f42", "1048576", "kubernetes", "example.com/agent")
	k.Labels = map[string]string{"kubernetes.io/metadata.name": k.Name, "team": "payments", "stage": "staging"}
	k.Annotations = map[string]string{"example.com/owner": "payments"}
	fields := new(metav1.FieldsV1)
	_ = fields.UnmarshalJSON([]byte(`{"f:status":{"f:conditions":{".":{},"k:{\"type\":\"NamespaceContentRemaining\"}":{".":{},"f:message":{}}}}}`))
	at := metav1.Unix(1, 0)
	k.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "agent", Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", FieldsV1: fields}}
	for range 5 {
		k.Status.Conditions = append(k.Status.Conditions, corev1.NamespaceCondition{Type: "NamespaceContentRemaining", Status: "True",
			LastTransitionTime: at, Reason: "SomeResourcesRemain", Message: "Some resources are remaining: pods. has 1 resource instances"})
	}
	return k
}

func BenchmarkFromKubernetes(b *testing.B) {
	k := usual()
	b.ReportAllocs()
	for b.Loop() {
		_ = fromKubernetes(k)
	}
}

func BenchmarkToKubernetes(b *testing.B) {
	n := fromKubernetes(usual())
	b.ReportAllocs()
	for b.Loop() {
		_ = toKubernetes(n)
	}
}

// BenchmarkWatch measures an event that is reported, and one that is not: a status write, which is
// far more frequent.
func BenchmarkWatch(b *testing.B) {
	for name, change := range map[string]func(k *corev1.Namespace, n int){
		"told":   func(k *corev1.Namespace, n int) { k.Name = fmt.Sprint(n % 1000) },
		"untold": func(*corev1.Namespace, int) {},
	} {
		b.Run(name, func(b *testing.B) {
			n := namespacesOver(&fakeClient{get: func(context.Context) (*corev1.Namespace, error) { return nil, nil }})
			f := follower{Namespaces: n, synced: true, known: map[string]knownNamespace{}, yield: func(namespace.Event, error) bool { return true }}
			k := usual()
			f.known[k.Name] = knownNamespace{k.UID, setOf(k.Spec.Finalizers)}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				change(k, i)
				if err := f.handle(watch.Event{Type: watch.Modified, Object: k}); err != nil {
					b.Fatal(err)
				}
				if name == "told" {
					_ = f.handle(watch.Event{Type: watch.Deleted, Object: k})
				}
			}
		})
	}
}
