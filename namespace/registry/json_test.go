package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// requireSameList requires that both forms of a listing have the same JSON, or the same error.
func requireSameList(t *testing.T, decoded, raw any, wantErr, err error) {
	t.Helper()
	if wantErr != nil {
		require.EqualError(t, err, wantErr.Error())
		return
	}
	require.NoError(t, err)
	want, err := json.Marshal(decoded)
	require.NoError(t, err)
	got, err := json.Marshal(raw)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// ListJSON and GetJSON return the same as List and Get, for all options.
func TestJSONAnswersAreTheSame(t *testing.T) {
	e := newEnv(t)
	w := e.content(widgets)
	for i := range 23 {
		n := named(fmt.Sprintf("ns-%02d", i), "example.com/other", "kubernetes")
		n.Labels = map[string]string{"mod": fmt.Sprint(i % 3), "all": "e"}
		n.Annotations = map[string]string{"note": "<\"\\\n\u2028>"}
		_, err := e.Create(e.ctx, n)
		require.NoError(t, err)
		o := object(fmt.Sprint("o-", i), "example.com/held")
		o.Labels = n.Labels
		o.Fields["data"] = json.RawMessage(` {"metadata" : {"resourceVersion":"1"}, "x":"<&>\u2028"} `)
		e.put(widgets, n.Name, o)
		if i%4 == 1 {
			e.terminate(n.Name)
			_, err := w.Delete(e.ctx, n.Name, o.Name, anyVersion)
			require.NoError(t, err)
		}
	}
	old := fmt.Sprint(e.revision() - 5)
	first, err := e.List(e.ctx, registry.ListOptions{Limit: 2})
	require.NoError(t, err)
	firstObjects, err := w.List(e.ctx, "", registry.ListOptions{Limit: 2})
	require.NoError(t, err)
	for _, o := range []registry.ListOptions{
		{}, {Limit: 5}, {Limit: -1}, {Limit: 1000}, {ResourceVersion: old}, {ResourceVersion: old, Exact: true}, {ResourceVersion: "x"}, {ResourceVersion: "99999"},
		{Labels: labels(t, "mod=1")}, {Labels: labels(t, "mod in (0,2),all=e"), Limit: 3}, {Labels: labels(t, "!mod")},
		{Fields: fields(t, "metadata.name=ns-03")}, {Fields: fields(t, "metadata.name!=o-3"), Limit: 4}, {Fields: fields(t, "status.phase=Terminating")},
		{Fields: fields(t, "metadata.namespace=ns-05")}, {Fields: fields(t, "metadata.namespace!=ns-05"), Labels: labels(t, "mod=2"), Limit: 2},
		{Continue: first.Continue, Limit: 3}, {Continue: firstObjects.Continue, Limit: 3}, {Continue: "x"},
	} {
		list, wantErr := e.List(e.ctx, o)
		raw, err := e.ListJSON(e.ctx, o)
		requireSameList(t, list, raw, wantErr, err)
		for _, ns := range []string{"", "ns-05", "missing", "a/b"} {
			list, wantErr := w.List(e.ctx, ns, o)
			raw, err := w.ListJSON(e.ctx, ns, o)
			requireSameList(t, list, raw, wantErr, err)
		}
	}
	for _, name := range []string{"ns-03", "ns-05", "missing", "a/b", ""} {
		n, wantErr := e.Get(e.ctx, name)
		raw, err := e.GetJSON(e.ctx, name)
		requireSameList(t, n, raw, wantErr, err)
		for _, object := range []string{"o-3", "o-5", "missing", "a/b", ""} {
			o, wantErr := w.Get(e.ctx, name, object)
			raw, err := w.GetJSON(e.ctx, name, object)
			requireSameList(t, o, raw, wantErr, err)
		}
	}
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	_, err = e.GetJSON(ctx, "ns-03")
	require.ErrorIs(t, err, context.Canceled)
	_, err = w.ListJSON(ctx, "", registry.ListOptions{})
	require.ErrorIs(t, err, context.Canceled)
}

// The fields that a type declares for selectors are found without decoding.
func TestJSONSelectableFields(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	r, err := registry.New(s, &registry.Options{Types: []registry.Type{
		{Version: "v1", Resource: "events", Kind: "Event", Fields: []string{"involvedObject.name", "type"}},
	}})
	require.NoError(t, err)
	c, err := r.Content(r.Types()[0].Name())
	require.NoError(t, err)
	for i := range 6 {
		_, err := c.Create(t.Context(), "", registry.Object{
			Meta: namespace.Meta{Name: fmt.Sprint("e", i)}, Fields: map[string]json.RawMessage{
				"involvedObject": json.RawMessage(fmt.Sprintf(`{"name":"o%d"}`, i%2)), "type": json.RawMessage(`"Normal"`),
			},
		})
		require.NoError(t, err)
	}
	for text, want := range map[string]int{"involvedObject.name=o1": 3, "involvedObject.name=o1,metadata.name=e3": 1, "type=Normal": 6, "type!=Normal": 0} {
		o := registry.ListOptions{Fields: fields(t, text)}
		list, err := c.List(t.Context(), "", o)
		require.NoError(t, err)
		raw, err := c.ListJSON(t.Context(), "", o)
		requireSameList(t, list, raw, nil, err)
		require.Len(t, raw.Items, want, text)
	}
	_, err = c.ListJSON(t.Context(), "", registry.ListOptions{Fields: fields(t, "spec.x=1")})
	require.ErrorIs(t, err, namespace.ErrBadRequest)
	require.NoError(t, r.Close())
	require.NoError(t, s.Close())
}

// A damaged entry is an error that names its key.
func TestJSONOfDamagedEntries(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	r, err := registry.New(s, &registry.Options{Types: types})
	require.NoError(t, err)
	e := &env{Registry: r, t: t, ctx: t.Context(), store: s}
	valid := storedValue(t, `{"metadata":{"name":"a","namespace":"x","uid":"u"},"spec":{"a":1}}`)
	for name, bad := range map[string]string{
		"broken": `{"metadata":`, "foreign": `{"metadata":{"name":"a","uid":"u"}}`, "damaged": strings.Replace(string(valid), `"a":1`, `"a":2`, 1),
	} {
		key := "/registry/widgets.example.com/x/" + name
		_, err := s.Commit(e.ctx, store.Txn{Do: []store.Operation{store.Put(key, []byte(bad))}})
		require.NoError(t, err)
		_, err = e.content(widgets).GetJSON(e.ctx, "x", name)
		require.ErrorContains(t, err, key)
		require.ErrorContains(t, err, "damaged", name)
		_, err = e.content(widgets).ListJSON(e.ctx, "x", registry.ListOptions{})
		require.ErrorContains(t, err, key)
		_, err = e.content(widgets).List(e.ctx, "x", registry.ListOptions{})
		require.ErrorContains(t, err, key)
		_, err = s.Commit(e.ctx, store.Txn{Do: []store.Operation{store.Delete(key)}})
		require.NoError(t, err)
	}
}

// Items of a page may share memory, but appending to one does not overwrite the next.
func TestJSONItemsAreApart(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	for i := range 20 {
		e.put(widgets, "x", object(fmt.Sprint("o-", i+10)))
	}
	list, err := e.content(widgets).ListJSON(e.ctx, "x", registry.ListOptions{})
	require.NoError(t, err)
	want := make([]string, len(list.Items))
	for i := range list.Items {
		want[i] = string(list.Items[i])
	}
	for i := range list.Items {
		_ = append(list.Items[i], "appended text"...)
	}
	for i := range list.Items {
		require.Equal(t, want[i], string(list.Items[i]))
	}
}

// A client may name its fields like the header, or like another spelling of the reserved ones.
func TestFieldsLikeReservedOnes(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	w := e.content(widgets)
	o := object("a")
	for _, name := range []string{"#", "Metadata", "KIND", "", "a\"\\\n<é\u2028"} {
		o.Fields[name] = json.RawMessage(`{"name":"other","uid":"other"}`)
	}
	made, err := w.Create(e.ctx, "x", o)
	require.NoError(t, err)
	got, err := w.Get(e.ctx, "x", "a")
	require.NoError(t, err)
	require.Equal(t, made, got)
	require.Equal(t, o.Fields, got.Fields)
	raw, err := w.GetJSON(e.ctx, "x", "a")
	require.NoError(t, err)
	var decoded registry.Object
	require.NoError(t, json.Unmarshal(raw, &decoded))
	require.Equal(t, made, decoded)
	before := e.revision()
	_, err = w.Update(e.ctx, "x", got)
	require.NoError(t, err)
	require.Equal(t, before, e.revision(), "nothing changed")
	require.NoError(t, registrytest.Check(e.ctx, e.store, "registry"))
}
