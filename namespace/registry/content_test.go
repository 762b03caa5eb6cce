package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

func TestCreateContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.create("x")
		sent := object("a", "example.com/f")
		sent.Labels = map[string]string{"team": "blue"}
		sent.Fields["data"] = json.RawMessage(" { \"k\" : [ 1e2, \"\\u003c<\" ] }\n")
		sent.UID, sent.Generation = "mine", 9
		sent.DeletionTimestamp = phase.At(time.Now())
		made := e.put(widgets, "x", sent)
		want := registry.Object{
			TypeMeta: namespace.TypeMeta{Kind: "Widget", APIVersion: "example.com/v1"},
			Meta: namespace.Meta{
				Name: "a", Namespace: "x", UID: made.UID, ResourceVersion: fmt.Sprint(e.revision()), Generation: 1,
				CreationTimestamp: phase.At(time.Now()), Labels: map[string]string{"team": "blue"}, Finalizers: finalizer.NewSet("example.com/f"),
			},
			Fields: map[string]json.RawMessage{"spec": json.RawMessage(`{"size":1}`), "data": json.RawMessage(`{"k":[1e2,"\u003c<"]}`)},
		}
		require.Empty(t, cmp.Diff(want, made))
		require.NotEqual(t, "mine", made.UID)
		got, err := e.content(widgets).Get(e.ctx, "x", "a")
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(want, got))
		got.Fields["spec"][0], got.Labels["team"] = '?', "red"
		made.Fields["spec"][0], made.Labels["team"] = '?', "red"
		got, err = e.content(widgets).Get(e.ctx, "x", "a")
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(want, got), "results share no memory")
		require.Equal(t, "blue", sent.Labels["team"])
		require.Equal(t, `{"size":1}`, string(sent.Fields["spec"]))
	})
}

func TestContentTexts(t *testing.T) {
	e := newEnv(t)
	w := e.content(widgets)
	e.create("x")
	e.create("dying")
	e.put(widgets, "dying", object("old", "example.com/f"))
	e.terminate("dying")
	a := e.put(widgets, "x", object("a"))

	_, err := w.Create(e.ctx, "dying", object("new"))
	requireError(t, err, namespace.ErrTerminating,
		`widgets.example.com "new" is forbidden: unable to create new content in namespace dying because it is being terminated`)
	require.ErrorIs(t, err, namespace.ErrForbidden)
	var typed *namespace.Error
	require.ErrorAs(t, err, &typed)
	require.Equal(t, []namespace.Violation{{
		Type: "NamespaceTerminating", Field: "metadata.namespace", Message: "namespace dying is being terminated",
	}}, typed.Causes)
	_, err = w.Create(e.ctx, "none", object("a"))
	requireError(t, err, namespace.ErrNotFound, `namespaces "none" not found`)
	_, err = w.Create(e.ctx, "x", object("a"))
	requireError(t, err, namespace.ErrExists, `widgets.example.com "a" already exists`)
	_, err = w.Create(e.ctx, "x", registry.Object{})
	require.ErrorContains(t, err, "name or generateName is required")
	_, err = w.Create(e.ctx, "x", a)
	requireError(t, err, namespace.ErrBadRequest, "resourceVersion should not be set on objects to be created")

	other := object("b")
	other.Namespace = "y"
	mismatch := "the namespace of the provided object does not match the namespace sent on the request"
	_, err = w.Create(e.ctx, "x", other)
	requireError(t, err, namespace.ErrBadRequest, mismatch)
	_, err = w.Update(e.ctx, "x", other)
	requireError(t, err, namespace.ErrBadRequest, mismatch)
	other = object("b")
	other.Kind = "Gadget"
	_, err = w.Create(e.ctx, "x", other)
	require.ErrorIs(t, err, namespace.ErrBadRequest)
	other = object("b")
	other.APIVersion = "v1"
	_, err = w.Create(e.ctx, "x", other)
	require.ErrorIs(t, err, namespace.ErrBadRequest)

	_, err = w.Get(e.ctx, "x", "none")
	requireError(t, err, namespace.ErrNotFound, `widgets.example.com "none" not found`)
	_, err = w.Update(e.ctx, "x", object("none"))
	requireError(t, err, namespace.ErrNotFound, `widgets.example.com "none" not found`)
	_, err = w.Delete(e.ctx, "x", "none", anyVersion)
	requireError(t, err, namespace.ErrNotFound, `widgets.example.com "none" not found`)
	_, err = w.Delete(e.ctx, "x", "a", namespace.Preconditions{UID: "A"})
	requireError(t, err, namespace.ErrConflict, fmt.Sprintf(
		`Operation cannot be fulfilled on widgets.example.com "a": Precondition failed: UID in precondition: A, UID in object meta: %s`, a.UID))
	stale := a
	a.Fields["spec"] = json.RawMessage(`2`)
	_, err = w.Update(e.ctx, "x", a)
	require.NoError(t, err)
	_, err = w.Update(e.ctx, "x", stale)
	requireError(t, err, namespace.ErrConflict,
		`Operation cannot be fulfilled on widgets.example.com "a": the object has been modified; please apply your changes to the latest version and try again`)
}

func TestUpdateContent(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	w := e.content(widgets)
	a := e.put(widgets, "x", object("a"))
	before := e.revision()
	same, err := w.Update(e.ctx, "x", a)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(a, same))
	require.Equal(t, before, e.revision(), "an update that changes nothing does not change resourceVersion")

	for _, step := range []struct {
		name       string
		change     func(o *registry.Object)
		generation int64
	}{
		{"labels", func(o *registry.Object) { o.Labels = map[string]string{"a": "b"} }, 1},
		{"status", func(o *registry.Object) { o.Fields["status"] = json.RawMessage(`"ok"`) }, 1},
		{"spec", func(o *registry.Object) { o.Fields["spec"] = json.RawMessage(`{"size":2}`) }, 2},
		{"a field less", func(o *registry.Object) { delete(o.Fields, "spec") }, 3},
		{"a field more", func(o *registry.Object) { o.Fields["data"] = json.RawMessage(`null`) }, 4},
		{"metadata of the registry", func(o *registry.Object) {
			o.Generation, o.CreationTimestamp, o.DeletionTimestamp = 77, phase.Time{}, phase.At(time.Now())
			o.Labels = nil
		}, 4},
	} {
		asked := a.DeepCopy()
		step.change(&asked)
		next, err := w.Update(e.ctx, "x", asked)
		require.NoError(t, err, step.name)
		require.Equal(t, step.generation, next.Generation, step.name)
		require.Equal(t, a.UID, next.UID)
		require.Equal(t, a.CreationTimestamp, next.CreationTimestamp)
		require.True(t, next.DeletionTimestamp.IsZero())
		a = next
	}
	unconditional := object("a")
	next, err := w.Update(e.ctx, "x", unconditional)
	require.NoError(t, err)
	require.Equal(t, a.UID, next.UID)
}

// Objects of a type without generations have none, whatever writes them.
func TestUngenerated(t *testing.T) {
	e := newEnv(t)
	r, err := registry.New(e.store, &registry.Options{Types: []registry.Type{
		{Version: "v1", Resource: "notes", Kind: "Note", Namespaced: true, Ungenerated: true, Status: true},
	}})
	require.NoError(t, err)
	e.create("x")
	notes, err := r.Content(namespace.ResourceType{Name: "notes"})
	require.NoError(t, err)
	note := registry.Object{Meta: namespace.Meta{Name: "a", Generation: 3}, Fields: map[string]json.RawMessage{"data": json.RawMessage(`1`)}}
	made, err := notes.Create(e.ctx, "x", note)
	require.NoError(t, err)
	require.Zero(t, made.Generation)
	note.Fields["data"], note.Fields["status"] = json.RawMessage(`2`), json.RawMessage(`3`)
	made, err = notes.Update(e.ctx, "x", note)
	require.NoError(t, err)
	require.Zero(t, made.Generation)
	made, err = notes.UpdateStatus(e.ctx, "x", note)
	require.NoError(t, err)
	require.Zero(t, made.Generation)
}

// Content that finalizers hold is marked, and goes with the last of them.
func TestContentFinalizers(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	w := e.content(widgets)
	e.put(widgets, "x", object("a", "example.com/f", "example.com/g"))
	marked, err := w.Delete(e.ctx, "x", "a", anyVersion)
	require.NoError(t, err)
	require.False(t, marked.DeletionTimestamp.IsZero())
	again, err := w.Delete(e.ctx, "x", "a", anyVersion)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(marked, again))
	_, err = w.Create(e.ctx, "x", object("a"))
	requireError(t, err, namespace.ErrExists, `object is being deleted: widgets.example.com "a" already exists`)

	more := marked.DeepCopy()
	more.Finalizers = more.Finalizers.With("example.com/h")
	_, err = w.Update(e.ctx, "x", more)
	require.ErrorIs(t, err, namespace.ErrInvalid)
	require.ErrorContains(t, err, `no new finalizers can be added if the object is being deleted, found new finalizers []string{"example.com/h"}`)

	e.terminate("x") // an update is allowed all the same
	marked.Finalizers = finalizer.NewSet("example.com/g")
	marked, err = w.Update(e.ctx, "x", marked)
	require.NoError(t, err)
	marked.Finalizers = finalizer.Set{}
	last, err := w.Update(e.ctx, "x", marked)
	require.NoError(t, err)
	require.Equal(t, marked.UID, last.UID)
	_, err = w.Get(e.ctx, "x", "a")
	require.ErrorIs(t, err, namespace.ErrNotFound)
	e.release("x")
}

// Unconditional updates of one object by many all go through.
func TestConcurrentUnconditionalUpdates(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	w := e.content(widgets)
	e.put(widgets, "x", object("a"))
	var group sync.WaitGroup
	for writer := range 8 {
		group.Go(func() {
			for i := range 20 {
				o := object("a")
				o.Fields["spec"] = json.RawMessage(fmt.Sprint(writer*1000 + i))
				if _, err := w.Update(e.ctx, "x", o); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	o, err := w.Get(e.ctx, "x", "a")
	require.NoError(t, err)
	require.EqualValues(t, 161, o.Generation, "each change made one generation")
}

func TestNamesAreUniquePerTypeAndNamespace(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	e.create("y")
	e.put(widgets, "x", object("a"))
	e.put(widgets, "y", object("a"))
	e.put(configmaps, "x", object("a"))
	_, err := e.content(configmaps).Create(e.ctx, "x", object("a"))
	requireError(t, err, namespace.ErrExists, `configmaps "a" already exists`)
}

func TestGenerateContentName(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	o, err := e.content(widgets).Create(e.ctx, "x", registry.Object{Meta: namespace.Meta{GenerateName: "job-"}})
	require.NoError(t, err)
	require.Regexp(t, `^job-[a-z0-9]{5}$`, o.Name)
}

func TestClusterScopedContent(t *testing.T) {
	e := newEnv(t)
	n := e.content(nodes)
	o := e.put(nodes, "", object("a"))
	require.Empty(t, o.Namespace)
	_, err := n.Create(e.ctx, "x", object("b"))
	require.ErrorIs(t, err, namespace.ErrBadRequest)
	_, err = e.content(widgets).Create(e.ctx, "", object("b"))
	require.ErrorIs(t, err, namespace.ErrBadRequest)
	list, err := n.List(e.ctx, "", registry.ListOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, objectNames(list))
	require.Equal(t, "NodeList", list.Kind)
	entry, err := e.store.Get(e.ctx, "/registry/nodes/a")
	require.NoError(t, err)
	require.Contains(t, string(entry.Value), o.UID)
	_, err = n.Delete(e.ctx, "", "a", anyVersion)
	require.NoError(t, err)
}

func TestListContent(t *testing.T) {
	e := newEnv(t)
	for _, ns := range []string{"x", "x-1", "y"} {
		e.create(ns)
		for i := range 4 {
			o := object(fmt.Sprintf("%s.o%d", ns, i))
			o.Labels = map[string]string{"n": fmt.Sprint(i)}
			e.put(widgets, ns, o)
		}
	}
	for _, tc := range []struct{ ns, labels, fields, want string }{
		{"x", "", "", "x.o0 x.o1 x.o2 x.o3"},
		{"x", "n in (1,2)", "", "x.o1 x.o2"},
		{"", "n=1", "", "x-1.o1 x.o1 y.o1"},
		{"", "", "metadata.namespace=y", "y.o0 y.o1 y.o2 y.o3"},
		{"x", "", "metadata.name=x.o1", "x.o1"},
		{"none", "", "", ""},
	} {
		for _, limit := range []int{0, 1, 3, 500} {
			o := registry.ListOptions{Labels: labels(t, tc.labels), Fields: fields(t, tc.fields), Limit: limit}
			var names []string
			for range 20 {
				list, err := e.content(widgets).List(e.ctx, tc.ns, o)
				require.NoError(t, err)
				names = append(names, objectNames(list)...)
				if o.Continue = list.Continue; o.Continue == "" {
					break
				}
			}
			require.Empty(t, o.Continue, "pages must come to an end")
			require.Equal(t, tc.want, strings.Join(names, " "), "%+v limit %d", tc, limit)
		}
	}
	_, err := e.content(widgets).List(e.ctx, "x", registry.ListOptions{Fields: fields(t, "spec.size=1")})
	require.ErrorIs(t, err, namespace.ErrBadRequest)
}

func TestDeleteCollection(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	e.create("y")
	w := e.content(widgets)
	for i := range 2500 {
		o := object(fmt.Sprintf("o%04d", i))
		o.Labels = map[string]string{"odd": fmt.Sprint(i%2 == 1)}
		if i%100 == 0 {
			o.Finalizers = finalizer.NewSet("example.com/f")
		}
		e.put(widgets, "x", o)
	}
	e.put(widgets, "y", object("other"))
	before := e.revision()
	done, err := w.DeleteCollection(e.ctx, "x", labels(t, "odd=true"), fields(t, ""))
	require.NoError(t, err)
	require.Equal(t, registry.Deletion{Deleted: 1250}, done)
	require.LessOrEqual(t, e.revision()-before, store.Revision(3), "in large batches")
	done, err = w.DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
	require.NoError(t, err)
	require.Equal(t, registry.Deletion{Deleted: 1225, Marked: 25}, done)
	done, err = w.DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
	require.NoError(t, err)
	require.Zero(t, done)
	left, err := w.List(e.ctx, "", registry.ListOptions{})
	require.NoError(t, err)
	require.Len(t, left.Items, 26)
}

func TestContentOfUndeclaredType(t *testing.T) {
	e := newEnv(t)
	_, err := e.Content(namespace.ResourceType{Name: "gadgets"})
	require.ErrorIs(t, err, namespace.ErrNotFound)
	_, err = e.Content(namespace.ResourceType{Name: "widgets"})
	require.ErrorIs(t, err, namespace.ErrNotFound, "the group is part of the name")
	require.Equal(t, types[1], e.content(widgets).Type())
	require.Equal(t, []registry.Type{types[0], types[2], types[1]}, e.Types())
}

// An object is the JSON document that it was, but for white space.
func TestObjectJSON(t *testing.T) {
	for _, doc := range []string{
		`{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"a","labels":{"a":"b"}},"data":null,"spec":{"a":[1,2.50,1e40,"\u00e4"]}}`,
		`{"metadata":{}}`,
		`{"metadata":{"name":"a"},"Metadata":{"name":"b"},"KIND":"c","":0,"ä\"":[{}],"z":"}"}`,
	} {
		var o registry.Object
		require.NoError(t, json.Unmarshal([]byte(doc), &o))
		back, err := json.Marshal(o)
		require.NoError(t, err)
		require.JSONEq(t, doc, string(back))
		var again registry.Object
		require.NoError(t, json.Unmarshal(back, &again))
		require.Empty(t, cmp.Diff(o, again, cmpopts.EquateEmpty()))
	}
	for _, doc := range []string{`null`, `[]`, `1`, `"x"`, `{"metadata":1}`, `{"kind":{}}`, `{"metadata":{"name":1}}`} {
		o := registry.Object{Meta: namespace.Meta{Name: "kept"}}
		require.Error(t, o.UnmarshalJSON([]byte(doc)), doc)
		require.Equal(t, "kept", o.Name)
	}
	for _, fields := range []map[string]json.RawMessage{
		{"metadata": json.RawMessage(`{}`)}, {"kind": json.RawMessage(`"x"`)}, {"a": json.RawMessage("{")}, {"a": json.RawMessage("\"\xff\"")}, {"\xff": json.RawMessage(`1`)},
	} {
		_, err := json.Marshal(registry.Object{Fields: fields})
		require.Error(t, err, "%v", fields)
	}
}

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
	require.Len(t, sent.Fields, 2, "the argument is unchanged")

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
	require.NoError(t, err, "also of a deleted object, in a terminating namespace")
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
		`widgets.example.com "a": the resource type has no status: declare it with Status`)
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

// A plugin sees the status before and after the write, in every attempt.
func TestAdmissionSeesTheStatus(t *testing.T) {
	var seen []string
	e := admittedEnv(t, nil, plugin(func(_ context.Context, w *registry.Write) error {
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

var notices = namespace.ResourceType{Name: "notices"}

// fieldsEnv declares a type with selectable fields.
func fieldsEnv(t *testing.T) *env {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	declared := []registry.Type{{
		Version: "v1", Resource: "notices", Kind: "Notice", Namespaced: true,
		Fields: []string{"type", "involvedObject.name", "spec.deep.er.n"},
	}}
	r, err := registry.New(s, &registry.Options{Types: declared})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	declared[0].Fields[0] = "changed later"
	e := &env{Registry: r, t: t, ctx: t.Context(), store: s}
	e.create("x")
	return e
}

func notice(name string, fields ...string) registry.Object {
	o := registry.Object{Meta: namespace.Meta{Name: name}, Fields: map[string]json.RawMessage{}}
	for i := 0; i < len(fields); i += 2 {
		o.Fields[fields[i]] = json.RawMessage(fields[i+1])
	}
	return o
}

func TestSelectableFields(t *testing.T) {
	e := fieldsEnv(t)
	c := e.content(notices)
	for _, o := range []registry.Object{
		notice("bare"),
		notice("text", "type", `"Normal"`, "involvedObject", `{"kind":"Pod","name":"web-0"}`),
		notice("escaped", "type", `"a\u00e4\"b"`, "involvedObject", `{"na\u006de":"web-1"}`),
		notice("number", "type", `-1.50e3`, "spec", `{"deep":{"er":{"n":12345678901234567890}}}`),
		notice("bool", "type", `true`, "spec", `{"deep":{"er":{"n":false}}}`),
		notice("other", "type", `null`, "involvedObject", `["name"]`, "spec", `{"deep":{"er":[{"n":1}]}}`),
		notice("objects", "type", `{"a":1}`, "involvedObject", `"name"`, "spec", `{"deep":"er"}`),
		notice("twice", "involvedObject", `{"name":"first","name":"last"}`),
	} {
		e.put(notices, "x", o)
	}
	for _, row := range []struct {
		selector string
		want     []string
	}{
		{"type=Normal", []string{"text"}},
		{`type=aä"b`, []string{"escaped"}},
		{"type=-1.50e3", []string{"number"}},
		{"type=true", []string{"bool"}},
		{"type=", []string{"bare", "objects", "other", "twice"}},
		{"type!=Normal,type!=", []string{"bool", "escaped", "number"}},
		{"involvedObject.name=web-0", []string{"text"}},
		{"involvedObject.name=web-1", []string{"escaped"}},
		{"involvedObject.name=last", []string{"twice"}},
		{"involvedObject.name=first", []string{}},
		{"spec.deep.er.n=12345678901234567890", []string{"number"}},
		{"spec.deep.er.n=false,metadata.name=bool", []string{"bool"}},
		{"spec.deep.er.n=,metadata.namespace=x,metadata.name!=bare", []string{"escaped", "objects", "other", "text", "twice"}},
	} {
		list, err := c.List(e.ctx, "x", registry.ListOptions{Fields: fields(t, row.selector)})
		require.NoError(t, err, row.selector)
		require.Equal(t, row.want, objectNames(list), row.selector)
		raw, err := c.ListJSON(e.ctx, "x", registry.ListOptions{Fields: fields(t, row.selector)})
		require.NoError(t, err, row.selector)
		require.Len(t, raw.Items, len(row.want), row.selector)
	}
	_, err := c.List(e.ctx, "x", registry.ListOptions{Fields: fields(t, "reason=x")})
	require.ErrorContains(t, err, "field label not supported: reason")

	done, err := c.DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, "type="))
	require.NoError(t, err)
	require.Equal(t, registry.Deletion{Deleted: 4}, done)
}

// An object whose field begins or stops to match is added and deleted in the eyes of
// the watcher.
func TestSelectableFieldsInAWatch(t *testing.T) {
	e := fieldsEnv(t)
	c := e.content(notices)
	list, err := c.List(e.ctx, "x", registry.ListOptions{})
	require.NoError(t, err)
	e.put(notices, "x", notice("a", "type", `"Normal"`))
	for _, value := range []string{`"Warning"`, `"Warning" `, `"Normal"`, `"Warning"`} {
		_, err := c.Update(e.ctx, "x", notice("a", "type", value, "involvedObject", `1`))
		require.NoError(t, err)
	}
	_, err = c.Delete(e.ctx, "x", "a", anyVersion)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	var seen []string
	for event, err := range c.Watch(ctx, "x", registry.WatchOptions{ResourceVersion: list.ResourceVersion, Fields: fields(t, "type=Warning")}) {
		require.NoError(t, err)
		if event.Type == registry.Bookmark {
			break
		}
		seen = append(seen, event.Type.String()+" "+string(event.Object.Fields["type"]))
	}
	require.Empty(t, cmp.Diff([]string{
		`ADDED "Warning"`, `DELETED "Warning"`, `ADDED "Warning"`, `DELETED "Warning"`,
	}, seen))
}

// Declarations are the registry's own.
func TestTypesAreCopies(t *testing.T) {
	e := fieldsEnv(t)
	want := []string{"type", "involvedObject.name", "spec.deep.er.n"}
	for range 2 {
		for _, typ := range append(e.Types(), e.content(notices).Type()) {
			require.Equal(t, want, typ.Fields)
			typ.Fields[0] = "other"
		}
	}
}
