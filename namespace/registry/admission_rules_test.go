package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

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

// A link cannot change who an object is, nor break a rule about it; the error names
// the link, and nothing is changed.
func TestAdmissionMayNot(t *testing.T) {
	var wrong func(w *registry.Write)
	harmless := link(func(context.Context, *registry.Write) error { return nil })
	e := admittedEnv(t, nil, harmless, link(func(_ context.Context, w *registry.Write) error {
		if wrong != nil {
			wrong(w)
		}
		return nil
	}))
	e.create("x")
	e.create("dying", "example.com/a")
	e.terminate("dying")
	e.put(widgets, "x", object("a"))
	e.put(widgets, "x", object("held", "example.com/f"))
	e.put(counters, "x", object("used"))
	_, err := e.content(widgets).Delete(e.ctx, "x", "held", anyVersion)
	require.NoError(t, err)
	before := e.revision()
	create := func() error { _, err := e.content(widgets).Create(e.ctx, "x", object("new")); return err }
	update := func() error {
		_, err := e.content(widgets).Update(e.ctx, "x", object("a", "example.com/f"))
		return err
	}
	updateHeld := func() error {
		o := object("held", "example.com/f")
		o.Labels = map[string]string{"a": "b"}
		_, err := e.content(widgets).Update(e.ctx, "x", o)
		return err
	}
	release := func() error { _, err := e.content(widgets).Update(e.ctx, "x", object("held")); return err }
	status := func() error {
		o := object("used")
		o.Fields["status"] = json.RawMessage(`1`)
		_, err := e.content(counters).UpdateStatus(e.ctx, "x", o)
		return err
	}
	remove := func() error { _, err := e.content(widgets).Delete(e.ctx, "x", "a", anyVersion); return err }
	collect := func() error {
		_, err := e.content(widgets).DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, "metadata.name=a"))
		return err
	}
	meta := func(change func(m *namespace.Meta)) func(w *registry.Write) {
		return func(w *registry.Write) { change(&w.Objects[0].New.Meta) }
	}
	itself := func(change func(n *namespace.Namespace)) func(w *registry.Write) {
		return func(w *registry.Write) { change(w.Itself.New) }
	}
	createSpace := func() error { _, err := e.Create(e.ctx, named("new")); return err }
	writeSpace := func(i int, name string) func() error {
		return func() error {
			n := named(name, "example.com/a", "example.com/b")
			n.Annotations = map[string]string{"a": "b"}
			n.Status.Conditions = []phase.Condition{{Type: "T", Status: phase.True}}
			_, err := writes(e)[i](e.ctx, n)
			return err
		}
	}
	deleteSpace := func() error { _, err := e.Delete(e.ctx, "x", anyVersion); return err }
	rows := []struct {
		name  string
		do    func() error
		wrong func(w *registry.Write)
	}{
		{"name", create, meta(func(m *namespace.Meta) { m.Name = "other" })},
		{"namespace", create, meta(func(m *namespace.Meta) { m.Namespace = "dying" })},
		{"uid", create, meta(func(m *namespace.Meta) { m.UID = "u" })},
		{"generation", update, meta(func(m *namespace.Meta) { m.Generation += 7 })},
		{"version", update, meta(func(m *namespace.Meta) { m.ResourceVersion = "1" })},
		{"link", update, meta(func(m *namespace.Meta) { m.SelfLink = "/" })},
		{"creation", update, meta(func(m *namespace.Meta) { m.CreationTimestamp = phase.Time{} })},
		{"deletion of the living", update, meta(func(m *namespace.Meta) { m.DeletionTimestamp = m.CreationTimestamp })},
		{"grace", update, meta(func(m *namespace.Meta) { m.DeletionGracePeriodSeconds = new(int64) })},
		{"resurrection (R3)", updateHeld, meta(func(m *namespace.Meta) { m.DeletionTimestamp = phase.Time{} })},
		{"new finalizers of the dying", updateHeld, meta(func(m *namespace.Meta) { m.Finalizers = m.Finalizers.With("example.com/g") })},
		{"removal behind the back of others", updateHeld, meta(func(m *namespace.Meta) { m.Finalizers = finalizer.Set{} })},
		{"kind", create, func(w *registry.Write) { w.Objects[0].New.Kind = "Gadget" }},
		{"invalid label", create, meta(func(m *namespace.Meta) { m.Labels = map[string]string{"-": ""} })},
		{"invalid finalizer", update, meta(func(m *namespace.Meta) { m.Finalizers = m.Finalizers.With("nope") })},
		{"no JSON", create, func(w *registry.Write) { w.Objects[0].New.Fields["spec"] = json.RawMessage(`{`) }},
		{"a reserved field", update, func(w *registry.Write) { w.Objects[0].New.Fields["metadata"] = json.RawMessage(`{}`) }},
		{"another operation", update, func(w *registry.Write) { w.Objects[0].Operation = registry.Create }},
		{"another type", create, func(w *registry.Write) { w.Objects[0].Type.Kind = "Gadget" }},
		{"no old object", update, func(w *registry.Write) { w.Objects[0].Old = nil }},
		{"another old object", remove, func(w *registry.Write) { w.Objects[0].Old = &registry.Object{} }},
		{"an old object after all", create, func(w *registry.Write) { w.Objects[0].Old = w.Objects[0].New }},
		{"uid of the old object", update, func(w *registry.Write) { w.Objects[0].Old.UID = "u" }},
		{"another write", update, func(w *registry.Write) { w.Namespace = "dying" }},
		{"a dry run after all", collect, func(w *registry.Write) { w.DryRun = true }},
		{"nothing to read from", create, func(w *registry.Write) {
			*w = registry.Write{Namespace: w.Namespace, Objects: w.Objects}
		}},
		{"no object", create, func(w *registry.Write) { w.Objects[0].New = nil }},
		{"no objects", create, func(w *registry.Write) { w.Objects = nil }},
		{"more objects", create, func(w *registry.Write) { w.Objects = append(w.Objects, w.Objects[0]) }},
		{"an object after all", release, func(w *registry.Write) { w.Objects[0].New = w.Objects[0].Old }},
		{"an object that is removed", remove, func(w *registry.Write) { w.Objects[0].New = w.Objects[0].Old }},
		{"one of a collection", collect, func(w *registry.Write) { w.Objects[0].New = w.Objects[0].Old }},
		{"spec by status", status, func(w *registry.Write) { w.Objects[0].New.Fields["spec"] = json.RawMessage(`2`) }},
		{"labels by status", status, meta(func(m *namespace.Meta) { m.Labels = map[string]string{"a": "b"} })},

		{"space: name", createSpace, itself(func(n *namespace.Namespace) { n.Name = "other" })},
		{"space: uid", createSpace, itself(func(n *namespace.Namespace) { n.UID = "u" })},
		{"space: a label of an invalid name", createSpace, itself(func(n *namespace.Namespace) { n.Labels = map[string]string{"-": ""} })},
		{"space: phase (R2)", createSpace, itself(func(n *namespace.Namespace) { n.DeletionTimestamp = n.CreationTimestamp })},
		{"space: another operation", deleteSpace, func(w *registry.Write) { w.Itself.Operation = registry.Update }},
		{"space: no old one", deleteSpace, func(w *registry.Write) { w.Itself.Old = nil }},
		{"space: uid of the old one", deleteSpace, func(w *registry.Write) { w.Itself.Old.UID = "u" }},
		{"space: another write", createSpace, func(w *registry.Write) { w.Namespace = "x" }},
		{"space: as well", create, func(w *registry.Write) { w.Itself = &registry.NamespaceChange{} }},
		{"space: none", createSpace, func(w *registry.Write) { w.Itself.New = nil }},
		{"space: another", createSpace, func(w *registry.Write) { w.Itself = &registry.NamespaceChange{New: w.Itself.New} }},
		{"space: objects", createSpace, func(w *registry.Write) { w.Objects = []registry.ObjectChange{{}} }},
		{"space: finalizers by update (R4)", writeSpace(0, "x"), itself(func(n *namespace.Namespace) { n.Spec.Finalizers = finalizer.Set{} })},
		{"space: invalid label", writeSpace(0, "x"), itself(func(n *namespace.Namespace) { n.Labels["-"] = "" })},
		{"space: labels by status", writeSpace(1, "x"), itself(func(n *namespace.Namespace) { n.Labels["a"] = "b" })},
		{"space: labels by finalize", writeSpace(2, "x"), itself(func(n *namespace.Namespace) { n.Labels["a"] = "b" })},
		{"space: name by finalize", writeSpace(2, "x"), itself(func(n *namespace.Namespace) { n.Name = "dying" })},
		{"space: resurrection (R3)", writeSpace(0, "dying"), itself(func(n *namespace.Namespace) { n.DeletionTimestamp = phase.Time{} })},
		{"space: removal behind the back of others (R1)", writeSpace(2, "dying"), itself(func(n *namespace.Namespace) { n.Spec.Finalizers = finalizer.Set{} })},
		{"space: deletion put off", deleteSpace, itself(func(n *namespace.Namespace) { n.DeletionTimestamp = phase.Time{} })},
		{"space: deletion at another time", deleteSpace, itself(func(n *namespace.Namespace) { n.DeletionTimestamp = phase.At(n.DeletionTimestamp.Add(1e9)) })},
		{"space: labels by deletion", deleteSpace, itself(func(n *namespace.Namespace) { n.Labels["a"] = "b" })},
	}
	for _, row := range rows {
		wrong = row.wrong
		err := row.do()
		require.ErrorIs(t, err, registry.ErrAdmission, row.name)
		require.ErrorContains(t, err, "link", row.name)
		require.Equal(t, before, e.revision(), row.name)
	}
	wrong = rows[0].wrong
	require.ErrorContains(t, create(), "link 1 (registry_test.link)")
}

// A link that looked at the gate, or touches it, cannot have anything created when
// the namespace is terminated between the look and the commit.
func TestR6_AdmissionDoesNotWeakenTheGate(t *testing.T) {
	for name, use := range map[string]func(ctx context.Context, w *registry.Write) (bool, error){
		"hold":  func(ctx context.Context, w *registry.Write) (bool, error) { return w.HoldGate(ctx) },
		"touch": func(_ context.Context, w *registry.Write) (bool, error) { w.TouchGate(); return true, nil },
		"both": func(ctx context.Context, w *registry.Write) (bool, error) {
			w.TouchGate()
			return w.HoldGate(ctx)
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
			e := admittedEnv(t, late, link(func(ctx context.Context, w *registry.Write) error {
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
	touching := link(func(_ context.Context, w *registry.Write) error { w.TouchGate(); return nil })
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
	require.Error(t, err, "the commit that terminates does not write the gate back")
	_, err = e.content(widgets).Delete(e.ctx, "x", "a", anyVersion)
	require.NoError(t, err)
	_, err = e.store.Get(e.ctx, "/registry/.gate/x")
	require.Error(t, err, "what is written later does not either")
}

// A pass is asked nothing, whatever links say.
func TestR12_PassesAreNotAsked(t *testing.T) {
	refuse := false
	e := admittedEnv(t, nil, link(func(context.Context, *registry.Write) error {
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
	require.NoError(t, err, "nothing is left to be asked about")
}

// What could not be stored today can be deleted, and no link is blamed for it.
func TestAdmittedDeletionOfWhatIsInvalid(t *testing.T) {
	e := admittedEnv(t, nil, link(func(context.Context, *registry.Write) error { return nil }))
	e.create("x")
	for _, name := range []string{"a", "b"} {
		e.put(widgets, "x", object(name, "example.com/f"))
		key := "/registry/widgets.example.com/x/" + name
		entry, err := e.store.Get(e.ctx, key)
		require.NoError(t, err)
		invalid := bytes.Replace(entry.Value, []byte(`"finalizers"`), []byte(`"labels":{"not valid!":""},"finalizers"`), 1)
		require.NotEqual(t, entry.Value, invalid)
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

// A link may leave out of a namespace what a client may: it is put back, and the next
// link sees it.
func TestR5_AdmissionMayLeaveOutWhatIsPutBack(t *testing.T) {
	var seen []string
	e := admittedEnv(t, nil, link(func(_ context.Context, w *registry.Write) error {
		w.Itself.New.Labels = map[string]string{"by": "link"}
		if w.Itself.Operation == registry.Create {
			w.Itself.New.Spec.Finalizers = finalizer.NewSet("example.com/link")
		}
		return nil
	}), link(func(_ context.Context, w *registry.Write) error {
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
