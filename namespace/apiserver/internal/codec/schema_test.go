package codec_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
)

// Values of another type than the schema has are invalid, each with its path.
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
		{`{"color":"` + strings.Repeat("g", 1000) + `"}`, "FieldValueNotSupported", "spec.color", `Unsupported value: "` + strings.Repeat("g", 96) + `...: supported values: "blue", "red"`},
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
	require.Error(t, err)
	require.ErrorContains(t, err, "missing closing )")
}

// A body with many faults gets at most 100 warnings or causes.
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
