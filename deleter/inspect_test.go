package deleter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/phase"
)

// An inspection reports every source, also those that a pass would not call, and deletes
// nothing.
func TestInspect(t *testing.T) {
	pods := fake(nil, contenttest.Object{Name: "a", Finalizers: []string{"example.com/hold"}}, contenttest.Object{Name: "b"})
	jobs := fake(nil, contenttest.Object{Name: "c"})
	d := compose(t, &deleter.Options{PageSize: 1}, source("pods", pods), source("jobs", jobs, "pods"), source("calls", deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) { panic("a look must not call it") }}.Content()))
	report, err := d.Inspect(t.Context(), target())
	require.ErrorIs(t, err, deleter.ErrNotSupported, "a function cannot list")
	require.False(t, report.Empty())
	for name, want := range map[string]deleter.Result{
		"pods": {Remaining: 2, Sample: []string{"a", "b"}, Holders: []phase.Holder{{Finalizer: "example.com/hold", Objects: 1, Sample: []string{"a"}}}},
		"jobs": {Remaining: 1, Sample: []string{"c"}},
	} {
		got := result(t, report, name)
		want.Resource, want.Seen = core(name), got.Seen
		require.Empty(t, cmp.Diff(want, got))
	}
	again, err := d.Inspect(t.Context(), target())
	require.Error(t, err)
	require.Empty(t, cmp.Diff(report.Remaining(), again.Remaining()), "nothing was deleted")
}

// panicker panics instead of answering.
type panicker struct{ deleter.Content }

func (panicker) List(context.Context, deleter.Target, int, string) (deleter.Page, error) {
	panic("oh")
}

func TestInspectFailsClosed(t *testing.T) {
	d := compose(t, nil, source("pods", panicker{}), source("jobs", fake(nil)))
	report, err := d.Inspect(t.Context(), target())
	require.Error(t, err)
	require.Error(t, result(t, report, "pods").Err)
	require.NoError(t, result(t, report, "jobs").Err)
	_, err = d.Inspect(t.Context(), deleter.Target{})
	require.ErrorIs(t, err, deleter.ErrInvalid)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBoom)
	report, err = compose(t, nil, source("jobs", fake(nil))).Inspect(ctx, target())
	require.ErrorIs(t, err, errBoom)
	require.False(t, report.Empty())
}

// picky refuses collections in one namespace only.
type picky struct {
	*contenttest.Fake
	namespace string
	asked     map[string]int
}

func (r *picky) DeleteCollection(ctx context.Context, target deleter.Target) (int, bool, error) {
	r.asked[target.Namespace]++
	if target.Namespace == r.namespace {
		return 0, false, fmt.Errorf("405: %w", deleter.ErrNotSupportedHere)
	}
	return r.Fake.DeleteCollection(ctx, target)
}

// A refusal in one namespace does not apply to other namespaces, nor to later passes
// (kubernetes/kubernetes PR 93790).
func TestNotSupportedHereTeachesNothing(t *testing.T) {
	content := &picky{Fake: contenttest.NewFake(nil), namespace: "odd", asked: map[string]int{}}
	d := compose(t, nil, source("pods", content))
	for _, name := range []string{"odd", "even"} {
		content.Put(targetOf(name), contenttest.Object{Name: "a"})
		report, err := d.Delete(t.Context(), targetOf(name), deleter.Report{})
		require.NoError(t, err)
		require.True(t, report.Empty())
		require.Equal(t, 1, report.Deleted())
	}
	require.Equal(t, map[string]int{"odd": 1, "even": 1}, content.asked)
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

// One message may describe all failed groups; the condition counts them.
func TestDiscoveryMessage(t *testing.T) {
	down := errors.New("down")
	d, err := deleter.Discovering(func(context.Context) ([]deleter.Source, error) {
		return []deleter.Source{source("pods", fake(nil))}, &deleter.DiscoveryError{
			Groups:  []deleter.GroupError{{Group: "a.example.com", Err: errBoom}, {Group: "b.example.com", Err: down}},
			Message: "not all of the list: a, b",
		}
	}, nil)
	require.NoError(t, err)
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.ErrorIs(t, err, errBoom)
	require.ErrorIs(t, err, down)
	c := phase.Conditions(nil, report.Observation(), "", time.Now())[0]
	require.Equal(t, "Discovery failed for some groups, 2 failing: not all of the list: a, b", c.Message)
}

// mute cannot wait in one namespace.
type mute struct{ *contenttest.Fake }

func (mute) Wait(context.Context, deleter.Target, string) error {
	return fmt.Errorf("405: %w", deleter.ErrNotSupportedHere)
}

// A wait that is refused in one namespace is no failure, and is not remembered.
func TestWaitNotSupportedHere(t *testing.T) {
	content := mute{contenttest.NewFake(nil)}
	content.Put(target(), contenttest.Object{Name: "a", Finalizers: []string{"example.com/hold"}})
	d := compose(t, nil, source("pods", content))
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.NoError(t, err)
	for range 2 {
		require.ErrorIs(t, d.Wait(t.Context(), target(), report), deleter.ErrNotSupported)
	}
}
