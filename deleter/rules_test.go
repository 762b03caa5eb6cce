package deleter_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
)

var errBoom = errors.New("boom")

// fails makes the given operations fail, or all if none is given.
func fails(err error, ops ...deleter.Op) *contenttest.FakeOptions {
	return &contenttest.FakeOptions{Fault: func(_ context.Context, c contenttest.Call) error {
		for _, op := range ops {
			if c.Op == op {
				return err
			}
		}
		if len(ops) == 0 {
			return err
		}
		return nil
	}}
}

// R7: a pass counts as empty only if every source answered and has nothing left.
func TestR7_FailsClosed(t *testing.T) {
	held := contenttest.Object{Name: "a", Finalizers: []string{"example.com/hold"}}
	one := contenttest.Object{Name: "a"}
	for _, tt := range []struct {
		name    string
		sick    deleter.Content
		is      error // a cause of the error; nil: no error, and still not empty
		remains int
	}{
		{name: "an object is held", sick: fake(nil, held), remains: 1},
		{name: "listing fails", sick: fake(fails(errBoom, list), one), is: errBoom},
		{name: "listing fails, one by one", sick: plain{fake(fails(errBoom, list), one)}, is: errBoom},
		{name: "listing is not supported", sick: fake(fails(deleter.ErrNotSupported, list), one), is: deleter.ErrNotSupported},
		{name: "deleting a collection fails", sick: fake(fails(errBoom, collection), one), is: errBoom, remains: 1},
		{name: "deleting an object fails", sick: plain{fake(fails(errBoom, del), one)}, is: errBoom, remains: 1},
		{name: "deleting is not supported", sick: plain{fake(fails(deleter.ErrNotSupported, del), one)}, is: deleter.ErrNotSupported, remains: 1},
		{name: "estimating fails", sick: graceless{fake(fails(errBoom, estimate), contenttest.Object{Name: "a", Grace: time.Hour})}, is: errBoom, remains: 1},
		{name: "nothing is deleted", sick: stubborn{fake(nil, one)}, is: deleter.ErrUnexpected, remains: 1},
		{name: "everything panics", sick: fake(&contenttest.FakeOptions{Fault: panics}, one), is: errBoom},
		{name: "the wrong incarnation", sick: otherIncarnation(), is: deleter.ErrIncarnation},
		{name: "a function fails", sick: deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) { return 0, errBoom }}.Content(), is: errBoom},
		{name: "a function leaves something", sick: deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) { return 3, nil }}.Content(), remains: 3},
		{name: "a function cannot count", sick: deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) { return -1, nil }}.Content()},
		{name: "a function is not supported", sick: deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) { return 0, deleter.ErrNotSupported }}.Content(), is: deleter.ErrNotSupported},
		{name: "an object without a name", sick: plain{paged{func(int) deleter.Page { return deleter.Page{Items: []deleter.Item{{}}} }}}},
		{name: "a listing without an end", sick: plain{paged{func(n int) deleter.Page { return deleter.Page{Next: []string{"a", "b", "c"}[n%3]} }}}},
		{name: "a token that always expires", sick: plain{paged{func(n int) deleter.Page { return deleter.Page{Next: "expired"} }}}, is: deleter.ErrExpired},
	} {
		t.Run(tt.name, func(t *testing.T) {
			healthy := fake(nil, one)
			behind := fake(nil, one)
			d := compose(t, nil, source("sick", tt.sick), source("healthy", healthy), source("behind", behind, "sick"))
			var report deleter.Report
			for pass := range 3 { // learning must not make it less careful
				var err error
				report, err = d.Delete(t.Context(), target(), report)
				require.False(t, report.Empty(), "pass %d", pass)
				require.Equal(t, tt.remains, report.Remaining(), "pass %d", pass)
				require.Empty(t, cmp.Diff([]namespace.ResourceType{core("healthy")}, report.Clean))
				require.True(t, result(t, report, "behind").Waiting)
				require.Equal(t, []string{"a"}, behind.Names(target()))
				if tt.remains == 0 {
					require.Error(t, err)
				}
				if tt.is != nil {
					require.ErrorIs(t, err, tt.is)
					require.ErrorIs(t, result(t, report, "sick").Err, tt.is)
				}
				if err != nil {
					var named *deleter.SourceError
					require.ErrorAs(t, err, &named)
					require.Equal(t, core("sick"), named.Resource)
				}
			}
			require.Empty(t, healthy.Names(target()))
		})
	}
}

func panics(context.Context, contenttest.Call) error { panic(errBoom) }

// stubborn claims to delete.
type stubborn struct{ deleter.Content }

func (stubborn) DeleteCollection(context.Context, deleter.Target) (int, bool, error) {
	return 1, false, nil
}

// graceless does not list how long objects in graceful deletion will stay.
type graceless struct{ *contenttest.Fake }

func (g graceless) List(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	page, err := g.Fake.List(ctx, target, limit, next)
	for i := range page.Items {
		page.Items[i].Grace = 0
	}
	return page, err
}

// paged is content with given pages. The token "expired" is always too old.
type paged struct{ page func(n int) deleter.Page }

func (p paged) List(_ context.Context, _ deleter.Target, _ int, next string) (deleter.Page, error) {
	switch next {
	case "expired":
		return deleter.Page{}, deleter.ErrExpired
	case "":
		return p.page(0), nil
	}
	return p.page(int(next[0]-'a') + 1), nil
}

func (p paged) Delete(context.Context, deleter.Target, string, string) error { return nil }

func otherIncarnation() deleter.Content {
	f := contenttest.NewFake(nil)
	other := target()
	other.UID = "another"
	f.Put(other, contenttest.Object{Name: "a"})
	return f
}

// R7: an answer after the deadline counts as a failure.
func TestR7_LateAnswersDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) {
			time.Sleep(2 * time.Second)
			return 0, nil
		}}.Content()
		report, err := compose(t, &deleter.Options{CallTimeout: time.Second}, source("pods", late)).
			Delete(t.Context(), target(), deleter.Report{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "pods: empty: no answer within 1s: context deadline exceeded")
		require.False(t, report.Empty())
		require.Empty(t, report.Clean)
	})
}

// R8: the report of one incarnation does not affect another.
func TestR8_ReportsOfOtherIncarnationsAreIgnored(t *testing.T) {
	f := contenttest.NewFake(nil)
	d := compose(t, nil, source("pods", f))
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.NoError(t, err)
	require.True(t, report.Empty())
	require.Len(t, report.Clean, 1)

	next := target()
	next.UID = "development-2"
	f.Put(next, contenttest.Object{Name: "a", Finalizers: []string{"example.com/hold"}})
	report, err = d.Delete(t.Context(), next, report)
	require.NoError(t, err)
	require.False(t, report.Empty())
	require.Equal(t, 1, report.Remaining())
}
