package kubernetes_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes/internal/simulated"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
)

// apiServer is an API server in this process, with pods and secrets in the namespace "acme". Use
// [kubernetes.ForConfig] for a real one.
func apiServer(ctx context.Context) (*simulated.API, kubernetes.Clients) {
	api := simulated.New(simulated.Options{Types: []simulated.Type{
		{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")},
		{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")},
	}})
	acme := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme"}}
	if _, err := api.Namespaces().Create(ctx, acme, metav1.CreateOptions{}); err != nil {
		log.Fatal(err)
	}
	api.Put("acme", 0, simulated.Object{Name: "web"})
	api.Put("acme", 1, simulated.Object{Name: "password"}, simulated.Object{Name: "key"})
	return api, kubernetes.Clients{
		Namespaces: api.Namespaces(), Metadata: api.Metadata(), Resources: api.Resources, Version: api.Version,
	}
}

// A controller in place of the stock one: a deleted namespace is emptied of all types that
// discovery finds, and removed.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api, clients := apiServer(ctx)
	cluster, err := kubernetes.New(clients, &kubernetes.Options{
		Wait: -1, // no other client creates anything in this example
	})
	if err != nil {
		log.Fatal(err)
	}
	party := namespace.Party{Finalizer: finalizer.Kubernetes}
	c, err := controller.New(cluster.Namespaces(), cluster.Deleter(), party, &controller.Options{
		Hooks: []controller.Hooks{{Removed: func(ref namespace.Ref) {
			fmt.Println(ref.Name, "is removed, with", api.Objects(ref.Name), "objects left")
			stop()
		}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("acme has", api.Objects("acme"), "objects")
	if err := api.Namespaces().Delete(ctx, "acme", metav1.DeleteOptions{}); err != nil {
		log.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// acme has 3 objects
	// acme is removed, with 0 objects left
}

// A host's own deleter of one type in the cluster, and of volumes elsewhere that must outlive the
// pods.
func ExampleCluster_Content() {
	ctx := context.Background()
	api, clients := apiServer(ctx)
	cluster, err := kubernetes.New(clients, nil)
	if err != nil {
		log.Fatal(err)
	}
	inCluster, err := cluster.Content(schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "list", "delete", "deletecollection", "watch")
	if err != nil {
		log.Fatal(err)
	}
	ofHost := func(context.Context, deleter.Target) (remaining int, err error) {
		fmt.Println("the volumes are deleted")
		return 0, nil
	}
	pods, volumes := namespace.ResourceType{Name: "pods"}, namespace.ResourceType{Group: "storage.example.com", Name: "volumes"}
	d, err := deleter.New([]deleter.Source{
		{Resource: pods, Content: inCluster},
		{Resource: volumes, Content: deleter.Funcs{Delete: ofHost}.Content(), After: []namespace.ResourceType{pods}},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := api.Namespaces().Delete(ctx, "acme", metav1.DeleteOptions{}); err != nil {
		log.Fatal(err)
	}
	ns, err := cluster.Namespaces().Get(ctx, "acme")
	if err != nil {
		log.Fatal(err)
	}
	target := deleter.Target{Namespace: ns.Name, UID: ns.UID, DeletedAt: ns.DeletionTimestamp.Time}
	report, err := d.Delete(ctx, target, deleter.Report{})
	fmt.Println("empty:", report.Empty(), "error:", err)
	// Output:
	// the volumes are deleted
	// empty: true error: <nil>
}
