package agent

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/phase"
)

// A pass is reported if the state changed, apart from numbers.
func TestOneLineForEachChange(t *testing.T) {
	t.Parallel()
	var lines []string
	p := newProgress(func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) })
	ref := namespace.Ref{Name: "a", UID: "1"}
	left := func(n int, holders ...phase.Holder) deleter.Result {
		return deleter.Result{Resource: namespace.ResourceType{Name: "pods"}, Remaining: n, Holders: holders}
	}
	ns := namespace.Namespace{}
	step := func(outcome pass.Outcome, err error, results ...deleter.Result) {
		p.passEnded(ref, pass.Result{Outcome: outcome, Namespace: ns, Report: deleter.Report{Results: results}}, err)
	}
	down := func(port int) error { return fmt.Errorf("read tcp 127.0.0.1:%d: connection reset", port) }
	step(pass.Waiting, nil, left(5))
	step(pass.Waiting, nil, left(4))
	step(pass.Interrupted, errors.New("interrupted"))
	held := phase.Holder{Finalizer: "example.com/keep", Objects: 1}
	step(pass.Waiting, nil, left(3, held))
	step(pass.Waiting, nil, left(2, held))
	require.Equal(t, 2, p.remaining())
	step(pass.Failed, down(1))
	step(pass.Failed, down(65535))
	ns.Spec.Finalizers = finalizer.NewSet("kubernetes")
	step(pass.Finalized, nil)
	step(pass.NoFinalizer, nil)
	step(pass.Finalized, nil)
	require.Zero(t, p.remaining())
	p.removed(ref)
	p.removed(namespace.Ref{Name: "of-others", UID: "2"})
	want := []string{
		`"a": waiting for pods (5 left)`,
		`"a": waiting for pods (3 left, held by example.com/keep)`,
		`"a": failed, retrying: read tcp 127.0.0.1:1: connection reset`,
		`"a": empty, finalizer removed; remaining finalizers: ["kubernetes"]`,
		`"a": namespace removed`,
	}
	require.Empty(t, cmp.Diff(want, lines))
	require.Empty(t, p.states, "removed namespaces are dropped")
}

func TestManyFailures(t *testing.T) {
	t.Parallel()
	var report deleter.Report
	for i := range 60 {
		report.Results = append(report.Results, deleter.Result{Err: fmt.Errorf("t%03d:\n failed", i)})
	}
	require.Equal(t, "t000: failed; t001: failed; t002: failed; and 57 more", failures(report, report.Err()))
	require.Equal(t, "read: lost", failures(deleter.Report{}, errors.New("read: lost")))
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	var r readiness
	require.Equal(t, "the agent is starting", r.get())
	for _, step := range []struct {
		reason  string
		changed bool
	}{
		{"port 1 refused", true},
		{"port 2 refused", false},
		{"reset", true},
		{"", true},
		{"", false},
		{"reset", true},
	} {
		require.Equal(t, step.changed, r.set(step.reason), step.reason)
		require.Equal(t, step.reason, r.get())
	}
}
