package deleter_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Functions take part in previews, inventories and reports as far as they go.
func TestFuncs(t *testing.T) {
	listed := deleter.Result{Remaining: 3, Sample: []string{"a", "b", "held"}, Holders: []phase.Holder{{Finalizer: hold, Objects: 1, Sample: []string{"held"}}}}
	left := deleter.Result{Remaining: 1, Deleting: 1, Sample: []string{"held"}, Holders: listed.Holders}
	for _, tt := range []struct {
		name        string
		edit        func(f *deleter.Funcs)
		preview     deleter.Result
		previewErr  error
		objects     int // in the inventory
		inventoried error
		after       deleter.Result // the pass
	}{
		{"Delete alone", func(f *deleter.Funcs) { f.Count, f.List = nil, nil }, deleter.Result{}, deleter.ErrNotSupported, 0, deleter.ErrNotSupported, deleter.Result{Remaining: 1}},
		{"with Count", func(f *deleter.Funcs) { f.List = nil }, deleter.Result{Remaining: 3}, nil, 0, deleter.ErrNotSupported, deleter.Result{Remaining: 1}},
		{"with List", func(f *deleter.Funcs) { f.Count = nil }, listed, nil, 3, nil, left},
		{"with both", func(*deleter.Funcs) {}, listed, nil, 3, nil, left},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fake(nil, contenttest.Object{Name: "a"}, contenttest.Object{Name: "b"}, contenttest.Object{Name: "held", Finalizers: []string{hold}})
			funcs := f.Funcs()
			tt.edit(&funcs)
			d := compose(t, &deleter.Options{PageSize: 2}, source("invoices", funcs.Content()))
			equal := func(want, got deleter.Result) {
				t.Helper()
				require.Empty(t, cmp.Diff(want, got, cmpopts.IgnoreFields(deleter.Result{}, "Resource", "Err", "Seen")))
			}

			report, err := d.Inspect(t.Context(), target())
			require.ErrorIs(t, err, tt.previewErr)
			equal(tt.preview, result(t, report, "invoices"))

			inventory, err := d.Inventory(t.Context(), target())
			require.ErrorIs(t, err, tt.inventoried)
			require.Len(t, inventory.Objects, tt.objects)

			report, err = d.Delete(t.Context(), target(), deleter.Report{})
			require.NoError(t, err)
			equal(tt.after, result(t, report, "invoices"))
			f.Release(target(), "held")
			report, err = d.Delete(t.Context(), target(), report)
			require.NoError(t, err)
			require.True(t, report.Empty())

			inventory, err = d.Inventory(t.Context(), target())
			if funcs.Count == nil && funcs.List == nil {
				require.ErrorIs(t, err, deleter.ErrNotSupported)
			} else {
				require.NoError(t, err, "zero objects need no names")
			}
			require.Empty(t, inventory.Objects)
		})
	}
}

// If List returns more objects than the limit, the listing continues after the last one.
func TestFuncsListMoreThanTheLimit(t *testing.T) {
	f := fake(nil, contenttest.Object{Name: "a"}, contenttest.Object{Name: "b"}, contenttest.Object{Name: "c"}, contenttest.Object{Name: "d"})
	funcs := f.Funcs()
	correct := funcs.List
	funcs.List = func(ctx context.Context, target deleter.Target, after string, limit int) ([]deleter.Item, error) {
		return correct(ctx, target, after, limit+1)
	}
	d := compose(t, &deleter.Options{PageSize: 2}, source("invoices", funcs.Content()))
	inventory, err := d.Inventory(t.Context(), target())
	require.NoError(t, err)
	require.Len(t, inventory.Objects, 4)
}

// If List contradicts Delete, the larger count stands (rule R7).
func TestR7_FuncsThatContradictEachOther(t *testing.T) {
	funcs := deleter.Funcs{
		Delete: func(context.Context, deleter.Target) (int, error) { return 2, nil },
		List:   func(context.Context, deleter.Target, string, int) ([]deleter.Item, error) { return nil, nil },
	}
	d := compose(t, nil, source("invoices", funcs.Content()))
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.NoError(t, err)
	require.Equal(t, 2, report.Remaining())

	funcs.List = func(context.Context, deleter.Target, string, int) ([]deleter.Item, error) { return nil, errBoom }
	d = compose(t, nil, source("invoices", funcs.Content()))
	report, err = d.Delete(t.Context(), target(), deleter.Report{})
	require.ErrorIs(t, err, errBoom)
	require.Equal(t, 2, report.Remaining())

	funcs = deleter.Funcs{Delete: funcs.Delete, Count: func(context.Context, deleter.Target) (int, error) { return -1, nil }}
	d = compose(t, nil, source("invoices", funcs.Content()))
	_, err = d.Inspect(t.Context(), target())
	require.Error(t, err)
	_, err = deleter.New([]deleter.Source{{Resource: namespace.ResourceType{Name: "invoices"}, Content: deleter.Funcs{}.Content()}}, nil)
	require.ErrorIs(t, err, deleter.ErrInvalid)
}
