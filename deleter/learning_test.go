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
	"github.com/nslifecycle/nslifecycle/phase"
)

// The first visit of a type in a new namespace begins in the way that would have been best
// in earlier namespaces.
func TestFirstLookIsLearntFromOtherNamespaces(t *testing.T) {
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
func TestRefusalsAreLearntByTypeAndOperation(t *testing.T) {
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

// If a token expires, the listing starts over and counts nothing twice.
func TestListingBeginsAnewWhenItsTokenExpires(t *testing.T) {
	expired := 2
	f := fake(nil)
	for i := range 9 {
		f.Put(target(), contenttest.Object{Name: fmt.Sprint("x", i), Finalizers: []string{"example.com/hold"}})
	}
	d := compose(t, &deleter.Options{PageSize: 4}, source("pods", expiring{Fake: f, left: &expired}))
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.NoError(t, err)
	require.Zero(t, expired)
	require.Equal(t, 9, report.Remaining())
	require.Equal(t, 9, result(t, report, "pods").Holders[0].Objects)
}

// expiring returns ErrExpired a number of times.
type expiring struct {
	*contenttest.Fake
	left *int
}

func (e expiring) List(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	if next != "" && *e.left > 0 {
		*e.left--
		return deleter.Page{}, fmt.Errorf("compacted: %w", deleter.ErrExpired)
	}
	return e.Fake.List(ctx, target, limit, next)
}

// A source that cannot count its deletions gets more passes while fewer objects remain after
// each, and fails otherwise.
func TestUncountedCollections(t *testing.T) {
	f := contenttest.NewFake(&contenttest.FakeOptions{Batch: 10, Uncounted: true})
	f.PutMany(target(), "x", 400)
	d := compose(t, nil, source("pods", f))
	var report deleter.Report
	for _, want := range []int{240, 80, 0} { // 16 calls a pass
		var err error
		report, err = d.Delete(t.Context(), target(), report)
		require.NoError(t, err)
		require.Equal(t, want, report.Remaining())
		require.Equal(t, want > 0, report.More())
	}
	require.True(t, report.Empty())

	stuck := compose(t, nil, source("pods", idle{fake(nil, contenttest.Object{Name: "a"})}))
	report, err := stuck.Delete(t.Context(), target(), deleter.Report{})
	require.NoError(t, err, "there is no earlier pass to compare")
	require.True(t, report.More())
	report, err = stuck.Delete(t.Context(), target(), report)
	require.ErrorIs(t, err, deleter.ErrUnexpected)
	require.False(t, report.More(), "a pass without progress must not be followed by another at once")
}

// idle always reports more and deletes nothing.
type idle struct{ deleter.Content }

func (idle) DeleteCollection(context.Context, deleter.Target) (int, bool, error) {
	return -1, true, nil
}

// A source that reports more objects and zero deletions fails.
func TestCollectionsWithoutProgress(t *testing.T) {
	d := compose(t, nil, source("pods", lame{fake(nil, contenttest.Object{Name: "a"})}))
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.ErrorIs(t, err, deleter.ErrUnexpected)
	require.False(t, report.More())
}

type lame struct{ deleter.Content }

func (lame) DeleteCollection(context.Context, deleter.Target) (int, bool, error) { return 0, true, nil }

// If another object took the name of a listed one, the listed one is gone.
func TestReplacedObjects(t *testing.T) {
	f := fake(fails(deleter.ErrReplaced, del), contenttest.Object{Name: "a"})
	_, err := compose(t, nil, source("pods", plain{f})).Delete(t.Context(), target(), deleter.Report{})
	require.ErrorIs(t, err, deleter.ErrUnexpected)
	require.NotErrorIs(t, err, deleter.ErrReplaced)
}

// An Emptier is called once in a pass, and its counts are trusted.
func TestEmptier(t *testing.T) {
	answer := deleter.Result{
		Resource: core("ignored"), Deleted: 4, Remaining: 3, Deleting: 2, Estimate: time.Second,
		Holders: []phase.Holder{{Finalizer: "example.com/a", Objects: 1}}, Err: errBoom, Waiting: true,
	}
	f := fake(nil)
	d := compose(t, nil, source("pods", emptier{f, answer}))
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.NoError(t, err)
	want := answer
	want.Resource, want.Err, want.Waiting = core("pods"), nil, false
	require.Empty(t, cmp.Diff([]deleter.Result{want}, report.Results))
	require.Zero(t, f.Calls())
}

type emptier struct {
	deleter.Content
	answer deleter.Result
}

func (e emptier) Empty(context.Context, deleter.Target) (deleter.Result, error) { return e.answer, nil }

// An Emptier that does not support Empty is called once, and then listed.
func TestEmptierThatRefuses(t *testing.T) {
	f := fake(nil, contenttest.Object{Name: "a"})
	refused := 0
	d := compose(t, nil, source("pods", refusing{f, &refused}))
	for i := range 3 {
		target := targetOf(fmt.Sprint("n", i))
		f.Put(target, contenttest.Object{Name: "a"})
		report, err := d.Delete(t.Context(), target, deleter.Report{})
		require.NoError(t, err)
		require.True(t, report.Empty())
		require.Empty(t, f.Names(target))
	}
	require.Equal(t, 1, refused)
}

type refusing struct {
	*contenttest.Fake
	times *int
}

func (r refusing) Empty(context.Context, deleter.Target) (deleter.Result, error) {
	*r.times++
	return deleter.Result{}, deleter.ErrNotSupported
}
