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

// An inspection reports every source, also those that a pass would not call, and deletes
// nothing.
func TestInspect(t *testing.T) {
	pods := fake(nil, contenttest.Object{Name: "a", Finalizers: []string{"example.com/hold"}}, contenttest.Object{Name: "b"})
	jobs := fake(nil, contenttest.Object{Name: "c"})
	d := compose(t, &deleter.Options{PageSize: 1}, source("pods", pods), source("jobs", jobs, "pods"), source("calls", deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) { panic("an inspection must not call it") }}.Content()))
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

// active is the target of an Active namespace.
func active() deleter.Target {
	t := target()
	t.DeletedAt = time.Time{}
	return t
}

// An inventory has every object with its uid and finalizers, in order.
func TestInventory(t *testing.T) {
	pods := fake(nil, contenttest.Object{Name: "b", UID: "2"}, contenttest.Object{Name: "a", UID: "1", Finalizers: []string{"example.com/hold"}})
	jobs := fake(nil)
	jobs.PutMany(target(), "job", 1200)
	d := compose(t, nil, source("pods", pods), source("jobs", jobs, "pods"), source("none", fake(nil)))
	inventory, err := d.Inventory(t.Context(), target())
	require.NoError(t, err)
	require.Len(t, inventory.Objects, 1202)
	require.Equal(t, 1202, inventory.Report.Remaining())
	for i, o := range inventory.Objects[:1200] {
		require.Equal(t, core("jobs"), o.Resource)
		require.Equal(t, fmt.Sprintf("job-%06d", i), o.Name)
		require.NotEmpty(t, o.UID)
	}
	require.Empty(t, cmp.Diff([]deleter.Object{
		{Resource: core("pods"), Item: deleter.Item{Name: "a", UID: "1", Finalizers: []string{"example.com/hold"}}},
		{Resource: core("pods"), Item: deleter.Item{Name: "b", UID: "2"}},
	}, inventory.Objects[1200:]))
	require.Equal(t, []string{"a", "b"}, pods.Names(target()), "nothing was deleted")
}

// scripted is content with given pages: the n-th call gets the n-th answer.
type scripted struct {
	deleter.Content
	answers []answer
	calls   int
}

type answer struct {
	page deleter.Page
	err  error
}

func (s *scripted) List(context.Context, deleter.Target, int, string) (deleter.Page, error) {
	a := s.answers[s.calls]
	s.calls++
	s.misbehave(a.err)
	return a.page, a.err
}

// pageTo is a page of objects that are being deleted.
func pageTo(next string, names ...string) answer {
	p := deleter.Page{Next: next}
	for _, name := range names {
		p.Items = append(p.Items, deleter.Item{Name: name, UID: "uid-" + name, Deleting: true})
	}
	return answer{page: p}
}

// The objects listed before a failure are kept. If a listing started over, the longest of
// its attempts counts.
func TestInventoryOfListingsThatEndEarly(t *testing.T) {
	expired := answer{err: deleter.ErrExpired}
	down := answer{err: errBoom}
	for _, tt := range []struct {
		name    string
		answers []answer
		err     error
		want    []string
	}{
		{"fails on the way", []answer{pageTo("1", "b", "a"), down}, errBoom, []string{"a", "b"}},
		{"starts over", []answer{pageTo("1", "a", "b"), expired, pageTo("", "a")}, nil, []string{"a"}},
		{"starts over and fails earlier", []answer{pageTo("1", "a", "b"), expired, pageTo("1", "a"), down}, errBoom, []string{"a", "b"}},
		{"starts over and fails later", []answer{pageTo("1", "a"), expired, pageTo("1", "a", "c"), down}, errBoom, []string{"a", "c"}},
		{"fails at once", []answer{down}, errBoom, nil},
		{"has one twice", []answer{pageTo("1", "a", "b"), pageTo("", "b", "c")}, nil, []string{"a", "b", "c"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := compose(t, nil, source("pods", &scripted{answers: tt.answers}), source("jobs", fake(nil, contenttest.Object{Name: "x"})))
			inventory, err := d.Inventory(t.Context(), target())
			if tt.err == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, tt.err)
				require.ErrorIs(t, result(t, inventory.Report, "pods").Err, tt.err)
			}
			var names []string
			for _, o := range inventory.Objects {
				if o.Resource == core("pods") {
					names = append(names, o.Name)
				}
			}
			require.Equal(t, tt.want, names)
			require.Equal(t, core("jobs"), inventory.Objects[0].Resource, "others are listed all the same")
			if tt.err != nil {
				require.Equal(t, len(tt.want), result(t, inventory.Report, "pods").Remaining, "and counted")
			}
		})
	}
}

// The inspection of an Active namespace needs a Viewer; other content fails.
func TestInspectActive(t *testing.T) {
	pods := fake(nil, contenttest.Object{Name: "a"}, contenttest.Object{Name: "b"})
	pods.SetActive(target(), true)
	hidden := fake(nil, contenttest.Object{Name: "c"})
	hidden.SetActive(target(), true)
	d := compose(t, &deleter.Options{PageSize: 1}, source("pods", pods), source("hidden", plain{hidden}), source("calls", deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) { panic("an inspection must not call it") }}.Content()))

	inventory, err := d.Inventory(t.Context(), active())
	require.ErrorIs(t, err, deleter.ErrNotSupported)
	require.Equal(t, 2, result(t, inventory.Report, "pods").Remaining)
	require.NoError(t, result(t, inventory.Report, "pods").Err)
	for _, name := range []string{"hidden", "calls"} {
		require.ErrorIs(t, result(t, inventory.Report, name).Err, deleter.ErrNotSupported)
		var failure *deleter.SourceError
		require.ErrorAs(t, result(t, inventory.Report, name).Err, &failure)
		require.Equal(t, deleter.OpView, failure.Op)
	}
	require.Len(t, inventory.Objects, 2)
	require.Zero(t, pods.Calls(list, del, collection), "nothing but views")

	_, err = d.Delete(t.Context(), active(), deleter.Report{})
	require.ErrorIs(t, err, deleter.ErrInvalid, "only a terminating namespace may be emptied")
	require.Equal(t, []string{"a", "b"}, pods.Names(target()))
}

// In a terminating namespace other content is listed. A Viewer is still viewed, because a
// view is certainly of one incarnation (rule R8).
func TestInspectTerminating(t *testing.T) {
	pods, jobs := fake(nil, contenttest.Object{Name: "a"}), fake(nil, contenttest.Object{Name: "b"})
	report, err := compose(t, nil, source("pods", pods), source("jobs", plain{jobs})).Inspect(t.Context(), target())
	require.NoError(t, err)
	require.Equal(t, 2, report.Remaining())
	require.Equal(t, 1, pods.Calls(deleter.OpView))
	require.Zero(t, pods.Calls(list))
	require.Equal(t, 1, jobs.Calls(list))
	require.Zero(t, jobs.Calls(deleter.OpView))
}

// R8: an inspection of an incarnation shows nothing of another.
func TestR8_InspectAnotherIncarnation(t *testing.T) {
	pods := fake(nil, contenttest.Object{Name: "a"})
	for _, late := range []deleter.Target{active(), target()} {
		late.UID = "another"
		inventory, err := compose(t, nil, source("pods", pods)).Inventory(t.Context(), late)
		require.ErrorIs(t, err, deleter.ErrIncarnation)
		require.Empty(t, inventory.Objects)
	}
}

func TestInventoryBadInput(t *testing.T) {
	pods := fake(nil, contenttest.Object{Name: "a"})
	d := compose(t, nil, source("pods", pods))
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errBoom)
	noUID, path := active(), active()
	noUID.UID, path.Namespace = "", "../development"
	for name, tt := range map[string]struct {
		ctx    context.Context
		target deleter.Target
		is     error
	}{
		"ended context": {ended, active(), errBoom},
		"zero target":   {t.Context(), deleter.Target{}, deleter.ErrInvalid},
		"no uid":        {t.Context(), noUID, deleter.ErrInvalid},
		"a path":        {t.Context(), path, deleter.ErrInvalid},
	} {
		inventory, err := d.Inventory(tt.ctx, tt.target)
		require.ErrorIs(t, err, tt.is, name)
		require.Empty(t, inventory.Objects, name)
		require.False(t, inventory.Report.Empty(), name)
	}
	require.Zero(t, pods.Calls())
}

// If a listing is cut short, its objects are kept, and the report fails.
func TestInventoryCutShort(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cut := &scripted{answers: []answer{pageTo("1", "a"), {err: errBoom}}}
	d := compose(t, nil, source("pods", cutting{cut, func() { cancel(errBoom) }}))
	inventory, err := d.Inventory(ctx, target())
	require.ErrorIs(t, err, errBoom)
	require.ErrorIs(t, inventory.Report.Failed, errBoom)
	require.False(t, inventory.Report.Empty())
}

// cutting ends the context of its caller with each listing.
type cutting struct {
	*scripted
	cut func()
}

func (c cutting) List(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	defer c.cut()
	return c.scripted.List(ctx, target, limit, next)
}
