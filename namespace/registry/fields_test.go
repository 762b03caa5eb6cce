package registry_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

var notices = namespace.ResourceType{Name: "notices"}

// fieldsEnv declares a type with selectable fields.
func fieldsEnv(t *testing.T) *env {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	declared := []registry.ResourceType{{
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
