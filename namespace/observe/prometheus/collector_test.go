package prometheus_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/observe/prometheus"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/phase"
)

func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		name string
		f    finalizer.Name
		opts *prometheus.Options
		want string
	}{
		{"no finalizer", "", nil, "finalizer"},
		{"finalizer not qualified", "agent", nil, "fully qualified"},
		{"finalizer not UTF-8", "example.com/\xff", nil, "finalizer"},
		{"negative number of resources", agent, &prometheus.Options{Resources: -1}, "Options.Resources"},
		{"buckets out of order", agent, &prometheus.Options{WorkBuckets: []float64{2, 1}}, "Options.WorkBuckets[1]"},
		{"a bucket twice", agent, &prometheus.Options{DeletionBuckets: []float64{1, 1}}, "Options.DeletionBuckets[1]"},
		{"a bucket that is no number", agent, &prometheus.Options{WorkBuckets: []float64{math.NaN()}}, "must be a number"},
		{"a bucket of nothing", agent, &prometheus.Options{WorkBuckets: []float64{math.Inf(-1)}}, "must be a number"},
		{"oversized buckets", agent, &prometheus.Options{WorkBuckets: make([]float64, 1001)}, "at most 1000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			collector, err := prometheus.New(c.f, c.opts)
			require.Nil(t, collector)
			require.ErrorIs(t, err, namespace.ErrBadRequest)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// All known series exist from the start, so that their rates begin at zero.
func TestAtFirst(t *testing.T) {
	require.Empty(t, cmp.Diff([]string{
		"namespace_controller_queue_depth 0",
		`namespace_controller_retries_total{reason="estimate"} 0`,
		`namespace_controller_retries_total{reason="failed"} 0`,
		`namespace_controller_retries_total{reason="interrupted"} 0`,
		`namespace_controller_retries_total{reason="other"} 0`,
		`namespace_controller_retries_total{reason="remaining"} 0`,
		`namespace_controller_retries_total{reason="stale"} 0`,
		"namespace_controller_work_duration_seconds_sum 0",
		"namespace_controller_work_duration_seconds_count 0",
		"namespace_deletion_duration_seconds_sum 0",
		"namespace_deletion_duration_seconds_count 0",
		"namespace_finalize_conflicts_total 0",
		`namespace_passes_total{outcome="active"} 0`,
		`namespace_passes_total{outcome="failed"} 0`,
		`namespace_passes_total{outcome="finalized"} 0`,
		`namespace_passes_total{outcome="gone"} 0`,
		`namespace_passes_total{outcome="interrupted"} 0`,
		`namespace_passes_total{outcome="no finalizer"} 0`,
		`namespace_passes_total{outcome="other"} 0`,
		`namespace_passes_total{outcome="removed"} 0`,
		`namespace_passes_total{outcome="replaced"} 0`,
		`namespace_passes_total{outcome="waiting"} 0`,
		`namespace_terminating{stage="DeletingContent"} 0`,
		`namespace_terminating{stage="ReadyToRemove"} 0`,
		`namespace_terminating{stage="WaitingForFinalizers"} 0`,
		`namespace_terminating_oldest_seconds{stage="DeletingContent"} 0`,
		`namespace_terminating_oldest_seconds{stage="ReadyToRemove"} 0`,
		`namespace_terminating_oldest_seconds{stage="WaitingForFinalizers"} 0`,
	}, export(t, agent, nil).text(t)))
}

// Two parties in one process export two sets of series.
func TestTwoParties(t *testing.T) {
	one := export(t, agent, nil)
	two, err := prometheus.New(finalizer.Kubernetes, nil)
	require.NoError(t, err)
	require.NoError(t, one.registry.Register(two))
	again, err := prometheus.New(agent, nil)
	require.NoError(t, err)
	require.Error(t, one.registry.Register(again), "one party is counted once")
	two.Hooks().Queued(namespace.Ref{Name: "a", UID: "1"})
	require.Equal(t, []string{
		`namespace_controller_queue_depth{finalizer="kubernetes"} 1`,
		`namespace_terminating{finalizer="kubernetes",stage="DeletingContent"} 1`,
	}, one.values(t))
}

// A namespace is exported from its deletion to its removal.
func TestController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, w := export(t, agent, nil), newWorld(t, nil)
		w.run(t, controller.Options{Hooks: []controller.Hooks{e.Hooks()}})
		target := w.terminate(t, "a", "x", "y")
		time.Sleep(500 * time.Millisecond) // of the timestamps, which have no fraction
		synctest.Wait()
		values := e.values(t)
		require.Contains(t, values, `namespace_objects_deleted_total{resource="widgets.example.com"} 2`)
		require.Contains(t, values, `namespace_terminating{stage="DeletingContent"} 1`)
		require.Contains(t, values, oldest+`{stage="DeletingContent"} 0.5`)
		require.Equal(t, []string{"namespace_controller_queue_depth 0"}, e.of(t, "namespace_controller_queue_depth"))

		time.Sleep(time.Hour)
		synctest.Wait()
		values = e.values(t)
		require.Contains(t, values, oldest+`{stage="DeletingContent"} 3600.5`)
		require.Regexp(t, `namespace_passes_total\{outcome="waiting"\} [6-9]\d`, strings.Join(values, "\n"))
		require.Regexp(t, `namespace_controller_retries_total\{reason="remaining"\} [6-9]\d`, strings.Join(values, "\n"))

		w.content.Release(target, "x")
		w.content.Release(target, "y")
		synctest.Wait()
		time.Sleep(time.Minute)
		values = e.values(t)
		require.Contains(t, values, "namespace_deletion_duration_seconds_count 1")
		require.Contains(t, values, `namespace_passes_total{outcome="removed"} 1`)
		require.NotContains(t, strings.Join(values, "\n"), "namespace_terminating")
		text := strings.Join(e.of(t, "namespace_deletion_duration_seconds_sum"), "")
		require.Regexp(t, ` 36\d\d(\.\d+)?$`, text)
	})
}

// result is the result of a pass over a terminating namespace.
func result(ref namespace.Ref, outcome pass.Outcome, report deleter.Report) pass.Result {
	ns := namespace.Namespace{Meta: namespace.Meta{Name: ref.Name, UID: ref.UID}}
	ns.DeletionTimestamp = phase.Time{Time: time.Now()}
	ns.Spec.Finalizers = finalizer.NewSet(agent)
	return pass.Result{Outcome: outcome, Namespace: ns, Report: report}
}

func failing(resources ...namespace.ResourceType) deleter.Report {
	var report deleter.Report
	for _, r := range resources {
		report.Results = append(report.Results, deleter.Result{Resource: r, Err: errors.New("boom")})
	}
	return report
}

func things(i int) namespace.ResourceType {
	return namespace.ResourceType{Group: "example.com", Name: fmt.Sprintf("things%04d", i)}
}

// Failing sources are exported while they fail, with the number of namespaces.
func TestSourcesFailing(t *testing.T) {
	e := export(t, agent, nil)
	h := e.Hooks()
	a, b := namespace.Ref{Name: "a", UID: "1"}, namespace.Ref{Name: "b", UID: "2"}
	const name = "namespace_sources_failing"
	step := func(ref namespace.Ref, outcome pass.Outcome, report deleter.Report, want ...string) {
		t.Helper()
		h.Queued(ref)
		h.PassStarted(context.Background(), ref)
		h.PassEnded(context.Background(), ref, result(ref, outcome, report), report.Err(), time.Second)
		require.Equal(t, want, e.of(t, name))
	}
	one, two := name+`{resource="things0001.example.com"} `, name+`{resource="things0002.example.com"} `
	found, whole := name+`{resource="(discovery)"} `, name+`{resource="(deleter)"} `
	step(a, pass.Waiting, deleter.Report{})
	step(a, pass.Failed, failing(things(1)), one+"1")
	step(b, pass.Failed, failing(things(1), things(2)), one+"2", two+"1")
	step(a, pass.Interrupted, deleter.Report{}, one+"2", two+"1")
	step(b, pass.Failed, failing(things(2)), one+"1", two+"1")
	beyond := failing()
	beyond.Discovery = []error{errors.New("boom"), errors.New("bang")}
	beyond.Failed = errors.New("boom")
	step(a, pass.Failed, beyond, whole+"1", found+"1", one+"0", two+"1")
	h.Removed(b)
	h.Released(a)
	require.Equal(t, []string{whole + "0", found + "0", one + "0", two + "0"}, e.of(t, name))
}

// The number of labels is bounded, and no deletion is lost.
func TestLabelsAreBounded(t *testing.T) {
	for bound, opts := range map[int]*prometheus.Options{200: nil, 3: {Resources: 3}} {
		e := export(t, agent, opts)
		h, ref := e.Hooks(), namespace.Ref{Name: "a", UID: "1"}
		h.Queued(ref)
		var report deleter.Report
		for i := range 1000 {
			report.Results = append(report.Results, deleter.Result{Resource: things(i), Deleted: 2, Err: errors.New("boom")})
		}
		for range 3 {
			h.PassEnded(context.Background(), ref, result(ref, pass.Failed, report), nil, time.Second)
		}
		deleted, failing := e.of(t, "namespace_objects_deleted_total"), e.of(t, "namespace_sources_failing")
		require.Len(t, deleted, bound+1)
		require.Len(t, failing, bound+1)
		require.Contains(t, deleted, fmt.Sprintf(`namespace_objects_deleted_total{resource="other"} %d`, 6*(1000-bound)))
		require.Contains(t, failing, `namespace_sources_failing{resource="other"} 1`, "namespaces are counted, not types")
	}
}

// Types that are always empty take no label.
func TestQuietTypesTakeNoLabel(t *testing.T) {
	e := export(t, agent, &prometheus.Options{Resources: 1})
	h, ref := e.Hooks(), namespace.Ref{Name: "a", UID: "1"}
	h.Queued(ref)
	report := deleter.Report{Results: []deleter.Result{{Resource: things(1)}, {Resource: things(2), Remaining: 7}, {Resource: things(3), Deleted: 1}}}
	h.PassEnded(context.Background(), ref, result(ref, pass.Waiting, report), nil, time.Second)
	require.Equal(t, []string{`namespace_objects_deleted_total{resource="things0003.example.com"} 1`}, e.of(t, "namespace_objects_deleted_total"))
}

// A custom deleter may use any name for a type.
func TestHostileNames(t *testing.T) {
	e := export(t, agent, nil)
	h, ref := e.Hooks(), namespace.Ref{Name: "\xff\n\"", UID: "\xff"}
	h.Queued(ref)
	var report deleter.Report
	for _, r := range []namespace.ResourceType{
		{Name: "\xff"}, {Name: "\xfe"}, {Name: "a.b", Group: "c"}, {Name: "a", Group: "b.c"}, {Name: "other"}, {Name: "(discovery)"},
		{Name: "\"}\n# HELP x"}, {Name: strings.Repeat("é", 5000)}, {},
	} {
		report.Results = append(report.Results, deleter.Result{Resource: r, Deleted: 1, Err: errors.New("boom")})
	}
	h.PassEnded(context.Background(), ref, result(ref, pass.Failed, report), nil, time.Second)
	h.PassEnded(context.Background(), ref, result(ref, pass.Outcome(99), report), nil, time.Second)
	h.PassEnded(context.Background(), ref, result(ref, 0, report), nil, -time.Second)
	h.Retried(ref, 0, "\xff")
	deleted := e.of(t, "namespace_objects_deleted_total")
	require.Len(t, deleted, 7, "two that look alike are one")
	require.Contains(t, deleted, `namespace_objects_deleted_total{resource="a.b.c"} 6`)
	require.Contains(t, deleted, "namespace_objects_deleted_total{resource=\"\uFFFD\"} 6")
	require.Contains(t, deleted, `namespace_objects_deleted_total{resource="\"}\n# HELP x"} 3`)
	require.Contains(t, e.values(t), `namespace_passes_total{outcome="other"} 2`)
	require.Contains(t, e.values(t), `namespace_controller_retries_total{reason="other"} 1`)
	for _, line := range deleted {
		require.Less(t, len(line), 600)
	}
}

// The stages are those of the last passes.
func TestStages(t *testing.T) {
	e := export(t, agent, nil)
	h, ref := e.Hooks(), namespace.Ref{Name: "a", UID: "1"}
	stage := func(want string) {
		t.Helper()
		var got []string
		for _, line := range e.of(t, "namespace_terminating") {
			if !strings.HasSuffix(line, " 0") {
				got = append(got, line)
			}
		}
		require.Equal(t, []string{`namespace_terminating{stage="` + want + `"} 1`}, got)
	}
	h.Queued(ref)
	stage("DeletingContent")
	r := result(ref, pass.Waiting, deleter.Report{})
	h.PassEnded(context.Background(), ref, r, nil, time.Second)
	stage("DeletingContent")
	r.Outcome = pass.Finalized
	r.Namespace.Spec.Finalizers = finalizer.NewSet("example.com/late")
	r.Namespace.Status.Conditions = phase.Conditions(nil, phase.Observation{}, "", time.Now())
	h.PassEnded(context.Background(), ref, r, nil, time.Second)
	stage("WaitingForFinalizers")
	r.Namespace.Spec.Finalizers = finalizer.Set{}
	h.PassEnded(context.Background(), ref, r, nil, time.Second)
	stage("ReadyToRemove")
	another := result(namespace.Ref{Name: "a", UID: "2"}, pass.Failed, deleter.Report{})
	h.PassEnded(context.Background(), ref, another, nil, time.Second)
	stage("ReadyToRemove") // another incarnation does not count
}

// Conflicts add up.
func TestConflicts(t *testing.T) {
	e := export(t, agent, nil)
	ref := namespace.Ref{Name: "a", UID: "1"}
	for range 2 {
		e.Hooks().PassEnded(context.Background(), ref, pass.Result{Outcome: pass.Finalized, Conflicts: 3}, nil, time.Second)
	}
	require.Equal(t, []string{"namespace_finalize_conflicts_total 6"}, e.of(t, "namespace_finalize_conflicts_total"))
}

// Clear drops namespaces and keeps counters.
func TestClear(t *testing.T) {
	e := export(t, agent, nil)
	h, ref := e.Hooks(), namespace.Ref{Name: "a", UID: "1"}
	h.Queued(ref)
	h.PassEnded(context.Background(), ref, result(ref, pass.Failed, failing(things(1))), nil, time.Second)
	e.Clear()
	want := []string{
		"namespace_controller_work_duration_seconds_sum 1",
		"namespace_controller_work_duration_seconds_count 1",
		`namespace_passes_total{outcome="failed"} 1`,
	}
	require.Equal(t, want, e.values(t))
	h.Removed(ref) // by a pass that was running
	h.Released(ref)
	require.Equal(t, want, e.values(t))
}

var _ client.Collector = (*prometheus.Collector)(nil)
