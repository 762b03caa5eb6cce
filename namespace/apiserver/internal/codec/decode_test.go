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

// Unknown and duplicate fields are reported with Kubernetes' texts.
func TestFieldValidation(t *testing.T) {
	const closed = `{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}`
	open, strict := widgets(""), widgets(closed)
	tests := []struct {
		name, body string
		kind       kinds.Kind
		faults     []string
		fields     string // the stored fields
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

// Rejected bodies have exactly these messages.
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
		{"wrong metadata", jsonType, `{"metadata":"x"}`, unfit + "json: cannot unmarshal string into Go struct field ConfigMap.metadata of type v1.ObjectMeta"},
		{"other kind", jsonType, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}`, `Pod in version "v1" cannot be handled as a ConfigMap: the kind in the data (Pod) does not match the expected kind (ConfigMap)`},
		{"other kind of other form", jsonType, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"},"data":5}`, `Pod in version "v1" cannot be handled as a ConfigMap: the kind in the data (Pod) does not match the expected kind (ConfigMap)`},
		{"other version", jsonType, `{"kind":"ConfigMap","apiVersion":"v2","metadata":{"name":"x"}}`, `the API version in the data (v2) does not match the expected API version (v1)`},
		{"long version", jsonType, `{"apiVersion":"` + strings.Repeat("v", 5000) + `","metadata":{"name":"x"}}`, `the API version in the data (` + strings.Repeat("v", 97) + `...) does not`},
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
	require.Error(t, err)
	_, err = codec.New([]kinds.Kind{widgets(`{"properties":5}`)})
	require.Error(t, err)
}

// A custom kind rejects the same bodies.
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

// Times that have no JSON form are rejected: once stored, they could not be read.
func TestMomentsOutOfRange(t *testing.T) {
	c, k := newCodec(t), kinds.Events()
	_, _, err := c.Decode(k, jsonType, []byte(`{"metadata":{"name":"x"},"lastTimestamp":"9999-12-31T23:59:59-23:59"}`), codec.Warn)
	require.ErrorIs(t, err, namespace.ErrBadRequest)

	far := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "x"}, LastTimestamp: metav1.Unix(1<<40, 0)}
	_, _, err = c.Decode(k, protobufType, encode(t, peer.protobuf, k, far), codec.Warn)
	require.ErrorIs(t, err, namespace.ErrBadRequest)
}

// Managed fields are JSON within the message, and are stored without being encoded again.
func TestManagedFieldsAreLegible(t *testing.T) {
	c, k := newCodec(t), kinds.ConfigMaps()
	for _, test := range []struct {
		fields string
		ok     bool
	}{{"{\"f:data\":{\"f:\xff\":{}}}", false}, {`{"f:data":{"f:é":{}}}`, true}} {
		var fields metav1.FieldsV1
		require.NoError(t, fields.UnmarshalJSON([]byte(test.fields)))
		sent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "m", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: &fields,
		}}}}
		o, _, err := c.Decode(k, protobufType, encode(t, peer.protobuf, k, sent), codec.Warn)
		if test.ok {
			require.NoError(t, err)
			require.Equal(t, test.fields, string(o.ManagedFields[0].FieldsV1))
			continue
		}
		require.ErrorIs(t, err, namespace.ErrBadRequest)
		require.ErrorContains(t, err, "not valid UTF-8")
	}
}

// A null value becomes an empty one, as in Kubernetes, which stores protobuf.
func TestNullValues(t *testing.T) {
	c := newCodec(t)
	const sent = `{"a":null,"b":"","c":"eA=="}`
	for _, test := range []struct {
		kind  kinds.Kind
		field string
		peer  interface {
			runtime.Object
			Marshal() ([]byte, error)
			Unmarshal([]byte) error
		}
	}{{kinds.Secrets(), "data", &corev1.Secret{}}, {kinds.ConfigMaps(), "binaryData", &corev1.ConfigMap{}}} {
		body := []byte(`{"metadata":{"name":"x"},"` + test.field + `":` + sent + `}`)
		o, _, err := c.Decode(test.kind, jsonType, body, codec.Strict)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(body, test.peer))
		stored, err := test.peer.Marshal()
		require.NoError(t, err)
		require.NoError(t, test.peer.Unmarshal(stored))
		want, err := json.Marshal(test.peer)
		require.NoError(t, err)
		require.Equal(t, string(object(t, string(want)).Fields[test.field]), string(o.Fields[test.field]))
		require.Equal(t, `{"a":"","b":"","c":"eA=="}`, string(o.Fields[test.field]))
	}
	typed := &corev1.Secret{Data: map[string][]byte{"a": nil}}
	_, err := c.Untyped(kinds.Secrets(), typed)
	require.NoError(t, err)
	require.Nil(t, typed.Data["a"], "it only looks")
}

// A text that contains the escape sequence itself is valid UTF-8.
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
