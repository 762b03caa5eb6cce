package explain_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/phase"
)

// The conditions of a namespace suffice for a diagnosis.
func ExampleExplain() {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	ns := namespace.Namespace{
		Meta: namespace.Meta{Name: "shop", UID: "6f1c", DeletionTimestamp: phase.At(now.Add(-26 * time.Hour))},
		Spec: namespace.Spec{Finalizers: finalizer.NewSet(finalizer.Kubernetes)},
	}
	ns.Status.Conditions = phase.Conditions(nil, phase.Observation{
		Discovery: []error{errors.New("metrics.example.com: the server is currently unable to handle the request")},
	}, "", now.Add(-25*time.Hour))
	fmt.Print(explain.Explain(explain.Input{Namespace: ns, Now: now}).Text())
	// Output:
	// namespace shop: Terminating (DeletingContent) for 1d 2h
	//   deleted 2026-11-20 10:00:00 UTC, now 2026-11-21 12:00:00 UTC
	//   uid 6f1c
	//
	// WHY
	//   1. the resource types of metrics.example.com cannot be discovered: the server
	//      is currently unable to handle the request
	//      since 2026-11-20 11:00:00 UTC (1d 1h)
	//      -> Restore the API that serves it, or remove its registration. If it holds
	//         no content of this namespace, a waiver lets the deletion continue.
	//         $ kubectl api-resources --api-group=metrics.example.com
	//         # kubectl annotate namespace shop waiver.nslifecycle.io/<NAME>='{"source":"metrics.example.com","by":"<WHO>","reason":"<WHY>","until":"<YYYY-MM-DDThh:mm:ssZ>"}'
	//
	// HELD BY
	//   kubernetes: owner unknown here
}
