package plan_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/plan"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

var (
	configmaps = deleter.Resource{Name: "configmaps"}
	widgets    = deleter.Resource{Group: "example.com", Name: "widgets"}
	types      = []registry.ResourceType{
		{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true},
		{Version: "v1", Resource: "secrets", Kind: "Secret", Namespaced: true},
		{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true},
	}
)

// world is a registry with content, seen through a store that refuses every write.
type world struct {
	*registry.Registry
	t      testing.TB
	frozen *registry.Registry
	looker *deleter.Composed
}

func newWorld(t testing.TB, more ...deleter.Source) *world {
	t.Helper()
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	open := func(s store.Store) *registry.Registry {
		r, err := registry.New(s, &registry.Options{Types: types})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.Close()) })
		return r
	}
	w := &world{open(s), t, open(readOnly{s}), nil}
	sources, err := w.frozen.Sources()
	require.NoError(t, err)
	w.looker, err = deleter.New(append(sources, more...), nil)
	require.NoError(t, err)
	return w
}

// readOnly is a store that nothing can be written to.
type readOnly struct{ store.Store }

var errWritten = errors.New("a plan must not write")

func (readOnly) Commit(context.Context, store.Txn) (store.Revision, error) { return 0, errWritten }

func (w *world) create(name string, annotations map[string]string) namespace.Namespace {
	w.t.Helper()
	ns := namespace.Namespace{Meta: namespace.Meta{Name: name, Annotations: annotations}}
	ns.Spec.Finalizers = finalizer.NewSet("example.com/disks")
	ns, err := w.Create(w.t.Context(), ns)
	require.NoError(w.t, err)
	return ns
}

func (w *world) put(resource deleter.Resource, ns, name string, finalizers ...finalizer.Name) {
	w.t.Helper()
	c, err := w.Content(resource)
	require.NoError(w.t, err)
	_, err = c.Create(w.t.Context(), ns, registry.Object{Meta: namespace.Meta{Name: name, Finalizers: finalizer.NewSet(finalizers...)}})
	require.NoError(w.t, err)
}

func (w *world) plan(name string, o *plan.Options) plan.Plan {
	w.t.Helper()
	p, err := plan.Of(w.t.Context(), w.frozen, w.looker, name, o)
	require.NoError(w.t, err)
	return p
}

// declared returns annotations of declarations.
func declared(t testing.TB, declarations ...interface {
	Annotation() (key, value string, err error)
},
) map[string]string {
	t.Helper()
	annotations := map[string]string{}
	for _, d := range declarations {
		key, value, err := d.Annotation()
		require.NoError(t, err)
		annotations[key] = value
	}
	return annotations
}

func TestPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		legal := namespace.Protection{Name: "legal", Owner: "ada", Reason: "contract until May"}
		annotations := declared(t, legal)
		annotations[namespace.GraceAnnotation] = "24h"
		ns := w.create("team-a", annotations)
		for i := range 7 {
			w.put(configmaps, "team-a", fmt.Sprint("c", i))
		}
		w.put(widgets, "team-a", "w", "example.com/disks")
		p := w.plan("team-a", nil)
		require.Empty(t, cmp.Diff(plan.Plan{
			Name: "team-a", UID: ns.UID, Phase: phase.Active, At: time.Now().UTC().Round(0),
			Refusal: `namespaces "team-a" is forbidden: deletion is protected by legal (owner ada: contract until May); ` +
				`remove the annotation protection.nslifecycle.io/legal first`,
			Protections: []namespace.Protection{legal},
			Grace:       24 * time.Hour,
			Finalizers:  []finalizer.Name{"example.com/disks", "kubernetes"},
			Types: []plan.Type{
				{Resource: "configmaps", Objects: 7, Sample: p.Types[0].Sample},
				{Resource: "widgets.example.com", Objects: 1, Sample: []string{"w"}, HeldBy: []plan.HeldBy{{"example.com/disks", 1}}},
				{Resource: "secrets"},
			},
		}, p))
		require.Equal(t, 8, p.Objects())
		require.True(t, p.Complete())
		_, err := w.Registry.Delete(t.Context(), "team-a", namespace.Preconditions{})
		require.EqualError(t, err, p.Refusal, "what DELETE says")

		data, err := json.Marshal(p)
		require.NoError(t, err)
		var back plan.Plan
		require.NoError(t, json.Unmarshal(data, &back))
		require.Empty(t, cmp.Diff(p, back))
	})
}

// The plan says what DELETE would: refused, on hold, or terminating.
func TestPlanSaysWhatDeleteDoes(t *testing.T) {
	until := time.Now().Add(time.Hour).UTC().Round(time.Second)
	hold := declared(t, namespace.Hold{Until: until})
	graced := declared(t, namespace.Hold{Until: until})
	graced[namespace.GraceAnnotation] = "1h"
	for name, tc := range map[string]struct {
		annotations map[string]string
		grace       time.Duration
		hold        bool
		refused     bool
		immortal    []string
	}{
		"plain":           {},
		"zero grace":      {annotations: map[string]string{namespace.GraceAnnotation: "0s"}},
		"grace":           {annotations: map[string]string{namespace.GraceAnnotation: "1h"}, grace: time.Hour},
		"on hold":         {annotations: hold, hold: true},
		"on hold already": {annotations: graced, hold: true},
		"immortal":        {refused: true, immortal: []string{"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create("x", tc.annotations)
			p := w.plan("x", &plan.Options{Immortal: append([]string{}, tc.immortal...)})
			require.Equal(t, tc.grace, p.Grace)
			require.Equal(t, tc.hold, p.Hold != nil)
			require.Equal(t, tc.refused, p.Refusal != "")
		})
	}
	w := newWorld(t)
	w.create("default", nil)
	require.Contains(t, w.plan("default", nil).Refusal, "this namespace may not be deleted")
}

func TestPlanOfATerminatingNamespace(t *testing.T) {
	w := newWorld(t)
	w.create("x", nil)
	w.put(widgets, "x", "w")
	_, err := w.Registry.Delete(t.Context(), "x", namespace.Preconditions{})
	require.NoError(t, err)
	p := w.plan("x", nil)
	require.Equal(t, phase.Terminating, p.Phase)
	require.Empty(t, p.Refusal)
	require.Equal(t, "namespace x is being deleted, 1 object of 1 type left\n"+
		"  finalizers:  example.com/disks, kubernetes\n\n"+
		"TYPE                 OBJECTS  HELD BY  SAMPLE\n"+
		"widgets.example.com  1        -        w\n\n"+
		"2 types without objects\n", p.Text())
}

// What does not answer is said, and does not hide the rest.
func TestPlanSaysWhatItDoesNotKnow(t *testing.T) {
	w := newWorld(t,
		deleter.Source{Resource: deleter.Resource{Group: "example.com", Name: "disks"}, Content: failing{errors.New("connection refused")}},
		deleter.Source{Resource: deleter.Resource{Name: "orders"}, Content: deleter.Func(func(context.Context, deleter.Target) (int, error) {
			t.Error("a plan must not delete")
			return 0, nil
		})},
	)
	w.create("x", nil)
	w.put(widgets, "x", "w")
	p := w.plan("x", nil)
	require.False(t, p.Complete())
	require.Equal(t, 1, p.Objects())
	require.Len(t, p.Failures, 2)
	require.Equal(t, "disks.example.com", p.Failures[0].Source)
	require.Contains(t, p.Failures[0].Text, "connection refused")
	require.Equal(t, "orders", p.Failures[1].Source)
	require.Contains(t, p.Failures[1].Text, "not supported")
	require.Contains(t, p.Text(), "not complete, 2 sources did not answer:\n  disks.example.com: ")
}

type failing struct{ err error }

func (f failing) List(context.Context, deleter.Target, int, string) (deleter.Page, error) {
	return deleter.Page{}, f.err
}
func (f failing) View(context.Context, deleter.Target, int, string) (deleter.Page, error) {
	return deleter.Page{}, f.err
}
func (f failing) Delete(context.Context, deleter.Target, string, string) error { return f.err }

// The name goes to another incarnation between the two reads: nothing of that one is told.
func TestR8_APlanIsOfOneIncarnation(t *testing.T) {
	w := newWorld(t)
	old := w.create("x", nil)
	w.put(widgets, "x", "mine")
	old.UID = "another"
	p, err := plan.Of(t.Context(), fixed(old), w.looker, "x", nil)
	require.NoError(t, err)
	require.Zero(t, p.Objects())
	require.Len(t, p.Failures, len(types))
}

type fixed namespace.Namespace

func (f fixed) Get(context.Context, string) (namespace.Namespace, error) {
	return namespace.Namespace(f), nil
}

type looker deleter.Report

func (l looker) Look(context.Context, deleter.Target) (deleter.Report, error) {
	return deleter.Report(l), nil
}

// Names that could move a cursor, or forge a line, are quoted.
func TestHostileNames(t *testing.T) {
	ns := namespace.Namespace{Meta: namespace.Meta{Name: "x", UID: "u"}}
	p, err := plan.Of(t.Context(), fixed(ns), looker{Results: []deleter.Result{{
		Resource: deleter.Resource{Name: "a\tb"}, Remaining: 9, More: true, Sample: []string{"\x1b[2J", "a\nb", "é", ""},
		Holders: []deleter.Holder{{Finalizer: "x\u202ey", Objects: 2}},
	}}, Failed: errors.New("line\nforged: line")}, "x", nil)
	require.NoError(t, err)
	require.Equal(t, "deleting namespace x would delete 9 objects of 1 type\n\n"+
		"TYPE    OBJECTS  HELD BY         SAMPLE\n"+
		`"a\tb"  9+       "x\u202ey" (2)  "\x1b[2J", "a\nb", é, "", ...`+"\n\n"+
		"not complete, 1 source did not answer:\n"+
		`  the look: "line\nforged: line"`+"\n", p.Text())
}

func TestBadInput(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"", "a/b", "..", "\xff", "A"} {
		_, err := plan.Of(t.Context(), w.frozen, w.looker, name, nil)
		require.ErrorIs(t, err, namespace.ErrInvalid, name)
	}
	var none context.Context
	_, err := plan.Of(none, w.frozen, w.looker, "x", nil)
	require.ErrorIs(t, err, namespace.ErrInvalid)
	_, err = plan.Of(t.Context(), nil, w.looker, "x", nil)
	require.ErrorIs(t, err, namespace.ErrInvalid)
	_, err = plan.Of(t.Context(), w.frozen, nil, "x", nil)
	require.ErrorIs(t, err, namespace.ErrInvalid)
	_, err = plan.Of(t.Context(), w.frozen, w.looker, "x", nil)
	require.ErrorIs(t, err, namespace.ErrNotFound)
	w.create("x", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = plan.Of(ctx, w.frozen, w.looker, "x", nil)
	require.ErrorIs(t, err, context.Canceled)
}

func BenchmarkOf(b *testing.B) {
	w := newWorld(b)
	w.create("x", nil)
	for i := range 1000 {
		w.put(widgets, "x", fmt.Sprint("w", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := plan.Of(b.Context(), w.frozen, w.looker, "x", nil); err != nil {
			b.Fatal(err)
		}
	}
}
