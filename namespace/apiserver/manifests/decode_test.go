package manifests_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/manifests"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// requireBadFile requires that the source rejected the first file with the given error.
func (e *env) requireBadFile(s *manifests.Syncer, why string) {
	e.t.Helper()
	before := e.position()
	_, err := s.Sync(e.ctx)
	require.ErrorIs(e.t, err, manifests.ErrDocument)
	require.ErrorContains(e.t, err, why)
	var problem *manifests.Problem
	require.ErrorAs(e.t, err, &problem)
	require.Empty(e.t, problem.Object, "the problem is of the whole file")
	require.Equal(e.t, before, e.position())
}

// The expansion of aliases is limited for each document and for the whole file.
func TestAliasesAreBounded(t *testing.T) {
	bomb := func(size, times int) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  a: &a \"" + strings.Repeat("x", size) + "\"\n  b: [" + strings.Repeat("*a,", times) + "]\n"
	}
	e := newEnv(t).space()
	e.requireBadFile(e.syncer(fixedOf(bomb(20_000, 100)), nil), "the aliases of the document repeat too much")
	var parts []string
	for range 60 {
		parts = append(parts, bomb(2000, 20))
	}
	e.requireBadFile(e.syncer(fixedOf(docs(parts...)), nil), "the aliases of the file expand to too many bytes")
	require.Empty(t, cmp.Diff(manifests.Result{Created: 1}, e.sync(e.syncer(fixedOf(bomb(1000, 3)), nil))))
}

// Duplicate fields are errors at any depth, in YAML and JSON.
func TestDuplicateKeys(t *testing.T) {
	for _, text := range []string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"v":"1"},"data":{"w":"1"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","labels":{"a":"b"},"labels":{"c":"d"}}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"v":"1","v":"2"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","kind":"ConfigMap","metadata":{"name":"x"}}`,
		`{"apiVersion":"v1","kind":"List","items":[` + `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}],"items":[]}`,
	} {
		for _, list := range [][]kinds.Kind{nil, {kinds.ConfigMaps()}} {
			e := newEnv(t).space()
			e.requireBadFile(e.syncer(fixedOf(text), &manifests.Options{Kinds: list}), "duplicate field")
		}
	}
}

// A truncated list or a list of an unknown type is an error, not an empty list.
func TestMalformedLists(t *testing.T) {
	for text, why := range map[string]string{
		"apiVersion: v1\nkind: List\nitems:\n":                    "items must be a list; for no items, write []",
		"apiVersion: v1\nkind: List\nitems: null\n":               "items must be a list; for no items, write []",
		"apiVersion: v1\nkind: List\n":                            "items must be a list; for no items, write []",
		"apiVersion: v1\nkind: ConfigMapList\nitems:\n":           "items must be a list; for no items, write []",
		`{"apiVersion":"v1","kind":"List","items":null}`:          "items must be a list; for no items, write []",
		"kind: List\nitems: []\n":                                 "apiVersion and kind are required",
		"apiVersion: v2\nkind: List\nitems: []\n":                 `no resource type has apiVersion "v2" and kind "List"`,
		"apiVersion: v1\nkind: ErrorList\nitems: []\n":            `no resource type has apiVersion "v1" and kind "ErrorList"`,
		"apiVersion: v1\nkind: NodeList\nitems: []\n":             `no resource type has apiVersion "v1" and kind "NodeList"`,
		"apiVersion: example.com/v2\nkind: WidgetList\nitems: []": `no resource type has apiVersion "example.com/v2" and kind "WidgetList"`,
	} {
		e := newEnv(t).space()
		src := fixedOf(configmap("a", "1"))
		s := e.syncer(src, nil)
		e.sync(s)
		src.set(nil, text)
		e.requireBadFile(s, why)
		require.Len(t, e.all(), 1, text)
		src.set(nil, "apiVersion: v1\nkind: ConfigMapList\nitems: []\n")
		require.Empty(t, cmp.Diff(manifests.Result{Deleted: 1}, e.sync(s)))
	}
}

// An end marker separates documents.
func TestEndMarker(t *testing.T) {
	e := newEnv(t).space()
	e.requireBadFile(e.syncer(fixedOf(configmap("x", "1")+"...\n"+configmap("y", "1")), nil), "did not find expected <document start>")
}

// An object that violates its kind makes the file invalid: the server could not encode it.
func TestKinds(t *testing.T) {
	list := []kinds.Kind{kinds.Namespaces(), kinds.ConfigMaps(), kinds.Custom(types[1])}
	list[2].Schema = json.RawMessage(`{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}`)
	const configmap, widget = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: x}\n"
	for text, why := range map[string]string{
		configmap + "data: {v: 1}\n":   "cannot unmarshal number",
		configmap + "data: [v]\n":      "cannot be handled as a ConfigMap",
		configmap + "nosuchfield: 1\n": `unknown field "nosuchfield"`,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, nosuchfield: 1}\n": `unknown field "metadata.nosuchfield"`,
		configmap + "data: {\"bad key!\": \"1\"}\n":                              "data[bad key!]: Invalid value",
		widget + "spec: {size: big}\n":                                           "spec.size in body must be of type integer",
		widget + "spec: {colour: red}\n":                                         `unknown field "spec.colour"`,
		"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: x}\n  data: {v: 1}\n": "items[0]: ",
	} {
		e := newEnv(t).space()
		e.requireBadFile(e.syncer(fixedOf(text), &manifests.Options{Kinds: list}), why)
	}
	e := newEnv(t).space()
	s := e.syncer(fixedOf(configmap+"data: {v: \"1\"}\n", widget+"spec: {size: 1}\n"), &manifests.Options{Kinds: list})
	require.Empty(t, cmp.Diff(manifests.Result{Created: 2}, e.sync(s)))
	require.Empty(t, cmp.Diff(manifests.Result{Unchanged: 2}, e.sync(s)))

	c, err := codec.New(list)
	require.NoError(t, err)
	form, err := c.Negotiate("application/vnd.kubernetes.protobuf", list[1], false)
	require.NoError(t, err)
	all, err := e.content(configmaps).List(e.ctx, "", registry.ListOptions{})
	require.NoError(t, err)
	_, err = c.List(form, list[1], all, codec.TableOptions{})
	require.NoError(t, err)
}

// The kind's Default completes objects, and its Validate checks updates.
func TestKindsDefaultAndValidate(t *testing.T) {
	kind := kinds.Custom(types[1])
	kind.Default = func(o *registry.Object) {
		if o.Fields == nil {
			o.Fields = map[string]json.RawMessage{}
		}
		o.Fields["defaulted"] = json.RawMessage("true")
	}
	kind.Validate = func(old, updated *registry.Object) []namespace.Violation {
		if old != nil && string(old.Fields["spec"]) != string(updated.Fields["spec"]) {
			return []namespace.Violation{{Type: namespace.FieldInvalid, Field: "spec", Message: "field is immutable"}}
		}
		return nil
	}
	widget := func(rest string) string {
		return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","labels":{` + rest
	}
	e := newEnv(t).space()
	src := fixedOf(widget(`"a":"1"}},"spec":1}`))
	s := e.syncer(src, &manifests.Options{Kinds: []kinds.Kind{kind}})
	e.sync(s)
	require.Equal(t, "true", string(e.get(widgets, "w").Fields["defaulted"]))
	src.set(nil, widget(`"a":"2"}},"spec":1}`))
	require.Empty(t, cmp.Diff(manifests.Result{Updated: 1}, e.sync(s)))
	src.set(nil, widget(`"a":"2"}},"spec":2}`))
	before := e.position()
	_, err := s.Sync(e.ctx)
	require.ErrorIs(t, err, namespace.ErrInvalid)
	require.EqualError(t, err, `manifests: "f0.yaml": widgets.example.com/w: Widget.example.com "w" is invalid: spec: field is immutable`)
	require.Equal(t, before, e.position())
}

func TestKindsBadInput(t *testing.T) {
	e := newEnv(t)
	other := kinds.Custom(types[0])
	other.Resource = "others"
	for name, list := range map[string][]kinds.Kind{
		"not declared":  {kinds.Secrets()},
		"another":       {other},
		"twice":         {kinds.ConfigMaps(), kinds.ConfigMaps()},
		"half declared": {{Type: types[0], Object: kinds.ConfigMaps().Object}},
	} {
		_, err := manifests.New(e.Registry, space, fixedOf(), &manifests.Options{Kinds: list})
		require.ErrorContains(t, err, "Options.Kinds", name)
	}
}
