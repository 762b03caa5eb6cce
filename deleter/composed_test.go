package deleter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

func TestBadInput(t *testing.T) {
	f := contenttest.NewFake(nil)
	good := []deleter.Source{source("pods", f)}
	named := func(group, name string) []deleter.Source {
		return []deleter.Source{{Resource: namespace.ResourceType{Group: group, Name: name}, Content: f}}
	}
	for _, tt := range []struct {
		name    string
		sources []deleter.Source
		opts    deleter.Options
		text    string
	}{
		{name: "no sources", text: "invalid sources: there are none; without a source every namespace would count as empty"},
		{name: "no content", sources: []deleter.Source{source("pods", nil)}, text: "invalid source pods: has no Content"},
		{name: "a nil function", sources: []deleter.Source{source("pods", deleter.Funcs{Delete: nil}.Content())}, text: "invalid source pods: Funcs.Delete is nil"},
		{name: "twice", sources: append(good, good...), text: "invalid source pods: 2 sources have this type; only one may"},
		{name: "unknown After", sources: []deleter.Source{source("pods", f, "jobs", "jobs")}, text: "invalid source pods: After lists jobs, which has no source"},
		{name: "after itself", sources: []deleter.Source{source("pods", f, "pods")}, text: "the order of sources has a cycle: pods after pods"},
		{
			name:    "a cycle with a tail and others",
			sources: []deleter.Source{source("d", f, "c"), source("c", f, "a"), source("b", f, "c", "ok"), source("a", f, "b"), source("ok", f)},
			text:    "the order of sources has a cycle: a after b after c after a",
		},
		{name: "no name", sources: named("", ""), text: `invalid resource name "": must not be empty`},
		{name: "a dot in the name", sources: named("", "a.b"), text: `invalid resource name "a.b": must not contain dots; the group goes into Group`},
		{name: "a path", sources: named("", "a/b"), text: `invalid resource name "a/b": may not contain '/'`},
		{name: "a path in the group", sources: named("..", "a"), text: `invalid resource group "..": may not be '..'`},
		{name: "invalid UTF-8", sources: named("", "a\xff"), text: `invalid resource name "a�": must be valid UTF-8`},
		{name: "oversized", sources: named(strings.Repeat("g", 254), "a"), text: `invalid resource group "` + strings.Repeat("g", 97) + `...": must be no more than 253 bytes, has 254`},
		{name: "negative Parallelism", sources: good, opts: deleter.Options{Parallelism: -1}, text: "invalid option Parallelism: must not be negative, is -1"},
		{name: "negative ObjectParallelism", sources: good, opts: deleter.Options{ObjectParallelism: -1}, text: "invalid option ObjectParallelism: must not be negative, is -1"},
		{name: "negative PageSize", sources: good, opts: deleter.Options{PageSize: -1}, text: "invalid option PageSize: must not be negative, is -1"},
		{name: "negative MaxDeletes", sources: good, opts: deleter.Options{MaxDeletes: -1}, text: "invalid option MaxDeletes: must not be negative, is -1"},
		{name: "negative Samples", sources: good, opts: deleter.Options{Samples: -1}, text: "invalid option Samples: must not be negative, is -1"},
		{name: "negative CallTimeout", sources: good, opts: deleter.Options{CallTimeout: -1}, text: "invalid option CallTimeout: must not be negative, is -1ns"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := deleter.New(tt.sources, &tt.opts)
			require.ErrorIs(t, err, deleter.ErrInvalid)
			require.EqualError(t, err, tt.text)
			if tt.opts != (deleter.Options{}) {
				_, err = deleter.Discovering(func(context.Context) ([]deleter.Source, error) { return nil, nil }, &tt.opts)
				require.ErrorIs(t, err, deleter.ErrInvalid)
			}
		})
	}
	_, err := deleter.Discovering(nil, nil)
	require.ErrorIs(t, err, deleter.ErrInvalid)
	require.Zero(t, f.Calls())
}

// A refused call does nothing and fails closed.
func TestBadCalls(t *testing.T) {
	stopped := errors.New("stopped")
	over, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		change func(*deleter.Target)
		is     error
	}{
		{name: "ended context", ctx: over, is: stopped},
		{name: "no namespace", ctx: t.Context(), change: func(t *deleter.Target) { t.Namespace = "" }, is: deleter.ErrInvalid},
		{name: "a path", ctx: t.Context(), change: func(t *deleter.Target) { t.Namespace = "a/../b" }, is: deleter.ErrInvalid},
		{name: "invalid UTF-8", ctx: t.Context(), change: func(t *deleter.Target) { t.Namespace = "\xff" }, is: deleter.ErrInvalid},
		{name: "oversized", ctx: t.Context(), change: func(t *deleter.Target) { t.Namespace = strings.Repeat("a", 1<<20) }, is: deleter.ErrInvalid},
		{name: "no uid", ctx: t.Context(), change: func(t *deleter.Target) { t.UID = "" }, is: deleter.ErrInvalid},
		{name: "a path as uid", ctx: t.Context(), change: func(t *deleter.Target) { t.UID = ".." }, is: deleter.ErrInvalid},
		{name: "not terminating", ctx: t.Context(), change: func(t *deleter.Target) { t.DeletedAt = time.Time{} }, is: deleter.ErrInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fake(nil, contenttest.Object{Name: "a"})
			discoveries := 0
			d, err := deleter.Discovering(func(context.Context) ([]deleter.Source, error) {
				discoveries++
				return []deleter.Source{source("pods", f)}, nil
			}, nil)
			require.NoError(t, err)
			bad := target()
			if tt.change != nil {
				tt.change(&bad)
			}
			before := deleter.Report{UID: bad.UID, Clean: []namespace.ResourceType{core("jobs")}}
			report, err := d.Delete(tt.ctx, bad, before)
			require.ErrorIs(t, err, tt.is)
			require.ErrorIs(t, report.Err(), tt.is)
			require.False(t, report.Empty())
			require.Equal(t, before.Clean, report.Clean, "the clean types must stay")
			require.ErrorIs(t, d.Wait(tt.ctx, bad, report), tt.is)
			require.Zero(t, f.Calls())
			require.Zero(t, discoveries)
			require.Equal(t, []string{"a"}, f.Names(target()))
		})
	}
	d := compose(t, nil, source("pods", fake(nil)))
	require.ErrorIs(t, d.Wait(t.Context(), target(), deleter.Report{UID: "another"}), deleter.ErrInvalid)
}

// A caller may reuse its arguments.
func TestSourcesAreCopied(t *testing.T) {
	last := fake(nil, contenttest.Object{Name: "a"})
	sources := []deleter.Source{source("first", fake(nil, heldFor(0))), source("last", last, "first")}
	d := compose(t, nil, sources...)
	sources[1].After[0] = core("last")
	sources[0] = deleter.Source{}
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.NoError(t, err)
	require.True(t, result(t, report, "last").Waiting)
}

// A pass that was cut short fails, also if its sources returned no error.
func TestDeleteEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	first := fake(&contenttest.FakeOptions{Fault: func(_ context.Context, c contenttest.Call) error {
		if c.Op == list {
			cancel(stopped)
		}
		return nil
	}}, contenttest.Object{Name: "a"})
	last := fake(nil, contenttest.Object{Name: "a"})
	report, err := compose(t, nil, source("first", first), source("last", last, "first")).Delete(ctx, target(), deleter.Report{})
	require.ErrorIs(t, err, stopped)
	require.False(t, report.Empty())
	require.ErrorIs(t, report.Failed, stopped)
	require.True(t, result(t, report, "last").Waiting)
	require.Empty(t, report.Clean)
	require.Zero(t, last.Calls())
}

// If the context ends before the sources are called, none is.
func TestNoCallAfterTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	f := fake(nil, contenttest.Object{Name: "a"})
	d, err := deleter.Discovering(func(context.Context) ([]deleter.Source, error) {
		cancel(stopped)
		return []deleter.Source{source("pods", f), source("jobs", f)}, nil
	}, nil)
	require.NoError(t, err)
	report, err := d.Delete(ctx, target(), deleter.Report{})
	require.ErrorIs(t, err, stopped)
	require.Zero(t, f.Calls())
	require.True(t, result(t, report, "pods").Waiting)
	require.True(t, result(t, report, "jobs").Waiting)
}

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
		called    []string // types that were called, of pods and jobs
		waiting   []string
	}{
		{
			name: "complete", called: []string{"jobs", "pods"},
			sources: func(pods, jobs deleter.Content) []deleter.Source {
				return []deleter.Source{source("pods", pods, "jobs"), source("jobs", jobs)}
			},
		},
		{
			name: "complete: a type that is not found does not exist", called: []string{"jobs", "pods"},
			sources: func(pods, jobs deleter.Content) []deleter.Source {
				return []deleter.Source{source("pods", pods), grouped("", "jobs", jobs, absent, hidden)}
			},
		},
		{
			name: "partial: a type may be hidden in a group that failed", called: []string{"pods"}, waiting: []string{"jobs"},
			sources: func(pods, jobs deleter.Content) []deleter.Source {
				return []deleter.Source{source("pods", pods), grouped("", "jobs", jobs, hidden)}
			},
			err:       &deleter.DiscoveryError{Groups: []deleter.GroupError{metrics}},
			is:        errBoom,
			discovery: []string{"metrics.example.com: boom"},
		},
		{
			name: "partial: other groups are complete", called: []string{"jobs", "pods"},
			sources: func(pods, jobs deleter.Content) []deleter.Source {
				return []deleter.Source{source("pods", pods), grouped("", "jobs", jobs, absent)}
			},
			err:       &deleter.DiscoveryError{Groups: []deleter.GroupError{metrics, {Err: errBoom}}},
			is:        errBoom,
			discovery: []string{"core group: boom", "metrics.example.com: boom"},
		},
		{
			name: "partial: an unreadable type may be any type", called: []string{"pods"}, waiting: []string{"jobs"},
			sources: func(pods, jobs deleter.Content) []deleter.Source {
				return []deleter.Source{source("pods", pods), grouped("", "jobs", jobs, absent)}
			},
			err:     &deleter.DiscoveryError{Parsing: []error{errBoom, nil}},
			is:      errBoom,
			parsing: []string{"boom"},
		},
		{
			name: "an error of another kind, with sources", called: []string{"pods"}, waiting: []string{"jobs"},
			sources: func(pods, jobs deleter.Content) []deleter.Source {
				return []deleter.Source{source("pods", pods), grouped("", "jobs", jobs, absent)}
			},
			err: errBoom, is: errBoom, discovery: []string{"boom"},
		},
		{name: "an error without sources", err: errBoom, is: errBoom, discovery: []string{"boom"}},
		{name: "nothing at all", is: deleter.ErrNothingDiscovered, discovery: []string{deleter.ErrNothingDiscovered.Error()}},
		{
			name: "an empty DiscoveryError", called: []string{"pods"}, waiting: []string{"jobs"},
			sources: func(pods, jobs deleter.Content) []deleter.Source {
				return []deleter.Source{source("pods", pods), grouped("", "jobs", jobs, absent)}
			},
			err: &deleter.DiscoveryError{}, discovery: []string{"discovery failed in part: "},
		},
		{
			name: "a type found twice", called: []string{"pods"}, waiting: nil,
			sources: func(pods, jobs deleter.Content) []deleter.Source {
				return []deleter.Source{source("jobs", jobs), source("pods", pods), source("jobs", jobs)}
			},
			is: deleter.ErrInvalid, parsing: []string{"invalid source jobs: 2 sources have this type; only one may"},
		},
		{
			name: "a source without content", called: nil, waiting: []string{"pods"},
			sources: func(pods, _ deleter.Content) []deleter.Source {
				return []deleter.Source{source("jobs", nil), source("pods", pods, "jobs")}
			},
			is: deleter.ErrInvalid, parsing: []string{"invalid source jobs: has no Content"},
		},
		{
			name: "a cycle", called: []string{"pods"}, waiting: []string{"behind", "jobs", "tasks"},
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
			var called, waiting []string
			for _, r := range report.Results {
				if r.Waiting {
					waiting = append(waiting, r.Resource.String())
				} else {
					called = append(called, r.Resource.String())
				}
			}
			require.Empty(t, cmp.Diff(tt.called, called))
			require.Empty(t, cmp.Diff(tt.waiting, waiting))
			require.Equal(t, len(called) > 0 && called[len(called)-1] == "pods", len(pods.Names(target())) == 0)
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

// One message may describe all failed groups; the condition counts them.
func TestDiscoveryMessage(t *testing.T) {
	down := errors.New("down")
	d, err := deleter.Discovering(func(context.Context) ([]deleter.Source, error) {
		return []deleter.Source{source("pods", fake(nil))}, &deleter.DiscoveryError{
			Groups:  []deleter.GroupError{{Group: "a.example.com", Err: errBoom}, {Group: "b.example.com", Err: down}},
			Message: "not all of the list: a, b",
		}
	}, nil)
	require.NoError(t, err)
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.ErrorIs(t, err, errBoom)
	require.ErrorIs(t, err, down)
	c := phase.Conditions(nil, report.Observation(), "", time.Now())[0]
	require.Equal(t, "Discovery failed for some groups, 2 failing: not all of the list: a, b", c.Message)
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
