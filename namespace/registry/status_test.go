package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// The status of a type that has one is a sub-resource: only UpdateStatus changes it,
// and it changes nothing else.
func TestStatus(t *testing.T) {
	e := admittedEnv(t, nil)
	e.create("x")
	c := e.content(counters)
	with := func(spec, status string, change ...func(o *registry.Object)) registry.Object {
		o := object("a", "example.com/f")
		o.Fields = map[string]json.RawMessage{"spec": json.RawMessage(spec)}
		if status != "" {
			o.Fields["status"] = json.RawMessage(status)
		}
		for _, f := range change {
			f(&o)
		}
		return o
	}
	sent := with(`1`, `"mine"`)
	made, err := c.Create(e.ctx, "x", sent)
	require.NoError(t, err)
	require.Equal(t, map[string]json.RawMessage{"spec": json.RawMessage(`1`)}, made.Fields, "a creation drops it")
	require.Len(t, sent.Fields, 2, "what was sent is not changed")

	managed := []namespace.ManagedFieldsEntry{{Manager: "counter", Operation: "Update", Subresource: "status"}}
	first, err := c.UpdateStatus(e.ctx, "x", with(`2`, `{"n": 1}`, func(o *registry.Object) {
		o.Labels, o.Annotations = map[string]string{"a": "b"}, map[string]string{"a": "b"}
		o.Finalizers = finalizer.Set{}
		o.Generation, o.UID, o.ResourceVersion = 9, made.UID, made.ResourceVersion
		o.ManagedFields = managed
		o.Fields["more"] = json.RawMessage(`1`)
	}))
	require.NoError(t, err)
	want := made.DeepCopy()
	want.Fields["status"], want.ManagedFields, want.ResourceVersion = json.RawMessage(`{"n":1}`), managed, first.ResourceVersion
	require.Empty(t, cmp.Diff(want, first), "nothing else changes")
	require.NotEqual(t, made.ResourceVersion, first.ResourceVersion)

	again, err := c.UpdateStatus(e.ctx, "x", with(`2`, `{"n":1}`))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(first, again), "nothing changed, nothing is written; managedFields stay")

	updated, err := c.Update(e.ctx, "x", with(`3`, `"forged"`))
	require.NoError(t, err)
	require.Equal(t, `{"n":1}`, string(updated.Fields["status"]), "an update keeps it")
	require.Equal(t, int64(2), updated.Generation)
	updated, err = c.Update(e.ctx, "x", with(`3`, ``))
	require.NoError(t, err)
	require.Equal(t, `{"n":1}`, string(updated.Fields["status"]), "also one that has none")

	_, err = c.Delete(e.ctx, "x", "a", anyVersion)
	require.NoError(t, err)
	e.terminate("x")
	cleared, err := c.UpdateStatus(e.ctx, "x", with(`3`, ``))
	require.NoError(t, err, "also of what is being deleted, in a terminating namespace")
	require.NotContains(t, cleared.Fields, "status")
	require.False(t, cleared.DeletionTimestamp.IsZero())

	_, err = c.UpdateStatus(e.ctx, "x", with(`3`, `1`, func(o *registry.Object) { o.ResourceVersion = made.ResourceVersion }))
	require.ErrorIs(t, err, namespace.ErrConflict)
	_, err = c.UpdateStatus(e.ctx, "x", with(`3`, `1`, func(o *registry.Object) { o.UID = "other" }))
	require.ErrorIs(t, err, namespace.ErrConflict)
	_, err = c.UpdateStatus(e.ctx, "x", object("nobody"))
	requireError(t, err, namespace.ErrNotFound, `counters.example.com "nobody" not found`)
}

// A type without a status has no such sub-resource, and its field status is like any
// other.
func TestTypeWithoutStatus(t *testing.T) {
	e := admittedEnv(t, nil)
	e.create("x")
	o := object("a")
	o.Fields["status"] = json.RawMessage(`1`)
	require.Equal(t, `1`, string(e.put(widgets, "x", o).Fields["status"]))
	_, err := e.content(widgets).UpdateStatus(e.ctx, "x", o)
	requireError(t, err, namespace.ErrNotFound,
		`widgets.example.com "a": the resource type has no status: declare it with ResourceType.Status`)
}

// A dry run of a status changes nothing.
func TestStatusDryRun(t *testing.T) {
	e := admittedEnv(t, nil)
	e.create("x")
	e.put(counters, "x", object("a"))
	before := e.revision()
	dry, err := e.DryRun().Content(counters)
	require.NoError(t, err)
	o := object("a")
	o.Fields["status"] = json.RawMessage(`1`)
	would, err := dry.UpdateStatus(e.ctx, "x", o)
	require.NoError(t, err)
	require.Equal(t, `1`, string(would.Fields["status"]))
	require.Equal(t, before, e.revision())
}

// A status that makes no sense is refused, and changes nothing.
func TestBadInputOfStatus(t *testing.T) {
	e := admittedEnv(t, nil)
	e.create("x")
	e.put(counters, "x", object("a"))
	before := e.revision()
	c := e.content(counters)
	for _, name := range badNames {
		_, err := c.UpdateStatus(e.ctx, "x", object(name))
		requireRefused(t, err, name, namespace.ErrBadRequest, namespace.ErrInvalid)
		_, err = c.UpdateStatus(e.ctx, name, object("a"))
		requireRefused(t, err, name, namespace.ErrBadRequest, namespace.ErrInvalid)
	}
	for what, change := range map[string]func(o *registry.Object){
		"kind":      func(o *registry.Object) { o.Kind = "Widget" },
		"version":   func(o *registry.Object) { o.APIVersion = "v9" },
		"namespace": func(o *registry.Object) { o.Namespace = "y" },
		"revision":  func(o *registry.Object) { o.ResourceVersion = "-1" },
		"no JSON":   func(o *registry.Object) { o.Fields["status"] = json.RawMessage(`{`) },
		"no UTF-8":  func(o *registry.Object) { o.Fields["status"] = json.RawMessage("\"\xff\"") },
		"huge":      func(o *registry.Object) { o.Fields["status"] = huge() },
		"reserved":  func(o *registry.Object) { o.Fields["metadata"] = json.RawMessage(`{}`) },
	} {
		o := object("a")
		change(&o)
		_, err := c.UpdateStatus(e.ctx, "x", o)
		requireRefused(t, err, what, namespace.ErrBadRequest, namespace.ErrInvalid)
	}
	ctx, cancel := context.WithCancelCause(e.ctx)
	cause := errors.New("done with it")
	cancel(cause)
	_, err := c.UpdateStatus(ctx, "x", object("a"))
	require.ErrorIs(t, err, cause)
	require.Equal(t, before, e.revision())
}

// A link sees the status before and after, of every attempt.
func TestAdmissionSeesTheStatus(t *testing.T) {
	var seen []string
	e := admittedEnv(t, nil, link(func(_ context.Context, w *registry.Write) error {
		for _, o := range w.Objects {
			if o.Old != nil && o.New != nil {
				seen = append(seen, string(o.Old.Fields["status"])+" "+string(o.New.Fields["status"]))
			}
		}
		return nil
	}))
	e.create("x")
	e.put(counters, "x", object("a"))
	for _, status := range []string{`1`, `2`} {
		o := object("a")
		o.Fields["status"] = json.RawMessage(status)
		_, err := e.content(counters).UpdateStatus(e.ctx, "x", o)
		require.NoError(t, err)
	}
	o := object("a")
	o.Fields["status"] = json.RawMessage(`3`)
	o.Labels = map[string]string{"a": "b"}
	_, err := e.content(counters).Update(e.ctx, "x", o)
	require.NoError(t, err)
	require.Equal(t, []string{" 1", "1 2", "2 2"}, seen)
}
