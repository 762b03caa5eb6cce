package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// onWidgets is a link that looks at what happens to widgets alone.
func onWidgets(admit func(ctx context.Context, w *registry.Write) error) link {
	return func(ctx context.Context, w *registry.Write) error {
		if len(w.Objects) == 0 || w.Objects[0].Type.Name() != widgets {
			return nil
		}
		return admit(ctx, w)
	}
}

// noting is a link that appends to the field notes of the counter "used".
func noting(note string) link {
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

// What links replace is written in the same commit, on top of each other, and tried
// again when somebody else was faster.
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
		require.Equal(t, fmt.Sprintf(`["%d","first","second"]`, i), string(used().Fields["notes"]), "%s: on top of what somebody else wrote", step.name)
	}
	before := e.revision()
	dry, err := e.DryRun().Content(widgets)
	require.NoError(t, err)
	_, err = dry.Create(e.ctx, "x", object("dry"))
	require.NoError(t, err)
	_, err = dry.DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
	require.NoError(t, err)
	require.Equal(t, before, e.revision(), "a dry run writes nothing that links replace either")
	e.put(widgets, "x", object("c"))
	before = e.revision()
	_, err = w.Update(e.ctx, "x", object("c"))
	require.NoError(t, err)
	require.Equal(t, before, e.revision(), "an update that changes nothing has nothing join it")
}

// A link sees what those before it replace, in Get and in List, and cannot lose it.
func TestAdmissionReadsWhatWasReplaced(t *testing.T) {
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
		if _, err := w.HoldGate(ctx); err != nil { // reads anew
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
			return fmt.Errorf("what was removed is there")
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
	require.Equal(t, []string{"a", "c"}, objectNames(list), "what lost its last finalizer is removed")
	require.Equal(t, `7`, string(list.Items[0].Fields["status"]))
	require.Equal(t, int64(1), list.Items[0].Generation, "a status makes no new generation")
	require.Equal(t, held.ResourceVersion, list.Items[1].ResourceVersion, "what is only held is not written")
}

// Replacing what cannot be replaced is refused, and nothing is changed.
func TestAdmissionCannotReplace(t *testing.T) {
	var wrong func(ctx context.Context, w *registry.Write) error
	var escaped *registry.Write
	e := admittedEnv(t, nil, onWidgets(func(ctx context.Context, w *registry.Write) error {
		escaped = w
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
		{"its own", registry.ErrAdmission, "is what the write itself is about", func(ctx context.Context, w *registry.Write) error {
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
	for what, err := range map[string]error{
		"replace": escaped.Replace(registry.Object{}, registry.Object{}),
		"get":     func() error { _, err := escaped.Get(e.ctx, counters, "used"); return err }(),
		"list":    func() error { _, err := new(registry.Write).List(e.ctx, counters); return err }(),
		"gate":    func() error { _, err := escaped.HoldGate(e.ctx); return err }(),
	} {
		require.ErrorIs(t, err, registry.ErrAdmission, what)
	}
	escaped.TouchGate() // does nothing
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

// An object of no namespace is tried again when what a link holds is deleted: no
// gate stood in its way.
func TestClusterScopedCreateIsTriedAgain(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	others := admittedEnv(t, s)
	others.put(nodes, "", object("total"))
	asked := 0
	e := admittedEnv(t, s, link(func(ctx context.Context, w *registry.Write) error {
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
