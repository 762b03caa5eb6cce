package plan_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/plan"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

var (
	configmaps = namespace.ResourceType{Name: "configmaps"}
	widgets    = namespace.ResourceType{Group: "example.com", Name: "widgets"}
	types      = []registry.Type{
		{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true},
		{Version: "v1", Resource: "secrets", Kind: "Secret", Namespaced: true},
		{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true},
	}
)

// world is a registry with content, seen through a store that refuses every write.
type world struct {
	*registry.Registry
	store     store.Store
	t         testing.TB
	frozen    *registry.Registry
	inspector *deleter.Composed
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
	w := &world{open(s), s, t, open(readOnly{s}), nil}
	w.inspector, err = w.frozen.Deleter(&registry.DeleterOptions{Sources: func(_ context.Context, sources []deleter.Source) ([]deleter.Source, error) {
		return append(sources, more...), nil
	}})
	require.NoError(t, err)
	return w
}

// readOnly is a store that refuses writes.
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

func (w *world) put(resource namespace.ResourceType, ns, name string, finalizers ...finalizer.Name) {
	w.t.Helper()
	c, err := w.Content(resource)
	require.NoError(w.t, err)
	_, err = c.Create(w.t.Context(), ns, registry.Object{Meta: namespace.Meta{Name: name, Finalizers: finalizer.NewSet(finalizers...)}})
	require.NoError(w.t, err)
}

func (w *world) plan(name string, o *plan.Options) plan.Plan {
	w.t.Helper()
	p, err := plan.Of(w.t.Context(), w.frozen, w.inspector, name, o)
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
		legal := declare.Protection{Name: "legal", Owner: "ada", Reason: "contract until May"}
		annotations := declared(t, legal)
		annotations[declare.GraceAnnotation] = "24h"
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
			Delete:      plan.Refused,
			Protections: []declare.Protection{legal},
			Grace:       24 * time.Hour,
			Finalizers:  []finalizer.Name{"example.com/disks", "kubernetes"},
			Types: []plan.Type{
				{Resource: "configmaps", Objects: 7, Sample: p.Types[0].Sample},
				{Resource: "widgets.example.com", Objects: 1, Sample: []string{"w"}, HeldBy: []phase.Holder{{Finalizer: "example.com/disks", Objects: 1, Sample: []string{"w"}}}},
				{Resource: "secrets"},
			},
		}, p))
		require.Equal(t, 8, p.Objects())
		require.True(t, p.Complete())
		_, err := w.Registry.Delete(t.Context(), "team-a", namespace.Preconditions{})
		require.EqualError(t, err, p.Refusal, "the error of DELETE")

		data, err := json.Marshal(p)
		require.NoError(t, err)
		var back plan.Plan
		require.NoError(t, json.Unmarshal(data, &back))
		require.Empty(t, cmp.Diff(p, back))
	})
}

// declarations are the declarations of a namespace about its deletion.
type declarations struct {
	grace   string
	hold    time.Duration // from its creation on; zero: none
	protect bool
	broken  string // the later value of the grace annotation
}

// declare creates the namespace x.
func (w *world) declare(d declarations) {
	w.t.Helper()
	var all []interface {
		Annotation() (key, value string, err error)
	}
	if d.hold != 0 {
		all = append(all, declare.Hold{Until: time.Now().Add(d.hold), By: "ops", Reason: "unused"})
	}
	if d.protect {
		all = append(all, declare.Protection{Name: "legal", Owner: "ada", Reason: "contract"})
	}
	annotations := declared(w.t, all...)
	if d.grace != "" {
		annotations[declare.GraceAnnotation] = d.grace
	}
	w.create("x", annotations)
	if d.broken == "" {
		return
	}
	const key = "/registry/namespaces/x"
	entry, err := w.store.Get(w.t.Context(), key)
	require.NoError(w.t, err)
	value := strings.Replace(string(entry.Value), strconv.Quote(d.grace), strconv.Quote(d.broken), 1)
	require.NotEqual(w.t, string(entry.Value), value)
	stored, err := registrytest.Value([]byte(value))
	require.NoError(w.t, err)
	_, err = w.store.Commit(w.t.Context(), store.Txn{Do: []store.Operation{store.Put(key, stored)}})
	require.NoError(w.t, err)
}

// The plan predicts the outcome of DELETE.
func TestOutcomeOfDelete(t *testing.T) {
	for name, tc := range map[string]struct {
		declarations
		after    time.Duration
		delete   bool // it is deleted before
		want     plan.Outcome
		heading  string
		fact     string
		hold     bool
		graceFor time.Duration
	}{
		"plain":      {want: plan.Terminates, heading: "deleting namespace x would delete 1 object of 1 type"},
		"zero grace": {declarations: declarations{grace: "0s"}, want: plan.Terminates},
		"grace": {declarations: declarations{grace: "1h"}, want: plan.Holds, graceFor: time.Hour,
			heading: "deleting namespace x would put it on hold first, and then delete 1 object of 1 type", fact: "  grace:       DELETE puts it on hold for 1h0m0s, until 2000-01-01T01:00:00Z\n"},
		"grace, deleted": {declarations: declarations{grace: "1h"}, delete: true, want: plan.Nothing, hold: true},
		"on hold": {declarations: declarations{hold: time.Hour}, want: plan.Terminates, hold: true,
			heading: "deleting namespace x would delete", fact: "  on hold:     until 2000-01-01T01:00:00Z; DELETE does not wait for that\n"},
		"on hold with grace": {declarations: declarations{grace: "1h", hold: time.Hour}, want: plan.Nothing, hold: true,
			heading: "deleting namespace x changes nothing while it is on hold; it has 1 object of 1 type", fact: "  on hold:     until 2000-01-01T01:00:00Z; then it is deleted\n"},
		"on hold with zero grace": {declarations: declarations{grace: "0s", hold: time.Hour}, want: plan.Terminates, hold: true},
		"due": {declarations: declarations{hold: time.Hour}, after: time.Hour, want: plan.Terminates, hold: true,
			fact: "  on hold:     until 2000-01-01T01:00:00Z, which is over\n"},
		"due with grace":              {declarations: declarations{grace: "1h", hold: time.Hour}, after: time.Hour, want: plan.Terminates, hold: true},
		"grace that cannot be read":   {declarations: declarations{grace: "1h", broken: "1d"}, want: plan.Refused, heading: "namespace x cannot be deleted now"},
		"the same, on hold":           {declarations: declarations{grace: "1h", broken: "1d", hold: time.Hour}, want: plan.Refused, hold: true},
		"the same, due":               {declarations: declarations{grace: "1h", broken: "1d", hold: time.Hour}, after: 2 * time.Hour, want: plan.Terminates, hold: true},
		"protected":                   {declarations: declarations{protect: true}, want: plan.Refused},
		"protected, on hold and due":  {declarations: declarations{protect: true, hold: time.Hour}, after: time.Hour, want: plan.Refused, hold: true},
		"terminating":                 {delete: true, want: plan.Nothing, heading: "namespace x is being deleted"},
		"terminating, once with hold": {declarations: declarations{hold: time.Hour}, delete: true, want: plan.Nothing},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.declare(tc.declarations)
				w.put(widgets, "x", "w")
				if tc.delete {
					_, err := w.Registry.Delete(t.Context(), "x", namespace.Preconditions{})
					require.NoError(t, err)
				}
				time.Sleep(tc.after)
				p := w.plan("x", nil)
				require.Equal(t, tc.want, p.Delete)
				require.Equal(t, tc.graceFor, p.Grace)
				require.Equal(t, tc.hold, p.Hold != nil)
				require.Contains(t, p.Text(), tc.heading)
				require.Contains(t, p.Text(), tc.fact)

				before, err := w.Get(t.Context(), "x")
				require.NoError(t, err)
				after, err := w.Registry.Delete(t.Context(), "x", namespace.Preconditions{})
				got := plan.Terminates
				switch hold, held, _ := declare.HoldOf(after.Meta); {
				case err != nil:
					got = plan.Refused
					require.EqualError(t, err, p.Refusal)
				case cmp.Equal(before, after):
					got = plan.Nothing
				case after.Phase() == phase.Active:
					got = plan.Holds
					require.True(t, held)
					require.Equal(t, hold.Until, p.Until)
				}
				require.Equal(t, got, p.Delete, "the outcome of DELETE")
				require.Equal(t, got == plan.Refused, p.Refusal != "")
				require.Equal(t, got == plan.Holds, !p.Until.IsZero())
			})
		})
	}
}

// The plan respects the immortal names of the host.
func TestPlanOfImmortalNamespaces(t *testing.T) {
	w := newWorld(t)
	w.create("default", nil)
	w.create("x", nil)
	require.Contains(t, w.plan("default", nil).Refusal, "this namespace may not be deleted")
	require.Equal(t, plan.Terminates, w.plan("default", &plan.Options{Immortal: []string{}}).Delete)
	require.Equal(t, plan.Refused, w.plan("x", &plan.Options{Immortal: []string{"x"}}).Delete)
	require.Equal(t, plan.Refused, w.plan("x", &plan.Options{Immortal: []string{"x"}, Unguarded: true}).Delete)
}

// An unguarded host does not enforce the declarations in annotations.
func TestPlanOfAnUnguardedNamespace(t *testing.T) {
	w := newWorld(t)
	w.declare(declarations{grace: "1h", protect: true, hold: time.Hour})
	p := w.plan("x", &plan.Options{Unguarded: true})
	require.Equal(t, plan.Terminates, p.Delete)
	require.Empty(t, p.Refusal)
	require.Zero(t, p.Grace)
	require.Len(t, p.Protections, 1)
	require.NotNil(t, p.Hold)
	require.Contains(t, p.Text(), "deleting namespace x would delete 0 objects")
	require.Contains(t, p.Text(), "  unguarded:   the host ignores the protections, graces and holds in the\n               annotations\n")
	w.create("z", map[string]string{declare.GraceAnnotation: "1h"})
	require.Contains(t, w.plan("z", &plan.Options{Unguarded: true}).Text(), "unguarded")
	w.create("y", nil)
	require.NotContains(t, w.plan("y", &plan.Options{Unguarded: true}).Text(), "unguarded")
}

// A source that failed midway counts its listed objects, and may have more.
func TestPlanOfAPartlyListedType(t *testing.T) {
	ns := namespace.Namespace{Meta: namespace.Meta{Name: "x", UID: "u"}}
	p, err := plan.Of(t.Context(), fixed(ns), inspector{Results: []deleter.Result{
		{Resource: widgets, Remaining: 3, Err: errors.New("page 2: gone")},
		{Resource: configmaps, Remaining: 3, More: true},
		{Resource: namespace.ResourceType{Name: "secrets"}, Remaining: 3},
	}}, "x", nil)
	require.NoError(t, err)
	more := map[string]bool{}
	for _, one := range p.Types {
		more[one.Resource] = one.More
	}
	require.Equal(t, map[string]bool{"widgets.example.com": true, "configmaps": true, "secrets": false}, more)
	require.Contains(t, p.Text(), "widgets.example.com  3+")
}

// Long texts are wrapped at 80 columns.
func TestLongTextsAreWrapped(t *testing.T) {
	w := newWorld(t, deleter.Source{Resource: namespace.ResourceType{Name: "disks"}, Content: failing{errors.New(strings.Repeat("the disks do not answer, ", 10) + strings.Repeat("x", 100))}})
	var all []interface {
		Annotation() (key, value string, err error)
	}
	for _, name := range []string{"legal", "orders"} {
		all = append(all, declare.Protection{Name: name, Owner: name + "@example.com", Reason: strings.Repeat("it is needed ", 8)})
	}
	w.create("x", declared(t, all...))
	text := w.plan("x", nil).Text()
	for line := range strings.Lines(text) {
		require.True(t, utf8.RuneCountInString(line) <= 81 || len(strings.Fields(line)) == 1, "%q", line)
	}
	require.Contains(t, text, "\n  refused:     namespaces \"x\" is forbidden: deletion is protected by legal\n"+
		"               (owner legal@example.com: it is needed")
	require.Contains(t, text, "\n  disks: ")
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
	require.Equal(t, "namespace x is being deleted; 1 object of 1 type left\n"+
		"  finalizers:  example.com/disks, kubernetes\n\n"+
		"TYPE                 OBJECTS  HELD BY  SAMPLE\n"+
		"widgets.example.com  1        -        w\n\n"+
		"2 types without objects\n", p.Text())
}

// A source that does not answer is listed, and does not hide the others.
func TestFailuresAreListed(t *testing.T) {
	w := newWorld(t,
		deleter.Source{Resource: namespace.ResourceType{Group: "example.com", Name: "disks"}, Content: failing{errors.New("connection refused")}},
		deleter.Source{Resource: namespace.ResourceType{Name: "orders"}, Content: deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) {
			t.Error("a plan must not delete")
			return 0, nil
		}}.Content()},
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
	require.Contains(t, p.Text(), "incomplete: 2 sources did not answer\n  disks.example.com: ")
}

type failing struct{ err error }

func (f failing) List(context.Context, deleter.Target, int, string) (deleter.Page, error) {
	return deleter.Page{}, f.err
}
func (f failing) View(context.Context, deleter.Target, int, string) (deleter.Page, error) {
	return deleter.Page{}, f.err
}
func (f failing) Delete(context.Context, deleter.Target, string, string) error { return f.err }

// If another incarnation takes the name between the two reads, the plan lists none of its
// objects.
func TestR8_PlanIsOfOneIncarnation(t *testing.T) {
	w := newWorld(t)
	old := w.create("x", nil)
	w.put(widgets, "x", "mine")
	old.UID = "another"
	p, err := plan.Of(t.Context(), fixed(old), w.inspector, "x", nil)
	require.NoError(t, err)
	require.Zero(t, p.Objects())
	require.Len(t, p.Failures, len(types))
}

type fixed namespace.Namespace

func (f fixed) Get(context.Context, string) (namespace.Namespace, error) {
	return namespace.Namespace(f), nil
}

type inspector deleter.Report

func (l inspector) Inspect(context.Context, deleter.Target) (deleter.Report, error) {
	return deleter.Report(l), nil
}

// Characters that could move a cursor, or forge a line, are escaped.
func TestHostileNames(t *testing.T) {
	ns := namespace.Namespace{Meta: namespace.Meta{Name: "x", UID: "u"}}
	p, err := plan.Of(t.Context(), fixed(ns), inspector{Results: []deleter.Result{{
		Resource: namespace.ResourceType{Name: "a\tb"}, Remaining: 9, More: true, Sample: []string{"\x1b[2J", "a\nb", "é"},
		Holders: []phase.Holder{{Finalizer: "x\u202ey", Objects: 2}},
	}}, Failed: errors.New("line\nforged: line")}, "x", nil)
	require.NoError(t, err)
	require.Equal(t, "deleting namespace x would delete 9 objects of 1 type\n\n"+
		"TYPE  OBJECTS  HELD BY       SAMPLE\n"+
		`a\tb  9+       x\u202ey (2)  \x1b[2J, a\nb, é, ...`+"\n\n"+
		"incomplete: 1 source did not answer\n"+
		`  the inspection: line\nforged: line`+"\n", p.Text())
}

func TestBadInput(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"", "a/b", "..", "\xff", "A"} {
		_, err := plan.Of(t.Context(), w.frozen, w.inspector, name, nil)
		require.ErrorIs(t, err, namespace.ErrInvalid, name)
	}
	_, err := plan.Of(t.Context(), w.frozen, w.inspector, "x", nil)
	require.ErrorIs(t, err, namespace.ErrNotFound)
	w.create("x", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = plan.Of(ctx, w.frozen, w.inspector, "x", nil)
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
		if _, err := plan.Of(b.Context(), w.frozen, w.inspector, "x", nil); err != nil {
			b.Fatal(err)
		}
	}
}

// A plan names types that another version of the service stored, and counts their objects.
func TestUndeclaredTypes(t *testing.T) {
	w := newWorld(t)
	invoices := registry.Type{Group: "example.com", Version: "v2", Resource: "invoices", Kind: "Invoice", Namespaced: true}
	newer, err := registry.New(w.store, &registry.Options{Types: []registry.Type{invoices}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, newer.Close()) })
	_, err = w.Create(t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: "shop"}})
	require.NoError(t, err)
	content, err := newer.Content(invoices.Name())
	require.NoError(t, err)
	for _, name := range []string{"i1", "i2"} {
		_, err = content.Create(t.Context(), "shop", registry.Object{Meta: namespace.Meta{Name: name}})
		require.NoError(t, err)
	}
	p, err := plan.Of(t.Context(), w.frozen, w.inspector, "shop", nil)
	require.NoError(t, err)
	require.False(t, p.Complete())
	require.Equal(t, []plan.Failure{{Source: "invoices.example.com", Text: "invoices.example.com: " + deleter.ErrUndeclared.Error()}}, p.Failures)
	require.Equal(t, plan.Type{Resource: "invoices.example.com", Objects: 2, More: true, Sample: []string{"i1", "i2"}}, p.Types[0])
}
