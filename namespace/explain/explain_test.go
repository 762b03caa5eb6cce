package explain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/explain"
	"github.com/nslifecycle/nslifecycle/phase"
)

func TestSmoke(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	ns := namespace.Namespace{
		Meta: namespace.Meta{Name: "shop", UID: "u-1", DeletionTimestamp: phase.At(now.Add(-time.Hour))},
		Spec: namespace.Spec{Finalizers: finalizer.NewSet("kubernetes", "example.com/agent")},
	}
	ns.Status.Conditions = phase.Conditions(nil, phase.Observation{
		Content:    []error{fmt.Errorf("widgets.example.com: list: connection refused\n\x1b[31m")},
		Remaining:  []phase.Remaining{{Resource: "pods", Count: 3}},
		Finalizers: []phase.Held{{Finalizer: "example.com/backup", Count: 2}},
	}, "", now.Add(-30*time.Minute))
	d := explain.Explain(explain.Input{Namespace: ns, Now: now})
	t.Log("\n" + d.Text())
}
