package deleter_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// A report describes the remaining objects.
func TestReport(t *testing.T) {
	f := fake(nil,
		contenttest.Object{Name: "e", Finalizers: []string{"example.com/b", "example.com/a"}},
		contenttest.Object{Name: "d", Finalizers: []string{"example.com/a", "example.com/a"}},
		contenttest.Object{Name: "c", Finalizers: []string{"example.com/a"}},
		contenttest.Object{Name: "b", Grace: 2 * time.Hour},
		contenttest.Object{Name: "a", Grace: time.Hour},
		contenttest.Object{Name: "gone"},
	)
	want := deleter.Result{
		Resource: core("pods"), Deleted: 6, Remaining: 5, Deleting: 5,
		Holders: []phase.Holder{
			{Finalizer: "example.com/a", Objects: 3, Sample: []string{"c", "d"}},
			{Finalizer: "example.com/b", Objects: 1, Sample: []string{"e"}},
		},
		Sample:   []string{"a", "b"},
		Estimate: 2 * time.Hour,
		Seen:     "1",
	}
	d := compose(t, &deleter.Options{Samples: 2, PageSize: 2}, source("pods", f), source("jobs", fake(nil)))
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.NoError(t, err)
	ignored := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Estimate" },
		cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() < time.Minute }))
	require.Empty(t, cmp.Diff(deleter.Report{
		UID:     target().UID,
		Results: []deleter.Result{{Resource: core("jobs"), Seen: "0"}, want},
		Clean:   []namespace.ResourceType{core("jobs")},
	}, report, ignored))
	require.Empty(t, cmp.Diff(phase.Observation{
		Remaining:  []phase.Remaining{{Resource: "pods", Count: 5}},
		LastSeen:   []phase.Remaining{{Resource: "pods", Count: 5}},
		Finalizers: []phase.Holder{{Finalizer: "example.com/a", Objects: 3}, {Finalizer: "example.com/b", Objects: 1}},
	}, report.Observation(), cmpopts.EquateEmpty()))
	require.Equal(t, 5, report.Remaining())
	require.Equal(t, 6, report.Deleted())
	require.Len(t, report.Compact().Results, 1)
	require.Len(t, report.Results, 2, "Compact must not change the report")
}

// Memory is bounded however many different finalizers and failures there are.
func TestReportIsBounded(t *testing.T) {
	var objects []contenttest.Object
	for i := range 1000 {
		objects = append(objects, contenttest.Object{
			Name: fmt.Sprintf("x%03d", i), Finalizers: []string{fmt.Sprintf("example.com/f%03d", i), fmt.Sprintf("example.com/g%03d", i)},
		})
	}
	each := func(_ context.Context, c contenttest.Call) error {
		if c.Op == del {
			return fmt.Errorf("no way to delete %s", c.Object)
		}
		return nil
	}
	d := compose(t, nil, source("pods", plain{fake(&contenttest.FakeOptions{Fault: each}, objects...)}))
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.Error(t, err)
	pods := result(t, report, "pods")
	require.Equal(t, 1000, pods.Remaining)
	require.Len(t, pods.Holders, 65)
	require.Equal(t, phase.Holder{Finalizer: "(other finalizers)", Objects: 968, Sample: []string{"x032", "x033", "x034", "x035", "x036"}}, pods.Holders[0])
	require.Less(t, len(err.Error()), 1000)
	require.Contains(t, err.Error(), "pods: delete x000: no way to delete x000; ")
	require.Contains(t, err.Error(), "pods: 992 further failures")
}

// Objects that fail in the same way are one failure, and no distinct failure is lost.
func TestFailuresOfOneKindAreOne(t *testing.T) {
	var objects []contenttest.Object
	for i := range 300 {
		objects = append(objects, contenttest.Object{Name: fmt.Sprintf("x%03d", i)})
	}
	each := func(_ context.Context, c contenttest.Call) error {
		switch {
		case c.Op != del:
			return nil
		case c.Object == "x123":
			return &fs.PathError{Op: "remove", Path: "x", Err: fs.ErrPermission}
		}
		return errBoom
	}
	d := compose(t, nil, source("pods", plain{fake(&contenttest.FakeOptions{Fault: each}, objects...)}))
	_, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.EqualError(t, err, "pods: delete x000: boom (and 298 other objects in the same way); pods: delete x123: remove x: permission denied")
	require.ErrorIs(t, err, errBoom)
	require.ErrorIs(t, err, fs.ErrPermission)
	var path *fs.PathError
	require.ErrorAs(t, err, &path)
}

// Every cause can be reached through the error of the pass.
func TestErrorsKeepTheirCauses(t *testing.T) {
	causes := []error{errors.New("one"), errors.New("two"), errors.New("three"), errors.New("four"), errors.New("five")}
	report := deleter.Report{
		Discovery: []error{deleter.GroupError{Group: "g", Err: causes[0]}},
		Parsing:   []error{causes[1]},
		Results: []deleter.Result{
			{Resource: core("a"), Err: &deleter.SourceError{Resource: core("a"), Op: list, Err: causes[2]}},
			{Resource: core("b"), Err: fmt.Errorf("wrapped: %w", causes[3])},
		},
		Failed: causes[4],
	}
	for _, cause := range causes {
		require.ErrorIs(t, report.Err(), cause)
	}
	seen := report.Observation()
	require.Len(t, slices.Concat(seen.Discovery, seen.Parsing, seen.Content), 5)
	part := &deleter.DiscoveryError{Groups: []deleter.GroupError{{Err: causes[0]}}, Parsing: []error{causes[1]}}
	require.ErrorIs(t, part, causes[0])
	require.ErrorIs(t, part, causes[1])
	require.EqualError(t, part, "discovery failed in part: core group: one, two")
	require.ErrorIs(t, &deleter.PanicError{Value: causes[0]}, causes[0])
}

func TestUnexpectedItemsText(t *testing.T) {
	d := compose(t, nil, source("pods", stubborn{fake(nil, contenttest.Object{Name: "b"}, contenttest.Object{Name: "a"})}))
	_, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.EqualError(t, err, "pods: unexpected items still remain in namespace: development: 2 without finalizer, grace period or deletion mark (a, b)")
}

func TestEstimate(t *testing.T) {
	of := func(waiting bool, estimates ...time.Duration) deleter.Report {
		r := deleter.Report{}
		for _, e := range estimates {
			r.Results = append(r.Results, deleter.Result{Estimate: e, Remaining: 1})
		}
		if waiting {
			r.Results = append(r.Results, deleter.Result{Waiting: true})
		}
		return r
	}
	require.Zero(t, of(false).Estimate())
	require.Zero(t, of(true, 0).Estimate())
	require.Equal(t, 3*time.Second, of(false, 2*time.Second, 0, 3*time.Second).Estimate())
	require.Equal(t, 2*time.Second, of(true, 2*time.Second, 0, 3*time.Second).Estimate(), "the end of one may let another begin")
}

// An estimate is requested only if objects are being deleted and the listing has no grace
// periods.
func TestEstimateIsAskedForWhenNeeded(t *testing.T) {
	slow := contenttest.Object{Name: "a", Grace: time.Hour}
	for _, tt := range []struct {
		name    string
		content func(*contenttest.Fake) deleter.Content
		object  contenttest.Object
		calls   int
		known   bool
	}{
		{"the items have grace periods", func(f *contenttest.Fake) deleter.Content { return f }, slow, 0, true},
		{"the source estimates", func(f *contenttest.Fake) deleter.Content { return graceless{f} }, slow, 1, true},
		{"held", func(f *contenttest.Fake) deleter.Content { return f }, heldFor(0), 0, false},
		{"gone", func(f *contenttest.Fake) deleter.Content { return f }, contenttest.Object{Name: "a"}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fake(nil, tt.object)
			report, err := compose(t, nil, source("pods", tt.content(f))).Delete(t.Context(), target(), deleter.Report{})
			require.NoError(t, err)
			require.Equal(t, tt.calls, f.Calls(estimate))
			require.Equal(t, tt.known, report.Estimate() > 59*time.Minute)
		})
	}
}

func TestProgress(t *testing.T) {
	remaining := func(n int) deleter.Report { return deleter.Report{Results: []deleter.Result{{Remaining: n}}} }
	failing := func(n int) deleter.Report {
		return deleter.Report{Results: []deleter.Result{{Remaining: n, Err: errBoom}}}
	}
	for _, tt := range []struct {
		name          string
		before, after deleter.Report
		want          bool
	}{
		{"the same", remaining(3), remaining(3), false},
		{"less left", remaining(3), remaining(2), true},
		{"more left", remaining(3), remaining(4), false},
		{"deleted", remaining(3), deleter.Report{Results: []deleter.Result{{Remaining: 3, Deleted: 1}}}, true},
		{"another clean", deleter.Report{}, deleter.Report{Clean: []namespace.ResourceType{core("a")}}, true},
		{"fewer failures", failing(0), remaining(3), true},
		{"less seen because more failed", remaining(3), failing(0), false},
		{"still failing", failing(0), failing(0), false},
		{"discovery again", deleter.Report{Discovery: []error{errBoom}, Failed: errBoom}, remaining(1), true},
	} {
		require.Equal(t, tt.want, tt.after.Progress(tt.before), tt.name)
	}
}
