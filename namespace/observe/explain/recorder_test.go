package explain_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/phase"
)

var (
	pods    = namespace.ResourceType{Name: "pods"}
	widgets = namespace.ResourceType{Group: "example.com", Name: "widgets"}
	shop    = namespace.Ref{Name: "shop", UID: "u-1"}
)

// passed reports a pass that took a second.
func passed(h controller.Hooks, ref namespace.Ref, outcome pass.Outcome, err error, report deleter.Report) {
	h.PassStarted(context.Background(), ref)
	time.Sleep(time.Second)
	ns := namespace.Namespace{Meta: namespace.Meta{Name: ref.Name, UID: ref.UID, DeletionTimestamp: phase.At(time.Unix(946684800, 0))}}
	h.PassEnded(context.Background(), ref, pass.Result{Outcome: outcome, Namespace: ns, Report: report}, err, time.Second)
}

func counted(resource namespace.ResourceType, deleted, remaining, deleting int) deleter.Report {
	return deleter.Report{Results: []deleter.Result{{Resource: resource, Deleted: deleted, Remaining: remaining, Deleting: deleting}}}
}

func TestRecorderCountsWhatHasGone(t *testing.T) {
	for _, c := range []struct {
		name               string
		reports            []deleter.Report
		removed, remaining int
	}{
		{"deleted at once", []deleter.Report{counted(pods, 10, 0, 0)}, 10, 0},
		{"marked, not gone", []deleter.Report{counted(pods, 10, 10, 10)}, 0, 10},
		{"marked, then gone in part", []deleter.Report{counted(pods, 10, 10, 10), counted(pods, 0, 4, 4)}, 6, 4},
		{"marked, then gone", []deleter.Report{counted(pods, 10, 10, 10), counted(pods, 0, 0, 0)}, 10, 0},
		{"a source that cannot count", []deleter.Report{counted(pods, 0, 10, 0), counted(pods, 0, 3, 0)}, 7, 3},
		{"empty for good", []deleter.Report{counted(pods, 10, 10, 10), {Clean: []namespace.ResourceType{pods}}}, 10, 0},
		{"in pages", []deleter.Report{counted(pods, 100, 200, 0), counted(pods, 100, 100, 0), counted(pods, 100, 0, 0)}, 300, 0},
		{"then another type", []deleter.Report{counted(pods, 10, 0, 0), counted(widgets, 5, 2, 0)}, 15, 2},
		{"a failure hides nothing", []deleter.Report{counted(pods, 0, 10, 0), {Results: []deleter.Result{{Resource: pods, Err: errors.New("x")}}}}, 0, 10},
		{"a hidden group hides nothing", []deleter.Report{counted(widgets, 0, 10, 0), {Discovery: []error{deleter.GroupError{Group: "example.com", Err: errors.New("x")}}}}, 0, 10},
		{"a hidden group beside one that answers", []deleter.Report{counted(widgets, 0, 10, 0), {
			Results: []deleter.Result{{Resource: pods}}, Discovery: []error{deleter.GroupError{Group: "example.com", Err: errors.New("x")}}}}, 0, 10},
		{"a type that was withdrawn", []deleter.Report{counted(widgets, 0, 10, 0), {}}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := explain.NewRecorder()
				h := r.Hooks("")
				for _, report := range c.reports {
					passed(h, shop, pass.Waiting, nil, report)
				}
				got := r.History("shop", "u-1").Recorded()
				require.Equal(t, c.removed, got.Removed)
				remaining := 0
				for _, o := range got.Objects {
					remaining += o.Remaining
				}
				require.Equal(t, c.remaining, remaining)
				require.Equal(t, c.remaining, got.Passes[len(got.Passes)-1].Remaining)
				require.Equal(t, len(c.reports), got.Total)
			})
		})
	}
}

func TestRecorderTellsSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := explain.NewRecorder()
		h := r.Hooks("")
		begin := time.Now().UTC()
		drained := func(remaining int, holders ...string) deleter.Report {
			report := counted(pods, 0, remaining, 0)
			for _, f := range holders {
				report.Results[0].Holders = append(report.Results[0].Holders, phase.Holder{Finalizer: f, Objects: 1})
			}
			return report
		}
		passed(h, shop, pass.Waiting, nil, drained(3, "a/a"))        // 1 s
		passed(h, shop, pass.Waiting, nil, drained(2, "a/a", "b/b")) // 2 s
		passed(h, shop, pass.Waiting, nil, drained(2, "a/a", "b/b")) // 3 s
		passed(h, shop, pass.Waiting, nil, drained(5, "b/b"))        // 4 s
		o := r.History("shop", "u-1").Recorded().Objects[0]
		require.Equal(t, begin.Add(2*time.Second), o.Since)
		require.Equal(t, begin.Add(4*time.Second), o.Counted)
		require.Len(t, o.HeldBy, 1)
		require.Equal(t, begin.Add(2*time.Second), o.HeldBy[0].Since)
		passed(h, shop, pass.Waiting, nil, drained(5, "a/a", "b/b")) // 5 s
		require.Equal(t, begin.Add(5*time.Second), r.History("shop", "u-1").Recorded().Objects[0].HeldBy[0].Since, "it had let go meanwhile")
	})
}

func TestRecorderSeesContentThatReturns(t *testing.T) {
	returning := func(t *testing.T, reports ...deleter.Report) (is bool) {
		synctest.Test(t, func(t *testing.T) {
			r := explain.NewRecorder()
			h := r.Hooks("")
			for _, report := range reports {
				passed(h, shop, pass.Waiting, nil, report)
			}
			is = r.History("shop", "u-1").Recorded().Objects[0].Returning
		})
		return is
	}
	same := counted(pods, 12, 12, 0)
	more := counted(pods, 10_000, 500, 0)
	more.Results[0].More = true
	require.True(t, returning(t, same, same, same, same))
	require.False(t, returning(t, same, same, same), "too early to tell")
	require.False(t, returning(t, counted(pods, 9, 4, 0), counted(pods, 1, 3, 0), counted(pods, 1, 2, 0), counted(pods, 1, 1, 0)), "it gets less")
	require.False(t, returning(t, more, more, more, more, more), "a look at the beginning counts nothing")
	require.False(t, returning(t, counted(pods, 12, 12, 12), counted(pods, 0, 12, 12), counted(pods, 0, 12, 12), counted(pods, 0, 12, 12)), "it is marked, and held")
}

func TestRecorderForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := explain.NewBoundedRecorder(0, 0, 2)
		h := r.Hooks("")
		ref := func(i int) namespace.Ref { return namespace.Ref{Name: fmt.Sprint("ns-", i), UID: "u"} }
		for i := range 4 {
			passed(h, ref(i), pass.Removed, nil, counted(pods, 2, 0, 0))
			h.Removed(ref(i))
			h.Removed(ref(i))
		}
		h.Removed(namespace.Ref{Name: "another's", UID: "u"})
		require.Equal(t, 2, r.Size(), "of those that were removed the latest")
		got := r.History("ns-3", "").Recorded()
		require.Equal(t, time.Now().UTC(), got.Ended)
		require.Equal(t, 2, got.Removed)
		require.Equal(t, "ns-3 is gone: it was removed 1m ago, 3s after its deletion", strings.TrimSpace(func() string {
			got.Deleted = got.Ended.Add(-3 * time.Second)
			return diagnose(input{Name: "ns-3", History: got, Now: time.Now().Add(time.Minute)}).Summary
		}()))
		time.Sleep(2 * time.Hour)
		require.Zero(t, r.Size())
		require.Zero(t, r.History("ns-3", "").Recorded())
	})
}

// A controller that stops never reports the removal of its namespaces.
func TestRecorderIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := explain.NewBoundedRecorder(10, 3, 0)
		h := r.Hooks("")
		for i := range 100 {
			passed(h, namespace.Ref{Name: fmt.Sprint("ns-", i), UID: "u"}, pass.Waiting, nil, counted(pods, 1, 1, 0))
		}
		require.Equal(t, 10, r.Size())
		require.NotZero(t, r.History("ns-99", "u").Recorded())

		for i := range 5 {
			report := deleter.Report{}
			for j := range 200 {
				name := fmt.Sprintf("%d-%d-%s", j, i, strings.Repeat("x", 1000))
				result := deleter.Result{Resource: namespace.ResourceType{Name: name}, Remaining: 5, Err: errors.New(name + strings.Repeat("é", 1000))}
				for k := range 100 {
					result.Sample = append(result.Sample, name)
					result.Holders = append(result.Holders, phase.Holder{Finalizer: fmt.Sprint(k, name), Objects: 1})
				}
				report.Results = append(report.Results, result)
			}
			passed(h, shop, pass.Failed, report.Err(), report)
		}
		got := r.History("shop", "u-1").Recorded()
		require.Len(t, got.Passes, 3)
		require.Equal(t, 5, got.Total)
		require.Len(t, got.Failures, 64)
		require.Len(t, got.Objects, 64)
		require.Len(t, got.Objects[0].HeldBy, 256/64/2)
		require.Len(t, got.Objects[0].Sample, 256/64/2)
		require.LessOrEqual(t, len(got.Objects[0].Resource), 506)
		require.LessOrEqual(t, len(got.Failures[0].Text), 400)
		require.LessOrEqual(t, len(got.Passes[0].Error), 400)
	})
}

func TestRecorderTellsPartiesApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := explain.NewRecorder()
		one, other := r.Hooks("kubernetes"), r.Hooks(origin)
		passed(one, shop, pass.Waiting, nil, counted(pods, 0, 3, 3))
		passed(other, shop, pass.Failed, errors.New("x"), deleter.Report{Failed: errors.New("x")})
		one.Retried(shop, 5*time.Second, controller.ReasonRemaining)
		other.Retried(shop, 3*time.Second, controller.ReasonFailed)
		h := r.History("shop", "u-1").Recorded()
		require.Equal(t, []string{"the deleter"}, h.Failing)
		require.Len(t, h.Objects, 1)
		require.Equal(t, explain.Next{At: time.Now().UTC().Add(3 * time.Second), Reason: "failed"}, h.Next)

		passed(one, shop, pass.Finalized, nil, counted(pods, 0, 0, 0))
		h = r.History("shop", "u-1").Recorded()
		require.Equal(t, []string{"the deleter"}, h.Failing, "the other's")
		require.Empty(t, h.Objects)
		require.Equal(t, 3, h.Removed)
		ns := dying(origin)
		ns.DeletionTimestamp = phase.At(time.Now())
		d := explain.Explain(explain.Input{Namespace: ns, History: r.History("shop", "u-1"), Now: time.Now()})
		require.WithinDuration(t, time.Now().Add(-time.Second), d.Holders[0].LastPass, 0)
	})
}

// The failure of a source that answered in between begins after that answer.
func TestRecorderTellsStreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := explain.NewRecorder()
		h := r.Hooks("")
		begin := time.Now().UTC()
		report := func(err error) deleter.Report {
			return deleter.Report{Results: []deleter.Result{{Resource: pods, Err: err}}}
		}
		for _, err := range []error{errors.New("a"), nil, errors.New("b"), errors.New("c"), errors.Join(errors.New("a"), errors.New("b"))} {
			passed(h, shop, pass.Failed, nil, report(err))
		}
		passed(h, shop, pass.Interrupted, context.Canceled, report(nil))
		got := r.History("shop", "u-1").Recorded()
		require.Equal(t, []string{"pods"}, got.Failing)
		require.Equal(t, map[string]explain.Failure{"pods": {First: begin.Add(3 * time.Second), Count: 3}}, r.History("shop", "u-1").Since())
		c := explain.Explain(explain.Input{Namespace: func() namespace.Namespace {
			ns := dying("kubernetes")
			ns.DeletionTimestamp = phase.At(begin)
			return ns
		}(), History: r.History("shop", "u-1"), Now: time.Now()}).Causes[0]
		require.Equal(t, begin.Add(3*time.Second), c.Since)
		require.Equal(t, "in 3 passes", c.Detail)
	})
}

// Without a uid, History selects the latest incarnation, always the same one.
func TestHistoryOfTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := explain.NewRecorder()
		h := r.Hooks("")
		for _, uid := range []string{"u-3", "u-1"} {
			passed(h, namespace.Ref{Name: "shop", UID: uid}, pass.Waiting, nil, deleter.Report{})
		}
		require.Equal(t, "u-1", r.History("shop", "").Recorded().UID)
		h.Queued(namespace.Ref{Name: "shop", UID: "u-2"})
		for range 30 {
			require.Equal(t, "u-2", r.History("shop", "").Recorded().UID, "of two at the same moment")
		}
		require.Zero(t, r.History("shop", "u-9").Recorded())
	})
}

// The rate covers the last minutes, and is zero if the latest passes removed nothing.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := explain.NewBoundedRecorder(0, 1000, 0)
		h := r.Hooks("")
		left := 10_000
		for range 600 { // in the first ten minutes one in a second
			left--
			passed(h, shop, pass.Waiting, nil, counted(pods, 1, left, 0))
		}
		require.InDelta(t, 1, r.History("shop", "u-1").Recorded().PerSecond, 0.01)
		for range 600 { // then ten
			left -= 10
			passed(h, shop, pass.Waiting, nil, counted(pods, 10, left, 0))
		}
		require.InDelta(t, 10, r.History("shop", "u-1").Recorded().PerSecond, 0.1, "the first minutes are forgotten")
		for range 3 {
			passed(h, shop, pass.Waiting, nil, counted(pods, 0, left, 0))
		}
		require.Zero(t, r.History("shop", "u-1").Recorded().PerSecond)
	})
}

// A history is a copy.
func TestHistoryIsACopy(t *testing.T) {
	r := explain.NewRecorder()
	h := r.Hooks("")
	report := counted(pods, 0, 1, 0)
	report.Results[0].Sample = []string{"a"}
	report.Results[0].Holders = []phase.Holder{{Finalizer: "a/b", Objects: 1, Sample: []string{"a"}}}
	h.PassEnded(context.Background(), shop, pass.Result{Outcome: pass.Waiting, Report: report}, nil, 0)
	got := r.History("shop", "u-1").Recorded()
	got.Objects[0].Sample[0], got.Objects[0].HeldBy[0].Sample[0], got.Passes[0].Outcome = "x", "x", "x"
	again := r.History("shop", "u-1").Recorded()
	require.Equal(t, []string{"a"}, again.Objects[0].Sample)
	require.Equal(t, []string{"a"}, again.Objects[0].HeldBy[0].Sample)
	require.Equal(t, "waiting", again.Passes[0].Outcome)
}

func TestRecorderIsSafeForConcurrentUse(t *testing.T) {
	r := explain.NewRecorder()
	done := make(chan struct{})
	for i := range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			h := r.Hooks("")
			for n := range 200 {
				h.Queued(shop)
				h.PassStarted(context.Background(), shop)
				h.PassEnded(context.Background(), shop, pass.Result{Outcome: pass.Waiting, Report: counted(pods, 1, n, i)}, nil, 0)
				h.Retried(shop, time.Second, controller.ReasonRemaining)
				_ = r.History("shop", "").Recorded()
				_ = r.Size()
			}
		}()
	}
	for range 4 {
		<-done
	}
	require.Equal(t, 800, r.History("shop", "u-1").Recorded().Total)
}
