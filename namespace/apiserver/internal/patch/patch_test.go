package patch_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/patch"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

type patchTest struct {
	name    string
	kind    kinds.Kind
	stored  string
	patch   string
	want    map[string]string // top-level fields, or labels
	refused error
	message string
}

func runPatches(t *testing.T, contentType string, tests []patchTest) {
	p := newPatcher(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			current := object(t, test.stored)
			before := text(t, current)
			got, _, err := p.Apply(test.kind, "", &current, patch.Request{Type: types.PatchType(contentType), Body: []byte(test.patch)})
			require.Equal(t, before, text(t, current), "the current object was changed")
			if test.refused != nil {
				require.ErrorIs(t, err, test.refused)
				require.ErrorContains(t, err, test.message)
				return
			}
			require.NoError(t, err)
			for name, want := range test.want {
				value := got.Fields[name]
				if name == "labels" {
					value, err = json.Marshal(got.Labels)
					require.NoError(t, err)
				}
				if want == "" {
					require.Nil(t, value)
					continue
				}
				require.JSONEq(t, want, string(value))
				for _, number := range []string{"9007199254740993", "18446744073709551617", "1.50"} { // JSONEq rounds
					require.Equal(t, strings.Count(want, number), strings.Count(string(value), number), "%s", value)
				}
			}
			require.Equal(t, current.UID, got.UID)
			require.Equal(t, current.CreationTimestamp, got.CreationTimestamp)
		})
	}
}

func TestJSONPatch(t *testing.T) {
	cm, g := kinds.ConfigMaps(), gadgets()
	runPatches(t, jsonPatch, []patchTest{
		{name: "add and remove", kind: cm, stored: configMap, patch: `[{"op":"add","path":"/data/x","value":"y"},{"op":"remove","path":"/data/k"}]`, want: map[string]string{"data": `{"n":"1","x":"y"}`}},
		{name: "escapes", kind: cm, stored: configMap, patch: `[{"op":"add","path":"/metadata/labels/a~1b","value":"1"},{"op":"add","path":"/metadata/labels/c~01d","value":"2"}]`, want: map[string]string{"labels": `{"app":"web","a/b":"1","c~1d":"2"}`}},
		{name: "replacing what is not there adds", kind: cm, stored: configMap, patch: `[{"op":"replace","path":"/data/x","value":"y"}]`, want: map[string]string{"data": `{"k":"v","n":"1","x":"y"}`}},
		{name: "lists", kind: g, stored: gadget, patch: `[{"op":"add","path":"/spec/list/0","value":0},{"op":"add","path":"/spec/list/-","value":4},{"op":"remove","path":"/spec/list/1"},{"op":"add","path":"/spec/list/-1","value":9}]`,
			want: map[string]string{"spec": `{"big":9007199254740993,"float":1.50,"list":[0,2,3,4,9],"o":{"a":{"b":null}}}`}},
		{name: "copy", kind: g, stored: gadget, patch: `[{"op":"copy","from":"/spec/o","path":"/copy"},{"op":"add","path":"/copy/c","value":1},{"op":"remove","path":"/spec"}]`, want: map[string]string{"copy": `{"a":{"b":null},"c":1}`, "spec": ""}},
		{name: "move", kind: g, stored: gadget, patch: `[{"op":"move","from":"/spec/list/2","path":"/spec/list/0"},{"op":"move","from":"/spec/list","path":"/list"},{"op":"remove","path":"/spec"}]`, want: map[string]string{"list": `[3,1,2]`}},
		{name: "a null that is copied", kind: g, stored: gadget, patch: `[{"op":"add","path":"/a","value":null},{"op":"copy","from":"/a","path":"/b"},{"op":"add","path":"/b/c","value":1}]`, refused: namespace.ErrInvalid, message: `doc is missing path: "/b/c"`},
		{name: "a test that holds", kind: g, stored: gadget, patch: `[{"op":"test","path":"/spec/float","value":1.50},{"op":"test","path":"/spec/list","value":[1, 2,3]},{"op":"test","path":"/spec/big","value":9007199254740993},{"op":"test","path":"/spec/none","value":null},{"op":"test","path":"/spec/o","value":{"a":{"b":null}}}]`, want: map[string]string{}},
		{name: "a test that fails", kind: cm, stored: configMap, patch: `[{"op":"test","path":"/data/k","value":"w"},{"op":"remove","path":"/data"}]`, refused: namespace.ErrInvalid, message: "due to an error in our request: testing value /data/k failed: test failed"},
		{name: "large numbers differ", kind: g, stored: gadget, patch: `[{"op":"test","path":"/spec/big","value":9007199254740992}]`, refused: namespace.ErrInvalid, message: "test failed"},
		{name: "a test of nothing", kind: cm, stored: configMap, patch: `[{"op":"test","path":"/data/none","value":"w"}]`, refused: namespace.ErrInvalid, message: "test failed"},
		{name: "nothing to remove", kind: cm, stored: configMap, patch: `[{"op":"remove","path":"/data/none"}]`, refused: namespace.ErrInvalid, message: "unable to remove nonexistent key: none"},
		{name: "no such parent", kind: cm, stored: configMap, patch: `[{"op":"add","path":"/none/x","value":1}]`, refused: namespace.ErrInvalid, message: `doc is missing path: "/none/x"`},
		{name: "an index beyond the list", kind: g, stored: gadget, patch: `[{"op":"add","path":"/spec/list/9","value":1}]`, refused: namespace.ErrInvalid, message: "invalid index: 9"},
		{name: "no index", kind: g, stored: gadget, patch: `[{"op":"replace","path":"/spec/list/x","value":1}]`, refused: namespace.ErrInvalid, message: "not a proper array index"},
		{name: "a move into itself", kind: g, stored: gadget, patch: `[{"op":"move","from":"/spec","path":"/spec/o/x"}]`, refused: namespace.ErrInvalid, message: "missing destination path: /spec/o/x"},
		{name: "the document becomes a list", kind: g, stored: gadget, patch: `[{"op":"replace","path":"","value":[]}]`, refused: namespace.ErrInvalid, message: "the patched document is not an object"},
		{name: "the document is removed", kind: g, stored: gadget, patch: `[{"op":"remove","path":""}]`, refused: namespace.ErrInvalid, message: "the whole document cannot be removed"},
		{name: "the document is moved", kind: g, stored: gadget, patch: `[{"op":"move","from":"","path":"/x"}]`, refused: namespace.ErrInvalid, message: "the whole document cannot be"},
		{name: "the document is copied", kind: g, stored: gadget, patch: `[{"op":"copy","from":"","path":"/x"}]`, refused: namespace.ErrInvalid, message: "the whole document cannot be"},
		{name: "a copy becomes the document", kind: g, stored: gadget, patch: `[{"op":"copy","from":"/spec","path":""}]`, refused: namespace.ErrInvalid, message: "be the place of a copy"},
		{name: "the document is replaced", kind: cm, stored: configMap, patch: `[{"op":"test","path":"/data/k","value":"v"},{"op":"replace","path":"","value":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"x"},"data":{}}},{"op":"add","path":"/data/x","value":"<y>"},{"op":"test","path":"","value":{"metadata":{"namespace":"x","name":"a"},"apiVersion":"v1","data":{"x":"<y>"},"kind":"ConfigMap"}}]`, want: map[string]string{"data": `{"x":"<y>"}`}},
		{name: "the document is replaced by nothing", kind: g, stored: gadget, patch: `[{"op":"replace","path":"","value":null}]`, refused: namespace.ErrInvalid, message: "the patched document is not an object"},
		{name: "the document becomes null", kind: g, stored: gadget, patch: `[{"op":"add","path":"","value":null}]`, refused: namespace.ErrInvalid, message: "expected object"},
		{name: "a field without a name", kind: g, stored: gadget, patch: `[{"op":"add","path":"/spec//x","value":1}]`, refused: namespace.ErrInvalid, message: "a path has an empty name"},
		{name: "a last field without a name", kind: g, stored: gadget, patch: `[{"op":"add","path":"/spec/","value":1}]`, refused: namespace.ErrInvalid, message: "a path has an empty name"},
		{name: "replacing what is not there, in what is not there", kind: g, stored: gadget, patch: `[{"op":"replace","path":"/none/x","value":1}]`, refused: namespace.ErrInvalid, message: `doc is missing path: "/none/x"`},
		{name: "replacing an item", kind: g, stored: gadget, patch: `[{"op":"replace","path":"/spec/list/1","value":9007199254740993},{"op":"replace","path":"/spec/list/-1","value":18446744073709551617}]`, want: map[string]string{"spec": `{"big":9007199254740993,"float":1.50,"list":[1,9007199254740993,18446744073709551617],"o":{"a":{"b":null}}}`}},
		{name: "replacing an item that is not there", kind: g, stored: gadget, patch: `[{"op":"replace","path":"/spec/list/3","value":1}]`, refused: namespace.ErrInvalid, message: "doc is missing key: /spec/list/3"},
		{name: "numbers that are copied and moved", kind: g, stored: gadget, patch: `[{"op":"copy","from":"/spec/big","path":"/copied"},{"op":"move","from":"/spec/big","path":"/moved"},{"op":"move","from":"/spec","path":"/s"},{"op":"copy","from":"/s/float","path":"/s/f"}]`, want: map[string]string{"copied": "9007199254740993", "moved": "9007199254740993", "s": `{"float":1.50,"f":1.50,"list":[1,2,3],"o":{"a":{"b":null}}}`}},
		{name: "what the library panics at", kind: g, stored: gadget, patch: `[{"op":"add","path":"/n","value":[null]},{"op":"test","path":"/n","value":[null]}]`, refused: namespace.ErrInvalid, message: "the patch cannot be applied to the object"},
		{name: "a field that is given twice", kind: g, stored: gadget, patch: `[{"op":"add","path":"/n","value":{"a":1,"a":2}},{"op":"remove","path":"/n/a"}]`, want: map[string]string{"n": "{}"}},
		{name: "a value of a wrong type", kind: cm, stored: configMap, patch: `[{"op":"replace","path":"/data","value":{"k":1}}]`, refused: namespace.ErrInvalid, message: `ConfigMap "a" is invalid: patch: Invalid value`},
	})
}

func TestMergePatch(t *testing.T) {
	cm, g := kinds.ConfigMaps(), gadgets()
	runPatches(t, mergePatch, []patchTest{
		{name: "set and remove", kind: cm, stored: configMap, patch: `{"data":{"k":null,"x":"y"},"metadata":{"labels":{"app":null}}}`, want: map[string]string{"data": `{"n":"1","x":"y"}`, "labels": "{}"}},
		{name: "lists are replaced", kind: g, stored: gadget, patch: `{"spec":{"list":[{"a":null,"b":18446744073709551617},null]}}`, want: map[string]string{"spec": `{"big":9007199254740993,"float":1.50,"list":[{"b":18446744073709551617},null],"o":{"a":{"b":null}}}`}},
		{name: "nulls of new objects", kind: g, stored: gadget, patch: `{"spec":{"o":null,"p":{"q":null,"r":1}},"top":{"a":{"b":null}}}`, want: map[string]string{"spec": `{"big":9007199254740993,"float":1.50,"list":[1,2,3],"p":{"r":1}}`, "top": `{"a":{}}`}},
		{name: "an object in the place of a value", kind: g, stored: gadget, patch: `{"spec":{"list":{"a":1}}}`, want: map[string]string{"spec": `{"big":9007199254740993,"float":1.50,"list":{"a":1},"o":{"a":{"b":null}}}`}},
		{name: "an object in the place of null", kind: g, stored: gadget, patch: `{"spec":{"o":{"a":{"b":{"c":null,"d":"<"}}}}}`, want: map[string]string{"spec": `{"big":9007199254740993,"float":1.50,"list":[1,2,3],"o":{"a":{"b":{"d":"<"}}}}`}},
		{name: "fields given twice", kind: g, stored: gadget, patch: `{"top":{"a":1,"b":2,"a":null}}`, want: map[string]string{"top": `{"b":2}`}},
		{name: "fields without a name", kind: g, stored: gadget, patch: `{"top":{"":{"":1,"b":null}}}`, want: map[string]string{"top": `{"":{"":1}}`}},
		{name: "wrong type", kind: cm, stored: configMap, patch: `{"data":"x"}`, refused: namespace.ErrInvalid, message: "patch: Invalid value"},
		{name: "no object", kind: cm, stored: configMap, patch: `["x"]`, refused: namespace.ErrBadRequest, message: "it is not a JSON object"},
	})
}

func TestStrategicMergePatch(t *testing.T) {
	const account = `{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"a","namespace":"x","uid":"u","finalizers":["a.b/c","a.b/d"],
		"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"1"}]},"secrets":[{"name":"one"},{"name":"two"}]}`
	sa := kinds.ServiceAccounts()
	runPatches(t, strategic, []patchTest{
		{name: "lists are merged by key", kind: sa, stored: account, patch: `{"secrets":[{"name":"three"},{"name":"two","kind":"Secret"}]}`, want: map[string]string{"secrets": `[{"name":"three"},{"name":"one"},{"name":"two","kind":"Secret"}]`}},
		{name: "an item is deleted", kind: sa, stored: account, patch: `{"secrets":[{"$patch":"delete","name":"one"}]}`, want: map[string]string{"secrets": `[{"name":"two"}]`}},
		{name: "the list is replaced", kind: sa, stored: account, patch: `{"secrets":[{"$patch":"replace"},{"name":"z"}]}`, want: map[string]string{"secrets": `[{"name":"z"}]`}},
		{name: "maps", kind: kinds.ConfigMaps(), stored: configMap, patch: `{"data":{"k":null,"x":"y"}}`, want: map[string]string{"data": `{"n":"1","x":"y"}`}},
		{name: "no key", kind: sa, stored: account, patch: `{"secrets":[{"kind":"Secret"}]}`, refused: namespace.ErrInvalid, message: "does not contain declared merge key: name"},
		{name: "unknown directive", kind: sa, stored: account, patch: `{"secrets":[{"$patch":"x","name":"one"}]}`, refused: namespace.ErrInvalid, message: "unknown patch type"},
		{name: "a custom kind", kind: widgets(), stored: widget, patch: `{}`, refused: codec.ErrMediaType, message: "accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"},
	})
	p := newPatcher(t)
	current := object(t, account)
	got, _, err := p.Apply(sa, "", &current, patch.Request{Type: strategic, Body: []byte(`{"metadata":{"$deleteFromPrimitiveList/finalizers":["a.b/c"],"finalizers":["e.f/g"]}}`)})
	require.NoError(t, err)
	require.Equal(t, "[e.f/g a.b/d]", fmt.Sprint(got.Finalizers.Names()))
}

// A patch cannot change the identity of an object.
func TestIdentity(t *testing.T) {
	p := newPatcher(t)
	current := object(t, configMap)
	for _, test := range []struct {
		patch   string
		refused error
		message string
	}{
		{`{"metadata":{"name":"b"}}`, namespace.ErrBadRequest, "the name of the object (b) does not match the name on the URL (a)"},
		{`{"metadata":{"name":null}}`, namespace.ErrBadRequest, "the name of the object () does not match the name on the URL (a)"},
		{`{"metadata":{"namespace":"y"}}`, namespace.ErrBadRequest, "the namespace of the object (y) does not match the namespace on the request (x)"},
		{`{"metadata":{"uid":"w"}}`, namespace.ErrConflict, `Operation cannot be fulfilled on configmaps "a": Precondition failed: UID in precondition: w, UID in object meta: u`},
		{`{"kind":"Secret"}`, namespace.ErrInvalid, "does not match the expected kind"},
		{`{"apiVersion":"v2"}`, namespace.ErrInvalid, "does not match the expected API version"},
	} {
		_, _, err := p.Apply(kinds.ConfigMaps(), "", &current, patch.Request{Type: mergePatch, Body: []byte(test.patch)})
		require.ErrorIs(t, err, test.refused, test.patch)
		require.ErrorContains(t, err, test.message)
	}
	got, _, err := p.Apply(kinds.ConfigMaps(), "", &current, patch.Request{Type: mergePatch,
		Body: []byte(`{"metadata":{"uid":null,"creationTimestamp":null,"generation":9,"resourceVersion":"6"}}`)})
	require.NoError(t, err)
	require.Equal(t, current.UID, got.UID)
	require.Equal(t, current.CreationTimestamp, got.CreationTimestamp)
	require.Equal(t, current.Generation, got.Generation)
	require.Equal(t, "6", got.ResourceVersion, "it is a precondition")
}

func TestFieldValidation(t *testing.T) {
	p := newPatcher(t)
	for _, test := range []struct {
		name, contentType, patch string
		kind                     kinds.Kind
		stored, warning          string
	}{
		{"an unknown field", mergePatch, `{"spec":{"sise":1}}`, widgets(), widget, `unknown field "spec.sise"`},
		{"an unknown field of a built-in kind", strategic, `{"dat":{}}`, kinds.ConfigMaps(), configMap, `unknown field "dat"`},
		{"a field given twice", mergePatch, `{"data":{"k":"1","k":"2"}}`, kinds.ConfigMaps(), configMap, `duplicate field "data.k"`},
		{"of a JSON patch", jsonPatch, `[{"op":"add","path":"/dat","value":{}}]`, kinds.ConfigMaps(), configMap, `unknown field "dat"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			current := object(t, test.stored)
			r := patch.Request{Type: types.PatchType(test.contentType), Body: []byte(test.patch)}
			_, warnings, err := p.Apply(test.kind, "", &current, r)
			require.NoError(t, err)
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], test.warning)
			r.FieldValidation = codec.Ignore
			_, warnings, err = p.Apply(test.kind, "", &current, r)
			require.NoError(t, err)
			require.Empty(t, warnings)
			r.FieldValidation = codec.Strict
			_, _, err = p.Apply(test.kind, "", &current, r)
			require.ErrorIs(t, err, namespace.ErrInvalid)
			require.ErrorContains(t, err, strings.ReplaceAll(test.warning, `\"`, `"`))
		})
	}
}

// A patch without effect keeps the bytes of an object, and so its version.
func TestAChangeOfNothingIsNone(t *testing.T) {
	p := newPatcher(t)
	stored := strings.ReplaceAll(gadget, `"list":[1,2,3]`, `"list":[1,2,3],"a":{"z":1,"b":"<"}`)
	for contentType, body := range map[string]string{
		mergePatch: `{"spec":{"float":1.50}}`,
		jsonPatch:  `[{"op":"test","path":"/spec/list/0","value":1},{"op":"replace","path":"/spec/list/0","value":1}]`,
	} {
		current := object(t, stored)
		got, _, err := p.Apply(gadgets(), "", &current, patch.Request{Type: types.PatchType(contentType), Body: []byte(body)})
		require.NoError(t, err)
		require.Equal(t, text(t, current), text(t, got))
	}
}

func TestBounds(t *testing.T) {
	p := newPatcher(t)
	operations := func(n int, op string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(op+",", n), ",") + "]"
	}
	long := `[` + strings.TrimSuffix(strings.Repeat("1,", 200_000), ",") + `]`
	var names strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&names, `{"name":"n%d"},`, i)
	}
	secrets := "[" + strings.TrimSuffix(names.String(), ",") + "]"
	for _, test := range []struct {
		name, contentType, stored, patch string
		kind                             kinds.Kind
		beneath                          error
		message                          string
	}{
		{"operations", jsonPatch, gadget, operations(10_001, `{"op":"test","path":"/spec/none"}`), gadgets(), store.ErrTooLarge, "The allowed maximum operations in a JSON patch is 10000, got 10001"},
		{"copies", jsonPatch, gadget, operations(40, `{"op":"copy","from":"/spec/list","path":"/spec/list/-"}`), gadgets(), store.ErrTooLarge, "the copy operations copy more than"},
		{"tests", jsonPatch, strings.ReplaceAll(gadget, "1.50", `"`+strings.Repeat("x", 1<<20)+`"`), operations(300, `{"op":"test","path":"/spec/none","value":null}`), gadgets(), store.ErrTooLarge, "too many steps"},
		{"a long path", jsonPatch, strings.ReplaceAll(gadget, "1.50", `"`+strings.Repeat("x", 1<<20)+`"`), `[{"op":"add","path":"` + strings.Repeat("/a", 300) + `","value":1}]`, gadgets(), store.ErrTooLarge, "too many steps"},
		{"depth of a path", jsonPatch, gadget, `[{"op":"remove","path":"` + strings.Repeat("/a", 600) + `"}]`, gadgets(), namespace.ErrInvalid, "nested more than 500 deep"},
		{"a long path that is missing", jsonPatch, gadget, `[{"op":"remove","path":"/` + strings.Repeat("x", 1<<20) + `"}]`, gadgets(), namespace.ErrInvalid, "error in remove for path: '/xxx"},
		{"shifts", jsonPatch, strings.ReplaceAll(gadget, "[1,2,3]", long), operations(1000, `{"op":"add","path":"/spec/list/0","value":1}`), gadgets(), store.ErrTooLarge, "too many steps"},
		{"depth of a patch", mergePatch, gadget, strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 600), gadgets(), namespace.ErrInvalid, "nested more than 500 deep"},
		{"depth by moves", jsonPatch, gadget, `[{"op":"add","path":"/n","value":` + strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300) + `},{"op":"copy","from":"/n","path":"/n` + strings.Repeat("/a", 299) + `"}]`, gadgets(), namespace.ErrInvalid, "nested more than 500 deep"},
		{"size", jsonPatch, gadget, `[{"op":"add","path":"/x","value":"` + strings.Repeat("x", 2<<20) + `"},{"op":"copy","from":"/x","path":"/y"}]`, gadgets(), store.ErrTooLarge, "at most"},
		{"lists by key", strategic, `{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"a"},"secrets":` + secrets + `}`, `{"secrets":` + secrets + `}`, kinds.ServiceAccounts(), store.ErrTooLarge, "too long to be merged by key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			current := object(t, test.stored)
			_, _, err := p.Apply(test.kind, "", &current, patch.Request{Type: types.PatchType(test.contentType), Body: []byte(test.patch)})
			require.ErrorIs(t, err, test.beneath)
			require.ErrorContains(t, err, test.message)
			var refusal *namespace.Error
			require.ErrorAs(t, err, &refusal)
			require.Less(t, len(refusal.Message), 1000)
		})
	}
}

// A merge patch may be as large as an object. Its cost grows with both, and is no greater
// where a character has an escape in JSON for HTML.
func TestLargeMergePatches(t *testing.T) {
	p := newPatcher(t)
	allocated := func(stored, body string) uint64 {
		current := object(t, stored)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := p.Apply(gadgets(), "", &current, patch.Request{Type: mergePatch, Body: []byte(body)})
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		return after.TotalAlloc - before.TotalAlloc
	}
	for name, test := range map[string]struct{ stored, patch string }{
		"fields":           {gadget, `{"x":{` + fields(20_000, "null") + `}}`},
		"fields of fields": {strings.ReplaceAll(gadget, "1.50", `{`+fields(10_000, "1")+`}`), `{"spec":{"float":{` + fields(10_000, "2") + `}}}`},
		"depth times size": {gadget, strings.Repeat(`{"a":`, 300) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("}", 300)},
		"escapes":          {strings.ReplaceAll(gadget, "1.50", `"`+strings.Repeat("<", 1<<20)+`"`), `{"spec":{"x":1}}`},
	} {
		size := len(test.stored) + len(test.patch)
		require.Less(t, allocated(test.stored, test.patch), uint64(100*size), name)
	}
}

// One patch can have the maximum number of operations.
func TestManyOperations(t *testing.T) {
	current := object(t, gadget)
	body := "[" + strings.Repeat(`{"op":"add","path":"/spec/list/0","value":1},`, 9_999) + `{"op":"test","path":"/spec/list/10001","value":3}]`
	got, _, err := newPatcher(t).Apply(gadgets(), "", &current, patch.Request{Type: jsonPatch, Body: []byte(body)})
	require.NoError(t, err)
	require.Equal(t, 9_999+1, strings.Count(string(got.Fields["spec"]), "1,"))
}

// fields returns n fields of an object.
func fields(n int, value string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"n%d":%s,`, i, value)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// A rejected patch has causes, since kubectl shows nothing else.
func TestCauses(t *testing.T) {
	current := object(t, configMap)
	_, _, err := newPatcher(t).Apply(kinds.ConfigMaps(), "", &current, patch.Request{
		Type: jsonPatch, Body: []byte(`[{"op":"test","path":"/data/k","value":"w"}]`),
	})
	var refusal *namespace.Error
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, []namespace.Violation{{Type: namespace.FieldInvalid, Field: "patch", Message: "testing value /data/k failed: test failed"}}, refusal.Causes)
}

func TestBadInput(t *testing.T) {
	p := newPatcher(t)
	current := object(t, configMap)
	cm := kinds.ConfigMaps()
	for _, test := range []struct {
		name    string
		kind    kinds.Kind
		sub     string
		current *registry.Object
		request patch.Request
		refused error
		message string
	}{
		{"no media type", cm, "", &current, patch.Request{}, codec.ErrMediaType, ""},
		{"another media type", cm, "", &current, patch.Request{Type: "application/json"}, codec.ErrMediaType, "accepted media types include"},
		{"an unknown sub-resource", cm, "status", &current, patch.Request{Type: mergePatch}, namespace.ErrNotFound, ""},
		{"an unknown kind", kinds.Leases(), "", &current, patch.Request{Type: mergePatch}, namespace.ErrNotFound, ""},
		{"nothing to patch", cm, "", nil, patch.Request{Type: mergePatch, Body: []byte("{}")}, namespace.ErrNotFound, ""},
		{"force", cm, "", &current, patch.Request{Type: mergePatch, Body: []byte("{}"), Force: true}, namespace.ErrInvalid, "force: Forbidden: may not be specified for non-apply patch"},
		{"no body", cm, "", &current, patch.Request{Type: mergePatch}, namespace.ErrBadRequest, "malformed"},
		{"no operations", cm, "", &current, patch.Request{Type: jsonPatch, Body: []byte("null")}, namespace.ErrBadRequest, "malformed"},
		{"no body of a strategic patch", cm, "", &current, patch.Request{Type: strategic}, namespace.ErrBadRequest, "malformed"},
		{"half a document", cm, "", &current, patch.Request{Type: mergePatch, Body: []byte(`{"a":`)}, namespace.ErrBadRequest, ""},
		{"two documents", cm, "", &current, patch.Request{Type: mergePatch, Body: []byte(`{}{}`)}, namespace.ErrBadRequest, "more than one"},
		{"no UTF-8", cm, "", &current, patch.Request{Type: mergePatch, Body: []byte("{\"a\":\"\xff\"}")}, namespace.ErrBadRequest, "UTF-8"},
		{"no operation", cm, "", &current, patch.Request{Type: jsonPatch, Body: []byte(`[{"path":"/a"}]`)}, namespace.ErrBadRequest, `there is no operation ""`},
		{"no path", cm, "", &current, patch.Request{Type: jsonPatch, Body: []byte(`[{"op":"add","value":1}]`)}, namespace.ErrBadRequest, "the path is missing"},
		{"no slash", cm, "", &current, patch.Request{Type: jsonPatch, Body: []byte(`[{"op":"add","path":"a"}]`)}, namespace.ErrBadRequest, "does not begin with a slash"},
		{"no value", cm, "", &current, patch.Request{Type: jsonPatch, Body: []byte(`[{"op":"replace","path":""}]`)}, namespace.ErrBadRequest, "replace without value"},
		{"no object", cm, "", &current, patch.Request{Type: jsonPatch, Body: []byte(`[null]`)}, namespace.ErrBadRequest, "operation 0: it is not an object"},
		{"a list that is none", cm, "", &current, patch.Request{Type: jsonPatch, Body: []byte(`{}`)}, namespace.ErrBadRequest, "it is not a list of operations"},
		{"no from", cm, "", &current, patch.Request{Type: jsonPatch, Body: []byte(`[{"op":"move","path":"/a"}]`)}, namespace.ErrBadRequest, "move without from"},
		{"no manager", cm, "", &current, patch.Request{Type: applyPatch, Body: []byte(configMap)}, namespace.ErrInvalid, "fieldManager: Required value: is required for apply patch"},
		{"a long manager", cm, "", &current, patch.Request{Type: applyPatch, FieldManager: strings.Repeat("m", 129)}, namespace.ErrInvalid, "fieldManager: Too long"},
		{"a manager with a line break", cm, "", &current, patch.Request{Type: applyPatch, FieldManager: "a\nb"}, namespace.ErrInvalid, "invalid character"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := p.Apply(test.kind, test.sub, test.current, test.request)
			require.ErrorIs(t, err, test.refused)
			require.ErrorContains(t, err, test.message)
		})
	}
}

// A change of a number beyond the precision of float64 is a change.
func TestPatchesSeeAllDigits(t *testing.T) {
	for _, r := range []patch.Request{
		{Type: mergePatch, Body: []byte(`{"spec":{"n":12345678901234567891}}`)},
		{Type: jsonPatch, Body: []byte(`[{"op":"replace","path":"/spec/n","value":12345678901234567891}]`)},
	} {
		current := object(t, `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a","uid":"u"},"spec":{"n":12345678901234567890}}`)
		got, _, err := newPatcher(t).Apply(gadgets(), "", &current, r)
		require.NoError(t, err)
		require.Equal(t, `{"n":12345678901234567891}`, string(got.Fields["spec"]))
	}
}
