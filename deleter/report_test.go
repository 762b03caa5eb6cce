package deleter_test

import (
	"errors"
	"fmt"
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

// While content may still be created, no report is final (rule R7).
func TestR7_ProvisionalReportIsNotEmpty(t *testing.T) {
	r := deleter.Report{Results: []deleter.Result{{Resource: core("pods")}}}
	require.True(t, r.Empty())
	r.Provisional = 3 * time.Second
	require.False(t, r.Empty())
	require.NoError(t, r.Err())
	require.Equal(t, 3*time.Second, r.Estimate())
	require.Equal(t, 3*time.Second, r.Compact().Provisional)
	require.False(t, r.Observation().Empty())
	for _, c := range phase.Conditions(nil, r.Observation(), "", time.Now()) {
		if c.Type == phase.ContentRemaining {
			require.Equal(t, phase.Unknown, c.Status)
			require.Equal(t, "No remaining resources were seen, but new objects may still appear; the next pass checks again", c.Message)
		}
	}
	r.Results[0].Remaining, r.Results[0].Deleting = 1, 1
	require.Zero(t, r.Estimate(), "the remaining objects have no estimate")
}

func TestSourceOf(t *testing.T) {
	widgets := namespace.ResourceType{Group: "example.com", Name: "widgets"}
	group := deleter.GroupError{Group: "example.com", Err: errBoom}
	for want, err := range map[string]error{
		"widgets.example.com": errors.Join(errBoom, &deleter.SourceError{Resource: widgets, Err: group}),
		"example.com":         errors.Join(errBoom, group),
	} {
		require.Equal(t, want, deleter.SourceOf(err))
	}
	for _, err := range []error{nil, errBoom, deleter.GroupError{Err: errBoom}} {
		require.Empty(t, deleter.SourceOf(err))
	}
}

func TestLastCounts(t *testing.T) {
	r := deleter.Report{
		Results:  []deleter.Result{{Resource: core("a"), Remaining: 3}, {Resource: core("b"), Remaining: 1}, {Resource: core("c")}, {Resource: core("d"), Waiting: true}},
		LastSeen: []deleter.ResourceCount{{core("b"), 2}, {core("d"), 4}, {core("e"), 5}},
	}
	want := []deleter.ResourceCount{{core("a"), 3}, {core("b"), 2}, {core("d"), 4}, {core("e"), 5}}
	require.Empty(t, cmp.Diff(want, r.LastCounts()))
	require.Empty(t, cmp.Diff(want, r.Compact().LastCounts()))
	require.Empty(t, cmp.Diff(deleter.Report{}, deleter.Report{Waived: []error{errBoom}}.Compact(), cmpopts.EquateErrors()))
	require.Nil(t, deleter.Report{}.LastCounts())
}

// misbehave panics if the script says so.
func (s *scripted) misbehave(err error) {
	switch err {
	case errPanic:
		panic(err)
	}
}
