package manifests_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/manifests"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// The source creates, updates and deletes objects with their documents. A second sync writes nothing.
func TestInStep(t *testing.T) {
	e := newEnv(t).space()
	src := fixedOf(docs(configmap("a", "1"), configmap("b", "1")), `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":1}}`)
	s := e.syncer(src, nil)
	for _, step := range []struct {
		texts []string
		want  manifests.Result
		all   []string
	}{
		{nil, manifests.Result{Created: 3}, []string{`configmaps/a {"v":"1"}`, `configmaps/b {"v":"1"}`, `widgets.example.com/w {"size":1}`}},
		{nil, manifests.Result{Unchanged: 3}, []string{`configmaps/a {"v":"1"}`, `configmaps/b {"v":"1"}`, `widgets.example.com/w {"size":1}`}},
		{[]string{docs(configmap("a", "2"), configmap("c", "1"))}, manifests.Result{Created: 1, Updated: 1, Deleted: 2}, []string{`configmaps/a {"v":"2"}`, `configmaps/c {"v":"1"}`}},
		{[]string{configmap("c", "1"), configmap("a", "2")}, manifests.Result{Updated: 1, Unchanged: 1}, []string{`configmaps/a {"v":"2"}`, `configmaps/c {"v":"1"}`}}, // a has moved
		{[]string{}, manifests.Result{Deleted: 2}, []string{}},
		{[]string{`{"apiVersion":"v1","kind":"List","items":[]}`}, manifests.Result{}, []string{}},
	} {
		if step.texts != nil {
			src.set(nil, step.texts...)
		}
		require.Empty(t, cmp.Diff(step.want, e.sync(s)))
		require.Empty(t, cmp.Diff(step.all, e.all()))
		before := e.position()
		require.Zero(t, e.sync(s).Writes())
		require.Zero(t, e.sync(e.syncer(src, nil)).Writes(), "after a restart")
		require.Equal(t, before, e.position())
	}
}

// A file may have several forms.
func TestForms(t *testing.T) {
	item := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"v":"1"}}`
	for name, text := range map[string]string{
		"yaml":              configmap("a", "1"),
		"separators":        "---\n# nothing\n---\n" + configmap("a", "1") + "---\n",
		"json":              item,
		"flow yaml":         `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {v: "1"}}`,
		"list":              `{"apiVersion":"v1","kind":"List","items":[` + item + `]}`,
		"typed list":        `{"apiVersion":"v1","kind":"ConfigMapList","items":[{"metadata":{"name":"a"},"data":{"v":"1"}}]}`,
		"list in list":      `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[` + item + `]}]}`,
		"yaml list":         "apiVersion: v1\nkind: List\nitems:\n- " + item + "\n",
		"own namespace":     `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"` + space + `"},"data":{"v":"1"}}`,
		"byte order mark":   "\xef\xbb\xbf" + item,
		"CRLF":              "apiVersion: v1\r\nkind: ConfigMap\r\nmetadata: {name: a}\r\ndata: {v: \"1\"}\r\n",
		"from the server":   `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"x","resourceVersion":"7","generation":3,"creationTimestamp":"2020-01-01T00:00:00Z","annotations":{"nslifecycle.github.io/source":"{}"}},"data":{"v":"1"}}`,
		"documents in json": item + "\n" + `{"apiVersion":"v1","kind":"List","items":[]}`,
	} {
		e := newEnv(t).space()
		s := e.syncer(fixedOf(text), nil)
		require.Empty(t, cmp.Diff(manifests.Result{Created: 1}, e.sync(s)), name)
		require.Equal(t, []string{`configmaps/a {"v":"1"}`}, e.all(), name)
		require.Zero(t, e.sync(s).Writes(), name)
	}
}

// Invalid files keep their objects and do not affect other files.
func TestBadDocuments(t *testing.T) {
	for name, text := range map[string]string{
		"empty":              "",
		"blank":              " \n",
		"only comments":      "# later\n---\n",
		"not yaml":           "a: [",
		"half json":          `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"da`,
		"half stream":        `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}{"api`,
		"scalar":             "hello",
		"html":               "<html><body>Log in</body></html>",
		"no kind":            "apiVersion: v1\nmetadata: {name: a}",
		"no apiVersion":      "kind: ConfigMap\nmetadata: {name: a}",
		"unknown kind":       "apiVersion: v1\nkind: Secret\nmetadata: {name: a}",
		"cluster-scoped":     "apiVersion: v1\nkind: Node\nmetadata: {name: a}",
		"no name":            "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}",
		"other namespace":    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: other}",
		"duplicate keys":     "apiVersion: v1\nkind: ConfigMap\nkind: ConfigMap\nmetadata: {name: a}",
		"items no list":      "apiVersion: v1\nkind: List\nitems: {}",
		"bad item":           "apiVersion: v1\nkind: List\nitems: [7]",
		"typed item":         "apiVersion: v1\nkind: ConfigMapList\nitems: [7]",
		"many lists":         strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, 5) + strings.Repeat("]}", 5),
		"metadata no map":    "apiVersion: v1\nkind: ConfigMap\nmetadata: []",
		"good, then bad":     docs(configmap("new", "1"), "a: ["),
		"good, then unknown": docs(configmap("new", "1"), "apiVersion: v1\nkind: Secret\nmetadata: {name: a}"),
		"null":               "null",
		"good, then null":    docs(configmap("new", "1"), "~"),
		"too deep":           docs(configmap("new", "1"), strings.Repeat("[", 20_000)),
		"too deep maps":      strings.Repeat("? ", 20_000),
		"aliases":            "a: &a [*a]",
		"many faults":        strings.Repeat("a:\n ", 2000),
		"invalid UTF-8":      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {v: \"\xff\"}",
	} {
		e := newEnv(t).space()
		src := fixedOf(configmap("a", "1"), configmap("b", "1"))
		e.sync(e.syncer(src, nil))
		src.set(nil, text, configmap("b", "2"))
		result, err := e.syncer(src, nil).Sync(e.ctx) // after a restart
		require.ErrorIs(t, err, manifests.ErrDocument, name)
		var problem *manifests.Problem
		require.ErrorAs(t, err, &problem, name)
		require.Equal(t, "f0.yaml", problem.File, name)
		require.Empty(t, problem.Object, name)
		require.Less(t, len(err.Error()), 1200, name)
		require.Empty(t, cmp.Diff(manifests.Result{Updated: 1, Kept: 1}, result), name)
		require.Equal(t, []string{`configmaps/a {"v":"1"}`, `configmaps/b {"v":"2"}`}, e.all(), name)
	}
}

// A source that cannot be read changes nothing. A removed file deletes its objects.
func TestBadSource(t *testing.T) {
	e := newEnv(t).space()
	src := fixedOf(configmap("a", "1"), "a: [")
	s := e.syncer(src, nil)
	_, err := s.Sync(e.ctx)
	require.EqualError(t, err, `manifests: "f1.yaml": invalid document: document 1: error converting YAML to JSON: yaml: line 1: did not find expected node content`)
	before := e.position()
	broken := errors.New("broken")
	src.set(broken)
	_, err = s.Sync(e.ctx)
	require.ErrorIs(t, err, manifests.ErrSource)
	require.ErrorIs(t, err, broken)
	require.Equal(t, before, e.position())
	src.set(nil, "", "")
	result, err := s.Sync(e.ctx)
	require.ErrorIs(t, err, manifests.ErrDocument)
	require.Equal(t, 1, result.Kept)
	src.set(nil)
	require.Equal(t, 1, e.sync(s).Deleted)
}

// The source reports foreign objects and does not change them.
func TestForeign(t *testing.T) {
	e := newEnv(t).space()
	_, err := e.content(configmaps).Create(e.ctx, space, registry.Object{Meta: namespace.Meta{Name: "a"}})
	require.NoError(t, err)
	src := fixedOf(docs(configmap("a", "1"), configmap("b", "1")), configmap("b", "2"))
	s := e.syncer(src, nil)
	result, err := s.Sync(e.ctx)
	require.ErrorIs(t, err, manifests.ErrForeign)
	require.ErrorIs(t, err, manifests.ErrDuplicate)
	require.Empty(t, cmp.Diff(manifests.Result{Created: 1}, result))
	require.Equal(t, []string{"configmaps/a ", `configmaps/b {"v":"1"}`}, e.all())

	// Another source of the namespace does not change the object either. The source does not own
	// a copy with another name.
	other := e.syncer(fixedOf(configmap("b", "3")), &manifests.Options{Name: "other"})
	_, err = other.Sync(e.ctx)
	require.ErrorIs(t, err, manifests.ErrForeign)
	copied := e.get(configmaps, "b")
	_, err = e.content(configmaps).Create(e.ctx, space, registry.Object{Meta: namespace.Meta{Name: "copy", Annotations: copied.Annotations}})
	require.NoError(t, err)
	src.set(nil)
	require.Equal(t, 1, e.sync(s).Deleted)
	require.Equal(t, []string{"configmaps/a ", "configmaps/copy "}, e.all())

	// The source does not own an object without the annotation.
	src.set(nil, configmap("c", "1"))
	e.sync(s)
	c := e.get(configmaps, "c")
	c.Annotations = nil
	_, err = e.content(configmaps).Update(e.ctx, space, c)
	require.NoError(t, err)
	src.set(nil)
	require.Zero(t, e.sync(s).Writes())
	require.Contains(t, e.all(), `configmaps/c {"v":"1"}`)
}

// The source reverts other clients' changes and keeps their additions.
func TestDrift(t *testing.T) {
	e := newEnv(t).space()
	src := fixedOf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","labels":{"a":"1"},"finalizers":["example.com/f"]},"spec":{"size":1,"list":[{"x":1.0}],"none":null},"status":{"from":"file"}}`)
	s := e.syncer(src, nil)
	e.sync(s)
	w := e.get(widgets, "w")
	require.Nil(t, w.Fields["status"])
	w.Labels["b"], w.Finalizers = "2", finalizer.NewSet("example.com/g")
	w.Fields["spec"] = json.RawMessage(`{"default":true,"list":[{"x":1,"y":2}],"size":1}`)
	w.Fields["more"] = json.RawMessage(`1`)
	w, err := e.content(widgets).Update(e.ctx, space, w)
	require.NoError(t, err)
	w.Fields["status"] = json.RawMessage(`{"phase":"Ready"}`)
	_, err = e.content(widgets).UpdateStatus(e.ctx, space, w)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(manifests.Result{Unchanged: 1}, e.sync(s)), "additions are not drift")

	for name, change := range map[string]func(*registry.Object){
		"field":        func(o *registry.Object) { o.Fields["spec"] = json.RawMessage(`{"size":2,"list":[{"x":1}]}`) },
		"no field":     func(o *registry.Object) { delete(o.Fields, "spec") },
		"list":         func(o *registry.Object) { o.Fields["spec"] = json.RawMessage(`{"size":1,"list":[]}`) },
		"label":        func(o *registry.Object) { o.Labels["a"] = "2" },
		"no label":     func(o *registry.Object) { delete(o.Labels, "a") },
		"another type": func(o *registry.Object) { o.Fields["spec"] = json.RawMessage(`{"size":"1","list":[{"x":1}]}`) },
	} {
		w := e.get(widgets, "w")
		change(&w)
		_, err := e.content(widgets).Update(e.ctx, space, w)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(manifests.Result{Updated: 1}, e.sync(s)), name)
		w = e.get(widgets, "w")
		require.Equal(t, map[string]string{"a": "1", "b": "2"}, w.Labels, name)
		require.True(t, w.Finalizers.Equal(finalizer.NewSet("example.com/g")), name)
		require.Equal(t, `{"phase":"Ready"}`, string(w.Fields["status"]), name)
		require.Equal(t, `{"size":1,"list":[{"x":1.0}],"none":null}`, string(w.Fields["spec"]), name)
		require.Zero(t, e.sync(s).Writes(), name)
	}

	// A finalizer delays the deletion. After it, the source creates the object again.
	_, err = e.content(widgets).Delete(e.ctx, space, "w", namespace.Preconditions{})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(manifests.Result{Deleting: 1}, e.sync(s)))
	w = e.get(widgets, "w")
	w.Finalizers = finalizer.Set{}
	_, err = e.content(widgets).Update(e.ctx, space, w)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(manifests.Result{Created: 1}, e.sync(s)))
}

// In a type without the status sub-resource, a status that another client adds stays when the source
// updates the object.
func TestStatusStays(t *testing.T) {
	e := newEnv(t).space()
	src := fixedOf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}", configmap("b", "1"))
	s := e.syncer(src, nil)
	e.sync(s)
	for _, name := range []string{"a", "b"} {
		o := e.get(configmaps, name)
		o.Fields = map[string]json.RawMessage{"status": json.RawMessage(`{"ready":true}`)}
		_, err := e.content(configmaps).Update(e.ctx, space, o)
		require.NoError(t, err)
	}
	require.Empty(t, cmp.Diff(manifests.Result{Updated: 1, Unchanged: 1}, e.sync(s)))
	src.set(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {x: z}}", configmap("b", "2"))
	require.Empty(t, cmp.Diff(manifests.Result{Updated: 2}, e.sync(s)))
	require.Equal(t, `{"ready":true}`, string(e.get(configmaps, "a").Fields["status"]))
	require.Equal(t, `{"ready":true}`, string(e.get(configmaps, "b").Fields["status"]))
	require.Equal(t, `{"v":"2"}`, string(e.get(configmaps, "b").Fields["data"]))
}

// A refused object does not affect others. The source does not revert admission's changes.
func TestAdmission(t *testing.T) {
	e := newEnv(t, admit(func(w *registry.Write) error {
		for i := range w.Objects {
			switch o := w.Objects[i].New; {
			case o == nil:
			case o.Name == "refused":
				return errors.New("not here")
			default:
				o.Fields["data"] = json.RawMessage(`{"v":"mine"}`)
			}
		}
		return nil
	})).space()
	s := e.syncer(fixedOf(docs(configmap("refused", "1"), configmap("taken", "1"))), nil)
	result, err := s.Sync(e.ctx)
	require.ErrorIs(t, err, namespace.ErrForbidden)
	require.EqualError(t, err, `manifests: "f0.yaml": configmaps/refused: configmaps "refused" is forbidden: not here`)
	require.Equal(t, 1, result.Created)
	before := e.position()
	for range 3 {
		result, err = s.Sync(e.ctx)
		require.ErrorIs(t, err, namespace.ErrForbidden)
		require.Empty(t, cmp.Diff(manifests.Result{Unchanged: 1}, result))
	}
	require.Equal(t, before, e.position())
}

type admit func(w *registry.Write) error

func (a admit) Admit(_ context.Context, w *registry.Write) error { return a(w) }

// A deletion affects only the object version that the source read, not a new object of the same name.
func TestDeletionIsFenced(t *testing.T) {
	var replace func()
	e := newEnv(t).space()
	src := fixedOf(configmap("a", "1"))
	s := e.syncer(src, nil)
	e.sync(s)
	replaced := e.get(configmaps, "a")
	hooked := newHooked(e, func() {
		if replace != nil {
			replace()
		}
	})
	s2, err := manifests.New(hooked, space, src, nil)
	require.NoError(t, err)
	src.set(nil)
	replace = func() {
		replace = nil
		_, err := e.content(configmaps).Delete(e.ctx, space, "a", namespace.Preconditions{})
		require.NoError(t, err)
		_, err = e.content(configmaps).Create(e.ctx, space, registry.Object{Meta: namespace.Meta{Name: "a", Annotations: replaced.Annotations}})
		require.NoError(t, err)
	}
	_, err = s2.Sync(e.ctx)
	require.ErrorIs(t, err, namespace.ErrConflict)
	require.Equal(t, []string{"configmaps/a "}, e.all())
}

// A renamed file that was modified recently, or that cannot be read, deletes nothing.
func TestRenameKeeps(t *testing.T) {
	for name, unread := range map[string]manifests.File{
		"changing": {Name: "new.yaml", Err: manifests.ErrChanging},
		"bad":      {Name: "new.yaml", Data: []byte("a: [")},
		"away":     {Name: "new.yaml", Err: errors.New("broken")},
	} {
		e := newEnv(t).space()
		src := fixedOf(configmap("a", "1"), configmap("b", "1"))
		s := e.syncer(src, nil)
		e.sync(s)
		a, before := e.get(configmaps, "a"), e.position()
		src.files[0] = unread
		for _, look := range []*manifests.Syncer{s, s, e.syncer(src, nil)} {
			result, _ := look.Sync(e.ctx)
			require.Equal(t, 1, result.Kept, name)
			require.Equal(t, 1, result.Unchanged, name)
		}
		require.Equal(t, before, e.position(), name)
		src.files[0] = manifests.File{Name: "new.yaml", Data: []byte(configmap("a", "1"))}
		require.Empty(t, cmp.Diff(manifests.Result{Updated: 1, Unchanged: 1}, e.sync(s)), name)
		require.Equal(t, a.UID, e.get(configmaps, "a").UID, name)
		src.files = src.files[1:]
		require.Equal(t, 1, e.sync(s).Deleted, name)
	}
}

// The objects of an unreadable file stay unchanged, even if another file has the same object.
func TestUnreadableFileKeepsItsObjects(t *testing.T) {
	e := newEnv(t).space()
	src := fixedOf(configmap("x", "A"), configmap("x", "B"))
	s := e.syncer(src, nil)
	_, err := s.Sync(e.ctx)
	require.ErrorIs(t, err, manifests.ErrDuplicate)
	before := e.position()
	for _, unread := range []manifests.File{{Name: "f0.yaml", Data: []byte("a: [")}, {Name: "f0.yaml", Err: manifests.ErrChanging}} {
		src.files[0] = unread
		for _, look := range []*manifests.Syncer{s, e.syncer(src, nil)} {
			result, _ := look.Sync(e.ctx)
			require.Equal(t, 1, result.Kept)
			require.Zero(t, result.Writes())
		}
	}
	require.Equal(t, before, e.position())
	src.files = src.files[1:]
	require.Empty(t, cmp.Diff(manifests.Result{Updated: 1}, e.sync(s)), "the file is removed: the other file has the object")
	require.Equal(t, []string{`configmaps/x {"v":"B"}`}, e.all())
}

// An error about too many objects does not hide problems of files.
func TestTooManyObjectsAndProblems(t *testing.T) {
	e := newEnv(t).space()
	src := fixedOf(configmap("a", "1"), configmap("b", "1"), "a: [", configmap("a", "2"))
	src.files = append(src.files, manifests.File{Name: "settling.yaml", Err: manifests.ErrChanging})
	result, err := e.syncer(src, &manifests.Options{MaxObjects: 1}).Sync(e.ctx)
	require.ErrorContains(t, err, "there are more than 1 objects")
	require.ErrorContains(t, err, `"f2.yaml": invalid document`)
	require.ErrorIs(t, err, manifests.ErrDuplicate)
	require.Empty(t, cmp.Diff(manifests.Result{Changing: 1}, result))
	require.Empty(t, e.all())
}
