package controller

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

func TestSnapshotKeepsWhatTheNextPassNeeds(t *testing.T) {
	var c catalog
	var types []namespace.ResourceType
	for _, name := range []string{"pods", "builds", "secrets"} {
		for _, group := range []string{"", "example.com"} {
			types = append(types, namespace.ResourceType{Name: name, Group: group})
		}
	}
	slices.SortFunc(types, namespace.ResourceType.Compare)
	for range 100 { // reports with random contents
		report := deleter.Report{UID: "u"}
		for _, r := range types {
			switch rand.IntN(4) {
			case 0:
				report.Clean = append(report.Clean, r)
			case 1:
				report.Results = append(report.Results, deleter.Result{Resource: r, Remaining: 1 + rand.IntN(9), Deleting: 1, Seen: "7", More: true})
			case 2:
				report.Results = append(report.Results, deleter.Result{Resource: r, Err: errors.New("broken")})
			}
			if rand.IntN(4) == 0 {
				report.LastSeen = append(report.LastSeen, deleter.ResourceCount{Resource: r, Objects: 1 + rand.IntN(9)})
			}
		}
		report.Provisional = time.Duration(rand.IntN(3)) * time.Second
		got := c.restore("u", c.snapshot(report))
		want := report
		want.Results = slices.Clone(report.Results)
		for i := range want.Results {
			if want.Results[i].Err != nil {
				want.Results[i].Err = errBefore
			}
		}
		require.Equal(t, want, got)
		require.Equal(t, len(report.Clean), c.snapshot(report).cleaned())
	}
	require.Equal(t, deleter.Report{UID: "v"}, c.restore("v", c.snapshot(deleter.Report{})))
	require.Equal(t, deleter.Report{}, c.restore("v", snapshot{}), "there was no pass")
}

// Unset hooks do not allocate.
func TestNoHooksAllocateNothing(t *testing.T) {
	for name, hooks := range map[string][]Hooks{"no hooks": nil, "no functions": {{}, {}}} {
		require.Zero(t, testing.AllocsPerRun(100, callHooks(hooks)), name)
	}
}

// BenchmarkHooksOff measures the calls of all hooks in one pass if no hook is set.
func BenchmarkHooksOff(b *testing.B) {
	call := callHooks(nil)
	b.ReportAllocs()
	for b.Loop() {
		call()
	}
}

// callHooks returns a function that calls every hook once.
func callHooks(hooks []Hooks) func() {
	o := observer{hooks: hooks}
	end := ending{attempt: &attempt{ref: namespace.Ref{Name: "a", UID: "1"}}}
	ref := end.attempt.ref
	return func() {
		o.queued(ref)
		ctx := o.started(context.Background(), ref)
		o.ended(ctx, end)
		o.retried(ref, time.Second, ReasonFailed)
		o.released(ref)
		o.finalized(ref)
		o.removed(ref)
	}
}
