package deleter_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

func grouped(group, name string, content deleter.Content, after ...namespace.ResourceType) deleter.Source {
	return deleter.Source{Resource: namespace.ResourceType{Group: group, Name: name}, Content: content, After: after, Final: true}
}

// If discovery is incomplete, the pass fails closed, deletes the discovered types, and starts
// no source that comes after a type that may be hidden.
func TestDiscovery(t *testing.T) {
	metrics := deleter.GroupError{Group: "metrics.example.com", Err: errBoom}
	hidden := namespace.ResourceType{Group: "metrics.example.com", Name: "samples"}
	absent := namespace.ResourceType{Group: "apps.example.com", Name: "apps"}
	one := contenttest.Object{Name: "a"}
	for _, tt := range []struct {
		name      string
		sources   func(pods, jobs deleter.Content) []deleter.Source
		err       error
		is        error
		discovery []string
		parsing   []string
		asked     []string // types that were asked, of pods and jobs
		waiting   []string
	}{
		{
			name: "complete", asked: []string{"jobs", "pods"},
			sources: func(pods, jobs deleter.Content) []deleter.Source {
				return []deleter.Source{source("pods", pods, "jobs"), source("jobs", jobs)}
			},
		},
		{
			name: "complete: a type that is not found does not exist", asked: []string{"jobs", "pods"},
			sources: func(pods, jobs deleter.Content) []deleter.Source {
				return []deleter.Source{source("pods", pods), grouped("", "jobs", jobs, absent, hidden)}
			},
		},
		{
			name: "partial: a type may be hidden in a group that failed", asked: []string{"pods"}, waiting: []string{"jobs"},
			sources: func(pods, jobs deleter.Content) []deleter.Source {
				return []deleter.Source{source("pods", pods), grouped("", "jobs", jobs, hidden)}
			},
			err:       &deleter.DiscoveryError{Groups: []deleter.GroupError{metrics}},
			is:        errBoom,
			discovery: []string{"metrics.example.com: boom"},
		},
		{
			name: "partial: other groups are complete", asked: []string{"jobs", "pods"},
			sources: func(pods, jobs deleter.Content) []deleter.Source {
				return []deleter.Source{source("pods", pods), grouped("", "jobs", jobs, absent)}
			},
			err:       &deleter.DiscoveryError{Groups: []deleter.GroupError{metrics, {Err: errBoom}}},
			is:        errBoom,
			discovery: []string{"core group: boom", "metrics.example.com: boom"},
		},
		{
			name: "partial: an unreadable type may be any type", asked: []string{"pods"}, waiting: []string{"jobs"},
			sources: func(pods, jobs deleter.Content) []deleter.Source {
				return []deleter.Source{source("pods", pods), grouped("", "jobs", jobs, absent)}
			},
			err:     &deleter.DiscoveryError{Parsing: []error{errBoom, nil}},
			is:      errBoom,
			parsing: []string{"boom"},
		},
		{
			name: "an error of another kind, with sources", asked: []string{"pods"}, waiting: []string{"jobs"},
			sources: func(pods, jobs deleter.Content) []deleter.Source {
				return []deleter.Source{source("pods", pods), grouped("", "jobs", jobs, absent)}
			},
			err: errBoom, is: errBoom, discovery: []string{"boom"},
		},
		{name: "an error without sources", err: errBoom, is: errBoom, discovery: []string{"boom"}},
		{name: "nothing at all", is: deleter.ErrNothingDiscovered, discovery: []string{deleter.ErrNothingDiscovered.Error()}},
		{
			name: "an empty DiscoveryError", asked: []string{"pods"}, waiting: []string{"jobs"},
			sources: func(pods, jobs deleter.Content) []deleter.Source {
				return []deleter.Source{source("pods", pods), grouped("", "jobs", jobs, absent)}
			},
			err: &deleter.DiscoveryError{}, discovery: []string{"discovery failed in part: "},
		},
		{
			name: "a type found twice", asked: []string{"pods"}, waiting: nil,
			sources: func(pods, jobs deleter.Content) []deleter.Source {
				return []deleter.Source{source("jobs", jobs), source("pods", pods), source("jobs", jobs)}
			},
			is: deleter.ErrInvalid, parsing: []string{"invalid source jobs: is given 2 times"},
		},
		{
			name: "a source without content", asked: nil, waiting: []string{"pods"},
			sources: func(pods, _ deleter.Content) []deleter.Source {
				return []deleter.Source{source("jobs", nil), source("pods", pods, "jobs")}
			},
			is: deleter.ErrInvalid, parsing: []string{"invalid source jobs: has no Content"},
		},
		{
			name: "a circle", asked: []string{"pods"}, waiting: []string{"behind", "jobs", "tasks"},
			sources: func(pods, jobs deleter.Content) []deleter.Source {
				return []deleter.Source{
					source("jobs", jobs, "tasks"), source("tasks", jobs, "jobs"), source("behind", jobs, "tasks"), source("pods", pods),
				}
			},
			is: deleter.ErrInvalid, discovery: []string{"the order of sources has a cycle: jobs after tasks after jobs"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pods, jobs := fake(nil, one), fake(nil, one)
			d, err := deleter.Discovering(func(context.Context) ([]deleter.Source, error) {
				if tt.sources == nil {
					return nil, tt.err
				}
				return tt.sources(pods, jobs), tt.err
			}, nil)
			require.NoError(t, err)
			report, err := d.Delete(t.Context(), target(), deleter.Report{})
			wellFound := len(tt.discovery)+len(tt.parsing) == 0
			require.Equal(t, wellFound, err == nil, "%v", err)
			require.Equal(t, wellFound, report.Empty())
			if tt.is != nil {
				require.ErrorIs(t, err, tt.is)
			}
			require.Empty(t, cmp.Diff(tt.discovery, texts(report.Discovery)))
			require.Empty(t, cmp.Diff(tt.parsing, texts(report.Parsing)))
			var asked, waiting []string
			for _, r := range report.Results {
				if r.Waiting {
					waiting = append(waiting, r.Resource.String())
				} else {
					asked = append(asked, r.Resource.String())
				}
			}
			require.Empty(t, cmp.Diff(tt.asked, asked))
			require.Empty(t, cmp.Diff(tt.waiting, waiting))
			require.Equal(t, len(asked) > 0 && asked[len(asked)-1] == "pods", len(pods.Names(target())) == 0)
		})
	}
}

func texts(errs []error) (all []string) {
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

// A discovery function that panics is a discovery that failed.
func TestDiscoveryPanics(t *testing.T) {
	d, err := deleter.Discovering(func(context.Context) ([]deleter.Source, error) { panic(errBoom) }, nil)
	require.NoError(t, err)
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.ErrorIs(t, err, errBoom)
	var p *deleter.PanicError
	require.ErrorAs(t, err, &p)
	require.Contains(t, string(p.Stack), "TestDiscoveryPanics")
	require.False(t, report.Empty())
	require.Equal(t, phase.Observation{Discovery: report.Discovery}, report.Observation())
}

// A clean type stays clean while discovery hides it.
func TestCleanTypesStayCleanWhileHidden(t *testing.T) {
	pods := fake(nil)
	jobs := fake(nil, contenttest.Object{Name: "a", Finalizers: []string{"example.com/hold"}})
	last := fake(nil, contenttest.Object{Name: "a"})
	var failing error
	d, err := deleter.Discovering(func(context.Context) ([]deleter.Source, error) {
		sources := []deleter.Source{
			source("jobs", jobs),
			{Resource: core("last"), Content: last, After: []namespace.ResourceType{{Group: "g", Name: "pods"}, core("jobs")}},
		}
		if failing == nil {
			sources = append(sources, grouped("g", "pods", pods))
		}
		return sources, failing
	}, nil)
	require.NoError(t, err)
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.NoError(t, err)
	require.True(t, result(t, report, "last").Waiting)

	jobs.Release(target(), "a")
	failing = &deleter.DiscoveryError{Groups: []deleter.GroupError{{Group: "g", Err: errors.New("down")}}}
	report, err = d.Delete(t.Context(), target(), report.Compact())
	require.EqualError(t, err, "g: down")
	require.False(t, result(t, report, "last").Waiting, "pods.g is known to be empty for good")
	require.Empty(t, last.Names(target()))
	require.False(t, report.Empty())
}
