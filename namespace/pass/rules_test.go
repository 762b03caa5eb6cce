package pass_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/phase"
)

// A party removes its finalizer only after every source answered that no object is left. Any
// other answer of a deleter, with or without an error, fails closed.
func TestR7_NoDoubtfulAnswerFinalizes(t *testing.T) {
	broken := errors.New("broken")
	one := func(r deleter.Result) deleter.Report {
		r.Resource = pods
		return deleter.Report{Results: []deleter.Result{r}}
	}
	for name, report := range map[string]deleter.Report{
		"content left":          one(deleter.Result{Remaining: 1}),
		"a source failed":       one(deleter.Result{Err: broken}),
		"not asked":             one(deleter.Result{Waiting: true}),
		"not finished":          one(deleter.Result{More: true}),
		"a count without sense": one(deleter.Result{Remaining: -1}),
		"held":                  one(deleter.Result{Holders: []phase.Holder{{Finalizer: "example.com/f", Objects: 1}}}),
		"holders that cancel out": {Results: []deleter.Result{
			{Resource: pods, Holders: []phase.Holder{{Finalizer: "example.com/f", Objects: 1}}},
			{Resource: widgets, Holders: []phase.Holder{{Finalizer: "example.com/f", Objects: -1}}},
		}},
		"discovery failed":        {Discovery: []error{broken}},
		"a group was not read":    {Parsing: []error{broken}},
		"something else failed":   {Failed: broken},
		"one of two has failed":   {Results: []deleter.Result{{Resource: pods}, {Resource: widgets, Err: broken}}},
		"one of two has not":      {Results: []deleter.Result{{Resource: pods}, {Resource: widgets, Remaining: 1}}},
		"empty, but with failure": {Results: []deleter.Result{{Resource: pods}}, Discovery: []error{broken}},
	} {
		for _, err := range []error{nil, broken} {
			t.Run(fmt.Sprintf("%s, error %v", name, err), func(t *testing.T) {
				h := new(controllertest.Host)
				terminate(t, h, "a")
				result, failed := run(t, h, sees(report, err), kubernetes, "a")
				require.True(t, result.Outcome.Again(), "outcome %v", result.Outcome)
				if report.Err() != nil {
					require.ErrorIs(t, failed, broken, "also if the deleter returns none")
				}
				require.True(t, hosted(t, h, "a").Spec.Finalizers.Has(finalizer.Kubernetes))
			})
		}
	}
	t.Run("an error alone", func(t *testing.T) {
		h := new(controllertest.Host)
		terminate(t, h, "a")
		result, err := run(t, h, sees(deleter.Report{}, broken), kubernetes, "a")
		require.ErrorIs(t, err, broken)
		require.Equal(t, pass.Failed, result.Outcome)
		require.True(t, hosted(t, h, "a").Spec.Finalizers.Has(finalizer.Kubernetes))
	})
}

// The deletion follows the read of the terminating namespace, so its observation cannot be
// older than the termination.
func TestR7_TheLookFollowsTheRead(t *testing.T) {
	h := new(controllertest.Host)
	create(t, h, "a")
	asked := false
	d := deleterFunc(func(context.Context, deleter.Target, deleter.Report) (deleter.Report, error) {
		asked = true
		require.Equal(t, phase.Terminating, hosted(t, h, "a").Phase())
		return deleter.Report{}, nil
	})
	result, err := run(t, h, d, kubernetes, "a")
	require.NoError(t, err)
	require.Equal(t, pass.Active, result.Outcome)
	require.False(t, asked, "an active namespace has no content to delete")

	_, err = h.Delete(t.Context(), "a")
	require.NoError(t, err)
	_, err = run(t, h, d, kubernetes, "a")
	require.NoError(t, err)
	require.True(t, asked)
}

// replace ends the incarnation of a name and begins another, which is terminating too.
func replace(t *testing.T, h *controllertest.Host, name string) namespace.Namespace {
	t.Helper()
	setFinalizers(t, h, name)
	return terminate(t, h, name, "openshift.com/origin")
}

func TestR8_AnotherIncarnationIsLeftAlone(t *testing.T) {
	h := new(controllertest.Host)
	old := terminate(t, h, "a")
	now := replace(t, h, "a")
	result, err := pass.Run(t.Context(), h, deleterFunc(func(context.Context, deleter.Target, deleter.Report) (deleter.Report, error) {
		t.Error("the deleter was asked")
		return deleter.Report{}, nil
	}), kubernetes, pass.Request{Name: "a", UID: old.UID})
	require.NoError(t, err)
	require.Equal(t, pass.Replaced, result.Outcome)
	require.Equal(t, now, hosted(t, h, "a"))
}

// The incarnation changes before each call of a pass in turn. The pass never changes the new
// one.
func TestR8_ReplacedAtEachStep(t *testing.T) {
	for _, d := range []struct {
		name    string
		deleter deleter.Deleter
	}{{"empty", nothingLeft}, {"content left", sees(left(pods, 1), nil)}, {"failed", sees(deleter.Report{}, errors.New("broken"))}} {
		for _, finalizers := range [][]finalizer.Name{nil, {"openshift.com/origin"}} {
			for k := 1; ; k++ {
				h := new(controllertest.Host)
				terminate(t, h, "a", finalizers...)
				var now namespace.Namespace
				replaced, calls, late := false, 0, []controllertest.Op{}
				namespaces := &controllertest.Intercept{Namespaces: h,
					Before: func(_ context.Context, op controllertest.Op, _ string) error {
						if calls++; calls == k+1 {
							now, replaced = replace(t, h, "a"), true
						}
						return nil
					},
					After: func(_ context.Context, op controllertest.Op, _ string) error {
						if replaced && op != controllertest.OpGet {
							late = append(late, op)
						}
						return nil
					}}
				result, _ := pass.Run(t.Context(), namespaces, d.deleter, kubernetes, pass.Request{Name: "a"})
				if !replaced {
					break
				}
				require.Empty(t, late, "%s, step %d: written after the replacement", d.name, k)
				require.Equal(t, now, hosted(t, h, "a"), "%s, step %d", d.name, k)
				require.Equal(t, pass.Replaced, result.Outcome)
			}
		}
	}
}

// Every exit leaves conditions that are true to the observation of the pass.
func TestR9_ConditionsTellWhatWasSeen(t *testing.T) {
	broken := errors.New("broken")
	const (
		no  = phase.False
		yes = phase.True
		unk = phase.Unknown
	)
	panics := deleterFunc(func(context.Context, deleter.Target, deleter.Report) (deleter.Report, error) { panic("oh") })
	half := deleter.Report{Results: []deleter.Result{{Resource: pods, Err: broken}, {Resource: widgets, Remaining: 2,
		Holders: []phase.Holder{{Finalizer: "example.com/f", Objects: 2}}}}}
	for _, c := range []struct {
		name    string
		deleter deleter.Deleter
		want    [5]phase.ConditionStatus // discovery, parsing, content, remaining, finalizers
	}{
		{"empty", nothingLeft, [5]phase.ConditionStatus{no, no, no, no, no}},
		{"content left", sees(left(pods, 2), nil), [5]phase.ConditionStatus{no, no, no, yes, no}},
		{"half", sees(half, broken), [5]phase.ConditionStatus{no, no, yes, yes, yes}},
		{"an error that is not in the report", sees(deleter.Report{}, broken), [5]phase.ConditionStatus{no, no, yes, unk, unk}},
		{"failed, but no error returned", sees(half, nil), [5]phase.ConditionStatus{no, no, yes, yes, yes}},
		{"discovery", sees(deleter.Report{Discovery: []error{broken}}, broken), [5]phase.ConditionStatus{yes, no, no, unk, unk}},
		{"parsing", sees(deleter.Report{Parsing: []error{broken}}, broken), [5]phase.ConditionStatus{no, yes, no, unk, unk}},
		{"a panic", panics, [5]phase.ConditionStatus{no, no, yes, unk, unk}},
		{"not asked", sees(deleter.Report{Results: []deleter.Result{{Resource: pods, Waiting: true}}}, nil), [5]phase.ConditionStatus{no, no, no, unk, unk}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, before := range []deleter.Deleter{nil, nothingLeft, sees(half, broken), panics} { // whatever the conditions were
				h := new(controllertest.Host)
				terminate(t, h, "a", "openshift.com/origin")
				if before != nil {
					_, _ = run(t, h, before, kubernetes, "a")
					setFinalizers(t, h, "a", "kubernetes", "openshift.com/origin")
				}
				_, _ = run(t, h, c.deleter, kubernetes, "a")
				got := statuses(hosted(t, h, "a"))
				require.Len(t, got, 5)
				for i, condition := range []phase.ConditionType{phase.DiscoveryFailure, phase.GroupVersionParsingFailure,
					phase.ContentFailure, phase.ContentRemaining, phase.FinalizersRemaining} {
					require.Equal(t, c.want[i], got[condition], condition)
				}
			}
		})
	}
}

// A pass that is interrupted during the deletion writes no conditions.
func TestR9_InterruptedWritesNothing(t *testing.T) {
	h := new(controllertest.Host)
	terminate(t, h, "a")
	_, err := run(t, h, sees(left(pods, 2), nil), kubernetes, "a")
	require.NoError(t, err)
	before := hosted(t, h, "a")

	stop := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	namespaces, calls := counting(h)
	result, err := pass.Run(ctx, namespaces, deleterFunc(func(ctx context.Context, _ deleter.Target, _ deleter.Report) (deleter.Report, error) {
		cancel(stop)
		return deleter.Report{Results: []deleter.Result{{Resource: pods, Err: ctx.Err()}}}, ctx.Err()
	}), kubernetes, pass.Request{Name: "a"})
	require.ErrorIs(t, err, stop)
	require.Equal(t, pass.Interrupted, result.Outcome)
	require.True(t, result.Outcome.Again())
	require.Equal(t, map[controllertest.Op]int{"get": 1}, calls)
	require.Equal(t, before, hosted(t, h, "a"))
}

// A pass does not write the status of a namespace that it removes. If the removal fails, the
// namespace stays, and its conditions must be true.
func TestR9_FailedRemovalWritesStatus(t *testing.T) {
	h := new(controllertest.Host)
	terminate(t, h, "a")
	_, err := run(t, h, sees(left(pods, 2), nil), kubernetes, "a")
	require.NoError(t, err)
	full := errors.New("disk full")
	namespaces := &controllertest.Intercept{Namespaces: h, Before: func(_ context.Context, op controllertest.Op, _ string) error {
		if op == controllertest.OpFinalize {
			return full
		}
		return nil
	}}
	result, err := run(t, namespaces, nothingLeft, kubernetes, "a")
	require.ErrorIs(t, err, full)
	require.Equal(t, pass.Failed, result.Outcome)
	require.Equal(t, phase.False, statuses(hosted(t, h, "a"))[phase.ContentRemaining])
}

// Two parties write conditions of one namespace; neither touches the other's.
func TestR9_TwoPartiesKeepTheirConditionsApart(t *testing.T) {
	h := new(controllertest.Host)
	terminate(t, h, "a", "openshift.com/origin")
	_, err := run(t, h, sees(left(pods, 2), nil), kubernetes, "a")
	require.NoError(t, err)
	_, err = run(t, h, sees(left(widgets, 3), nil), origin, "a")
	require.NoError(t, err)
	_, err = run(t, h, nothingLeft, origin, "a")
	require.NoError(t, err)
	got := statuses(hosted(t, h, "a"))
	require.Len(t, got, 10)
	require.Equal(t, phase.True, got[phase.ContentRemaining])
	require.Equal(t, phase.False, got[phase.ContentRemaining.Qualified("openshift.com/origin")])
}

// Two passes of one party overlap at every step; exactly one removes, the other
// sees that, and neither fails.
func TestR11_TwoPassesAtEveryStep(t *testing.T) {
	for _, finalizers := range [][]finalizer.Name{nil, {"openshift.com/origin"}} {
		for k := 1; ; k++ {
			h := new(controllertest.Host)
			terminate(t, h, "a", finalizers...)
			var inner pass.Result
			var innerErr error
			calls, nested := 0, false
			outer := &controllertest.Intercept{Namespaces: h, Before: func(ctx context.Context, _ controllertest.Op, _ string) error {
				if calls++; calls == k {
					nested = true
					inner, innerErr = pass.Run(ctx, h, nothingLeft, kubernetes, pass.Request{Name: "a"})
				}
				return nil
			}}
			result, err := run(t, outer, nothingLeft, kubernetes, "a")
			if !nested {
				break
			}
			require.NoError(t, err)
			require.NoError(t, innerErr)
			if finalizers == nil {
				require.Equal(t, pass.Removed, inner.Outcome)
				require.Equal(t, pass.Gone, result.Outcome)
				require.Zero(t, h.Len())
			} else {
				require.Equal(t, pass.Finalized, inner.Outcome)
				require.Equal(t, pass.NoFinalizer, result.Outcome)
			}
		}
	}
}

// A crash before or after any step, and a restart: the namespace is finalized.
func TestR11_CrashAtEachStep(t *testing.T) {
	crash := errors.New("crash")
	for _, after := range []bool{false, true} {
		for k := 1; ; k++ {
			h := new(controllertest.Host)
			terminate(t, h, "a", "openshift.com/origin")
			content := 3
			d := deleterFunc(func(context.Context, deleter.Target, deleter.Report) (deleter.Report, error) {
				content = max(0, content-2)
				return left(pods, content), nil
			})
			calls, crashed := 0, false
			step := func(context.Context, controllertest.Op, string) error {
				if calls++; calls == k {
					crashed = true
				}
				if crashed {
					return crash // and nothing gets through any more
				}
				return nil
			}
			namespaces := &controllertest.Intercept{Namespaces: h, Before: step}
			if after {
				namespaces = &controllertest.Intercept{Namespaces: h, After: step}
			}
			for !crashed {
				if result, _ := run(t, namespaces, d, kubernetes, "a"); !result.Outcome.Again() {
					break
				}
			}
			if !crashed {
				break
			}
			if hosted(t, h, "a").Spec.Finalizers.Has(finalizer.Kubernetes) {
				require.Equal(t, phase.Terminating, hosted(t, h, "a").Phase())
			} else {
				require.Zero(t, content, "finalized with content left")
			}
			for result := (pass.Result{Outcome: pass.Waiting}); result.Outcome.Again(); {
				var err error
				result, err = run(t, h, d, kubernetes, "a") // restarted
				require.NoError(t, err)
			}
			require.False(t, hosted(t, h, "a").Spec.Finalizers.Has(finalizer.Kubernetes))
			require.Zero(t, content)
		}
	}
}

// If sources eventually answer, passes eventually finalize.
func TestR12_PassesComeToAnEnd(t *testing.T) {
	h := new(controllertest.Host)
	terminate(t, h, "a")
	looks := 0
	d := deleterFunc(func(context.Context, deleter.Target, deleter.Report) (deleter.Report, error) {
		looks++
		switch {
		case looks <= 2:
			return deleter.Report{}, errors.New("broken")
		case looks <= 4:
			return left(pods, 5-looks), nil
		}
		return deleter.Report{}, nil
	})
	outcomes := []pass.Outcome{}
	for outcome := pass.Waiting; outcome.Again(); {
		result, _ := run(t, h, d, kubernetes, "a")
		outcome = result.Outcome
		outcomes = append(outcomes, outcome)
	}
	require.Equal(t, []pass.Outcome{pass.Failed, pass.Failed, pass.Waiting, pass.Waiting, pass.Removed}, outcomes)
	require.Zero(t, h.Len())
}
