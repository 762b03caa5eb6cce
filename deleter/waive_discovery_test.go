package deleter_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
)

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
func TestR7_NothingDiscoveredForgetsNothing(t *testing.T) {
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
