package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// link is a function as a link of the chain.
type link func(ctx context.Context, w *registry.Write) error

func (l link) Admit(ctx context.Context, w *registry.Write) error { return l(ctx, w) }

var (
	counters = namespace.ResourceType{Group: "example.com", Name: "counters"}

	admittedTypes = append([]registry.ResourceType{
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
	say := func(op registry.Operation, what string, was, is *namespace.Meta) {
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
		say(n.Operation, "namespace", was, is)
	}
	for _, o := range w.Objects {
		var was, is *namespace.Meta
		if o.Old != nil {
			was = &o.Old.Meta
		}
		if o.New != nil {
			is = &o.New.Meta
		}
		say(o.Operation, o.Type.Resource, was, is)
	}
	return all
}

// Links are asked about every write of a client, once for each attempt, and see what
// it does.
func TestAdmissionSeesEveryWrite(t *testing.T) {
	var seen []string
	e := admittedEnv(t, nil, link(func(_ context.Context, w *registry.Write) error {
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
		{"delete what is left once more", func() error { _, err := w.DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, "")); return err }, nil},
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

// A link changes what is stored, and the next one sees it.
func TestAdmissionChanges(t *testing.T) {
	label := func(m *namespace.Meta, name string) {
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		m.Labels[name] = fmt.Sprint(len(m.Labels))
	}
	marking := func(name string) link {
		return func(_ context.Context, w *registry.Write) error {
			if w.Itself != nil && w.Itself.New != nil && w.Itself.Operation <= registry.Update {
				label(&w.Itself.New.Meta, name)
			}
			for _, o := range w.Objects {
				if o.New != nil && o.Operation <= registry.Update {
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
	require.JSONEq(t, `{"size":1}`, string(asked.Fields["spec"]), "what was sent is not changed")
	require.Empty(t, asked.Labels)
	w := e.content(widgets)
	stored, err := w.Get(e.ctx, "x", "a")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(made, stored), "the answer is what is stored")
	require.Equal(t, `{"by":"second"}`, string(stored.Fields["spec"]), "in the stored form")
	updated, err := w.Update(e.ctx, "x", object("a"))
	require.NoError(t, err)
	require.Equal(t, made.ResourceVersion, updated.ResourceVersion, "the links made of it what there is: nothing changed")
	require.Equal(t, int64(1), updated.Generation, "the generation is that of what is stored")
}

// A refusal changes nothing, and is answered in its own words or as forbidden; what
// the gate refuses is refused by the gate.
func TestAdmissionRefuses(t *testing.T) {
	cause := errors.New("over the limit")
	typed := &namespace.Error{Kind: namespace.ErrConflict, Message: "come back later"}
	var refuse error
	e := admittedEnv(t, nil, link(func(context.Context, *registry.Write) error { return refuse }))
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
	refuse = fmt.Errorf("the link says: %w", typed)
	err = create("x")
	require.ErrorIs(t, err, namespace.ErrConflict)
	require.NotErrorIs(t, err, namespace.ErrForbidden)
	require.EqualError(t, err, "the link says: come back later")
	require.Equal(t, before, e.revision(), "nothing was changed")
}

// What a link fails to read is a failure, not a refusal.
func TestAdmissionThatCannotRead(t *testing.T) {
	broken := &brokenStore{}
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	broken.Store = s
	reads := map[string]func(context.Context, *registry.Write) error{
		"get":  func(ctx context.Context, w *registry.Write) error { _, err := w.Get(ctx, counters, "used"); return err },
		"list": func(ctx context.Context, w *registry.Write) error { _, err := w.List(ctx, counters); return err },
		"hold": func(ctx context.Context, w *registry.Write) error { _, err := w.HoldGate(ctx); return err },
		"touch": func(_ context.Context, w *registry.Write) error {
			w.TouchGate()
			return nil
		},
	}
	var read func(context.Context, *registry.Write) error
	e := admittedEnv(t, broken, link(func(ctx context.Context, w *registry.Write) error {
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
