package deleter_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
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
		{name: "no sources", text: "invalid sources: there are none"},
		{name: "no content", sources: []deleter.Source{source("pods", nil)}, text: "invalid source pods: has no Content"},
		{name: "a nil function", sources: []deleter.Source{source("pods", deleter.Funcs{Delete: nil}.Content())}, text: "invalid source pods: Funcs.Delete is nil"},
		{name: "twice", sources: append(good, good...), text: "invalid source pods: is given 2 times"},
		{name: "unknown After", sources: []deleter.Source{source("pods", f, "jobs", "jobs")}, text: "invalid source pods: After lists jobs, which has no source"},
		{name: "after itself", sources: []deleter.Source{source("pods", f, "pods")}, text: "the order of sources has a cycle: pods after pods"},
		{
			name:    "a circle with a tail and others",
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
func TestNothingStartsAfterTheEnd(t *testing.T) {
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
