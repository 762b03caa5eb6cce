package namespace_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// The life of a namespace that two parties hold, as the design proposal tells it,
// by pure functions alone.
func ExampleDecide() {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ns := namespace.PrepareCreate(namespace.Namespace{
		Meta: namespace.Meta{Name: "development"},
		Spec: namespace.Spec{Finalizers: finalizer.NewSet("openshift.com/origin")},
	}, finalizer.Kubernetes, "uid-1", at)
	fmt.Println(ns.Phase(), ns.Spec.Finalizers.Names())

	ns = namespace.MarkDeleted(ns, at)
	kubernetes := namespace.Party{Finalizer: finalizer.Kubernetes}
	pods := namespace.Observed{
		Observation: phase.Observation{Remaining: []phase.Remaining{{Resource: "pods", Count: 2}}},
		Estimate:    30 * time.Second,
	}
	d := namespace.Decide(ns, kubernetes, pods, at)
	ns.Status = d.Status
	fmt.Println(ns.Stage(), d.Finalize, d.After)

	for _, party := range []namespace.Party{kubernetes, {Finalizer: "openshift.com/origin"}} {
		d = namespace.Decide(ns, party, namespace.Observed{}, at) // all gone
		ns.Status, ns.Spec.Finalizers = d.Status, d.Finalizers
		fmt.Println(ns.Stage(), d.Finalizers.Names(), d.Remove)
	}
	// Output:
	// Active [openshift.com/origin kubernetes]
	// DeletingContent false 30s
	// WaitingForFinalizers [openshift.com/origin] false
	// ReadyToRemove [] true
}

func ExampleValidateCreate() {
	asked := namespace.Namespace{Meta: namespace.Meta{Name: "team.a"}, Spec: namespace.Spec{Finalizers: finalizer.NewSet("agent")}}
	fmt.Println(namespace.ValidateCreate(namespace.PrepareCreate(asked, finalizer.Kubernetes, "uid-1", time.Now())))
	// Output:
	// Namespace "team.a" is invalid: [metadata.name: Invalid value: "team.a": must not contain dots, spec.finalizers: Invalid value: "agent": name is neither a standard finalizer name nor is it fully qualified]
}

func ExampleNamespace() {
	ns := namespace.PrepareCreate(namespace.Namespace{Meta: namespace.Meta{Name: "development"}},
		finalizer.Kubernetes, "uid-1", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	data, _ := json.MarshalIndent(ns, "", "  ")
	fmt.Println(string(data))
	// Output:
	// {
	//   "kind": "Namespace",
	//   "apiVersion": "v1",
	//   "metadata": {
	//     "name": "development",
	//     "uid": "uid-1",
	//     "creationTimestamp": "2026-01-02T03:04:05Z",
	//     "labels": {
	//       "kubernetes.io/metadata.name": "development"
	//     }
	//   },
	//   "spec": {
	//     "finalizers": [
	//       "kubernetes"
	//     ]
	//   },
	//   "status": {
	//     "phase": "Active"
	//   }
	// }
}
