package deleter_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"go.uber.org/multierr"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// waiving is the target whose operator has waived sources.
func waiving(sources ...string) deleter.Target {
	t := target()
	t.Waived = sources
	return t
}

// R7: a waived source that fails counts as empty. It is never clean, and the sources after it
// start.
func TestR7_WaivedSource(t *testing.T) {
	sick, behind := fake(fails(errBoom)), fake(nil, contenttest.Object{Name: "a"})
	d := compose(t, nil, source("sick", sick), source("behind", behind, "sick"))
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.ErrorIs(t, err, errBoom)
	require.True(t, result(t, report, "behind").Waiting)

	for pass := range 3 {
		sick.ResetCalls()
		report, err = d.Delete(t.Context(), waiving("other", "sick"), report)
		require.NoError(t, err)
		require.True(t, report.Empty(), "pass %d", pass)
		require.NotZero(t, sick.Calls(), "pass %d: a waived source is called too", pass)
		require.Empty(t, behind.Names(target()))
		require.Equal(t, []namespace.ResourceType{core("behind")}, report.Clean, "a failed source is never clean")
		require.Len(t, report.Waived, 1)
		require.ErrorIs(t, report.Waived[0], errBoom)
		require.Equal(t, "sick", deleter.SourceOf(report.Waived[0]))
		require.Empty(t, cmp.Diff(deleter.Result{Resource: core("sick")}, result(t, report, "sick")))
		seen := report.Observation()
		require.True(t, seen.Empty())
		require.Len(t, seen.Waived, 1)
		if pass == 1 {
			report = report.Compact()
		}
	}
	report, err = d.Delete(t.Context(), target(), report)
	require.ErrorIs(t, err, errBoom, "without the waiver it has failed again")
	require.False(t, report.Empty())
	require.Empty(t, report.Waived)
}

// R8: a waiver of one target does not apply to another namespace or incarnation.
func TestR8_WaiverOfOneNamespace(t *testing.T) {
	d := compose(t, nil, source("sick", fake(fails(errBoom))))
	report, err := d.Delete(t.Context(), waiving("sick"), deleter.Report{})
	require.NoError(t, err)
	for _, other := range []deleter.Target{targetOf("other"), {Namespace: "development", UID: "development-2", DeletedAt: target().DeletedAt}} {
		report, err := d.Delete(t.Context(), other, report)
		require.ErrorIs(t, err, errBoom)
		require.False(t, report.Empty())
		require.Empty(t, report.Waived)
	}
}

// R7: any evidence of objects refuses a waiver.
func TestR7_WaiverHidesNothingSeen(t *testing.T) {
	one := contenttest.Object{Name: "a"}
	held := contenttest.Object{Name: "a", Finalizers: []string{"example.com/hold"}}
	down := answer{err: errBoom}
	beyond := answer{page: deleter.Page{Next: "1", Remaining: 7}}
	late := pageTo("", "a")
	late.err = errBoom
	for _, tt := range []struct {
		name string
		sick deleter.Content
		seen int // the count in LastSeen; zero: it is in the result
	}{
		{"a deletion fails", plain{fake(fails(errBoom, del), one)}, 0},
		{"one of two deletions fails", plain{fake(&contenttest.FakeOptions{Fault: func(_ context.Context, c contenttest.Call) error {
			if c.Object == "a" {
				return errBoom
			}
			return nil
		}}, one, contenttest.Object{Name: "b"})}, 0},
		{"a collection fails", fake(fails(errBoom, collection), one), 0},
		{"nothing is deleted", stubborn{fake(nil, one)}, 0},
		{"held, and the estimate fails", graceless{fake(fails(errBoom, estimate), contenttest.Object{Name: "a", Grace: time.Hour})}, 0},
		{"deleted, then no list", deletesThenFails{fake(fails(errBoom, list), held, contenttest.Object{Name: "b"})}, 2},
		{"more, then no list", &uncountedMore{Content: fake(fails(errBoom, list), one)}, 0},
		{"the second page fails", plain{&scripted{answers: []answer{pageTo("1", "a", "b"), down}}}, 0},
		{"objects beyond an empty page", plain{&scripted{answers: []answer{beyond, down}}}, 7},
		{"an object without a name", plain{&scripted{answers: []answer{pageTo("", "")}}}, 1},
		{"a page beside an error", plain{&scripted{answers: []answer{late}}}, 1},
		{"seen before the listing started over", plain{&scripted{answers: []answer{pageTo("1", "a"), {err: deleter.ErrExpired}, down}}}, 0},
		{"a panic on the second page", plain{&scripted{answers: []answer{pageTo("1", "a", "b"), {err: errPanic}}}}, 0},
		{"a function that counts, and fails", deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) { return 3, errBoom }}.Content(), 0},
		{"nothing left, but held", &oddEmptier{deleter.Result{Holders: []phase.Holder{{Finalizer: "example.com/hold", Objects: 2}}}}, 0},
		{"nothing left, but being deleted", &oddEmptier{deleter.Result{Deleting: 4}}, 0},
		{"nothing left, but some deleted, and an error", &failingEmptier{deleter.Result{Deleted: 5}, errBoom}, 5},
		{"nothing left, but more, and an error", &failingEmptier{deleter.Result{More: true}, errBoom}, 1},
		{"nothing left, but a name, and an error", &failingEmptier{deleter.Result{Sample: []string{"a"}}, errBoom}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			behind := fake(nil, one)
			d := compose(t, nil, source("sick", tt.sick), source("behind", behind, "sick"))
			report, err := d.Delete(t.Context(), waiving("sick"), deleter.Report{})
			require.Error(t, err)
			require.False(t, report.Empty())
			require.Empty(t, report.Waived)
			require.Equal(t, []string{"a"}, behind.Names(target()), "a source after it must not start")
			sights := report.LastCounts()
			require.Len(t, sights, 1)
			require.Equal(t, core("sick"), sights[0].Resource)
			if tt.seen > 0 {
				require.Equal(t, []deleter.ResourceCount{{Resource: core("sick"), Objects: tt.seen}}, report.LastSeen)
			} else {
				require.Empty(t, report.LastSeen, "the result counts them")
				require.NotZero(t, report.Remaining())
			}
		})
	}
}

var errStop, errPanic = errors.New("stop"), errors.New("panic")

type deletesThenFails struct{ *contenttest.Fake }

// uncountedMore cannot count its deletions, and reports more.
type uncountedMore struct {
	deleter.Content
}

func (u *uncountedMore) DeleteCollection(context.Context, deleter.Target) (int, bool, error) {
	return -1, true, nil
}

type oddEmptier struct{ result deleter.Result }

func (o *oddEmptier) Empty(context.Context, deleter.Target) (deleter.Result, error) {
	return o.result, nil
}

func (o *oddEmptier) List(context.Context, deleter.Target, int, string) (deleter.Page, error) {
	return deleter.Page{}, deleter.ErrNotSupported
}
func (o *oddEmptier) Delete(context.Context, deleter.Target, string, string) error { return nil }

type failingEmptier struct {
	result deleter.Result
	err    error
}

func (o *failingEmptier) Empty(context.Context, deleter.Target) (deleter.Result, error) {
	return o.result, o.err
}

func (o *failingEmptier) List(context.Context, deleter.Target, int, string) (deleter.Page, error) {
	return deleter.Page{}, deleter.ErrNotSupported
}
func (o *failingEmptier) Delete(context.Context, deleter.Target, string, string) error { return nil }

// R7: objects that a pass saw refuse a waiver in later passes, until the source answers.
func TestR7_WaiverHidesNothingSeenBefore(t *testing.T) {
	for _, compact := range []bool{false, true} {
		ops := map[string]error{}
		fault := func(_ context.Context, c contenttest.Call) error { return ops["sick"] }
		sick := fake(&contenttest.FakeOptions{Fault: fault}, contenttest.Object{Name: "a", Finalizers: []string{"example.com/hold"}})
		first := fake(&contenttest.FakeOptions{Fault: func(context.Context, contenttest.Call) error { return ops["first"] }})
		one := source("first", first)
		one.Final = false
		d := compose(t, nil, one, source("sick", sick, "first"))
		var report deleter.Report
		step := func(waived ...string) error {
			t.Helper()
			if compact {
				report = report.Compact()
			}
			var err error
			report, err = d.Delete(t.Context(), waiving(waived...), report)
			return err
		}
		lastSeen := []deleter.ResourceCount{{Resource: core("sick"), Objects: 1}}

		require.NoError(t, step())
		require.Equal(t, 1, report.Remaining())
		ops["sick"] = errBoom
		require.ErrorIs(t, step(), errBoom)
		require.Equal(t, lastSeen, report.LastSeen)
		require.ErrorIs(t, step("sick"), errBoom, "the waiver came after the object was seen")
		require.Empty(t, report.Waived)

		ops["first"] = errBoom // so that "sick" is not even called
		require.ErrorIs(t, step("sick"), errBoom)
		require.True(t, result(t, report, "sick").Waiting)
		require.Equal(t, lastSeen, report.LastSeen)
		delete(ops, "first")
		require.ErrorIs(t, step("sick"), errBoom)
		require.Equal(t, lastSeen, report.LastSeen)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		canceled, err := d.Delete(ctx, waiving("sick"), report)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, lastSeen, canceled.LastSeen)
		report = canceled
		require.ErrorIs(t, step("sick"), errBoom)

		delete(ops, "sick")
		sick.Release(target(), "a")
		require.NoError(t, step("sick"))
		require.True(t, report.Empty(), "it answered")
		require.Empty(t, report.LastSeen)
		require.Equal(t, []namespace.ResourceType{core("sick")}, report.Clean)
	}
}

// R7: a source that had more objects than it could count refuses a waiver too.
func TestR7_WaiverHidesNoMore(t *testing.T) {
	for _, compact := range []bool{false, true} {
		sick := &failingEmptier{result: deleter.Result{Deleted: 1000, More: true}}
		d := compose(t, nil, source("sick", sick))
		report, err := d.Delete(t.Context(), waiving("sick"), deleter.Report{})
		require.NoError(t, err)
		sick.result, sick.err = deleter.Result{}, errBoom
		for range 3 {
			if compact {
				report = report.Compact()
			}
			report, err = d.Delete(t.Context(), waiving("sick"), report)
			require.ErrorIs(t, err, errBoom)
			require.Empty(t, report.Waived)
			require.Equal(t, []deleter.ResourceCount{{Resource: core("sick"), Objects: 1}}, report.LastSeen)
		}
	}
}

// The error of a source explains why its waiver was refused.
func TestUnwaived(t *testing.T) {
	down := false
	sick := fake(&contenttest.FakeOptions{Fault: func(context.Context, contenttest.Call) error {
		if down {
			return errBoom
		}
		return nil
	}}, contenttest.Object{Name: "a", Finalizers: []string{"example.com/hold"}}, contenttest.Object{Name: "b", Finalizers: []string{"example.com/hold"}})
	d := compose(t, nil, source("sick", sick))
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.NoError(t, err)
	down = true
	unwaived := func(err error) *deleter.UnwaivedError {
		var u *deleter.UnwaivedError
		errors.As(err, &u)
		return u
	}
	report, err = d.Delete(t.Context(), waiving("other"), report)
	require.Nil(t, unwaived(err), "there is no waiver")
	for range 2 {
		report, err = d.Delete(t.Context(), waiving("sick"), report)
		require.ErrorIs(t, err, errBoom)
		require.EqualError(t, err, "sick: list: boom (not waived: 2 objects were left of it when it last answered)")
		require.Equal(t, 2, unwaived(err).Objects)
		require.Equal(t, "sick", deleter.SourceOf(err))
	}
	sick.Release(target(), "a")
	down = false
	report, err = d.Delete(t.Context(), waiving("sick"), report)
	require.NoError(t, err)
	down = true
	_, err = d.Delete(t.Context(), waiving("sick"), report)
	require.EqualError(t, err, "sick: list: boom (not waived: 1 object was left of it when it last answered)")

	// If a source fails in several ways, each error explains it.
	several := fake(&contenttest.FakeOptions{Fault: func(_ context.Context, c contenttest.Call) error { return errors.New(string(c.Op) + " fails") }})
	report, err = compose(t, nil, source("sick", several)).Delete(t.Context(), waiving("sick"),
		deleter.Report{UID: target().UID, LastSeen: []deleter.ResourceCount{{Resource: core("sick"), Objects: 3}}})
	require.Error(t, err)
	for _, one := range multierr.Errors(report.Results[0].Err) {
		require.NotNil(t, unwaived(one))
	}
	require.Len(t, multierr.Errors(report.Results[0].Err), 2)
}

// The report counts the objects deleted before a waived source failed.
func TestWaivedAfterDeletions(t *testing.T) {
	d := compose(t, nil, source("sick", halfDone{}))
	report, err := d.Delete(t.Context(), waiving("sick"), deleter.Report{})
	require.NoError(t, err)
	require.True(t, report.Empty())
	require.Len(t, report.Waived, 1)
	require.Equal(t, 7, report.Deleted())
	require.Empty(t, cmp.Diff(deleter.Result{Resource: core("sick"), Deleted: 7}, result(t, report, "sick")))
}

// halfDone deletes a whole collection, and fails.
type halfDone struct{}

func (halfDone) List(context.Context, deleter.Target, int, string) (deleter.Page, error) {
	return deleter.Page{}, nil
}
func (halfDone) Delete(context.Context, deleter.Target, string, string) error { return nil }
func (halfDone) DeleteCollection(context.Context, deleter.Target) (int, bool, error) {
	return 7, false, errBoom
}

// A source whose last answer was empty may be waived.
func TestWaivedAfterItWasEmptied(t *testing.T) {
	down := false
	sick := fake(&contenttest.FakeOptions{Fault: func(context.Context, contenttest.Call) error {
		if down {
			return errBoom
		}
		return nil
	}}, contenttest.Object{Name: "a", Finalizers: []string{"example.com/hold"}})
	s := source("sick", sick)
	s.Final = false
	d := compose(t, nil, s)
	report, err := d.Delete(t.Context(), waiving("sick"), deleter.Report{})
	require.NoError(t, err)
	require.False(t, report.Empty(), "an answer counts")
	sick.Release(target(), "a")
	report, err = d.Delete(t.Context(), waiving("sick"), report)
	require.NoError(t, err)
	require.True(t, report.Empty())
	require.Empty(t, report.Waived, "it answered")
	down = true
	report, err = d.Delete(t.Context(), waiving("sick"), report)
	require.NoError(t, err)
	require.True(t, report.Empty())
	require.Len(t, report.Waived, 1)
}

// R7: a pass that was cut short waives nothing.
func TestR7_CutShortWaivesNothing(t *testing.T) {
	for _, group := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		last := fake(&contenttest.FakeOptions{Fault: func(_ context.Context, c contenttest.Call) error {
			cancel(errStop)
			return nil
		}})
		d, err := deleter.Discovering(func(context.Context) ([]deleter.Source, error) {
			sources := []deleter.Source{source("sick", fake(fails(errBoom))), source("last", last, "sick")}
			if group {
				return sources, &deleter.DiscoveryError{Groups: []deleter.GroupError{{Group: "down.example.com", Err: errPanic}}}
			}
			return sources, nil
		}, nil)
		require.NoError(t, err)
		report, err := d.Delete(ctx, waiving("sick", "down.example.com"), deleter.Report{})
		require.ErrorIs(t, err, errStop)
		require.ErrorIs(t, err, errBoom)
		require.False(t, report.Empty())
		require.Empty(t, report.Waived)
		require.ErrorIs(t, result(t, report, "sick").Err, errBoom)
		if group {
			require.ErrorIs(t, report.Observation().Discovery[0], errPanic)
		}
	}
}

// A hanging source is waived after CallTimeout if the pass lasts longer.
func TestWaivedSourceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := fake(&contenttest.FakeOptions{Fault: func(ctx context.Context, _ contenttest.Call) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}})
		d := compose(t, &deleter.Options{CallTimeout: time.Second}, source("sick", hangs))
		report, err := d.Delete(t.Context(), waiving("sick"), deleter.Report{})
		require.NoError(t, err)
		require.True(t, report.Empty())
		require.ErrorIs(t, report.Waived[0], context.DeadlineExceeded)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		report, err = d.Delete(ctx, waiving("sick"), deleter.Report{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, report.Waived)
		require.False(t, report.Empty())
	})
}

// An inspection reports waived failures too.
func TestInspectWaivesNothing(t *testing.T) {
	d := compose(t, nil, source("sick", fake(fails(errBoom))))
	report, err := d.Inspect(t.Context(), waiving("sick"))
	require.ErrorIs(t, err, errBoom)
	require.Empty(t, report.Waived)
}

// Groups that cannot be discovered are waived by their names.
func TestR7_WaivedDiscovery(t *testing.T) {
	group := func(name string) deleter.GroupError {
		return deleter.GroupError{Group: name, Err: errors.New(name + " is down")}
	}
	behindHidden := deleter.Source{Resource: core("behind"), Content: fake(nil, contenttest.Object{Name: "a"}), Final: true,
		After: []namespace.ResourceType{{Group: "a.example.com", Name: "widgets"}}}
	some := []deleter.Source{source("pods", fake(nil)), behindHidden}
	for _, tt := range []struct {
		name    string
		found   []deleter.Source
		err     error
		waived  []string
		want    []string // the waived failures
		failed  []string // the reported failures of discovery
		waiting bool     // whether the source after a type that may be hidden waits
	}{
		{"the group", some, &deleter.DiscoveryError{Groups: []deleter.GroupError{group("a.example.com")}},
			[]string{"a.example.com"}, []string{"a.example.com: a.example.com is down"}, nil, false},
		{"another group", some, &deleter.DiscoveryError{Groups: []deleter.GroupError{group("a.example.com")}},
			[]string{"b.example.com", "widgets.a.example.com", ""}, nil, []string{"a.example.com: a.example.com is down"}, true},
		{"one of two", some, &deleter.DiscoveryError{Groups: []deleter.GroupError{group("b.example.com"), group("a.example.com")}, Message: "not all of the list: a, b"},
			[]string{"a.example.com"}, []string{"a.example.com: a.example.com is down"}, []string{"b.example.com: b.example.com is down"}, false},
		{"both, described by one message", some, &deleter.DiscoveryError{Groups: []deleter.GroupError{group("b.example.com"), group("a.example.com")}, Message: "not all of the list: a, b"},
			[]string{"a.example.com", "b.example.com"}, []string{"a.example.com: a.example.com is down", "b.example.com: b.example.com is down"}, nil, false},
		{"the core group has no name", some, &deleter.DiscoveryError{Groups: []deleter.GroupError{{Err: errBoom}}},
			[]string{"", "core group"}, nil, []string{"core group: boom"}, false},
		{"a type that cannot be read hides all", some, &deleter.DiscoveryError{Groups: []deleter.GroupError{group("a.example.com")}, Parsing: []error{errBoom}},
			[]string{"a.example.com"}, []string{"a.example.com: a.example.com is down"}, []string{"boom"}, true},
		{"the whole failed", some, errBoom, []string{"a.example.com", "boom", ""}, nil, []string{"boom"}, true},
		{"more than groups failed", some, errors.Join(errBoom, &deleter.DiscoveryError{Groups: []deleter.GroupError{group("a.example.com")}}),
			[]string{"a.example.com"}, nil, []string{"boom\ndiscovery failed in part: a.example.com: a.example.com is down"}, true},
		{"nothing else was found", nil, &deleter.DiscoveryError{Groups: []deleter.GroupError{group("a.example.com")}},
			[]string{"a.example.com"}, []string{"a.example.com: a.example.com is down"}, []string{deleter.ErrNothingDiscovered.Error()}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := deleter.Discovering(func(context.Context) ([]deleter.Source, error) { return tt.found, tt.err }, nil)
			require.NoError(t, err)
			report, err := d.Delete(t.Context(), waiving(tt.waived...), deleter.Report{})
			texts := func(errs ...error) (list []string) {
				for _, err := range errs {
					list = append(list, err.Error())
				}
				return list
			}
			require.Equal(t, tt.want, texts(report.Waived...))
			require.Equal(t, tt.failed, texts(append(report.Discovery, report.Parsing...)...))
			require.Equal(t, len(tt.failed) > 0, err != nil)
			require.Equal(t, len(tt.failed) == 0, report.Empty())
			require.Len(t, report.Observation().WaivedDiscovery, len(tt.want))
			if tt.found != nil {
				require.Equal(t, tt.waiting, result(t, report, "behind").Waiting)
			}
		})
	}
}

// R7: a group is not waived while types that it hides were seen with objects.
func TestR7_WaivedDiscoveryHidesNothingSeen(t *testing.T) {
	widgets := deleter.Source{Resource: namespace.ResourceType{Group: "a.example.com", Name: "widgets"}, Final: true,
		Content: fake(nil, contenttest.Object{Name: "w", Finalizers: []string{"example.com/hold"}})}
	pods := source("pods", fake(nil))
	down := &deleter.DiscoveryError{Groups: []deleter.GroupError{{Group: "a.example.com", Err: errBoom}}}
	found, failure := []deleter.Source{pods, widgets}, error(nil)
	d, err := deleter.Discovering(func(context.Context) ([]deleter.Source, error) { return found, failure }, nil)
	require.NoError(t, err)
	report, err := d.Delete(t.Context(), waiving("a.example.com"), deleter.Report{})
	require.NoError(t, err)
	require.Equal(t, 1, report.Remaining())

	found, failure = found[:1], down
	for range 3 {
		report, err = d.Delete(t.Context(), waiving("a.example.com"), report.Compact())
		require.ErrorIs(t, err, errBoom)
		require.Empty(t, report.Waived)
		require.Equal(t, []deleter.ResourceCount{{Resource: widgets.Resource, Objects: 1}}, report.LastSeen)
	}
	// If a complete discovery does not find the type, it does not exist.
	failure = nil
	report, err = d.Delete(t.Context(), waiving("a.example.com"), report)
	require.NoError(t, err)
	require.True(t, report.Empty())
	require.Empty(t, report.LastSeen)
	failure = down
	report, err = d.Delete(t.Context(), waiving("a.example.com"), report)
	require.NoError(t, err)
	require.Len(t, report.Waived, 1)
}

// R7: a pass that found no sources keeps the counts of earlier passes.
func TestR7_EmptyDiscoveryKeepsLastSeen(t *testing.T) {
	widgets := deleter.Source{Resource: namespace.ResourceType{Group: "a.example.com", Name: "widgets"}, Final: true,
		Content: fake(nil, contenttest.Object{Name: "w", Finalizers: []string{"example.com/hold"}})}
	down := func(group string) error {
		return &deleter.DiscoveryError{Groups: []deleter.GroupError{{Group: group, Err: errBoom}}}
	}
	found, failure := []deleter.Source{widgets}, error(nil)
	d, err := deleter.Discovering(func(context.Context) ([]deleter.Source, error) { return found, failure }, nil)
	require.NoError(t, err)
	both := waiving("a.example.com", "b.example.com")
	report, err := d.Delete(t.Context(), both, deleter.Report{})
	require.NoError(t, err)
	require.Equal(t, 1, report.Remaining())

	found, failure = nil, down("b.example.com")
	seen := []deleter.ResourceCount{{Resource: widgets.Resource, Objects: 1}}
	report, err = d.Delete(t.Context(), both, report)
	require.ErrorIs(t, err, deleter.ErrNothingDiscovered)
	require.Equal(t, seen, report.LastSeen)
	found, failure = []deleter.Source{source("pods", fake(nil))}, down("a.example.com")
	report, err = d.Delete(t.Context(), both, report)
	require.EqualError(t, err, "a.example.com: boom (not waived: 1 object was left of it when it last answered)")
	require.Equal(t, seen, report.LastSeen)
	require.Empty(t, report.Waived)
}

// A group whose waiver is refused is reported separately from the common message.
func TestUnwaivedGroupBesideAMessage(t *testing.T) {
	widgets := namespace.ResourceType{Group: "a.example.com", Name: "widgets"}
	failure := &deleter.DiscoveryError{Message: "not all of the list", Groups: []deleter.GroupError{{Group: "a.example.com", Err: errBoom}}}
	d, err := deleter.Discovering(func(context.Context) ([]deleter.Source, error) {
		return []deleter.Source{source("pods", fake(nil))}, failure
	}, nil)
	require.NoError(t, err)
	before := deleter.Report{UID: target().UID, LastSeen: []deleter.ResourceCount{{Resource: widgets, Objects: 3}}}
	_, err = d.Delete(t.Context(), waiving("b.example.com"), before)
	require.EqualError(t, err, "not all of the list")
	_, err = d.Delete(t.Context(), waiving("a.example.com"), before)
	require.EqualError(t, err, "a.example.com: boom (not waived: 3 objects were left of it when it last answered)")
	require.Empty(t, cmp.Diff([]deleter.GroupError{{Group: "a.example.com", Err: errBoom}}, failure.Groups, cmpopts.EquateErrors()), "the host's error is its own")
}

// A condition carries the text of the error; the count can be read from it.
func TestUnwaivedObjectsOfAText(t *testing.T) {
	for _, n := range []int{1, 5, 1 << 40} {
		err := &deleter.SourceError{Err: &deleter.UnwaivedError{Objects: n, Err: errors.New("down (really)")}}
		require.Equal(t, n, deleter.UnwaivedObjects(err.Error()))
	}
	for _, text := range []string{"", "down", "down (not waived: many)", "down (not waived: -5 objects)"} {
		require.Zero(t, deleter.UnwaivedObjects(text), text)
	}
}
