package pass_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/multierr"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/phase"
)

var errDown = errors.New("down")

// down is a deleter whose one source fails, for as long as takes.
func down(t *testing.T, after time.Duration, before func()) deleter.Deleter {
	t.Helper()
	f := contenttest.NewFake(&contenttest.FakeOptions{Latency: after, Fault: func(context.Context, contenttest.Call) error {
		if before != nil {
			before()
		}
		return errDown
	}})
	d, err := deleter.New([]deleter.Source{{Resource: widgets, Content: struct{ deleter.Content }{f}, Final: true}}, nil)
	require.NoError(t, err)
	return d
}

// waive adds a waiver of that length to the namespace.
func waive(t *testing.T, h *controllertest.Host, name, source string, length time.Duration) {
	t.Helper()
	key, value, err := declare.Waiver{Name: "test", Source: source, By: "ada", Reason: "uninstalled", Until: time.Now().Add(length)}.Annotation()
	require.NoError(t, err)
	annotate(t, h, name, map[string]string{key: value})
}

func annotate(t *testing.T, h *controllertest.Host, name string, annotations map[string]string) {
	t.Helper()
	ns := hosted(t, h, name)
	ns.Annotations = annotations
	_, err := h.Update(t.Context(), ns)
	require.NoError(t, err)
}

// With a waiver in force the finalizer is removed although the source fails, and the report
// lists the failure.
func TestR7_WaivedSourceLetsGo(t *testing.T) {
	h := new(controllertest.Host)
	terminate(t, h, "a", finalizer.Kubernetes, origin.Finalizer)
	waive(t, h, "a", widgets.String(), time.Hour)
	result, err := run(t, h, down(t, 0, nil), kubernetes, "a")
	require.NoError(t, err)
	require.Equal(t, pass.Finalized, result.Outcome)
	require.Len(t, result.Report.Waived, 1)
	require.ErrorIs(t, result.Report.Waived[0], errDown)
	require.Empty(t, result.Report.Clean)
	stored := hosted(t, h, "a")
	const waived = "; waived: widgets.example.com: list: down"
	require.Equal(t, "All content successfully deleted, may be waiting on finalization"+waived, message(stored, phase.ContentFailure))
	require.Equal(t, "All content successfully removed"+waived, message(stored, phase.ContentRemaining))
	require.Equal(t, "All content-preserving finalizers finished"+waived, message(stored, phase.FinalizersRemaining))
	for _, status := range statuses(stored) {
		require.Equal(t, phase.False, status)
	}
}

// R7: a waiver that is expired, malformed, for another source, or of another namespace or
// incarnation waives nothing.
func TestR7_WaiversThatDoNotCount(t *testing.T) {
	for name, prepare := range map[string]func(h *controllertest.Host){
		"none":           func(*controllertest.Host) {},
		"expired":        func(h *controllertest.Host) { waive(t, h, "a", widgets.String(), -time.Second) },
		"another source": func(h *controllertest.Host) { waive(t, h, "a", "example.com", time.Hour) },
		"another namespace": func(h *controllertest.Host) {
			terminate(t, h, "b")
			waive(t, h, "b", widgets.String(), time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := new(controllertest.Host)
			terminate(t, h, "a")
			prepare(h)
			result, err := run(t, h, down(t, 0, nil), kubernetes, "a")
			require.ErrorIs(t, err, errDown)
			require.Equal(t, pass.Failed, result.Outcome)
			require.Empty(t, result.Report.Waived)
			stored := hosted(t, h, "a")
			require.True(t, stored.Spec.Finalizers.Has(finalizer.Kubernetes))
			require.Equal(t, phase.True, statuses(stored)[phase.ContentFailure])
			require.Equal(t, phase.Unknown, statuses(stored)[phase.ContentRemaining])
		})
	}
}

// An unreadable waiver does not affect readable ones.
func TestReadableWaiversCount(t *testing.T) {
	h := new(controllertest.Host)
	terminate(t, h, "a")
	waive(t, h, "a", widgets.String(), time.Hour)
	result, err := run(t, foreign{h, declare.WaiverPrefix + "broken", "{"}, down(t, 0, nil), kubernetes, "a")
	require.NoError(t, err)
	require.Equal(t, pass.Removed, result.Outcome)

	terminate(t, h, "b")
	key := declare.WaiverPrefix + "test"
	for _, malformed := range []string{"", "{", `{"source":"widgets.example.com"}`, `{"source":"widgets.example.com","by":"ada","reason":"gone","until":"tomorrow"}`} {
		_, err := run(t, foreign{h, key, malformed}, down(t, 0, nil), kubernetes, "b")
		require.ErrorIs(t, err, errDown, malformed)
	}
}

// foreign is a host whose namespaces may have any annotation.
type foreign struct {
	*controllertest.Host
	key, value string
}

func (f foreign) Get(ctx context.Context, name string) (namespace.Namespace, error) {
	ns, err := f.Host.Get(ctx, name)
	if ns.Annotations == nil {
		ns.Annotations = map[string]string{}
	}
	ns.Annotations[f.key] = f.value
	return ns, err
}

// R7: a waiver that ends during the pass waives nothing after its end.
func TestR7_WaiverEndsDuringThePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			length  time.Duration
			outcome pass.Outcome
		}{
			{10 * time.Second, pass.Failed}, // it ends at the very moment of the decision
			{11 * time.Second, pass.Removed},
		} {
			h := new(controllertest.Host)
			terminate(t, h, "a")
			waive(t, h, "a", widgets.String(), tt.length)
			began := time.Now()
			result, err := run(t, h, down(t, 10*time.Second, nil), kubernetes, "a")
			require.Equal(t, 10*time.Second, time.Since(began))
			require.Equal(t, tt.outcome, result.Outcome, "waived for %v", tt.length)
			if tt.outcome == pass.Removed {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, errDown)
			require.ErrorIs(t, err, pass.ErrNotWaived)
			require.Empty(t, result.Report.Waived)
			require.False(t, result.Report.Empty())
			require.ErrorIs(t, result.Report.Results[0].Err, pass.ErrNotWaived, "it is the type's own failure again")
			require.ErrorIs(t, result.Report.Results[0].Err, errDown)
			require.NoError(t, result.Report.Failed)
			stored := hosted(t, h, "a")
			require.Equal(t, phase.True, statuses(stored)[phase.ContentFailure], "R9: the conditions report it")
			require.Equal(t, phase.Unknown, statuses(stored)[phase.ContentRemaining])
		}
	})
}

// R7: a waiver that ends during the write of the conditions does not release the finalizer.
func TestR7_WaiverEndsWhileTheStatusIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			length  time.Duration
			outcome pass.Outcome
		}{
			{30 * time.Second, pass.Failed}, // it ends at the very moment at which the write is over
			{31 * time.Second, pass.Finalized},
		} {
			h := new(controllertest.Host)
			terminate(t, h, "a", finalizer.Kubernetes, origin.Finalizer)
			waive(t, h, "a", widgets.String(), tt.length)
			slow := &controllertest.Intercept{Namespaces: h, Before: func(_ context.Context, op controllertest.Op, _ string) error {
				if op == controllertest.OpUpdateStatus {
					time.Sleep(20 * time.Second)
				}
				return nil
			}}
			result, err := run(t, slow, down(t, 10*time.Second, nil), kubernetes, "a")
			require.Equal(t, tt.outcome, result.Outcome, "waived for %v", tt.length)
			stored := hosted(t, h, "a")
			require.Equal(t, tt.outcome == pass.Failed, stored.Spec.Finalizers.Has(finalizer.Kubernetes))
			if tt.outcome == pass.Finalized {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, errDown)
			require.ErrorIs(t, err, pass.ErrNotWaived)
			require.Empty(t, result.Report.Waived)
			require.Equal(t, phase.True, statuses(stored)[phase.ContentFailure], "R9: the conditions report it")
			require.Equal(t, phase.Unknown, statuses(stored)[phase.ContentRemaining])
		}
	})
}

// R7: a waiver that was removed during the pass waives nothing, because the write conflicts
// and the pass reads again.
func TestR7_WaiverTakenOffDuringThePass(t *testing.T) {
	h := new(controllertest.Host)
	terminate(t, h, "a")
	waive(t, h, "a", widgets.String(), time.Hour)
	result, err := run(t, h, down(t, 0, func() { annotate(t, h, "a", nil) }), kubernetes, "a")
	require.ErrorIs(t, err, pass.ErrNotWaived)
	require.Equal(t, pass.Failed, result.Outcome)
	require.True(t, hosted(t, h, "a").Spec.Finalizers.Has(finalizer.Kubernetes))
}

// R7: a waiver of a source that was seen with objects is refused, and the conditions report it.
func TestR7_WaiverOfWhatWasSeen(t *testing.T) {
	h := new(controllertest.Host)
	terminate(t, h, "a")
	waive(t, h, "a", widgets.String(), time.Hour)
	failure := error(nil)
	d, err := deleter.New([]deleter.Source{{Resource: widgets, Content: deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) {
		if failure != nil {
			return 0, failure
		}
		return 5, nil
	}}.Content()}}, nil)
	require.NoError(t, err)
	var previous deleter.Report
	for i, want := range []pass.Outcome{pass.Waiting, pass.Failed, pass.Failed} {
		result, err := pass.Run(t.Context(), h, d, kubernetes, pass.Request{Name: "a", Previous: previous})
		require.Equal(t, want, result.Outcome, "pass %d: %v", i, err)
		previous, failure = result.Report.Compact(), errDown
	}
	const want = "down (not waived: 5 objects were left of it when it last answered)"
	require.Contains(t, message(hosted(t, h, "a"), phase.ContentFailure), want)
}

// R7: objects that one process saw refuse a waiver in another one, which has no report of its
// own, until the source answers.
func TestR7_WaiverOfWhatAnotherProcessSaw(t *testing.T) {
	for _, party := range []namespace.Party{kubernetes, origin} {
		h := new(controllertest.Host)
		terminate(t, h, "a", finalizer.Kubernetes, origin.Finalizer)
		left, failure := 5, error(nil)
		newProcess := func() deleter.Deleter {
			d, err := deleter.New([]deleter.Source{{Resource: widgets, Content: deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) {
				if failure != nil {
					return 0, failure
				}
				return left, nil
			}}.Content()}}, nil)
			require.NoError(t, err)
			return d
		}
		_, err := run(t, h, newProcess(), party, "a")
		require.NoError(t, err)
		waive(t, h, "a", widgets.String(), time.Hour)
		failure = errDown
		for range 3 {
			result, err := run(t, h, newProcess(), party, "a")
			require.Equal(t, pass.Failed, result.Outcome)
			require.ErrorContains(t, err, "down (not waived: 5 objects were left of it when it last answered)")
		}
		_, err = run(t, h, deleterFunc(func(context.Context, deleter.Target, deleter.Report) (deleter.Report, error) { panic("oh") }), party, "a")
		require.Error(t, err, "a process that sees nothing at all")
		result, err := run(t, h, newProcess(), party, "a")
		require.Equal(t, pass.Failed, result.Outcome, "%v", err)

		other := origin // the observation of one party does not concern the content of another
		if party == origin {
			other = kubernetes
		}
		result, err = run(t, h, newProcess(), other, "a")
		require.NoError(t, err)
		require.Equal(t, pass.Finalized, result.Outcome)

		left, failure = 0, nil
		result, err = run(t, h, newProcess(), party, "a")
		require.NoError(t, err)
		require.Equal(t, pass.Removed, result.Outcome, "the source has answered")
	}
}

// R7: if the record of seen types is unreadable, or has too many types for a condition, every
// process refuses every waiver until a pass has seen all content.
func TestR7_UnreadableRecordOfWhatWasSeen(t *testing.T) {
	h := new(controllertest.Host)
	terminate(t, h, "a")
	waive(t, h, "a", widgets.String(), time.Hour)
	var many []phase.Remaining
	for i := range 3000 {
		many = append(many, phase.Remaining{Resource: fmt.Sprintf("things%05d", i), Count: 1})
	}
	many = append(many, phase.Remaining{Group: widgets.Group, Resource: widgets.Name, Count: 1})
	written := phase.Conditions(nil, phase.Observation{LastSeen: many}, "", time.Now())
	for _, message := range []string{"{", "", "null", "{}", written[len(written)-1].Message} {
		ns := hosted(t, h, "a")
		ns.Status.Conditions = []phase.Condition{{Type: phase.ContentLastSeen, Status: phase.True, LastTransitionTime: phase.At(time.Now()), Message: message}}
		_, err := h.UpdateStatus(t.Context(), ns)
		require.NoError(t, err)
		for range 3 {
			result, err := run(t, h, down(t, 0, nil), kubernetes, "a")
			require.ErrorIs(t, err, errDown)
			require.Equal(t, pass.Failed, result.Outcome)
		}
	}
	left := 1
	answering, err := deleter.New([]deleter.Source{{Resource: widgets, Content: deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) {
		return left, nil
	}}.Content()}}, nil)
	require.NoError(t, err)
	result, err := run(t, h, answering, kubernetes, "a")
	require.NoError(t, err)
	require.Equal(t, pass.Waiting, result.Outcome)
	require.Equal(t, `{"`+widgets.String()+`":1}`, message(hosted(t, h, "a"), phase.ContentLastSeen), "all content was seen")
	left = 0
	result, err = run(t, h, answering, kubernetes, "a")
	require.NoError(t, err)
	require.Equal(t, pass.Removed, result.Outcome)
}

// R8: a waiver of one incarnation does not apply to the next.
func TestR8_WaiverOfAnotherIncarnation(t *testing.T) {
	h := new(controllertest.Host)
	terminate(t, h, "a")
	waive(t, h, "a", widgets.String(), time.Hour)
	replaced := false
	result, err := run(t, h, down(t, 0, func() {
		if !replaced {
			replaced = true
			setFinalizers(t, h, "a")
			terminate(t, h, "a")
		}
	}), kubernetes, "a")
	require.NoError(t, err)
	require.Equal(t, pass.Replaced, result.Outcome)
	require.True(t, hosted(t, h, "a").Spec.Finalizers.Has(finalizer.Kubernetes))
	_, err = run(t, h, down(t, 0, nil), kubernetes, "a")
	require.ErrorIs(t, err, errDown)
}

// R7: a failure that a deleter reports as waived counts unless a waiver covers it.
func TestR7_NobodyElseWaives(t *testing.T) {
	group := deleter.GroupError{Group: "example.com", Err: errDown}
	source := &deleter.SourceError{Resource: widgets, Err: errDown}
	for _, tt := range []struct {
		name   string
		waived []error
		source string // of the waiver that there is
		still  int    // how many are waived
		failed phase.ConditionType
	}{
		{"a type, and no waiver", []error{source}, "other", 0, phase.ContentFailure},
		{"a group, and no waiver", []error{group}, "other", 0, phase.DiscoveryFailure},
		{"an error of no source", []error{errDown}, widgets.String(), 0, phase.ContentFailure},
		{"the core group", []error{deleter.GroupError{Err: errDown}}, "other", 0, phase.DiscoveryFailure},
		{"a type beside one", []error{group, source}, "example.com", 1, phase.ContentFailure},
		{"a group beside one", []error{group, source}, widgets.String(), 1, phase.DiscoveryFailure},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := new(controllertest.Host)
			terminate(t, h, "a")
			waive(t, h, "a", tt.source, time.Hour)
			handed := deleter.Report{Results: []deleter.Result{{Resource: widgets, Deleted: 2}}, Waived: tt.waived}
			result, err := run(t, h, sees(handed, nil), kubernetes, "a")
			require.ErrorIs(t, err, pass.ErrNotWaived)
			require.Equal(t, pass.Failed, result.Outcome)
			require.Len(t, result.Report.Waived, tt.still)
			failed := result.Report.Results[0].Err
			if tt.failed == phase.DiscoveryFailure {
				require.NoError(t, failed)
				failed = multierr.Combine(result.Report.Discovery...)
			} else {
				require.Empty(t, result.Report.Discovery)
				failed = multierr.Append(failed, result.Report.Failed)
			}
			require.ErrorIs(t, failed, pass.ErrNotWaived)
			require.Equal(t, 1, strings.Count(result.Report.Err().Error(), pass.ErrNotWaived.Error()), "each failure is reported once")
			require.NoError(t, handed.Results[0].Err, "a report is never changed")
			stored := hosted(t, h, "a")
			require.True(t, stored.Spec.Finalizers.Has(finalizer.Kubernetes))
			for c, status := range statuses(stored) {
				want := phase.False
				if c == tt.failed {
					want = phase.True
				} else if c == phase.ContentRemaining || c == phase.FinalizersRemaining {
					want = phase.Unknown
				}
				require.Equal(t, want, status, c)
			}
		})
	}
}

// R7: a deleter that ignores waivers fails closed.
func TestR7_DeleterWithoutWaivers(t *testing.T) {
	h := new(controllertest.Host)
	terminate(t, h, "a")
	waive(t, h, "a", widgets.String(), time.Hour)
	failed := &deleter.SourceError{Resource: widgets, Err: errDown}
	asked := []string(nil)
	d := deleterFunc(func(_ context.Context, target deleter.Target, _ deleter.Report) (deleter.Report, error) {
		asked = target.Waived
		return deleter.Report{Results: []deleter.Result{{Resource: widgets, Err: failed}}}, failed
	})
	_, err := run(t, h, d, kubernetes, "a")
	require.ErrorIs(t, err, errDown)
	require.Equal(t, []string{widgets.String()}, asked)
	require.True(t, hosted(t, h, "a").Spec.Finalizers.Has(finalizer.Kubernetes))
}

// A pass that is interrupted or runs out of patience waives nothing.
func TestR7_InterruptedPassWaivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(controllertest.Host)
		terminate(t, h, "a")
		waive(t, h, "a", widgets.String(), time.Hour)
		result, err := pass.Run(t.Context(), h, down(t, 10*time.Second, nil), kubernetes, pass.Request{Name: "a", Patience: 7 * time.Second})
		require.ErrorContains(t, err, "did not answer within 7s")
		require.Equal(t, pass.Failed, result.Outcome)
		require.Empty(t, result.Report.Waived)
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		result, err = pass.Run(ctx, h, down(t, 10*time.Second, nil), kubernetes, pass.Request{Name: "a"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, pass.Interrupted, result.Outcome)
		require.Empty(t, result.Report.Waived)
		require.True(t, hosted(t, h, "a").Spec.Finalizers.Has(finalizer.Kubernetes))
	})
}

// R12: with waivers a namespace ends although a source never answers.
func TestR12_WaivedSourceThatNeverAnswers(t *testing.T) {
	h := new(controllertest.Host)
	terminate(t, h, "a")
	d := down(t, 0, nil)
	var previous deleter.Report
	for range 3 {
		result, err := pass.Run(t.Context(), h, d, kubernetes, pass.Request{Name: "a", Previous: previous})
		require.ErrorIs(t, err, errDown)
		previous = result.Report
	}
	waive(t, h, "a", widgets.String(), time.Hour)
	result, err := pass.Run(t.Context(), h, d, kubernetes, pass.Request{Name: "a", Previous: previous})
	require.NoError(t, err)
	require.Equal(t, pass.Removed, result.Outcome)
}
