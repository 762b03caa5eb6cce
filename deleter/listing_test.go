package deleter_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/phase"
)

// R9: the conditions report the objects that a pass saw and did not see removed, also if the
// listing after the deletions fails.
func TestR9_ObjectsSeenBeforeAListingFailed(t *testing.T) {
	remain := func(n int) string {
		return fmt.Sprintf("Some resources are remaining: sick. has %d resource instances", n)
	}
	// failing holds twelve objects, of which finalizers hold some. The listings after the
	// first few fail, and so do operations and objects that are named.
	failing := func(listings int, held []int, sick ...any) *contenttest.Fake {
		var objects []contenttest.Object
		for i := range 12 {
			objects = append(objects, contenttest.Object{Name: fmt.Sprintf("x%02d", i)})
		}
		for _, i := range held {
			objects[i].Finalizers = []string{hold}
		}
		return fake(&contenttest.FakeOptions{PageSize: 5, Fault: func(_ context.Context, c contenttest.Call) error {
			if c.Op == list {
				if listings--; listings < 0 {
					return errBoom
				}
			}
			for _, one := range sick {
				if one == c.Op || one == c.Object {
					return errBoom
				}
			}
			return nil
		}}, objects...)
	}
	// A pass lists before it deletes a collection, if the previous pass failed.
	before := deleter.Report{UID: target().UID, Results: []deleter.Result{{Resource: core("sick"), Err: errBoom}}}
	for _, tt := range []struct {
		name    string
		content deleter.Content
		remain  string
		held    string
	}{
		{"two deletions fail", plain{failing(3, nil, "x03", "x07")}, remain(2), "No remaining finalizers were seen"},
		{"a finalizer holds one that is marked", plain{failing(3, []int{5}, "x03")}, remain(2), hold + " in 1 resource instances"},
		{"the first listing fails on its second page", plain{failing(1, nil, "x03")}, remain(1), "No remaining finalizers were seen"},
		{"the second listing fails on its second page", plain{failing(4, nil, del)}, remain(12), "No remaining finalizers were seen"},
		{"the second listing ends", plain{failing(4, []int{0, 1, 2}, "x11")}, remain(4), hold + " in 3 resource instances"},
		{"the listing before a collection fails", failing(0, nil), "No remaining resources were seen", "No remaining finalizers were seen"},
		{"a collection fails", failing(1, nil, collection), remain(12), "No remaining finalizers were seen"},
		{"a collection is deleted", failing(1, nil), "No remaining resources were seen", "No remaining finalizers were seen"},
		{"an answer contradicts itself", &oddEmptier{deleter.Result{Holders: []phase.Holder{{Finalizer: hold, Objects: 2}}}}, remain(2), hold + " in 2 resource instances"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := compose(t, nil, source("sick", tt.content))
			report, err := d.Delete(t.Context(), target(), before)
			require.Error(t, err)
			five := phase.Conditions(nil, report.Observation(), "", time.Now())
			message := func(i int) string { return five[i].Message[:min(len(five[i].Message), len(tt.remain))] }
			require.Empty(t, cmp.Diff(tt.remain, message(3)))
			require.Contains(t, five[4].Message, tt.held)
		})
	}
}

// Memory is bounded however many different finalizers and failures there are.
func TestReportIsBounded(t *testing.T) {
	var objects []contenttest.Object
	for i := range 1000 {
		objects = append(objects, contenttest.Object{
			Name: fmt.Sprintf("x%03d", i), Finalizers: []string{fmt.Sprintf("example.com/f%03d", i), fmt.Sprintf("example.com/g%03d", i)},
		})
	}
	each := func(_ context.Context, c contenttest.Call) error {
		if c.Op == del {
			return fmt.Errorf("no way to delete %s", c.Object)
		}
		return nil
	}
	d := compose(t, nil, source("pods", plain{fake(&contenttest.FakeOptions{Fault: each}, objects...)}))
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.Error(t, err)
	pods := result(t, report, "pods")
	require.Equal(t, 1000, pods.Remaining)
	require.Len(t, pods.Holders, 65)
	require.Equal(t, phase.Holder{Finalizer: "(other finalizers)", Objects: 968, Sample: []string{"x032", "x033", "x034", "x035", "x036"}}, pods.Holders[0])
	require.Less(t, len(err.Error()), 1000)
	require.Contains(t, err.Error(), "pods: delete x000: no way to delete x000; ")
	require.Contains(t, err.Error(), "pods: 992 further failures")
}

// Objects that fail in the same way are one failure, and no distinct failure is lost.
func TestEqualFailuresAreCountedOnce(t *testing.T) {
	var objects []contenttest.Object
	for i := range 300 {
		objects = append(objects, contenttest.Object{Name: fmt.Sprintf("x%03d", i)})
	}
	each := func(_ context.Context, c contenttest.Call) error {
		switch {
		case c.Op != del:
			return nil
		case c.Object == "x123":
			return &fs.PathError{Op: "remove", Path: "x", Err: fs.ErrPermission}
		}
		return errBoom
	}
	d := compose(t, nil, source("pods", plain{fake(&contenttest.FakeOptions{Fault: each}, objects...)}))
	_, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.EqualError(t, err, "pods: delete x000: boom (and 298 other objects in the same way); pods: delete x123: remove x: permission denied")
	require.ErrorIs(t, err, errBoom)
	require.ErrorIs(t, err, fs.ErrPermission)
	var path *fs.PathError
	require.ErrorAs(t, err, &path)
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

// If a token expires, the listing starts over and counts nothing twice.
func TestListingStartsOverIfItsTokenExpires(t *testing.T) {
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
