package pass_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/phase"
)

func TestOutcomes(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, h *controllertest.Host)
		deleter deleter.Deleter
		party   namespace.Party
		want    pass.Outcome
		calls   map[controllertest.Op]int
	}{
		{"nothing there", func(*testing.T, *controllertest.Host) {}, nothingLeft, kubernetes, pass.Gone,
			map[controllertest.Op]int{"get": 1}},
		{"active", func(t *testing.T, h *controllertest.Host) { create(t, h, "a") }, nothingLeft, kubernetes, pass.Active,
			map[controllertest.Op]int{"get": 1}},
		{"without our finalizer", func(t *testing.T, h *controllertest.Host) { terminate(t, h, "a") }, nothingLeft, origin, pass.NoFinalizer,
			map[controllertest.Op]int{"get": 1}},
		{"held by us alone, empty", func(t *testing.T, h *controllertest.Host) { terminate(t, h, "a") }, nothingLeft, kubernetes, pass.Removed,
			map[controllertest.Op]int{"get": 1, "finalize": 1}},
		{"held by two, empty", func(t *testing.T, h *controllertest.Host) { terminate(t, h, "a", "openshift.com/origin") }, nothingLeft, kubernetes,
			pass.Finalized, map[controllertest.Op]int{"get": 1, "update status": 1, "finalize": 1}},
		{"content left", func(t *testing.T, h *controllertest.Host) { terminate(t, h, "a") }, sees(left(pods, 2), nil), kubernetes, pass.Waiting,
			map[controllertest.Op]int{"get": 1, "update status": 1}},
		{"failed", func(t *testing.T, h *controllertest.Host) { terminate(t, h, "a") }, sees(deleter.Report{Failed: broken}, broken), kubernetes,
			pass.Failed, map[controllertest.Op]int{"get": 1, "update status": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := new(controllertest.Host)
			c.prepare(t, h)
			namespaces, calls := counting(h)
			result, err := run(t, namespaces, c.deleter, c.party, "a")
			require.Equal(t, c.want, result.Outcome)
			require.Equal(t, c.calls, calls)
			if c.want == pass.Failed {
				require.ErrorIs(t, err, broken)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestUnchangedStatusIsNotWritten(t *testing.T) {
	h := new(controllertest.Host)
	terminate(t, h, "a")
	namespaces, calls := counting(h)
	for range 3 {
		result, err := run(t, namespaces, sees(left(pods, 2), nil), kubernetes, "a")
		require.NoError(t, err)
		require.Equal(t, pass.Waiting, result.Outcome)
		require.Equal(t, hosted(t, h, "a"), result.Namespace)
	}
	require.Equal(t, map[controllertest.Op]int{"get": 3, "update status": 1}, calls)
}

func TestAfterIsTheEstimate(t *testing.T) {
	h := new(controllertest.Host)
	terminate(t, h, "a")
	report := left(pods, 1)
	report.Results[0].Estimate = 7 * time.Second
	result, err := run(t, h, sees(report, nil), kubernetes, "a")
	require.NoError(t, err)
	require.Equal(t, 7*time.Second, result.After)
	require.Equal(t, report, result.Report)
}

func TestTheDeleterGetsTargetAndPrevious(t *testing.T) {
	h := new(controllertest.Host)
	ns := terminate(t, h, "a")
	previous := deleter.Report{UID: ns.UID, Clean: []namespace.ResourceType{pods}}
	asked := 0
	_, err := pass.Run(t.Context(), h, deleterFunc(func(_ context.Context, target deleter.Target, got deleter.Report) (deleter.Report, error) {
		asked++
		require.Equal(t, deleter.Target{Namespace: "a", UID: ns.UID, DeletedAt: ns.DeletionTimestamp.Time}, target)
		require.Equal(t, previous, got)
		return deleter.Report{}, nil
	}), kubernetes, pass.Request{Name: "a", UID: ns.UID, Previous: previous})
	require.NoError(t, err)
	require.Equal(t, 1, asked)
}

// After a conflict, the pass reads and decides again from the same observation.
func TestConflictIsDecidedAgain(t *testing.T) {
	h := new(controllertest.Host)
	terminate(t, h, "a")
	looks := 0
	d := deleterFunc(func(context.Context, deleter.Target, deleter.Report) (deleter.Report, error) {
		looks++
		setFinalizers(t, h, "a", "kubernetes", "example.com/late") // between read and write
		return deleter.Report{}, nil
	})
	namespaces, calls := counting(h)
	result, err := run(t, namespaces, d, kubernetes, "a")
	require.NoError(t, err)
	require.Equal(t, pass.Finalized, result.Outcome, "the late party must be seen")
	require.Equal(t, []finalizer.Name{"example.com/late"}, hosted(t, h, "a").Spec.Finalizers.Names())
	require.Equal(t, 1, looks)
	require.Equal(t, map[controllertest.Op]int{"get": 2, "update status": 1, "finalize": 2}, calls)
	require.Equal(t, phase.False, statuses(hosted(t, h, "a"))[phase.ContentRemaining])
}

func TestConflictsAreRetriedWithinABound(t *testing.T) {
	h := new(controllertest.Host)
	ns := terminate(t, h, "a")
	namespaces, calls := counting(h)
	count := namespaces.Before
	namespaces.Before = func(ctx context.Context, op controllertest.Op, name string) error {
		if err := count(ctx, op, name); err != nil || op != controllertest.OpUpdateStatus {
			return err
		}
		setFinalizers(t, h, "a", "kubernetes") // another writer is always faster
		return nil
	}
	result, err := run(t, namespaces, sees(left(pods, 1), nil), kubernetes, ns.Name)
	require.ErrorIs(t, err, namespace.ErrConflict)
	require.Equal(t, pass.Failed, result.Outcome)
	require.Less(t, calls[controllertest.OpUpdateStatus], 10)
}

// A read resolves an unknown outcome: the finalize was committed, or not.
func TestUnknownOutcome(t *testing.T) {
	for _, c := range []struct {
		name       string
		finalizers []finalizer.Name
		before     bool // the write had no effect
		want       pass.Outcome
	}{
		{"lost, held by us alone", nil, true, pass.Removed},
		{"done, held by us alone", nil, false, pass.Gone},
		{"lost, held by two", []finalizer.Name{"openshift.com/origin"}, true, pass.Finalized},
		{"done, held by two", []finalizer.Name{"openshift.com/origin"}, false, pass.NoFinalizer},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := new(controllertest.Host)
			terminate(t, h, "a", c.finalizers...)
			failed := false
			once := func(_ context.Context, op controllertest.Op, _ string) error {
				if failed || op != controllertest.OpFinalize {
					return nil
				}
				failed = true
				return namespace.ErrUnknownOutcome
			}
			namespaces := &controllertest.Intercept{Namespaces: h}
			if c.before {
				namespaces.Before = once
			} else {
				namespaces.After = once
			}
			result, err := run(t, namespaces, nothingLeft, kubernetes, "a")
			require.NoError(t, err)
			require.True(t, failed)
			require.Equal(t, c.want, result.Outcome)
		})
	}
}

func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(controllertest.Host)
		terminate(t, h, "a")
		hangs := deleterFunc(func(ctx context.Context, _ deleter.Target, _ deleter.Report) (deleter.Report, error) {
			<-ctx.Done()
			return deleter.Report{}, ctx.Err()
		})
		begin := time.Now()
		result, err := pass.Run(t.Context(), h, hangs, kubernetes, pass.Request{Name: "a", Patience: time.Minute})
		var late *pass.PatienceError
		require.ErrorAs(t, err, &late)
		require.Equal(t, time.Minute, late.Patience)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, pass.Failed, result.Outcome)
		require.Equal(t, time.Minute, time.Since(begin))
		require.Equal(t, phase.True, statuses(hosted(t, h, "a"))[phase.ContentFailure])
		require.Contains(t, message(hosted(t, h, "a"), phase.ContentFailure), "did not answer within 1m0s")
	})
}

func TestErrorsKeepTheirCauses(t *testing.T) {
	h := new(controllertest.Host)
	terminate(t, h, "a")
	broken, full := errors.New("broken"), errors.New("disk full")
	cause := &deleter.SourceError{Resource: pods, Op: deleter.OpList, Err: broken}
	namespaces := &controllertest.Intercept{Namespaces: h, Before: func(_ context.Context, op controllertest.Op, _ string) error {
		if op == controllertest.OpUpdateStatus {
			return full
		}
		return nil
	}}
	result, err := run(t, namespaces, sees(deleter.Report{Results: []deleter.Result{{Resource: pods, Err: cause}}}, cause), kubernetes, "a")
	require.Equal(t, pass.Failed, result.Outcome)
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, err, full)
	var source *deleter.SourceError
	require.ErrorAs(t, err, &source)
	require.ErrorContains(t, err, `pass for namespace "a"`)
	require.ErrorContains(t, err, "write status: disk full")
	var storage *pass.StorageError
	require.ErrorAs(t, err, &storage)
	require.Equal(t, pass.StorageError{Op: "write status", Err: full}, *storage)
}

func TestPanics(t *testing.T) {
	h := new(controllertest.Host)
	terminate(t, h, "a")
	broken := errors.New("broken")
	_, err := run(t, h, deleterFunc(func(context.Context, deleter.Target, deleter.Report) (deleter.Report, error) { panic(broken) }), kubernetes, "a")
	var panicked *deleter.PanicError
	require.ErrorAs(t, err, &panicked)
	require.ErrorIs(t, err, broken)
	require.NotEmpty(t, panicked.Stack)

	namespaces := &controllertest.Intercept{Namespaces: h, Before: func(context.Context, controllertest.Op, string) error { panic("oh") }}
	result, err := run(t, namespaces, nothingLeft, kubernetes, "a")
	require.ErrorAs(t, err, &panicked)
	require.Equal(t, pass.Failed, result.Outcome)
	require.ErrorContains(t, err, "the storage of the namespaces panicked: oh")
}

func TestBadInput(t *testing.T) {
	h := new(controllertest.Host)
	before := terminate(t, h, "a")
	for _, c := range []struct {
		name       string
		ctx        context.Context
		namespaces pass.Namespaces
		deleter    deleter.Deleter
		party      namespace.Party
		request    pass.Request
	}{
		{"no namespaces", t.Context(), nil, nothingLeft, kubernetes, pass.Request{Name: "a"}},
		{"no deleter", t.Context(), h, nil, kubernetes, pass.Request{Name: "a"}},
		{"no party", t.Context(), h, nothingLeft, namespace.Party{}, pass.Request{Name: "a"}},
		{"unqualified party", t.Context(), h, nothingLeft, namespace.Party{Finalizer: "agent"}, pass.Request{Name: "a"}},
		{"path in party", t.Context(), h, nothingLeft, namespace.Party{Finalizer: "../../agent"}, pass.Request{Name: "a"}},
		{"party not UTF-8", t.Context(), h, nothingLeft, namespace.Party{Finalizer: "example.com/\xff"}, pass.Request{Name: "a"}},
		{"oversized party", t.Context(), h, nothingLeft, namespace.Party{Finalizer: finalizer.Name("example.com/" + string(make([]byte, 1000)))}, pass.Request{Name: "a"}},
		{"no name", t.Context(), h, nothingLeft, kubernetes, pass.Request{}},
		{"negative patience", t.Context(), h, nothingLeft, kubernetes, pass.Request{Name: "a", Patience: -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			result, err := pass.Run(c.ctx, c.namespaces, c.deleter, c.party, c.request)
			require.ErrorIs(t, err, namespace.ErrBadRequest)
			var refused *namespace.Error
			require.ErrorAs(t, err, &refused)
			require.NotEmpty(t, refused.Error())
			require.Equal(t, pass.Result{Outcome: pass.Failed}, result)
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := pass.Run(ended, h, nothingLeft, kubernetes, pass.Request{Name: "a"})
	require.ErrorIs(t, err, context.Canceled)
	for _, name := range []string{"..", "a/b", "\xff", string(make([]byte, 1000))} {
		result, err := run(t, h, nothingLeft, kubernetes, name)
		require.NoError(t, err, "a name that cannot exist is one that does not")
		require.Equal(t, pass.Gone, result.Outcome)
	}
	require.Equal(t, before, hosted(t, h, "a"), "nothing may have changed")
}

func TestOutcomeStrings(t *testing.T) {
	seen := map[string]bool{}
	for o := pass.Failed; o <= pass.NoFinalizer; o++ {
		require.NotEqual(t, "none", o.String())
		require.False(t, seen[o.String()])
		seen[o.String()] = true
	}
	require.Equal(t, "none", pass.Outcome(0).String())
	require.Equal(t, "none", pass.Outcome(99).String())
}

// A trace sees the pass and its calls, each with the context that Start returned.
func TestTrace(t *testing.T) {
	type key struct{}
	var calls []string
	var ended pass.Outcome
	trace := &pass.Trace{
		Start: func(ctx context.Context, req pass.Request) context.Context {
			return context.WithValue(ctx, key{}, req.Name)
		},
		End: func(ctx context.Context, result pass.Result, err error) {
			require.Equal(t, "a", ctx.Value(key{}))
			require.NoError(t, err)
			ended = result.Outcome
		},
		Calls: deleter.Trace{End: func(ctx context.Context, call deleter.Call, result deleter.CallResult) {
			require.Equal(t, "a", ctx.Value(key{}))
			calls = append(calls, fmt.Sprint(call.Resource, " ", call.Op, " ", result.Err))
		}},
	}
	h := new(controllertest.Host)
	terminate(t, h, "a", "kubernetes")
	_, err := pass.Run(t.Context(), h, nothingLeft, kubernetes, pass.Request{Name: "a", Trace: trace})
	require.NoError(t, err)
	require.Equal(t, pass.Removed, ended)
	require.Equal(t, []string{"namespaces read <nil>", "namespaces finalize <nil>"}, calls)
}
