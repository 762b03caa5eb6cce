package deleter_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/phase"
)

// A type whose answer contradicts itself, or leaves open whether objects remain, never counts
// as empty.
func TestR7_ContradictionsAreNotEmpty(t *testing.T) {
	for name, answer := range map[string]deleter.Result{
		"more than is known":              {More: true},
		"more than is known, some gone":   {More: true, Deleted: 7},
		"nothing left, but held":          {Holders: []phase.Holder{{Finalizer: "example.com/f", Objects: 1}}},
		"nothing left, but being deleted": {Deleting: 1},
		"a negative holder":               {Holders: []phase.Holder{{Finalizer: "example.com/f", Objects: -1}}},
		"negative left":                   {Remaining: -1},
	} {
		t.Run(name, func(t *testing.T) {
			d := compose(t, nil, source("pods", emptier{fake(nil), answer}))
			report, _ := d.Delete(t.Context(), target(), deleter.Report{})
			require.False(t, report.Empty())
			require.Empty(t, report.Clean)
			report, _ = d.Delete(t.Context(), target(), report)
			require.False(t, report.Empty(), "nor in the next pass")
		})
	}
	require.False(t, deleter.Report{Results: []deleter.Result{{Remaining: -1}}}.Empty())
}

// lister lists with a given function.
type lister struct {
	deleter.Content
	list func(next string) (deleter.Page, error)
}

func (l lister) List(_ context.Context, _ deleter.Target, _ int, next string) (deleter.Page, error) {
	return l.list(next)
}

// Counts saturate instead of overflowing.
func TestR7_HugeCountsDoNotWrapAround(t *testing.T) {
	gone := lister{fake(nil), func(string) (deleter.Page, error) {
		return deleter.Page{Items: []deleter.Item{{Name: "a"}, {Name: "b"}}, Next: "next", Remaining: math.MaxInt}, nil
	}}
	d := compose(t, &deleter.Options{MaxDeletes: 1}, source("pods", gone), source("jobs", gone))
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.NoError(t, err)
	require.False(t, report.Empty())
	require.Equal(t, math.MaxInt, report.Remaining())
	require.Equal(t, math.MaxInt, result(t, report, "pods").Remaining)
}

// A listing that the end of the context cut off between two pages is no evidence.
func TestR7_CutListingIsNotEmpty(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	ending := &contextEnds{Context: ctx, cancel: func() { cancel(stopped) }}
	pages := lister{fake(nil), func(next string) (deleter.Page, error) {
		if next == "" {
			ending.armed = true
			return deleter.Page{Next: "more"}, nil
		}
		return deleter.Page{Items: []deleter.Item{{Name: "a"}}}, nil
	}}
	d := compose(t, nil, source("pods", pages))
	report, err := d.Delete(ending, target(), deleter.Report{})
	require.ErrorIs(t, err, stopped)
	require.False(t, report.Empty())
	require.Empty(t, report.Clean, "the second page was not seen")
}

// contextEnds ends at the first check after it was armed.
type contextEnds struct {
	context.Context
	cancel func()
	armed  bool
}

func (c *contextEnds) Err() error {
	if c.armed {
		c.cancel()
	}
	return c.Context.Err()
}

// collector answers each deletion of a collection with given values.
type collector struct {
	deleter.Content
	calls   *int
	deleted int
}

func (c collector) DeleteCollection(context.Context, deleter.Target) (int, bool, error) {
	if *c.calls++; *c.calls > 1000 {
		return 0, false, errors.New("asked without end")
	}
	return c.deleted, true, nil
}

func TestNonsenseCountsEndThePass(t *testing.T) {
	for _, deleted := range []int{math.MinInt, math.MinInt / 2, -5000, -1, math.MaxInt} {
		calls := 0
		d := compose(t, nil, source("pods", collector{plain{fake(nil)}, &calls, deleted}))
		_, err := d.Delete(t.Context(), target(), deleter.Report{})
		require.NoError(t, err, "%d", deleted)
		require.LessOrEqual(t, calls, 17)
	}
}

// An error beside a partial discovery may hide any type.
func TestDiscoveryThatAlsoFailedOtherwise(t *testing.T) {
	broken, down := errors.New("broken"), errors.New("down")
	part := &deleter.DiscoveryError{Groups: []deleter.GroupError{{Group: "metrics.example.com", Err: down}}}
	for name, failure := range map[string]error{
		"joined":  errors.Join(part, broken),
		"wrapped": fmt.Errorf("%w, and then %w", part, broken),
	} {
		t.Run(name, func(t *testing.T) {
			last := fake(nil, contenttest.Object{Name: "a"})
			d, err := deleter.Discovering(func(context.Context) ([]deleter.Source, error) {
				return []deleter.Source{source("last", last, "unseen")}, failure
			}, nil)
			require.NoError(t, err)
			report, err := d.Delete(t.Context(), target(), deleter.Report{})
			require.ErrorIs(t, err, broken)
			require.ErrorIs(t, err, down)
			require.True(t, result(t, report, "last").Waiting)
			require.Zero(t, last.Calls())
		})
	}
}
