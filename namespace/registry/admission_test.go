package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// plugin is a plugin made of a function.
type plugin func(ctx context.Context, w *registry.Write) error

func (p plugin) Admit(ctx context.Context, w *registry.Write) error { return p(ctx, w) }

var (
	counters = namespace.ResourceType{Group: "example.com", Name: "counters"}

	admittedTypes = append([]registry.Type{
		{Group: "example.com", Version: "v1", Resource: "counters", Kind: "Counter", Namespaced: true, Status: true},
	}, types...)
)

// admittedEnv is a registry over s with a chain.
func admittedEnv(t testing.TB, s store.Store, chain ...registry.Admission) *env {
	t.Helper()
	if s == nil {
		m, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		s = m
	}
	r, err := registry.New(s, &registry.Options{Types: admittedTypes, Admission: chain})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, registrytest.Check(context.WithoutCancel(t.Context()), s, "registry"))
	})
	return &env{Registry: r, t: t, ctx: t.Context(), store: s}
}

// described is a write in short.
func described(w *registry.Write) []string {
	var all []string
	say := func(op registry.Verb, what string, was, is *namespace.Meta) {
		text := fmt.Sprintf("%v %s", op, what)
		if was != nil {
			text += fmt.Sprintf(" old %s", was.Name)
		}
		if is != nil {
			text += fmt.Sprintf(" new %s", is.Name)
			if !is.DeletionTimestamp.IsZero() {
				text += " deleting"
			}
		}
		if w.DryRun {
			text += " dry"
		}
		all = append(all, text+" in "+w.Namespace)
	}
	if n := w.Itself; n != nil {
		var was, is *namespace.Meta
		if n.Old != nil {
			was = &n.Old.Meta
		}
		if n.New != nil {
			is = &n.New.Meta
		}
		say(n.Verb, "namespace", was, is)
	}
	for _, o := range w.Objects {
		var was, is *namespace.Meta
		if o.Old != nil {
			was = &o.Old.Meta
		}
		if o.New != nil {
			is = &o.New.Meta
		}
		say(o.Verb, o.Type.Resource, was, is)
	}
	return all
}

// The chain sees every write of a client, once for each attempt.
func TestAdmissionSeesEveryWrite(t *testing.T) {
	var seen []string
	e := admittedEnv(t, nil, plugin(func(_ context.Context, w *registry.Write) error {
		seen = append(seen, described(w)...)
		return nil
	}))
	w, c := e.content(widgets), e.content(counters)
	for _, step := range []struct {
		name string
		do   func() error
		want []string
	}{
		{"create a namespace", func() error { _, err := e.Create(e.ctx, named("x", "example.com/a")); return err },
			[]string{"CREATE namespace new x in x"}},
		{"update it", func() error {
			n := named("x")
			n.Annotations = map[string]string{"a": "b"}
			_, err := e.Update(e.ctx, n)
			return err
		}, []string{"UPDATE namespace old x new x in x"}},
		{"its status", func() error { _, err := e.UpdateStatus(e.ctx, named("x")); return err },
			[]string{"UPDATE status namespace old x new x in x"}},
		{"create", func() error { _, err := w.Create(e.ctx, "x", object("a")); return err },
			[]string{"CREATE widgets new a in x"}},
		{"dry run", func() error {
			d, err := e.DryRun().Content(widgets)
			if err == nil {
				_, err = d.Create(e.ctx, "x", object("z"))
			}
			return err
		}, []string{"CREATE widgets new z dry in x"}},
		{"create held", func() error { _, err := w.Create(e.ctx, "x", object("held", "example.com/f")); return err },
			[]string{"CREATE widgets new held in x"}},
		{"create another", func() error { _, err := w.Create(e.ctx, "x", object("b")); return err },
			[]string{"CREATE widgets new b in x"}},
		{"update", func() error { _, err := w.Update(e.ctx, "x", object("a", "example.com/f")); return err },
			[]string{"UPDATE widgets old a new a in x"}},
		{"update back", func() error { _, err := w.Update(e.ctx, "x", object("a")); return err },
			[]string{"UPDATE widgets old a new a in x"}},
		{"a status", func() error {
			if _, err := c.Create(e.ctx, "x", object("used")); err != nil {
				return err
			}
			_, err := c.UpdateStatus(e.ctx, "x", object("used"))
			return err
		}, []string{"CREATE counters new used in x", "UPDATE status counters old used new used in x"}},
		{"cluster-scoped", func() error { _, err := e.content(nodes).Create(e.ctx, "", object("n")); return err },
			[]string{"CREATE nodes new n in "}},
		{"delete", func() error { _, err := w.Delete(e.ctx, "x", "a", anyVersion); return err },
			[]string{"DELETE widgets old a in x"}},
		{"delete a collection", func() error { _, err := w.DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, "")); return err },
			[]string{"DELETE widgets old b in x", "DELETE widgets old held new held deleting in x"}},
		{"delete a second time", func() error { _, err := w.Delete(e.ctx, "x", "held", anyVersion); return err }, nil},
		{"delete the rest again", func() error { _, err := w.DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, "")); return err }, nil},
		{"release", func() error { _, err := w.Update(e.ctx, "x", object("held")); return err },
			[]string{"UPDATE widgets old held in x"}},
		{"delete the namespace", func() error { _, err := e.Delete(e.ctx, "x", anyVersion); return err },
			[]string{"DELETE namespace old x new x deleting in x"}},
		{"delete it again", func() error { _, err := e.Delete(e.ctx, "x", anyVersion); return err }, nil},
		{"delete in it", func() error { _, err := c.Delete(e.ctx, "x", "used", anyVersion); return err },
			[]string{"DELETE counters old used in x"}},
		{"finalize", func() error { _, err := e.Finalize(e.ctx, named("x", "example.com/a")); return err },
			[]string{"UPDATE finalize namespace old x new x deleting in x"}},
		{"remove", func() error { _, err := e.Finalize(e.ctx, named("x")); return err },
			[]string{"UPDATE finalize namespace old x in x"}},
	} {
		seen = nil
		require.NoError(t, step.do(), step.name)
		require.Empty(t, cmp.Diff(step.want, seen), step.name)
	}
}

// A plugin changes the stored object, and the next plugin sees the change.
func TestAdmissionChanges(t *testing.T) {
	label := func(m *namespace.Meta, name string) {
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		m.Labels[name] = fmt.Sprint(len(m.Labels))
	}
	marking := func(name string) plugin {
		return func(_ context.Context, w *registry.Write) error {
			if w.Itself != nil && w.Itself.New != nil && w.Itself.Verb <= registry.Update {
				label(&w.Itself.New.Meta, name)
			}
			for _, o := range w.Objects {
				if o.New != nil && o.Verb <= registry.Update {
					label(&o.New.Meta, name)
					o.New.Fields["spec"] = json.RawMessage(` { "by" : "` + name + `" }`)
				}
			}
			return nil
		}
	}
	e := admittedEnv(t, nil, marking("first"), marking("second"))
	n := e.create("x")
	require.Equal(t, map[string]string{namespace.NameLabel: "x", "first": "1", "second": "2"}, n.Labels)
	asked := object("a")
	made := e.put(widgets, "x", asked)
	require.Equal(t, map[string]string{"first": "0", "second": "1"}, made.Labels)
	require.JSONEq(t, `{"size":1}`, string(asked.Fields["spec"]), "the argument is unchanged")
	require.Empty(t, asked.Labels)
	w := e.content(widgets)
	stored, err := w.Get(e.ctx, "x", "a")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(made, stored), "the result is the stored object")
	require.Equal(t, `{"by":"second"}`, string(stored.Fields["spec"]), "in the stored form")
	updated, err := w.Update(e.ctx, "x", object("a"))
	require.NoError(t, err)
	require.Equal(t, made.ResourceVersion, updated.ResourceVersion, "the plugins restored the stored state, so nothing is written")
	require.Equal(t, int64(1), updated.Generation, "the generation of the stored object")
}

// A refusal changes nothing. The client gets its error, or a forbidden error; a closed
// gate takes precedence.
func TestAdmissionRefuses(t *testing.T) {
	cause := errors.New("over the limit")
	typed := &namespace.Error{Kind: namespace.ErrConflict, Message: "come back later"}
	var refuse error
	e := admittedEnv(t, nil, plugin(func(context.Context, *registry.Write) error { return refuse }))
	e.create("x")
	e.create("dying")
	e.terminate("dying")
	e.put(widgets, "x", object("a"))
	e.put(widgets, "x", object("b"))
	before := e.revision()
	w := e.content(widgets)
	create := func(ns string) error { _, err := w.Create(e.ctx, ns, object("new")); return err }
	refuse = cause
	requireError(t, create("x"), namespace.ErrForbidden, `widgets.example.com "new" is forbidden: over the limit`)
	require.ErrorIs(t, create("x"), cause)
	requireError(t, create("missing"), namespace.ErrNotFound, `namespaces "missing" not found`)
	require.ErrorIs(t, create("dying"), namespace.ErrTerminating)
	_, err := w.Update(e.ctx, "x", object("a", "example.com/f"))
	requireError(t, err, namespace.ErrForbidden, `widgets.example.com "a" is forbidden: over the limit`)
	_, err = w.Delete(e.ctx, "x", "a", anyVersion)
	requireError(t, err, namespace.ErrForbidden, `widgets.example.com "a" is forbidden: over the limit`)
	done, err := w.DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
	requireError(t, err, namespace.ErrForbidden, `widgets.example.com is forbidden: over the limit`)
	require.Zero(t, done)
	_, err = e.Create(e.ctx, named("y"))
	requireError(t, err, namespace.ErrForbidden, `namespaces "y" is forbidden: over the limit`)
	for _, write := range writes(e) {
		n := named("x", "example.com/a", finalizer.Kubernetes)
		n.Labels = map[string]string{"a": "b"}
		n.Status.Conditions = []phase.Condition{{Type: "T", Status: phase.True}}
		_, err = write(e.ctx, n)
		requireError(t, err, namespace.ErrForbidden, `namespaces "x" is forbidden: over the limit`)
	}
	_, err = e.Delete(e.ctx, "x", anyVersion)
	requireError(t, err, namespace.ErrForbidden, `namespaces "x" is forbidden: over the limit`)
	_, err = e.Delete(e.ctx, "default", anyVersion)
	requireError(t, err, namespace.ErrForbidden, `namespaces "default" is forbidden: this namespace may not be deleted`)
	refuse = fmt.Errorf("the plugin says: %w", typed)
	err = create("x")
	require.ErrorIs(t, err, namespace.ErrConflict)
	require.NotErrorIs(t, err, namespace.ErrForbidden)
	require.EqualError(t, err, "the plugin says: come back later")
	require.Equal(t, before, e.revision(), "nothing was changed")
}

// A failed read of a plugin is a failure, not a refusal.
func TestAdmissionThatCannotRead(t *testing.T) {
	broken := &brokenStore{}
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	broken.Store = s
	reads := map[string]func(context.Context, *registry.Write) error{
		"get":  func(ctx context.Context, w *registry.Write) error { _, err := w.Get(ctx, counters, "used"); return err },
		"list": func(ctx context.Context, w *registry.Write) error { _, err := w.List(ctx, counters); return err },
		"hold": func(ctx context.Context, w *registry.Write) error { _, err := w.RequireGate(ctx); return err },
		"touch": func(_ context.Context, w *registry.Write) error {
			w.TouchGate()
			return nil
		},
	}
	var read func(context.Context, *registry.Write) error
	e := admittedEnv(t, broken, plugin(func(ctx context.Context, w *registry.Write) error {
		if read == nil {
			return nil
		}
		broken.fail = true
		defer func() { broken.fail = w.Objects[0].New.Name == "touch" }()
		if err := read(ctx, w); err != nil {
			return fmt.Errorf("counting: %w", err)
		}
		return nil
	}))
	e.create("x")
	for name := range reads {
		read = reads[name]
		_, err := e.content(widgets).Create(e.ctx, "x", object(name))
		require.ErrorIs(t, err, errBroken, name)
		require.NotErrorIs(t, err, namespace.ErrForbidden, name)
		broken.fail = false
	}
}

var errBroken = errors.New("the disk is on fire")

// brokenStore fails to read at the will of a test.
type brokenStore struct {
	store.Store
	fail bool
}

func (s *brokenStore) Get(ctx context.Context, key string) (store.Entry, error) {
	if s.fail {
		return store.Entry{}, errBroken
	}
	return s.Store.Get(ctx, key)
}

func (s *brokenStore) List(ctx context.Context, q store.Query) (store.Page, error) {
	if s.fail {
		return store.Page{}, errBroken
	}
	return s.Store.List(ctx, q)
}

// restricted runs requests in a dry run with a plugin that changes the write.
type restricted struct {
	*env
	change func(w *registry.Write) // nil: none
}

func newRestricted(t *testing.T) *restricted {
	r := &restricted{}
	change := plugin(func(_ context.Context, w *registry.Write) error {
		if r.change != nil {
			r.change(w)
		}
		return nil
	})
	r.env = admittedEnv(t, nil, plugin(func(context.Context, *registry.Write) error { return nil }), change)
	r.create("x")
	r.env.create("dying", "example.com/a")
	r.terminate("dying")
	r.put(widgets, "x", object("a"))
	r.put(widgets, "x", object("held", "example.com/f"))
	r.put(counters, "x", object("used"))
	_, err := r.env.content(widgets).Delete(r.ctx, "x", "held", anyVersion)
	require.NoError(t, err)
	return r
}

func (r *restricted) content(resource namespace.ResourceType) *registry.Content {
	c, err := r.DryRun().Content(resource)
	require.NoError(r.t, err)
	return c
}

// result returns the result of a request without the parts that differ between requests.
func result[T any](o T, err error) (string, error) {
	data, _ := json.Marshal(o)
	return regexp.MustCompile(`"(uid|[a-zA-Z]*Timestamp)":"[^"]*"`).ReplaceAllString(string(data), `"$1":"*"`), err
}

// requests returns requests of all kinds.
func (r *restricted) requests() map[string]func() (string, error) {
	space := func(i int, name string) func() (string, error) {
		return func() (string, error) {
			n := named(name, "example.com/a", "example.com/b")
			n.Annotations = map[string]string{"a": "b"}
			n.Status.Conditions = []phase.Condition{{Type: "T", Status: phase.True}}
			dry := &env{Registry: r.DryRun()}
			return result(writes(dry)[i](r.ctx, n))
		}
	}
	return map[string]func() (string, error){
		"create": func() (string, error) { return result(r.content(widgets).Create(r.ctx, "x", object("new"))) },
		"update": func() (string, error) {
			return result(r.content(widgets).Update(r.ctx, "x", object("a", "example.com/f")))
		},
		"update deleted": func() (string, error) {
			o := object("held", "example.com/f")
			o.Labels = map[string]string{"a": "b"}
			return result(r.content(widgets).Update(r.ctx, "x", o))
		},
		"update status": func() (string, error) {
			o := object("used")
			o.Fields["status"] = json.RawMessage(`1`)
			return result(r.content(counters).UpdateStatus(r.ctx, "x", o))
		},
		"delete": func() (string, error) { return result(r.content(widgets).Delete(r.ctx, "x", "a", anyVersion)) },
		"delete collection": func() (string, error) {
			return result(r.content(widgets).DeleteCollection(r.ctx, "x", labels(r.t, ""), fields(r.t, "metadata.name=a")))
		},
		"create namespace":   func() (string, error) { return result(r.DryRun().Create(r.ctx, named("new"))) },
		"update namespace":   space(0, "x"),
		"namespace status":   space(1, "x"),
		"finalize namespace": space(2, "x"),
		"update terminating": space(0, "dying"),
		"finalize":           space(2, "dying"),
		"delete namespace":   func() (string, error) { return result(r.DryRun().Delete(r.ctx, "x", anyVersion)) },
	}
}

func changeMeta(change func(m *namespace.Meta)) func(w *registry.Write) {
	return func(w *registry.Write) {
		if w.Itself != nil {
			change(&w.Itself.New.Meta)
		} else if w.Objects[0].New != nil {
			change(&w.Objects[0].New.Meta)
		}
	}
}

// The registry restores the fields that a client could not have changed either.
func TestAdmissionChangesAreRestricted(t *testing.T) {
	r := newRestricted(t)
	spec := func(w *registry.Write) { w.Objects[0].New.Fields["spec"] = json.RawMessage(`2`) }
	labelled := changeMeta(func(m *namespace.Meta) { m.Labels = map[string]string{"a": "c"} })
	specFinalizers := func(w *registry.Write) { w.Itself.New.Spec.Finalizers = finalizer.Set{} }
	owned := changeMeta(func(m *namespace.Meta) {
		m.Name, m.Namespace, m.UID, m.Generation, m.ResourceVersion, m.SelfLink = "other", "dying", "u", 7, "1", "/"
		m.CreationTimestamp, m.DeletionTimestamp, m.DeletionGracePeriodSeconds = phase.Time{}, phase.At(time.Unix(1, 0)), new(int64)
	})
	changes := map[string]map[string]func(w *registry.Write){
		"create": {"kind": func(w *registry.Write) { w.Objects[0].New.Kind = "Gadget" }},
		"update": {},
		"update deleted": {
			"resurrection (R3)": changeMeta(func(m *namespace.Meta) { m.DeletionTimestamp = phase.Time{} }),
			"finalizers":        changeMeta(func(m *namespace.Meta) { m.Finalizers = finalizer.NewSet("example.com/g") }),
			"no finalizers":     changeMeta(func(m *namespace.Meta) { m.Finalizers = finalizer.Set{} }),
			"grace period":      changeMeta(func(m *namespace.Meta) { *m.DeletionGracePeriodSeconds = 7 }),
		},
		"update status":    {"spec": spec, "labels": labelled},
		"delete":           {},
		"delete namespace": {"labels": labelled},
		"update namespace": {"finalizers (R4)": specFinalizers},
		"namespace status": {"labels": labelled, "finalizers (R4)": specFinalizers},
		"finalize namespace": {
			"labels": labelled, "status": func(w *registry.Write) { w.Itself.New.Status.Conditions = nil },
		},
		"update terminating": {"resurrection (R3)": changeMeta(func(m *namespace.Meta) { m.DeletionTimestamp = phase.Time{} })},
		"create namespace":   {},
	}
	requests := r.requests()
	for request, rows := range changes {
		r.change = nil
		want, err := requests[request]()
		require.NoError(t, err, request)
		rows["owned metadata"] = func(w *registry.Write) {
			if w.Itself != nil {
				w.Itself.New.Name, w.Itself.New.UID, w.Itself.New.DeletionTimestamp = "other", "u", phase.At(time.Unix(1, 0))
				return
			}
			owned(w)
		}
		for name, change := range rows {
			r.change = change
			got, err := requests[request]()
			require.NoError(t, err, "%s: %s", request, name)
			require.Equal(t, want, got, "%s: %s", request, name)
		}
	}
}

// An invalid object is an error that names the plugin.
func TestAdmissionMakesInvalid(t *testing.T) {
	r := newRestricted(t)
	for _, row := range []struct {
		name, request string
		change        func(w *registry.Write)
	}{
		{"label", "create", changeMeta(func(m *namespace.Meta) { m.Labels = map[string]string{"-": ""} })},
		{"finalizer", "update", changeMeta(func(m *namespace.Meta) { m.Finalizers = m.Finalizers.With("nope") })},
		{"no JSON", "create", func(w *registry.Write) { w.Objects[0].New.Fields["spec"] = json.RawMessage(`{`) }},
		{"a reserved field", "update", func(w *registry.Write) { w.Objects[0].New.Fields["metadata"] = json.RawMessage(`{}`) }},
		{"label of a new namespace", "create namespace", changeMeta(func(m *namespace.Meta) { m.Labels = map[string]string{"-": ""} })},
		{"label of a namespace", "update namespace", changeMeta(func(m *namespace.Meta) { m.Labels["-"] = "" })},
		{"removal (R1)", "finalize", func(w *registry.Write) { w.Itself.New.Spec.Finalizers = finalizer.Set{} }},
	} {
		r.change = row.change
		_, err := r.requests()[row.request]()
		require.ErrorIs(t, err, registry.ErrAdmission, row.name)
		require.ErrorContains(t, err, "plugin", row.name)
	}
	r.change = changeMeta(func(m *namespace.Meta) { m.Labels = map[string]string{"-": ""} })
	_, err := r.requests()["create"]()
	require.ErrorContains(t, err, "plugin 1 (registry_test.plugin)")
	require.ErrorIs(t, err, namespace.ErrInvalid)
}

// A plugin that requires or touches the gate cannot create anything if the namespace is
// terminated before the commit.
func TestR6_AdmissionDoesNotWeakenTheGate(t *testing.T) {
	for name, use := range map[string]func(ctx context.Context, w *registry.Write) (bool, error){
		"hold":  func(ctx context.Context, w *registry.Write) (bool, error) { return w.RequireGate(ctx) },
		"touch": func(_ context.Context, w *registry.Write) (bool, error) { w.TouchGate(); return true, nil },
		"both": func(ctx context.Context, w *registry.Write) (bool, error) {
			w.TouchGate()
			return w.RequireGate(ctx)
		},
		"replace": func(ctx context.Context, w *registry.Write) (bool, error) {
			used, err := w.Get(ctx, counters, "used")
			if err != nil {
				return true, err
			}
			return true, w.Replace(used, used)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := memory.New(nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			late := &lateStore{Store: s}
			var active []bool
			e := admittedEnv(t, late, plugin(func(ctx context.Context, w *registry.Write) error {
				if w.Itself != nil || w.Objects[0].Type.Name() != widgets {
					return nil
				}
				is, err := use(ctx, w)
				active = append(active, is)
				return err
			}))
			e.create("x")
			e.put(counters, "x", object("used"))
			start := now(t, s)
			late.before = func() { e.terminate("x") }
			_, err = e.content(widgets).Create(e.ctx, "x", object("late"))
			require.ErrorIs(t, err, namespace.ErrTerminating)
			require.Equal(t, true, active[0])
			active = nil
			_, err = e.content(widgets).Create(e.ctx, "x", object("later"))
			require.ErrorIs(t, err, namespace.ErrTerminating)
			require.Equal(t, []bool{name == "touch" || name == "replace"}, active)
			require.NoError(t, registrytest.Audit(e.ctx, s, "registry", start, e.revision()))
		})
	}
}

// Touching the gate keeps its uid, needs no creation, and does nothing to a
// namespace that has none.
func TestR6_TouchedGateIsOfTheSameIncarnation(t *testing.T) {
	touching := plugin(func(_ context.Context, w *registry.Write) error { w.TouchGate(); return nil })
	e := admittedEnv(t, nil, touching)
	n := e.create("x")
	gate := func() (string, store.Revision) {
		entry, err := e.store.Get(e.ctx, "/registry/.gate/x")
		require.NoError(t, err)
		return string(entry.Value), entry.Revision
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"create", func() error { _, err := e.content(widgets).Create(e.ctx, "x", object("a")); return err }},
		{"update", func() error {
			_, err := e.content(widgets).Update(e.ctx, "x", object("a", "example.com/f"))
			return err
		}},
		{"release", func() error { _, err := e.content(widgets).Update(e.ctx, "x", object("a")); return err }},
		{"namespace", func() error {
			changed := named("x")
			changed.Annotations = map[string]string{"a": "b"}
			_, err := e.Update(e.ctx, changed)
			return err
		}},
	} {
		_, before := gate()
		require.NoError(t, step.do(), step.name)
		uid, after := gate()
		require.Equal(t, n.UID, uid, step.name)
		require.Greater(t, after, before, step.name)
		require.Equal(t, e.revision(), after, step.name)
	}
	e.terminate("x")
	_, err := e.store.Get(e.ctx, "/registry/.gate/x")
	require.Error(t, err, "the terminating commit does not recreate the gate")
	_, err = e.content(widgets).Delete(e.ctx, "x", "a", anyVersion)
	require.NoError(t, err)
	_, err = e.store.Get(e.ctx, "/registry/.gate/x")
	require.Error(t, err, "a later write does not recreate the gate")
}

// The deletions of a pass do not go through the chain.
func TestR12_PassesSkipAdmission(t *testing.T) {
	refuse := false
	e := admittedEnv(t, nil, plugin(func(context.Context, *registry.Write) error {
		if refuse {
			return errors.New("no")
		}
		return nil
	}))
	e.create("x")
	for i := range 5 {
		e.put(widgets, "x", object(fmt.Sprint("o", i)))
	}
	e.put(widgets, "x", object("held", "example.com/f"))
	n := e.terminate("x")
	refuse = true
	source := e.source()
	require.NoError(t, source.Delete(e.ctx, targetOf(n), "o0", ""))
	done, _, err := deleter.CollectionDeleter(source).DeleteCollection(e.ctx, targetOf(n))
	require.NoError(t, err)
	require.Equal(t, 5, done)
	_, err = e.content(widgets).DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
	require.NoError(t, err, "no object is left")
}

// A stored object that is invalid under the current rules can be deleted, and no plugin is
// blamed.
func TestAdmittedDeletionOfInvalidObjects(t *testing.T) {
	e := admittedEnv(t, nil, plugin(func(context.Context, *registry.Write) error { return nil }))
	e.create("x")
	for _, name := range []string{"a", "b"} {
		e.put(widgets, "x", object(name, "example.com/f"))
		key := "/registry/widgets.example.com/x/" + name
		entry, err := e.store.Get(e.ctx, key)
		require.NoError(t, err)
		invalid := edited(t, entry.Value, `"finalizers"`, `"labels":{"not valid!":""},"finalizers"`)
		_, err = e.store.Commit(e.ctx, store.Txn{Do: []store.Operation{store.Put(key, invalid)}})
		require.NoError(t, err)
	}
	w := e.content(widgets)
	marked, err := w.Delete(e.ctx, "x", "a", anyVersion)
	require.NoError(t, err)
	require.False(t, marked.DeletionTimestamp.IsZero())
	done, err := w.DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
	require.NoError(t, err)
	require.Equal(t, registry.Deletion{Marked: 1}, done)
}

// Like a client, a plugin may omit the name label and the default finalizer: the registry
// restores them before the next plugin.
func TestR5_AdmissionMayOmitDefaults(t *testing.T) {
	var seen []string
	e := admittedEnv(t, nil, plugin(func(_ context.Context, w *registry.Write) error {
		w.Itself.New.Labels = map[string]string{"by": "link"}
		if w.Itself.Verb == registry.Create {
			w.Itself.New.Spec.Finalizers = finalizer.NewSet("example.com/link")
		}
		return nil
	}), plugin(func(_ context.Context, w *registry.Write) error {
		seen = append(seen, fmt.Sprint(w.Itself.New.Labels, w.Itself.New.Spec.Finalizers))
		w.Itself.New.Labels[namespace.NameLabel] = "other"
		return nil
	}))
	want := map[string]string{"by": "link", namespace.NameLabel: "x"}
	made := e.create("x", "example.com/agent")
	require.Equal(t, want, made.Labels)
	require.Equal(t, finalizer.NewSet("example.com/link", finalizer.Kubernetes), made.Spec.Finalizers)
	changed := named("x")
	changed.Annotations = map[string]string{"a": "b"}
	updated, err := e.Update(e.ctx, changed)
	require.NoError(t, err)
	require.Equal(t, want, updated.Labels)
	require.Equal(t, made.Spec.Finalizers, updated.Spec.Finalizers)
	require.Equal(t, []string{fmt.Sprint(want, made.Spec.Finalizers), fmt.Sprint(want, made.Spec.Finalizers)}, seen)
}

// Every write can read and replace cluster-scoped objects; only writes in a namespace can
// read its content.
func TestAdmissionOfClusterScopedObjects(t *testing.T) {
	var clusterErr, gateErr error
	e := admittedEnv(t, nil, plugin(func(ctx context.Context, w *registry.Write) error {
		if w.Namespace == "" {
			_, clusterErr = w.List(ctx, widgets)
			_, gateErr = w.RequireGate(ctx)
			return nil
		}
		node, err := w.Get(ctx, nodes, "total")
		if err != nil {
			return err
		}
		updated := node.DeepCopy()
		var n int
		if err := json.Unmarshal(node.Fields["spec"], &n); err != nil {
			return err
		}
		updated.Fields["spec"] = json.RawMessage(fmt.Sprint(n + 1))
		return w.Replace(node, updated)
	}))
	total := object("total")
	total.Fields["spec"] = json.RawMessage(`0`)
	e.put(nodes, "", total)
	require.ErrorIs(t, clusterErr, namespace.ErrBadRequest)
	require.ErrorIs(t, gateErr, namespace.ErrBadRequest)
	e.create("x")
	e.create("y")
	e.put(widgets, "x", object("a"))
	e.terminate("y")
	total, err := e.content(nodes).Get(e.ctx, "", "total")
	require.NoError(t, err)
	require.Equal(t, `4`, string(total.Fields["spec"]))
}

// Batches with the writes of plugins respect the limits of the store: a batch that does
// not fit is halved.
func TestAdmittedBatchesFitTheStore(t *testing.T) {
	for _, limits := range []store.Limits{{Operations: 4}, {Operations: 20}, {Operations: 18, Bytes: 3000}} {
		inner, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, inner.Close()) })
		s := &smallStore{Store: inner, limits: limits}
		var batches []int
		e := admittedEnv(t, s, onWidgets(func(ctx context.Context, w *registry.Write) error {
			if w.Objects[0].Verb != registry.Delete {
				return nil
			}
			batches = append(batches, len(w.Objects))
			all, err := w.List(ctx, counters)
			for _, o := range all {
				updated := o.DeepCopy()
				updated.Fields["spec"] = json.RawMessage(fmt.Sprintf(`"batch %d of %d"`, len(batches), len(w.Objects)))
				if err := w.Replace(o, updated); err != nil {
					return err
				}
			}
			return err
		}))
		e.create("x")
		for i := range 3 {
			e.put(counters, "x", object(fmt.Sprint("c", i)))
		}
		for i := range 40 {
			e.put(widgets, "x", object(fmt.Sprint("o", i)))
		}
		s.largest = 0
		done, err := e.content(widgets).DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
		require.NoError(t, err)
		require.Equal(t, 40, done.Deleted)
		require.Greater(t, len(batches), 1)
		require.LessOrEqual(t, s.largest, limits.Operations)
	}
}

// All plugins of an attempt see the same state, until one requires the gate: later reads are
// current.
func TestAdmissionReadsOnce(t *testing.T) {
	var plain *env
	var seen []string
	say := func(ctx context.Context, w *registry.Write) error {
		all, err := w.List(ctx, counters)
		if err != nil {
			return err
		}
		one, err := w.Get(ctx, counters, "a")
		if err != nil {
			return err
		}
		seen = append(seen, fmt.Sprint(len(all), one.Labels))
		return nil
	}
	change := func(name string) error {
		o := object("a")
		o.Labels = map[string]string{"by": name}
		if _, err := plain.content(counters).Update(plain.ctx, "x", o); err != nil {
			return err
		}
		_, err := plain.content(counters).Create(plain.ctx, "x", object(name))
		return err
	}
	e := admittedEnv(t, nil,
		onWidgets(func(ctx context.Context, w *registry.Write) error { return errors.Join(say(ctx, w), change("first")) }),
		onWidgets(func(ctx context.Context, w *registry.Write) error {
			old, err := w.Get(ctx, counters, "a")
			if err != nil {
				return err
			}
			if _, err := w.RequireGate(ctx); err != nil {
				return err
			}
			return errors.Join(say(ctx, w), change("second"), w.Replace(old, old), w.Replace(old, old))
		}),
		onWidgets(func(ctx context.Context, w *registry.Write) error {
			_, err := w.RequireGate(ctx)
			return errors.Join(err, say(ctx, w), errEnough)
		}))
	plain = admittedEnv(t, e.store)
	e.create("x")
	e.put(counters, "x", object("a"))
	_, err := e.content(widgets).Create(e.ctx, "x", object("w"))
	require.ErrorIs(t, err, errEnough)
	require.Equal(t, []string{"1 map[]", "2 map[by:first]", "2 map[]"}, seen, "a replaced object keeps its read state")
}

var errEnough = errors.New("enough was seen")

// onWidgets returns a plugin that is called for widgets only.
func onWidgets(admit func(ctx context.Context, w *registry.Write) error) plugin {
	return func(ctx context.Context, w *registry.Write) error {
		if len(w.Objects) == 0 || w.Objects[0].Type.Name() != widgets {
			return nil
		}
		return admit(ctx, w)
	}
}

// noting returns a plugin that appends to the field notes of the counter "used".
func noting(note string) plugin {
	return onWidgets(func(ctx context.Context, w *registry.Write) error {
		used, err := w.Get(ctx, counters, "used")
		if err != nil {
			return err
		}
		var notes []string
		if value := used.Fields["notes"]; value != nil {
			if err := json.Unmarshal(value, &notes); err != nil {
				return err
			}
		}
		updated := used.DeepCopy()
		if updated.Fields["notes"], err = json.Marshal(append(notes, note)); err != nil {
			return err
		}
		return w.Replace(used, updated)
	})
}

// Replacements of several plugins build on each other, are part of the commit, and are
// tried again after a conflict.
func TestAdmissionReplaces(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	late := &lateStore{Store: s}
	e := admittedEnv(t, late, noting("first"), noting("second"))
	e.create("x")
	e.put(counters, "x", object("used"))
	used := func() registry.Object {
		o, err := e.content(counters).Get(e.ctx, "x", "used")
		require.NoError(t, err)
		return o
	}
	made := e.put(widgets, "x", object("a"))
	require.Equal(t, `["first","second"]`, string(used().Fields["notes"]))
	require.Equal(t, made.ResourceVersion, used().ResourceVersion, "one commit")
	require.Equal(t, int64(2), used().Generation)

	w := e.content(widgets)
	for i, step := range []struct {
		name string
		do   func() error
	}{
		{"create", func() error { _, err := w.Create(e.ctx, "x", object("b")); return err }},
		{"update", func() error { _, err := w.Update(e.ctx, "x", object("b", "example.com/f")); return err }},
		{"release", func() error { _, err := w.Update(e.ctx, "x", object("b")); return err }},
		{"delete", func() error { _, err := w.Delete(e.ctx, "x", "b", anyVersion); return err }},
		{"collection", func() error { _, err := w.DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, "")); return err }},
	} {
		late.before = func() {
			o := used()
			o.Fields = map[string]json.RawMessage{"notes": json.RawMessage(fmt.Sprintf(`["%d"]`, i))}
			_, err := e.content(counters).Update(e.ctx, "x", o)
			require.NoError(t, err)
		}
		require.NoError(t, step.do(), step.name)
		require.Equal(t, fmt.Sprintf(`["%d","first","second"]`, i), string(used().Fields["notes"]), "%s: on top of the concurrent write", step.name)
	}
	before := e.revision()
	dry, err := e.DryRun().Content(widgets)
	require.NoError(t, err)
	_, err = dry.Create(e.ctx, "x", object("dry"))
	require.NoError(t, err)
	_, err = dry.DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
	require.NoError(t, err)
	require.Equal(t, before, e.revision(), "a dry run does not write replacements")
	e.put(widgets, "x", object("c"))
	before = e.revision()
	_, err = w.Update(e.ctx, "x", object("c"))
	require.NoError(t, err)
	require.Equal(t, before, e.revision(), "an update that changes nothing has nothing join it")
}

// A plugin sees the replacements of earlier plugins in Get and List, and cannot overwrite
// them.
func TestAdmissionReadsReplacements(t *testing.T) {
	first := onWidgets(func(ctx context.Context, w *registry.Write) error {
		all, err := w.List(ctx, counters)
		if err != nil || len(all) != 3 {
			return fmt.Errorf("%d counters, error %w", len(all), err)
		}
		updated := all[0].DeepCopy()
		updated.Labels = map[string]string{"a": "b"}
		updated.Fields["status"] = json.RawMessage(`7`)
		if err := w.Replace(all[0], updated); err != nil {
			return err
		}
		released := all[1].DeepCopy()
		released.Finalizers = finalizer.Set{}
		if err := w.Replace(all[1], released); err != nil {
			return err
		}
		return w.Replace(all[2], all[2])
	})
	var seen []string
	second := onWidgets(func(ctx context.Context, w *registry.Write) error {
		if _, err := w.RequireGate(ctx); err != nil { // later calls read again
			return err
		}
		all, err := w.List(ctx, counters)
		for _, o := range all {
			seen = append(seen, fmt.Sprint(o.Name, o.Labels, string(o.Fields["status"])))
		}
		if err != nil {
			return err
		}
		one, err := w.Get(ctx, counters, "a")
		if err != nil || one.Labels["a"] != "b" || one.ResourceVersion != all[0].ResourceVersion {
			return fmt.Errorf("the counter is %v, error %w", one.Labels, err)
		}
		if _, err := w.Get(ctx, counters, "b"); err == nil {
			return fmt.Errorf("the removed counter exists")
		}
		return nil
	})
	e := admittedEnv(t, nil, first, second)
	e.create("x")
	for _, name := range []string{"a", "b", "c"} {
		e.put(counters, "x", object(name, "example.com/f"))
	}
	_, err := e.content(counters).Delete(e.ctx, "x", "b", anyVersion)
	require.NoError(t, err)
	held, err := e.content(counters).Get(e.ctx, "x", "c")
	require.NoError(t, err)
	e.put(widgets, "x", object("w"))
	require.Equal(t, []string{"amap[a:b]7", "cmap[]"}, seen)
	list, err := e.content(counters).List(e.ctx, "x", registry.ListOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "c"}, objectNames(list), "an object without finalizers is removed")
	require.Equal(t, `7`, string(list.Items[0].Fields["status"]))
	require.Equal(t, int64(1), list.Items[0].Generation, "a status makes no new generation")
	require.Equal(t, held.ResourceVersion, list.Items[1].ResourceVersion, "an unchanged replacement is not written")
}

// An invalid replacement is refused, and changes nothing.
func TestAdmissionCannotReplace(t *testing.T) {
	var wrong func(ctx context.Context, w *registry.Write) error
	e := admittedEnv(t, nil, onWidgets(func(ctx context.Context, w *registry.Write) error {
		if wrong == nil {
			return nil
		}
		return wrong(ctx, w)
	}))
	e.create("x")
	e.put(counters, "x", object("used"))
	e.put(widgets, "x", object("a"))
	e.put(widgets, "x", object("other"))
	before := e.revision()
	get := func(ctx context.Context, w *registry.Write, resource namespace.ResourceType, name string) registry.Object {
		o, err := w.Get(ctx, resource, name)
		require.NoError(t, err)
		return o
	}
	changed := func(o registry.Object, change func(o *registry.Object)) registry.Object {
		o = o.DeepCopy()
		change(&o)
		return o
	}
	for _, row := range []struct {
		name string
		kind error
		text string
		do   func(ctx context.Context, w *registry.Write) error
	}{
		{"not read", registry.ErrAdmission, "was not read by this write", func(_ context.Context, w *registry.Write) error {
			o, err := e.content(counters).Get(e.ctx, "x", "used")
			require.NoError(t, err)
			return w.Replace(o, o)
		}},
		{"zero", registry.ErrAdmission, "was not read by this write", func(_ context.Context, w *registry.Write) error {
			return w.Replace(registry.Object{}, registry.Object{})
		}},
		{"its own", registry.ErrAdmission, "is an object of the write itself", func(ctx context.Context, w *registry.Write) error {
			o := get(ctx, w, widgets, "a")
			return w.Replace(o, o)
		}},
		{"stale", registry.ErrAdmission, "was replaced since it was read", func(ctx context.Context, w *registry.Write) error {
			o := get(ctx, w, counters, "used")
			updated := changed(o, func(o *registry.Object) { o.Labels = map[string]string{"a": "b"} })
			require.NoError(t, w.Replace(o, updated))
			return w.Replace(o, updated)
		}},
		{"another name", registry.ErrAdmission, "must be the same object", func(ctx context.Context, w *registry.Write) error {
			o := get(ctx, w, counters, "used")
			return w.Replace(o, changed(o, func(o *registry.Object) { o.Name = "b" }))
		}},
		{"another uid", registry.ErrAdmission, "must be the same object", func(ctx context.Context, w *registry.Write) error {
			o := get(ctx, w, counters, "used")
			return w.Replace(o, changed(o, func(o *registry.Object) { o.UID = "u" }))
		}},
		{"another kind", namespace.ErrBadRequest, "does not match the expected kind", func(ctx context.Context, w *registry.Write) error {
			o := get(ctx, w, widgets, "other")
			return w.Replace(o, changed(o, func(o *registry.Object) { o.Kind = "Counter" }))
		}},
		{"invalid", namespace.ErrInvalid, "metadata.labels", func(ctx context.Context, w *registry.Write) error {
			o := get(ctx, w, counters, "used")
			return w.Replace(o, changed(o, func(o *registry.Object) { o.Labels = map[string]string{"-": ""} }))
		}},
		{"no JSON", namespace.ErrInvalid, "must be a JSON value", func(ctx context.Context, w *registry.Write) error {
			o := get(ctx, w, counters, "used")
			return w.Replace(o, changed(o, func(o *registry.Object) { o.Fields["spec"] = json.RawMessage(`{`) }))
		}},
		{"too large", namespace.ErrInvalid, "would be too large", func(ctx context.Context, w *registry.Write) error {
			o := get(ctx, w, counters, "used")
			return w.Replace(o, changed(o, func(o *registry.Object) { o.Fields["spec"] = huge() }))
		}},
		{"missing", namespace.ErrNotFound, `counters.example.com "nobody" not found`, func(ctx context.Context, w *registry.Write) error {
			_, err := w.Get(ctx, counters, "nobody")
			return err
		}},
		{"no name", namespace.ErrBadRequest, "invalid resource name", func(ctx context.Context, w *registry.Write) error {
			_, err := w.Get(ctx, counters, "../used")
			return err
		}},
		{"undeclared", namespace.ErrNotFound, "is not declared", func(ctx context.Context, w *registry.Write) error {
			_, err := w.List(ctx, namespace.ResourceType{Name: namespace.Resource})
			return err
		}},
	} {
		wrong = row.do
		_, err := e.content(widgets).Update(e.ctx, "x", object("a", "example.com/f"))
		require.ErrorIs(t, err, row.kind, row.name)
		require.ErrorContains(t, err, row.text, row.name)
		require.Equal(t, before, e.revision(), row.name)
	}
}

// huge is a value that no object may have.
func huge() json.RawMessage {
	value := make([]byte, registry.MaxObject+2)
	for i := range value {
		value[i] = 'x'
	}
	value[0], value[len(value)-1] = '"', '"'
	return value
}

// The create of a cluster-scoped object is tried again if an object that a plugin requires
// is deleted.
func TestClusterScopedCreateIsTriedAgain(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	others := admittedEnv(t, s)
	others.put(nodes, "", object("total"))
	asked := 0
	e := admittedEnv(t, s, plugin(func(ctx context.Context, w *registry.Write) error {
		asked++
		total, err := w.Get(ctx, nodes, "total")
		if errors.Is(err, namespace.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := others.content(nodes).Delete(others.ctx, "", "total", namespace.Preconditions{}); err != nil {
			return err
		}
		return w.Replace(total, total)
	}))
	_, err = e.content(nodes).Create(e.ctx, "", object("a"))
	require.NoError(t, err)
	require.Equal(t, 2, asked)
}
