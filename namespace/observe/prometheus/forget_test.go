package prometheus_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/phase"
)

const (
	terminating = "namespace_terminating"
	durations   = "namespace_deletion_duration_seconds"
)

// since returns the result of a pass over a namespace of that age with these finalizers.
func since(ref namespace.Ref, age time.Duration, outcome pass.Outcome, holders ...finalizer.Name) pass.Result {
	r := result(ref, outcome, deleter.Report{})
	r.Namespace.DeletionTimestamp = phase.Time{Time: time.Now().Add(-age)}
	r.Namespace.Spec.Finalizers = finalizer.NewSet(holders...)
	return r
}

// A namespace that the party never held is not counted until its finalizer is added.
func TestNeverHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := export(t, agent, nil)
		h, ref := e.Hooks(), namespace.Ref{Name: "a", UID: "1"}
		h.Queued(ref)
		h.PassStarted(context.Background(), ref)
		h.PassEnded(context.Background(), ref, since(ref, time.Hour, pass.NoFinalizer, "example.com/late"), nil, 0)
		for _, line := range append(e.of(t, terminating), e.of(t, oldest)...) {
			require.Regexp(t, " 0$", line)
		}
		h.Queued(ref)
		h.PassStarted(context.Background(), ref)
		h.PassEnded(context.Background(), ref, since(ref, time.Hour, pass.Waiting, agent), nil, 0)
		require.Contains(t, e.of(t, terminating), terminating+`{stage="DeletingContent"} 1`)
		require.Contains(t, e.of(t, oldest), oldest+`{stage="DeletingContent"} 3600`)
	})
}

// A namespace that the party has finished waits for other parties, even while those delete
// content. Its removal is measured.
func TestLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := export(t, agent, nil)
		h, ref := e.Hooks(), namespace.Ref{Name: "a", UID: "1"}
		h.Queued(ref)
		r := since(ref, time.Hour, pass.Finalized, "example.com/late")
		r.Namespace.Status.Conditions = []phase.Condition{{Type: phase.ContentRemaining, Status: phase.True}}
		h.PassEnded(context.Background(), ref, r, nil, 0)
		waits := []string{
			terminating + `{stage="DeletingContent"} 0`, terminating + `{stage="ReadyToRemove"} 0`, terminating + `{stage="WaitingForFinalizers"} 1`,
		}
		require.Equal(t, waits, e.of(t, terminating))
		require.Contains(t, e.of(t, oldest), oldest+`{stage="WaitingForFinalizers"} 3600`)
		r.Outcome = pass.NoFinalizer
		h.Queued(ref)
		h.PassEnded(context.Background(), ref, r, nil, 0)
		require.Equal(t, waits, e.of(t, terminating))
		h.Removed(ref)
		require.Equal(t, []string{durations + "_sum 3600"}, e.of(t, durations+"_sum"))
	})
}

// The last pass of a party often finds the namespace gone, because another party removed it.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := export(t, agent, nil)
		h, ref := e.Hooks(), namespace.Ref{Name: "a", UID: "1"}
		h.Queued(ref)
		failed := since(ref, time.Hour, pass.Failed, agent)
		failed.Report = failing(things(1))
		h.PassEnded(context.Background(), ref, failed, failed.Report.Err(), time.Second)
		h.Queued(ref)
		h.PassStarted(context.Background(), ref)
		h.PassEnded(context.Background(), ref, pass.Result{Outcome: pass.Gone}, nil, 0)
		require.Equal(t, []string{`namespace_sources_failing{resource="things0001.example.com"} 0`}, e.of(t, "namespace_sources_failing"))
		h.Removed(ref)
		require.Equal(t, []string{durations + "_sum 3600"}, e.of(t, durations+"_sum"))
		require.Equal(t, []string{durations + "_count 1"}, e.of(t, durations+"_count"))
		for _, line := range append(e.of(t, terminating), e.of(t, oldest)...) {
			require.Regexp(t, " 0$", line)
		}
	})
}

// A controller may learn that it has lost a namespace after another one in the process has
// queued it and runs a pass.
func TestHandOver(t *testing.T) {
	e := export(t, agent, nil)
	one, two, ref := e.Hooks(), e.Hooks(), namespace.Ref{Name: "a", UID: "1"}
	one.Queued(ref)
	two.Queued(ref)
	one.PassStarted(context.Background(), ref)
	one.PassEnded(context.Background(), ref, result(ref, pass.Waiting, deleter.Report{}), nil, time.Second)
	one.Released(ref)
	require.Contains(t, e.of(t, terminating), terminating+`{stage="DeletingContent"} 1`)
	two.PassStarted(context.Background(), ref)
	one.Removed(ref)
	two.Removed(ref)
	require.Contains(t, e.of(t, terminating), terminating+`{stage="DeletingContent"} 0`)
	require.Equal(t, []string{durations + "_count 1"}, e.of(t, durations+"_count"), "its end is one")
}

// A controller that has lost a namespace may learn of its removal before the pass of the other
// controller, which removed it, is reported.
func TestHandOverAtTheEnd(t *testing.T) {
	e := export(t, agent, nil)
	one, two, ref := e.Hooks(), e.Hooks(), namespace.Ref{Name: "a", UID: "1"}
	one.Queued(ref)
	one.Released(ref)
	two.Queued(ref)
	two.PassStarted(context.Background(), ref)
	one.Removed(ref)
	two.PassEnded(context.Background(), ref, since(ref, time.Hour, pass.Removed), nil, time.Second)
	two.Removed(ref)
	require.Equal(t, []string{durations + "_count 1"}, e.of(t, durations+"_count"))
	for _, line := range e.of(t, terminating) {
		require.Regexp(t, " 0$", line)
	}
}

// The duration of a failure belongs to one namespace. Single failures of many namespaces do
// not add up.
func TestFailingFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := export(t, agent, nil)
		h := e.Hooks()
		check := func(ref namespace.Ref, report deleter.Report, want ...string) {
			t.Helper()
			h.Queued(ref)
			h.PassEnded(context.Background(), ref, result(ref, pass.Failed, report), report.Err(), time.Second)
			require.Equal(t, want, e.of(t, "namespace_sources_failing_seconds"))
			time.Sleep(time.Minute)
		}
		a, b := namespace.Ref{Name: "a", UID: "1"}, namespace.Ref{Name: "b", UID: "1"}
		one, two := `namespace_sources_failing_seconds{resource="things0001.example.com"} `, `namespace_sources_failing_seconds{resource="things0002.example.com"} `
		check(a, failing(things(1)), one+"0")
		check(a, deleter.Report{}, one+"0")
		check(b, failing(things(1)), one+"0")
		check(a, failing(things(1)), one+"60")
		check(a, failing(things(2), things(1)), one+"120", two+"0")
		check(b, deleter.Report{}, one+"120", two+"60")
		h.Removed(a)
		require.Equal(t, []string{one + "0", two + "0"}, e.of(t, "namespace_sources_failing_seconds"))
	})
}
