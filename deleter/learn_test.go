package deleter_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
)

// picky refuses collections in one namespace only.
type picky struct {
	*contenttest.Fake
	namespace string
	called    map[string]int
}

func (r *picky) DeleteCollection(ctx context.Context, target deleter.Target) (int, bool, error) {
	r.called[target.Namespace]++
	if target.Namespace == r.namespace {
		return 0, false, fmt.Errorf("405: %w", deleter.ErrNotSupportedHere)
	}
	return r.Fake.DeleteCollection(ctx, target)
}

// A refusal in one namespace does not apply to other namespaces, nor to later passes
// (kubernetes/kubernetes PR 93790).
func TestNotSupportedHereIsNotRemembered(t *testing.T) {
	content := &picky{Fake: contenttest.NewFake(nil), namespace: "odd", called: map[string]int{}}
	d := compose(t, nil, source("pods", content))
	for _, name := range []string{"odd", "even"} {
		content.Put(targetOf(name), contenttest.Object{Name: "a"})
		report, err := d.Delete(t.Context(), targetOf(name), deleter.Report{})
		require.NoError(t, err)
		require.True(t, report.Empty())
		require.Equal(t, 1, report.Deleted())
	}
	require.Equal(t, map[string]int{"odd": 1, "even": 1}, content.called)
}

// The first visit of a type in a new namespace begins in the way that would have been best
// in earlier namespaces.
func TestFirstCallIsPredictedFromOtherNamespaces(t *testing.T) {
	f := contenttest.NewFake(nil)
	d := compose(t, nil, source("pods", f))
	var got []string
	for i, objects := range []int{0, 0, 0, 1, 1, 1, 0, 0, 0} {
		target := targetOf(fmt.Sprint("n", i))
		f.PutMany(target, "x", objects)
		f.ResetCalls()
		report, err := d.Delete(t.Context(), target, deleter.Report{})
		require.NoError(t, err)
		require.True(t, report.Empty())
		got = append(got, fmt.Sprint(objects, ": ", counted(f)))
	}
	require.Empty(t, cmp.Diff([]string{
		"0: 1c 1l", "0: 1l", "0: 1l", // nothing there: a listing will do
		"1: 1c 2l", "1: 1c 2l", "1: 1c 1l", // one surprise does not change its mind, two do
		"0: 1c 1l", "0: 1c 1l", "0: 1l",
	}, got))
}

// An operation that a source does not support is not called again, in any namespace. Other
// operations and types are.
func TestUnsupportedOperationsAreRemembered(t *testing.T) {
	refusing := func(ops ...deleter.Op) *contenttest.Fake {
		return contenttest.NewFake(&contenttest.FakeOptions{Unsupported: ops})
	}
	pods, jobs := refusing(collection), refusing(estimate)
	d, err := deleter.Discovering(func(context.Context) ([]deleter.Source, error) {
		return []deleter.Source{source("pods", pods), source("jobs", jobs)}, nil
	}, nil)
	require.NoError(t, err)
	for i := range 3 {
		target := targetOf(fmt.Sprint("n", i))
		pods.PutMany(target, "x", 2)
		jobs.PutMany(target, "x", 2)
		report, err := d.Delete(t.Context(), target, deleter.Report{})
		require.NoError(t, err)
		require.True(t, report.Empty())
	}
	require.Equal(t, 1, pods.Calls(collection))
	require.Equal(t, 6, pods.Calls(del))
	require.Equal(t, 3, jobs.Calls(collection))
	require.Zero(t, jobs.Calls(del))
}

// An unsupported estimate is no failure.
func TestRefusedEstimate(t *testing.T) {
	f := fake(&contenttest.FakeOptions{Unsupported: []deleter.Op{estimate}}, contenttest.Object{Name: "a", Grace: time.Hour})
	d := compose(t, nil, source("pods", graceless{f}))
	var report deleter.Report
	for range 3 {
		var err error
		report, err = d.Delete(t.Context(), target(), report)
		require.NoError(t, err)
		require.Equal(t, 1, report.Remaining())
		require.Zero(t, report.Estimate())
	}
	require.Equal(t, 1, f.Calls(estimate))
}
