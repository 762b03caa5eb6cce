package prometheus_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/observe/prometheus"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/phase"
)

// A namespace that a pass did not find terminating is not counted.
func TestNotTerminating(t *testing.T) {
	for _, outcome := range []pass.Outcome{pass.Active, pass.Replaced} {
		e := export(t, agent, nil)
		h, ref := e.Hooks(), namespace.Ref{Name: "a", UID: "1"}
		h.Queued(ref)
		h.PassStarted(context.Background(), ref)
		h.PassEnded(context.Background(), ref, pass.Result{Outcome: outcome}, nil, 0)
		require.Equal(t, []string{
			"namespace_controller_work_duration_seconds_count 1",
			fmt.Sprintf(`namespace_passes_total{outcome="%v"} 1`, outcome),
		}, e.values(t))
	}
}

const oldest = "namespace_terminating_oldest_seconds"

// The oldest namespace is the one that was deleted first, in any order of reports.
func TestOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := export(t, agent, nil)
		h := e.Hooks()
		for i, minutes := range []int{5, 90, 30, 1} {
			ref := namespace.Ref{Name: fmt.Sprint(i), UID: "1"}
			h.Queued(ref)
			r := result(ref, pass.Waiting, deleter.Report{})
			r.Namespace.DeletionTimestamp = phase.Time{Time: time.Now().Add(-time.Duration(minutes) * time.Minute)}
			h.PassEnded(context.Background(), ref, r, nil, time.Second)
			r.Namespace.DeletionTimestamp = phase.Time{} // as after a failed read
			r.Outcome = pass.Failed
			h.PassEnded(context.Background(), ref, r, nil, time.Second)
		}
		h.Queued(namespace.Ref{Name: "not-looked-at-yet", UID: "1"})
		require.Contains(t, e.of(t, oldest), oldest+`{stage="DeletingContent"} 5400`)
	})
}

// A clock that is behind the clock of the namespaces' storage yields no negative time.
func TestClockBehind(t *testing.T) {
	e := export(t, agent, nil)
	h, ref := e.Hooks(), namespace.Ref{Name: "a", UID: "1"}
	h.Queued(ref)
	r := result(ref, pass.Removed, deleter.Report{})
	r.Namespace.DeletionTimestamp = phase.Time{Time: time.Now().Add(time.Hour)}
	h.PassEnded(context.Background(), ref, r, nil, time.Second)
	require.Contains(t, e.of(t, oldest), oldest+`{stage="DeletingContent"} 0`)
	h.Removed(ref)
	require.Equal(t, []string{"namespace_deletion_duration_seconds_sum 0"}, e.of(t, "namespace_deletion_duration_seconds_sum"))
	require.Equal(t, []string{"namespace_deletion_duration_seconds_count 1"}, e.of(t, "namespace_deletion_duration_seconds_count"))
}

// A namespace in which several types without their own label fail counts once.
func TestOtherIsCountedOnce(t *testing.T) {
	e := export(t, agent, &prometheus.Options{Resources: 1})
	h, ref := e.Hooks(), namespace.Ref{Name: "a", UID: "1"}
	h.Queued(ref)
	for range 2 {
		h.PassEnded(context.Background(), ref, result(ref, pass.Failed, failing(things(5))), nil, time.Second)
		h.PassEnded(context.Background(), ref, result(ref, pass.Failed, failing(things(1), things(5), things(7))), nil, time.Second)
		require.Equal(t, []string{
			`namespace_sources_failing{resource="other"} 1`,
			`namespace_sources_failing{resource="things0005.example.com"} 1`,
		}, e.of(t, "namespace_sources_failing"))
	}
}

// The collector does not modify or keep the caller's buckets.
func TestBucketsAreCopied(t *testing.T) {
	work, deletion := []float64{1, 2}, []float64{3, 4}
	e := export(t, agent, &prometheus.Options{WorkBuckets: work, DeletionBuckets: deletion})
	clear(work)
	clear(deletion)
	families, err := e.registry.Gather()
	require.NoError(t, err)
	got := map[string][]float64{}
	for _, family := range families {
		for _, bucket := range family.GetMetric()[0].GetHistogram().GetBucket() {
			got[family.GetName()] = append(got[family.GetName()], bucket.GetUpperBound())
		}
	}
	require.Equal(t, map[string][]float64{
		"namespace_controller_work_duration_seconds": {1, 2},
		"namespace_deletion_duration_seconds":        {3, 4},
	}, got)
}
