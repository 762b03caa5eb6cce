package deleter_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/phase"
)

const (
	list       = deleter.OpList
	del        = deleter.OpDelete
	collection = deleter.OpDeleteCollection
	estimate   = deleter.OpEstimate
)

// Calls cost more than everything else. Each case runs passes over one source until two in
// a row changed nothing, and counts the calls.
func TestCallsOfEachPass(t *testing.T) {
	type calls = []string // of each pass
	objects := func(n int) (all []contenttest.Object) {
		for i := range n {
			all = append(all, contenttest.Object{Name: fmt.Sprint("o", i)})
		}
		return all
	}
	held := []contenttest.Object{{Name: "a", Finalizers: []string{"example.com/hold"}}}
	for _, tt := range []struct {
		name    string
		options contenttest.FakeOptions
		objects []contenttest.Object
		again   bool // the type is not Final
		plain   bool // the source has no capabilities
		opts    deleter.Options
		want    calls
	}{
		{name: "empty for good", want: calls{"1c 1l", "-"}},
		{name: "empty, called again", again: true, want: calls{"1c 1l", "1l", "1l"}},
		{name: "full", objects: objects(7), want: calls{"1c 1l", "-"}},
		{name: "full, one by one", objects: objects(7), plain: true, want: calls{"2l 7d", "-"}},
		{name: "empty, one by one", plain: true, want: calls{"1l", "-"}},
		{name: "held", objects: held, want: calls{"1c 1l", "1l", "1l"}},
		{name: "held, one by one", objects: held, plain: true, want: calls{"2l 1d", "1l", "1l"}},
		{
			name: "no collections: remembered", objects: held,
			options: contenttest.FakeOptions{Unsupported: []deleter.Op{collection}},
			want:    calls{"1c 2l 1d", "1l", "1l"},
		},
		{
			name: "no estimates: remembered", objects: objects(1), again: true,
			options: contenttest.FakeOptions{Unsupported: []deleter.Op{estimate}}, want: calls{"1c 1l", "1l"},
		},
		{
			name: "no deletion at all: remembered", objects: objects(1), plain: true,
			options: contenttest.FakeOptions{Unsupported: []deleter.Op{del}}, want: calls{"2l 1d", "1l", "1l"},
		},
		{
			name: "down", objects: objects(1), options: *fails(errBoom), want: calls{"1c 1l", "1l", "1l"},
		},
		{
			name: "a budget that ends with a page", objects: objects(6), plain: true, opts: deleter.Options{PageSize: 3, MaxDeletes: 3},
			want: calls{"2l 3d", "2l 3d", "-"},
		},
		{name: "pages", objects: objects(7), plain: true, opts: deleter.Options{PageSize: 3}, want: calls{"4l 7d", "-"}},
		{
			name: "batches", objects: objects(7), options: contenttest.FakeOptions{Batch: 3},
			want: calls{"3c 1l", "-"},
		},
		{
			name: "a budget of batches", objects: objects(7), options: contenttest.FakeOptions{Batch: 3},
			opts: deleter.Options{MaxDeletes: 3}, want: calls{"1c 1l", "1c 1l", "1c 1l", "-"},
		},
		{
			name: "a budget of objects", objects: objects(7), plain: true, opts: deleter.Options{MaxDeletes: 3},
			want: calls{"2l 3d", "2l 3d", "2l 1d", "-"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fake(&tt.options, tt.objects...)
			s := source("things", f)
			if tt.plain {
				s.Content = plain{f}
			}
			s.Final = !tt.again
			d := compose(t, &tt.opts, s)
			var report deleter.Report
			var got calls
			for range tt.want {
				f.ResetCalls()
				report, _ = d.Delete(t.Context(), target(), report)
				got = append(got, counted(f))
			}
			require.Empty(t, cmp.Diff(tt.want, got))
		})
	}
}

func counted(f *contenttest.Fake) string {
	text := ""
	for _, op := range []struct {
		op     deleter.Op
		letter string
	}{{collection, "c"}, {list, "l"}, {del, "d"}, {estimate, "e"}} {
		if n := f.Calls(op.op); n > 0 {
			text += fmt.Sprintf(" %d%s", n, op.letter)
		}
	}
	if text == "" {
		return "-"
	}
	return text[1:]
}

func TestUnexpectedItemsText(t *testing.T) {
	d := compose(t, nil, source("pods", stubborn{fake(nil, contenttest.Object{Name: "b"}, contenttest.Object{Name: "a"})}))
	_, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.EqualError(t, err, "pods: unexpected items still remain in namespace: development: 2 without finalizer, grace period or deletion mark (a, b)")
}

// An estimate is requested only if objects are being deleted and the listing has no grace
// periods.
func TestEstimateIsRequestedOnlyIfNeeded(t *testing.T) {
	slow := contenttest.Object{Name: "a", Grace: time.Hour}
	for _, tt := range []struct {
		name    string
		content func(*contenttest.Fake) deleter.Content
		object  contenttest.Object
		calls   int
		known   bool
	}{
		{"the items have grace periods", func(f *contenttest.Fake) deleter.Content { return f }, slow, 0, true},
		{"the source estimates", func(f *contenttest.Fake) deleter.Content { return graceless{f} }, slow, 1, true},
		{"held", func(f *contenttest.Fake) deleter.Content { return f }, heldFor(0), 0, false},
		{"gone", func(f *contenttest.Fake) deleter.Content { return f }, contenttest.Object{Name: "a"}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fake(nil, tt.object)
			report, err := compose(t, nil, source("pods", tt.content(f))).Delete(t.Context(), target(), deleter.Report{})
			require.NoError(t, err)
			require.Equal(t, tt.calls, f.Calls(estimate))
			require.Equal(t, tt.known, report.Estimate() > 59*time.Minute)
		})
	}
}

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

// collector answers each deletion of a collection with given values.
type collector struct {
	deleter.Content
	calls   *int
	deleted int
}

func (c collector) DeleteCollection(context.Context, deleter.Target) (int, bool, error) {
	if *c.calls++; *c.calls > 1000 {
		return 0, false, errors.New("called without end")
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
