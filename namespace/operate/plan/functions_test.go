package plan_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/operate/force"
	"github.com/nslifecycle/nslifecycle/namespace/operate/plan"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// Content that plain functions delete appears in plans, forced removals and explanations:
// with Count it has counts, with List it has names and finalizers too.
func TestFunctionsInPlanForceAndExplain(t *testing.T) {
	for _, tt := range []struct {
		name        string
		edit        func(f *deleter.Funcs)
		planned     string
		incomplete  bool // force must accept an incomplete inventory
		inventoried int
		explained   []string
	}{
		{"Delete alone", func(f *deleter.Funcs) { f.Count, f.List = nil, nil }, "incomplete: 1 source did not answer\n  invoices: view: the source has neither a Count nor a List function: operation\n    not supported\n", true, 0, []string{"invoices"}},
		{"with Count", func(f *deleter.Funcs) { f.List = nil }, "invoices  3        -        \n", true, 0, []string{"invoices"}},
		{"with List", func(f *deleter.Funcs) { f.Count = nil }, "invoices  3        example.com/archive (1)  2026-1, 2026-2, 2026-3\n", false, 1, []string{"invoices", "example.com/archive"}},
		{"with both", func(*deleter.Funcs) {}, "invoices  3        example.com/archive (1)  2026-1, 2026-2, 2026-3\n", false, 1, []string{"invoices", "example.com/archive"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := t.Context()
			w := newWorld(t)
			ns := w.create("acme", nil)
			target := deleter.Target{Namespace: ns.Name, UID: ns.UID}
			f := contenttest.NewFake(nil)
			f.SetActive(target, true)
			f.Put(target, contenttest.Object{Name: "2026-1"}, contenttest.Object{Name: "2026-2"},
				contenttest.Object{Name: "2026-3", Finalizers: []string{"example.com/archive"}})
			funcs := f.Funcs()
			tt.edit(&funcs)
			d, err := deleter.New([]deleter.Source{{Resource: namespace.ResourceType{Name: "invoices"}, Content: funcs.Content()}}, nil)
			require.NoError(t, err)

			p, err := plan.Of(ctx, w.frozen, d, "acme", nil)
			require.NoError(t, err)
			require.Contains(t, p.Text(), tt.planned)

			_, err = w.Delete(ctx, "acme", namespace.Preconditions{})
			require.NoError(t, err)
			f.SetActive(target, false)
			party := namespace.Party{Finalizer: finalizer.Kubernetes}
			result, err := pass.Run(ctx, w.Registry, d, party, pass.Request{Name: "acme"})
			require.NoError(t, err)
			require.Equal(t, pass.Waiting, result.Outcome)
			text := explain.Explain(explain.Input{Namespace: result.Namespace, Now: time.Now()}).Text()
			for _, want := range tt.explained {
				require.Contains(t, text, want)
			}

			log, err := audit.New(w.store, nil)
			require.NoError(t, err)
			request := force.Request{
				Name: "acme", UID: ns.UID, Finalizers: []finalizer.Name{"example.com/disks"}, By: "ada", Reason: "the disks are gone",
			}
			_, err = force.Drop(ctx, w.Registry, d, log, request)
			if tt.incomplete {
				require.ErrorIs(t, err, force.ErrIncomplete)
				request.Incomplete = true
				_, err = force.Drop(ctx, w.Registry, d, log, request)
			}
			require.NoError(t, err)
			records, err := log.List(ctx, "acme")
			require.NoError(t, err)
			require.Equal(t, tt.inventoried, records[0].Objects)

			f.Release(target, "2026-3")
			result, err = pass.Run(ctx, w.Registry, d, party, pass.Request{Name: "acme", Previous: result.Report})
			require.NoError(t, err)
			require.Equal(t, pass.Removed, result.Outcome)
		})
	}
}
