package codec_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

func TestDecodeFillsKind(t *testing.T) {
	custom := widgets("")
	c := newCodec(t, custom)
	for _, k := range []kinds.Kind{kinds.ConfigMaps(), kinds.Leases(), custom} {
		for _, head := range []string{``, `"kind":"` + k.Kind + `",`, `"apiVersion":"` + k.APIVersion() + `",`} {
			o, warnings, err := c.Decode(k, "", []byte(`{`+head+`"metadata":{"name":"x"}}`), codec.Strict)
			require.NoError(t, err)
			require.Empty(t, warnings)
			require.Equal(t, namespace.TypeMeta{Kind: k.Kind, APIVersion: k.APIVersion()}, o.TypeMeta)
			require.Equal(t, "x", o.Name)
		}
	}
}

// Fields of no kind, and fields given twice, with upstream's texts.
func TestFieldValidation(t *testing.T) {
	const closed = `{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}`
	open, strict := widgets(""), widgets(closed)
	tests := []struct {
		name, body string
		kind       kinds.Kind
		faults     []string
		fields     string // what is kept
	}{
		{"known fields", `{"metadata":{"name":"x"},"data":{"a":"b"}}`, kinds.ConfigMaps(), nil, `{"data":{"a":"b"}}`},
		{"unknown", `{"metadata":{"name":"x"},"foo":1,"data":{"a":"b"}}`, kinds.ConfigMaps(), []string{`unknown field "foo"`}, `{"data":{"a":"b"}}`},
		{"unknown below", `{"metadata":{"name":"x"},"spec":{"foo":1}}`, kinds.Namespaces(), []string{`unknown field "spec.foo"`}, `{"spec":{},"status":{}}`},
		{"unknown metadata", `{"metadata":{"name":"x","foo":1}}`, kinds.ConfigMaps(), []string{`unknown field "metadata.foo"`}, `null`},
		{"wrong case", `{"metadata":{"name":"x"},"Data":{"a":"b"}}`, kinds.ConfigMaps(), []string{`unknown field "Data"`}, `null`},
		{"wrong case of metadata", `{"metadata":{"name":"x","Labels":{"a":"b"}}}`, kinds.ConfigMaps(), []string{`unknown field "metadata.Labels"`}, `null`},
		{"twice", `{"metadata":{"name":"x"},"immutable":true,"immutable":false}`, kinds.ConfigMaps(), []string{`duplicate field "immutable"`}, `{"immutable":false}`},
		{"several", `{"metadata":{"name":"y","name":"x"},"a":1,"b":2}`, kinds.ConfigMaps(), []string{`duplicate field "metadata.name"`, `unknown field "a"`, `unknown field "b"`}, `null`},
		{"custom", `{"metadata":{"name":"x"},"spec":{"any":1.0}}`, open, nil, `{"spec":{"any":1.0}}`},
		{"custom, twice", `{"metadata":{"name":"x"},"spec":{"a":1,"a":2.0}}`, open, []string{`duplicate field "spec.a"`}, `{"spec":{"a":2.0}}`},
		{"custom, twice at the top", `{"metadata":{"name":"x"},"a":1,"a":12345678901234567890123}`, open, []string{`duplicate field "a"`}, `{"a":12345678901234567890123}`},
		{"custom, unknown metadata", `{"metadata":{"name":"x","foo":1}}`, open, []string{`unknown field "metadata.foo"`}, `null`},
		{"custom, wrong case of metadata", `{"metadata":{"name":"x","NAME":"y"}}`, open, []string{`unknown field "metadata.NAME"`}, `null`},
		{"custom, schema", `{"metadata":{"name":"x"},"spec":{"size":1}}`, strict, nil, `{"spec":{"size":1}}`},
		{"custom, unknown", `{"metadata":{"name":"x"},"spec":{"size":1,"foo":{}},"status":1}`, strict, []string{`unknown field "spec.foo"`, `unknown field "status"`}, `{"spec":{"size":1}}`},
	}
	c := newCodec(t, open)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := c
			if test.kind.Schema != nil {
				c = newCodec(t, test.kind)
			}
			for _, contentType := range []string{"", jsonType, "application/json; charset=utf-8"} {
				_, _, err := c.Decode(test.kind, contentType, []byte(test.body), codec.Strict)
				if test.faults == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, namespace.ErrBadRequest)
					require.True(t, strings.HasSuffix(err.Error(), "strict decoding error: "+strings.Join(test.faults, ", ")), err.Error())
				}
				for _, v := range []codec.FieldValidation{"", codec.Warn, codec.Ignore} {
					o, warnings, err := c.Decode(test.kind, contentType, []byte(test.body), v)
					require.NoError(t, err)
					want := test.faults
					if v == codec.Ignore {
						want = nil
					}
					require.Empty(t, cmp.Diff(want, warnings))
					require.Equal(t, "x", o.Name)
					require.Empty(t, o.Labels)
					fields, err := json.Marshal(o.Fields)
					require.NoError(t, err)
					require.Equal(t, test.fields, string(fields))
				}
			}
		})
	}
}

// Values that a schema has no room for are invalid, each with its path.
func TestSchemaTypes(t *testing.T) {
	k := widgets(`{"type":"object","required":["spec"],"properties":{
		"spec":{"type":"object","required":["size"],"properties":{
			"size":{"type":"integer"},"ratio":{"type":"number"},"name":{"type":"string","nullable":true},"on":{"type":"boolean"},
			"list":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}},
			"map":{"type":"object","additionalProperties":{"type":"string"}},
			"none":{"type":"object","additionalProperties":false},
			"any":{"x-kubernetes-preserve-unknown-fields":true},
			"anything":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"n":{"type":"integer"}}},
			"free":{"type":"object","additionalProperties":true},"open":{"type":"object"},
			"port":{"x-kubernetes-int-or-string":true}}},
		"status":{"type":"object"}}}`)
	c := newCodec(t, k)
	const typed = "FieldValueInvalid"
	tests := []struct {
		name, spec string
		want       []namespace.Violation
		kept       string // empty: spec as it is
	}{
		{"all of them", `{"size":1,"ratio":1.5,"name":null,"on":true,"list":[{"a":"x"}],"map":{"k":"v"},"any":{"x":[1]},"anything":{"n":1,"m":2},"free":{"a":{"b":1}},"open":{"x":1},"port":"http"}`, nil, ""},
		{"whole numbers", `{"size":1.0,"ratio":1,"port":80}`, nil, ""},
		{"empty list", `{"size":1,"list":[],"map":{}}`, nil, ""},
		{"no properties allowed", `{"size":1,"none":{"a":1}}`, nil, `{"none":{},"size":1}`},
		{"unknown in lists", `{"size":1,"list":[{"a":"x"},{"b":1}]}`, nil, `{"list":[{"a":"x"},{}],"size":1}`},
		{"required", `{}`, []namespace.Violation{{Type: "FieldValueRequired", Field: "spec.size", Message: "Required value"}}, ""},
		{"number for integer", `{"size":1.5}`, []namespace.Violation{{Type: typed, Field: "spec.size", Message: `Invalid value: "number": spec.size in body must be of type integer: "number"`}}, ""},
		{"string for integer", `{"size":"1"}`, []namespace.Violation{{Type: typed, Field: "spec.size", Message: `Invalid value: "string": spec.size in body must be of type integer: "string"`}}, ""},
		{"null", `{"size":null}`, []namespace.Violation{{Type: typed, Field: "spec.size", Message: `Invalid value: "null": spec.size in body must be of type integer: "null"`}}, ""},
		{"in a list", `{"size":1,"list":[{"a":"x"},{"a":5},7]}`, []namespace.Violation{
			{Type: typed, Field: "spec.list[1].a", Message: `Invalid value: "integer": spec.list[1].a in body must be of type string: "integer"`},
			{Type: typed, Field: "spec.list[2]", Message: `Invalid value: "integer": spec.list[2] in body must be of type object: "integer"`},
		}, ""},
		{"in a map", `{"size":1,"map":{"k":true}}`, []namespace.Violation{{Type: typed, Field: "spec.map.k", Message: `Invalid value: "boolean": spec.map.k in body must be of type string: "boolean"`}}, ""},
		{"known among preserved", `{"size":1,"anything":{"n":"x"}}`, []namespace.Violation{{Type: typed, Field: "spec.anything.n", Message: `Invalid value: "string": spec.anything.n in body must be of type integer: "string"`}}, ""},
		{"port", `{"size":1,"port":[]}`, []namespace.Violation{{Type: typed, Field: "spec.port", Message: `Invalid value: "array": spec.port in body must be of type integer or string: "array"`}}, ""},
		{"not an object", `[]`, []namespace.Violation{{Type: typed, Field: "spec", Message: `Invalid value: "array": spec in body must be of type object: "array"`}}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o, _, err := c.Decode(k, jsonType, []byte(`{"metadata":{"name":"x"},"spec":`+test.spec+`}`), codec.Ignore)
			if test.want == nil {
				require.NoError(t, err)
				want := test.kept
				if want == "" {
					want = test.spec
				}
				require.Equal(t, want, string(o.Fields["spec"]))
				return
			}
			require.ErrorIs(t, err, namespace.ErrInvalid)
			var refusal *namespace.Error
			require.True(t, errors.As(err, &refusal))
			require.Empty(t, cmp.Diff(test.want, refusal.Causes))
			require.Contains(t, err.Error(), `Widget.example.com "x" is invalid: `)
		})
	}
	_, _, err := c.Decode(k, jsonType, []byte(`{"metadata":{"name":"x"}}`), codec.Ignore)
	require.ErrorContains(t, err, `Widget.example.com "x" is invalid: spec: Required value`)
}

// The bounds of values, with the texts of Kubernetes.
func TestSchemaBounds(t *testing.T) {
	k := widgets(`{"type":"object","properties":{"spec":{"type":"object","minProperties":1,"maxProperties":2,"properties":{
		"color":{"type":"string","enum":["red","blue"]},"level":{"type":"integer","enum":[1,2]},
		"size":{"type":"integer","minimum":1,"maximum":3},
		"ratio":{"type":"number","minimum":0,"exclusiveMinimum":true,"maximum":1,"exclusiveMaximum":true},
		"name":{"type":"string","minLength":2,"maxLength":3,"pattern":"^[a-zé]+$"},
		"list":{"type":"array","minItems":1,"maxItems":2}}}}}`)
	c := newCodec(t, k)
	const invalid = "FieldValueInvalid"
	for _, good := range []string{`{"color":"red"}`, `{"level":2.0}`, `{"size":1}`, `{"size":3}`, `{"ratio":0.5}`, `{"name":"éé"}`, `{"name":"ééé"}`, `{"list":[1,2]}`, `{"size":1,"level":1}`} {
		_, _, err := c.Decode(k, jsonType, []byte(`{"metadata":{"name":"x"},"spec":`+good+`}`), codec.Strict)
		require.NoError(t, err, good)
	}
	for _, test := range []struct{ spec, kind, field, message string }{
		{`{"color":"green"}`, "FieldValueNotSupported", "spec.color", `Unsupported value: "green": supported values: "blue", "red"`},
		{`{"color":"` + strings.Repeat("g", 1000) + `"}`, "FieldValueNotSupported", "spec.color", `Unsupported value: "` + strings.Repeat("g", 99) + `...: supported values: "blue", "red"`},
		{`{"level":3}`, "FieldValueNotSupported", "spec.level", `Unsupported value: 3: supported values: 1, 2`},
		{`{"size":0}`, invalid, "spec.size", `Invalid value: 0: spec.size in body should be greater than or equal to 1`},
		{`{"size":4}`, invalid, "spec.size", `Invalid value: 4: spec.size in body should be less than or equal to 3`},
		{`{"ratio":0}`, invalid, "spec.ratio", `Invalid value: 0: spec.ratio in body should be greater than 0`},
		{`{"ratio":1.0}`, invalid, "spec.ratio", `Invalid value: 1: spec.ratio in body should be less than 1`},
		{`{"name":"a"}`, invalid, "spec.name", `Invalid value: "a": spec.name in body should be at least 2 chars long`},
		{`{"name":"aaaa"}`, "FieldValueTooLong", "spec.name", `Too long: may not be more than 3 bytes`},
		{`{"name":"A<"}`, invalid, "spec.name", `Invalid value: "A<": spec.name in body should match '^[a-zé]+$'`},
		{`{"list":[]}`, invalid, "spec.list", `Invalid value: 0: spec.list in body should have at least 1 items`},
		{`{"list":[1,2,3]}`, "FieldValueTooMany", "spec.list", `Too many: 3: must have at most 2 items`},
		{`{}`, invalid, "spec", `Invalid value: 0: spec in body should have at least 1 properties`},
		{`{"size":1,"level":1,"color":"red"}`, "FieldValueTooMany", "spec", `Too many: 3: must have at most 2 items`},
	} {
		_, _, err := c.Decode(k, jsonType, []byte(`{"metadata":{"name":"x"},"spec":`+test.spec+`}`), codec.Strict)
		require.ErrorIs(t, err, namespace.ErrInvalid, test.spec)
		var refusal *namespace.Error
		require.True(t, errors.As(err, &refusal))
		require.Empty(t, cmp.Diff([]namespace.Violation{{Type: test.kind, Field: test.field, Message: test.message}}, refusal.Causes))
	}
	_, err := codec.New([]kinds.Kind{widgets(`{"properties":{"a":{"pattern":"("}}}`)})
	require.ErrorIs(t, err, namespace.ErrInvalid)
	require.ErrorContains(t, err, "missing closing )")
}

// One body may have many faults; not all of them are told.
func TestFaultsAreBounded(t *testing.T) {
	k := widgets(`{"type":"object","properties":{"list":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}}}}`)
	c := newCodec(t, k)
	body := `{"metadata":{"name":"x"},"list":[` + strings.Repeat(`{"b":1},`, 5_000) + `{}]}`
	o, warnings, err := c.Decode(k, jsonType, []byte(body), codec.Warn)
	require.NoError(t, err)
	require.Len(t, warnings, 100)
	require.NotContains(t, string(o.Fields["list"]), "b", "all are dropped")
	_, _, err = c.Decode(k, jsonType, []byte(strings.ReplaceAll(body, `"b"`, `"a"`)), codec.Warn)
	var refusal *namespace.Error
	require.True(t, errors.As(err, &refusal))
	require.Len(t, refusal.Causes, 100)
}

// The refusals of bodies, word by word.
func TestBadInput(t *testing.T) {
	deep := strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)
	at := func(field, value string) string { return `{"metadata":{"name":"x"},"` + field + `":` + value + `}` }
	envelope := func(kind, apiVersion, raw string) string {
		u := runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: kind, APIVersion: apiVersion}, Raw: []byte(raw)}
		data, err := u.Marshal()
		require.NoError(t, err)
		return "k8s\x00" + string(data)
	}
	badText := (&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string]string{"a": "\xff"}})
	badName := (&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x\xff"}})
	raw := func(o *corev1.ConfigMap) string {
		data, err := o.Marshal()
		require.NoError(t, err)
		return string(data)
	}
	const unrecognized = "the object provided is unrecognized (must be of type ConfigMap): "
	const unfit = `ConfigMap in version "v1" cannot be handled as a ConfigMap: `
	tests := []struct{ name, contentType, body, want string }{
		{"empty", jsonType, "", unrecognized + "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"},
		{"white space", jsonType, " \n", unrecognized + "couldn't get version/kind; json parse error: unexpected end of JSON input (200a)"},
		{"half", jsonType, `{"metadata":`, unrecognized + `couldn't get version/kind; json parse error: unexpected end of JSON input ({"metadata":)`},
		{"trailing", jsonType, `{"metadata":{"name":"x"}}{}`, unrecognized + `couldn't get version/kind; json parse error: invalid character '{' after top-level value ({"metadata":{"name":"x"}}{})`},
		{"trailing long", jsonType, `{"metadata":{"name":"xxxxxxxxxxxxxxxxxxx"}}{}`, `({"metadata":{"name":"xxxxxxxxx ...)`},
		{"null", jsonType, `null`, unrecognized + "couldn't get version/kind; json parse error: the document is not a JSON object (6e756c6c)"},
		{"list", jsonType, `[{"metadata":{"name":"x"}}]`, unrecognized + "couldn't get version/kind; json parse error: the document is not a JSON object"},
		{"number", jsonType, `5`, "the document is not a JSON object (35)"},
		{"invalid UTF-8", jsonType, at("data", "{\"a\":\"\xff\"}"), unrecognized + "the document is not valid UTF-8"},
		{"byte order mark", jsonType, "\uFEFF" + at("data", `{}`), "the document is not a JSON object"},
		{"no metadata", jsonType, `{"data":{}}`, unfit + "metadata is required"},
		{"null metadata", jsonType, `{"metadata":null}`, unfit + "metadata is required"},
		{"wrong metadata", jsonType, `{"metadata":"x"}`, unfit + "json: cannot unmarshal string into Go struct field ConfigMap.metadata of type v1.ObjectMeta"},
		{"metadata with a wrong name", jsonType, `{"Metadata":{"name":"x"}}`, unfit + "metadata is required"},
		{"other kind", jsonType, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}`, `Pod in version "v1" cannot be handled as a ConfigMap: the kind in the data (Pod) does not match the expected kind (ConfigMap)`},
		{"other kind of other form", jsonType, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"},"data":5}`, `Pod in version "v1" cannot be handled as a ConfigMap: the kind in the data (Pod) does not match the expected kind (ConfigMap)`},
		{"other version", jsonType, `{"kind":"ConfigMap","apiVersion":"v2","metadata":{"name":"x"}}`, `the API version in the data (v2) does not match the expected API version (v1)`},
		{"long version", jsonType, `{"apiVersion":"` + strings.Repeat("v", 5000) + `","metadata":{"name":"x"}}`, `the API version in the data (` + strings.Repeat("v", 100) + `) does not`},
		{"wrong type", jsonType, at("data", "5"), unfit + "json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string"},
		{"wrong kind's type", jsonType, `{"kind":5,"metadata":{"name":"x"}}`, unfit + "json: cannot unmarshal number into Go struct field ConfigMap."},
		{"bad base64", jsonType, at("binaryData", `{"a":"?"}`), unfit + "illegal base64 data at input byte 0"},
		{"bad time", jsonType, `{"metadata":{"name":"x","creationTimestamp":"yesterday"}}`, unfit + `parsing time "yesterday" as`},
		{"too deep", jsonType, at("data", deep), "exceeded max depth"},
		{"validation", jsonType, at("data", `{}`), `fieldValidation: Unsupported value: "Sometimes"`},

		{"YAML: empty", yamlType, "", unrecognized + "couldn't get version/kind; the document is not a YAML mapping (<empty>)"},
		{"YAML: text", yamlType, "hello", "the document is not a YAML mapping"},
		{"YAML: list", yamlType, "- a", "the document is not a YAML mapping"},
		{"YAML: syntax", yamlType, "a: [", unrecognized + "error converting YAML to JSON: yaml: line 1: did not find expected node content (613a205b)"},
		{"YAML: two documents", yamlType, "metadata: {name: x}\n---\nmetadata: {name: y}\n", "there is more than one document"},
		{"YAML: two documents by an end", yamlType, "metadata: {name: x}\n...\nb: c\n", "error converting YAML to JSON"},
		{"YAML: broken second", yamlType, "metadata: {name: x}\n---\n[", "error converting YAML to JSON: yaml: "},
		{"YAML: key twice", yamlType, "metadata: {name: x}\ndata: {a: b, a: c}\n", `key "a" already set in map`},
		{"YAML: key twice in two forms", yamlType, "metadata: {name: x}\ndata: {1: b, \"1\": c}\n", `key "1" is already set in map`},
		{"YAML: binary", yamlType, "metadata: {name: x}\ndata: {a: !!binary /w==}\n", "a binary value has no JSON form"},
		{"YAML: infinity", yamlType, "metadata: {name: x}\ndata: {a: .inf}\n", "+Inf has no JSON form"},
		{"YAML: odd key", yamlType, "metadata: {name: x}\ndata: {.nan: a}\n", "NaN cannot be the name of a field"},
		{"YAML: no alias", yamlType, "metadata: *a\n", "unknown anchor 'a' referenced"},
		{"YAML: too deep", yamlType, "metadata: " + deep, "exceeded max depth"},
		{"YAML: null", yamlType, "null", "the document is not a YAML mapping"},
		{"YAML: no metadata", yamlType, "data: {}", unfit + "metadata is required"},

		{"protobuf: empty", protobufType, "", unrecognized + "empty data (<empty>)"},
		{"protobuf: JSON", protobufType, `{"metadata":{"name":"x"}}`, unrecognized + "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"},
		{"protobuf: magic alone", protobufType, "k8s\x00", unrecognized + "empty body"},
		{"protobuf: cut", protobufType, envelope("ConfigMap", "v1", raw(badName))[:12], unrecognized + "unexpected EOF"},
		{"protobuf: rubbish", protobufType, envelope("ConfigMap", "v1", "\xff\xff\xff"), unfit + "unexpected EOF"},
		{"protobuf: other kind", protobufType, envelope("Pod", "v1", ""), `Pod in version "v1" cannot be handled as a ConfigMap: the kind in the data (Pod)`},
		{"protobuf: other version", protobufType, envelope("ConfigMap", "v3", ""), `the API version in the data (v3) does not match`},
		{"protobuf: invalid UTF-8", protobufType, envelope("ConfigMap", "v1", raw(badText)), unfit + "the document is not valid UTF-8"},
		{"protobuf: invalid UTF-8 in metadata", protobufType, envelope("ConfigMap", "v1", raw(badName)), unfit + "the document is not valid UTF-8"},
	}
	c, k := newCodec(t), kinds.ConfigMaps()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := codec.Warn
			if test.name == "validation" {
				v = "Sometimes"
			}
			o, warnings, err := c.Decode(k, test.contentType, []byte(test.body), v)
			require.ErrorIs(t, err, namespace.ErrBadRequest)
			var refusal *namespace.Error
			require.True(t, errors.As(err, &refusal))
			require.Equal(t, "configmaps", refusal.Resource)
			require.Contains(t, err.Error(), test.want)
			require.Less(t, len(err.Error()), 1000, "a message, not an echo")
			require.Empty(t, cmp.Diff(registry.Object{}, o))
			require.Empty(t, warnings)
		})
	}
	_, err := codec.New([]kinds.Kind{widgets(`[]`)})
	require.ErrorIs(t, err, namespace.ErrInvalid)
	_, err = codec.New([]kinds.Kind{widgets(`{"properties":5}`)})
	require.ErrorIs(t, err, namespace.ErrInvalid)
}

// The same bodies for a custom kind.
func TestBadInputOfCustomKinds(t *testing.T) {
	const unrecognized = "the object provided is unrecognized (must be of type Widget): "
	const unfit = `Widget in version "v1" cannot be handled as a Widget: `
	deep := strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)
	k := widgets(`{"type":"object","x-kubernetes-preserve-unknown-fields":true}`)
	c := newCodec(t, k)
	for _, test := range []struct{ body, want string }{
		{"", unrecognized + "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"},
		{`{"spec":`, unrecognized + "couldn't get version/kind; json parse error: unexpected end of JSON input"},
		{`{}x`, unrecognized + "couldn't get version/kind; json parse error: invalid character 'x' after top-level value"},
		{`[]`, "the document is not a JSON object"},
		{`{"spec":{}}`, unfit + "metadata is required"},
		{`{"metadata":null}`, unfit + "metadata is required"},
		{`{"metadata":[]}`, unfit + "metadata: json: cannot unmarshal array"},
		{`{"metadata":{"labels":{"a":1}}}`, unfit + "metadata: json: cannot unmarshal number"},
		{`{"kind":"Gadget","metadata":{"name":"x"}}`, `Gadget in version "v1" cannot be handled as a Widget`},
		{`{"apiVersion":"example.com/v2","metadata":{"name":"x"}}`, `the API version in the data (example.com/v2) does not match the expected API version (example.com/v1)`},
		{`{"metadata":{"name":"x"},"spec":` + deep + `}`, "exceeded max depth"},
		{"{\"metadata\":{\"name\":\"\xff\"}}", unrecognized + "the document is not valid UTF-8"},
	} {
		o, _, err := c.Decode(k, jsonType, []byte(test.body), codec.Warn)
		require.ErrorIs(t, err, namespace.ErrBadRequest, test.body)
		require.ErrorContains(t, err, test.want)
		require.Empty(t, cmp.Diff(registry.Object{}, o))
	}
}

func TestMediaTypes(t *testing.T) {
	c, custom := newCodec(t, widgets("")), widgets("")
	for _, contentType := range []string{"text/plain", "application/cbor", "application/json-patch+json", "json", "/", "application/x-www-form-urlencoded", ";"} {
		_, _, err := c.Decode(kinds.ConfigMaps(), contentType, []byte(`{}`), codec.Warn)
		require.ErrorIs(t, err, codec.ErrMediaType)
		require.EqualError(t, err, "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf")
		_, err = c.DecodeDeleteOptions(contentType, []byte(`{}`))
		require.ErrorIs(t, err, codec.ErrMediaType)
	}
	_, _, err := c.Decode(custom, protobufType, nil, codec.Warn)
	require.ErrorIs(t, err, codec.ErrMediaType)
	require.EqualError(t, err, "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml")
	for _, contentType := range []string{"", jsonType, "Application/JSON;charset=UTF-8", "application/json;"} {
		_, _, err := c.Decode(custom, contentType, []byte(`{"metadata":{"name":"x"}}`), codec.Warn)
		require.NoError(t, err, contentType)
	}
}

func TestDecodeDeleteOptions(t *testing.T) {
	c := newCodec(t)
	policy, uid, grace := metav1.DeletePropagationForeground, types.UID("u"), int64(5)
	want := metav1.DeleteOptions{
		TypeMeta:           metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "coordination.k8s.io/v1"},
		GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &policy, DryRun: []string{"All"},
	}
	document, err := json.Marshal(want)
	require.NoError(t, err)
	yaml, err := yamlOf(document)
	require.NoError(t, err)
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "DeleteOptions", APIVersion: "coordination.k8s.io/v1"}}
	unknown.Raw, err = want.Marshal()
	require.NoError(t, err)
	envelope, err := unknown.Marshal()
	require.NoError(t, err)
	for contentType, body := range map[string]string{"": string(document), jsonType: string(document), yamlType: string(yaml), protobufType: "k8s\x00" + string(envelope)} {
		got, err := c.DecodeDeleteOptions(contentType, []byte(body))
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(want, got), contentType)
		got, err = c.DecodeDeleteOptions(contentType, nil)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(metav1.DeleteOptions{}, got))
	}
	got, err := c.DecodeDeleteOptions(jsonType, []byte(`{"unknown":1}`))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(metav1.DeleteOptions{}, got))

	for _, bad := range []struct{ contentType, body, want string }{
		{jsonType, `{`, "the object provided is unrecognized (must be of type DeleteOptions): unexpected end of JSON input ({)"},
		{jsonType, `[]`, "not a JSON object"},
		{jsonType, `null`, "not a JSON object"},
		{jsonType, `{"gracePeriodSeconds":"x"}`, "cannot unmarshal string"},
		{jsonType, `{"kind":"Pod"}`, "the kind in the data (Pod) does not match the expected kind (DeleteOptions)"},
		{jsonType, "{\"kind\":\"\xff\"}", "not valid UTF-8"},
		{yamlType, "a: b\n---\nc: d", "more than one document"},
		{protobufType, "k8s", "does not appear to be a protobuf message"},
		{protobufType, "k8s\x00\x12\x01\xff", "the object provided is unrecognized (must be of type DeleteOptions): "},
	} {
		got, err := c.DecodeDeleteOptions(bad.contentType, []byte(bad.body))
		require.ErrorIs(t, err, namespace.ErrBadRequest, bad.body)
		require.ErrorContains(t, err, bad.want)
		require.Empty(t, cmp.Diff(metav1.DeleteOptions{}, got))
	}
}

// YAML means what it means to kubectl.
func TestYAML(t *testing.T) {
	k := widgets("")
	c := newCodec(t, k)
	const head = "metadata: {name: x}\nspec:\n"
	for _, test := range []struct{ yaml, want string }{
		{"  a: 1\n  b: 1.5\n  c: true\n  d: yes\n  e: \"yes\"\n  f: null\n  g: ~\n  h: 2026-01-02\n", `{"a":1,"b":1.5,"c":true,"d":true,"e":"yes","f":null,"g":null,"h":"2026-01-02"}`},
		{"  big: 18446744073709551615\n  octal: 0777\n  text: |\n    ---\n    é\"\n", `{"big":18446744073709551615,"octal":511,"text":"---\né\"\n"}`},
		{"  1: a\n  true: b\n  1.5: c\n", `{"1":"a","1.5":"c","true":"b"}`},
		{"  a: &x {b: [1, 2]}\n  c: *x\n", `{"a":{"b":[1,2]},"c":{"b":[1,2]}}`},
		{"  a: &x {b: 1}\n  c: {<<: *x, d: 2}\n", `{"a":{"b":1},"c":{"b":1,"d":2}}`},
		{"  a: '\u2028<&>'\n", "{\"a\":\"\\u2028<&>\"}"},
	} {
		for _, frame := range []string{head + test.yaml, "---\n" + head + test.yaml, "# comment\n---\n" + head + test.yaml + "---\n", head + test.yaml + "...\n"} {
			o, _, err := c.Decode(k, yamlType, []byte(frame), codec.Strict)
			require.NoError(t, err, frame)
			require.Equal(t, test.want, string(o.Fields["spec"]))
		}
	}
}

// A small document with aliases cannot stand for a huge one.
func TestYAMLBombs(t *testing.T) {
	k := widgets("")
	c := newCodec(t, k)
	nested := "metadata: {name: x}\na0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		ref := "*a" + string(rune('0'+i))
		nested += "a" + string(rune('1'+i)) + ": &a" + string(rune('1'+i)) + " [" + strings.Repeat(ref+", ", 8) + ref + "]\n"
	}
	wide := "metadata: {name: x}\na: &a " + strings.Repeat("x", 300_000) + "\nb: [" + strings.Repeat("*a, ", 5_000) + "*a]\n"
	for _, bomb := range []string{nested, wide} {
		_, _, err := c.Decode(k, yamlType, []byte(bomb), codec.Warn)
		require.ErrorIs(t, err, namespace.ErrBadRequest)
		require.Regexp(t, "excessive aliasing|repeat too much", err.Error())
	}
}

// Moments that JSON has no digits for are refused, not stored so that nobody can
// read them again.
func TestMomentsOutOfRange(t *testing.T) {
	c, k := newCodec(t), kinds.Events()
	_, _, err := c.Decode(k, jsonType, []byte(`{"metadata":{"name":"x"},"lastTimestamp":"9999-12-31T23:59:59-23:59"}`), codec.Warn)
	require.ErrorIs(t, err, namespace.ErrBadRequest)

	far := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "x"}, LastTimestamp: metav1.Unix(1<<40, 0)}
	_, _, err = c.Decode(k, protobufType, encode(t, peer.protobuf, k, far), codec.Warn)
	require.ErrorIs(t, err, namespace.ErrBadRequest)
}

// A text that spells the escape of an unreadable character is not one.
func TestEscapesAreNoReplacements(t *testing.T) {
	c, k := newCodec(t), kinds.ConfigMaps()
	for _, text := range []string{`\ufffd`, `\\ufffd`, "\uFFFD", `a\\\ufffd`} {
		sent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string]string{"a": text}}
		o, _, err := c.Decode(k, protobufType, encode(t, peer.protobuf, k, sent), codec.Strict)
		require.NoError(t, err, text)
		typed, err := c.Typed(k, o)
		require.NoError(t, err)
		same(t, sent, typed)
	}
}
