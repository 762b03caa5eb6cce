package codec_test

import (
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	kyaml "sigs.k8s.io/yaml"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

const (
	table        = jsonType + ";as=Table;v=v1;g=meta.k8s.io"
	metadata     = jsonType + ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	metadataList = jsonType + ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
)

func yamlOf(document []byte) ([]byte, error) { return kyaml.JSONToYAML(document) }

// widget is an object without a creation time, so that its age does not change.
const widget = `{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"w","namespace":"n","resourceVersion":"5","labels":{"a":"b"}},"spec":{"size":1.0}}`

func TestObjectForms(t *testing.T) {
	k := widgets("")
	k.Columns = []kinds.Column{
		{Name: "Size", Type: "integer", Description: "How big.", Value: func(registry.Object) any { return 3 }},
		{Name: "Note", Description: `"&<`, Priority: 1, Value: func(registry.Object) any { return "a\"\n<é" }},
		{Name: "Ratio", Type: "number", Value: func(registry.Object) any { return 1.5 }},
		{Name: "Ready", Type: "boolean", Value: func(registry.Object) any { return true }},
		{Name: "Nothing", Value: func(registry.Object) any { return nil }},
	}
	c := newCodec(t, k)
	nameColumn := `{"name":"Name","type":"string","format":"name","description":` + nameDescription(t) + `,"priority":0}`
	columns := `[` + nameColumn + `,{"name":"Size","type":"integer","format":"","description":"How big.","priority":0},` +
		`{"name":"Note","type":"string","format":"","description":"\"&<","priority":1},{"name":"Ratio","type":"number","format":"","description":"","priority":0},` +
		`{"name":"Ready","type":"boolean","format":"","description":"","priority":0},{"name":"Nothing","type":"string","format":"","description":"","priority":0}]`
	const partial = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"w","namespace":"n","resourceVersion":"5","labels":{"a":"b"}}}`
	const cells = `{"cells":["w",3,"a\"\n<é",1.5,true,null],"object":`
	head := `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"5"},"columnDefinitions":`
	tests := []struct {
		name, accept string
		options      codec.TableOptions
		want         string
	}{
		{"JSON", jsonType, codec.TableOptions{}, widget + "\n"},
		{"YAML", yamlType, codec.TableOptions{}, "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  labels:\n    a: b\n  name: w\n  namespace: \"n\"\n  resourceVersion: \"5\"\nspec:\n  size: 1\n"},
		{"metadata", metadata, codec.TableOptions{}, partial + "\n"},
		{"metadata of v1beta1", jsonType + ";as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io", codec.TableOptions{}, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1","metadata":{"name":"w","namespace":"n","resourceVersion":"5","labels":{"a":"b"}}}` + "\n"},
		{"table", table, codec.TableOptions{}, head + columns + `,"rows":[` + cells + partial + "}]}\n"},
		{"table with metadata", table, codec.TableOptions{IncludeObject: "Metadata"}, head + columns + `,"rows":[` + cells + partial + "}]}\n"},
		{"table without objects", table, codec.TableOptions{IncludeObject: "None"}, head + columns + `,"rows":[` + cells + "null}]}\n"},
		{"table with objects", table, codec.TableOptions{IncludeObject: "Object"}, head + columns + `,"rows":[` + cells + widget + "}]}\n"},
		{"table without columns", table, codec.TableOptions{NoHeaders: true}, head + `null,"rows":[` + cells + partial + "}]}\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := c.Object(negotiate(t, c, test.accept, k, false), k, object(t, widget), test.options)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(test.want, string(got)))
		})
	}
}

func nameDescription(t *testing.T) string {
	text, err := json.Marshal(metav1.ObjectMeta{}.SwaggerDoc()["name"])
	require.NoError(t, err)
	return string(text)
}

func TestPretty(t *testing.T) {
	k := widgets("")
	c := newCodec(t, k)
	o := registry.Object{Meta: namespace.Meta{Name: "w"}}
	const want = "{\n  \"kind\": \"Widget\",\n  \"apiVersion\": \"example.com/v1\",\n  \"metadata\": {\n    \"name\": \"w\"\n  }\n}\n"
	for _, f := range []codec.Format{negotiate(t, c, jsonType+";pretty=1", k, false), codec.Format{}.Pretty()} {
		got, err := c.Object(f, k, o, codec.TableOptions{})
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	watch := negotiate(t, c, jsonType, k, true)
	require.Equal(t, watch, watch.Pretty(), "a frame is one line")
}

// A response has the kind of the request, since a stored object may omit its kind.
func TestListForms(t *testing.T) {
	k := widgets("")
	c := newCodec(t, k)
	left := int64(3)
	list := registry.ObjectList{
		ListMeta: namespace.ListMeta{ResourceVersion: "9", Continue: "n\"ext", RemainingItemCount: &left},
		Items:    []registry.Object{{Meta: namespace.Meta{Name: "a"}}, {Meta: namespace.Meta{Name: "b"}}},
	}
	const meta = `"metadata":{"resourceVersion":"9","continue":"n\"ext","remainingItemCount":3}`
	const a, b = `{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"a"}}`, `{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"b"}}`
	const partialA, partialB = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}`, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"b"}}`
	tests := []struct{ name, accept, want string }{
		{"JSON", jsonType, `{"kind":"WidgetList","apiVersion":"example.com/v1",` + meta + `,"items":[` + a + "," + b + "]}\n"},
		{"metadata", metadataList, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1",` + meta + `,"items":[` + partialA + "," + partialB + "]}\n"},
		{"table", table, `{"kind":"Table","apiVersion":"meta.k8s.io/v1",` + meta + `,"columnDefinitions":null,"rows":[{"cells":["a","<unknown>"],"object":` + partialA + `},{"cells":["b","<unknown>"],"object":` + partialB + "}]}\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := c.List(negotiate(t, c, test.accept, k, false), k, list, codec.TableOptions{NoHeaders: true})
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(test.want, string(got)))
		})
	}
	got, err := c.List(codec.Format{}, k, registry.ObjectList{}, codec.TableOptions{})
	require.NoError(t, err)
	require.Equal(t, `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{},"items":[]}`+"\n", string(got))
	got, err = c.List(negotiate(t, c, table, k, false), k, registry.ObjectList{}, codec.TableOptions{NoHeaders: true})
	require.NoError(t, err)
	require.Equal(t, `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":null,"rows":[]}`+"\n", string(got))
}

// Kubernetes' own type decodes a Table.
func TestTableOfEveryKind(t *testing.T) {
	c, fill := newCodec(t), filler(1)
	for _, k := range builtIn() {
		o, err := c.Untyped(k, fillObject(fill, k))
		require.NoError(t, err)
		data, err := c.List(negotiate(t, c, table, k, false), k, registry.ObjectList{Items: []registry.Object{o}}, codec.TableOptions{})
		require.NoError(t, err)
		var got metav1.Table
		d := json.NewDecoder(closer(data))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(&got))
		require.Len(t, got.ColumnDefinitions, len(k.Printed()))
		require.Len(t, got.Rows, 1)
		require.Len(t, got.Rows[0].Cells, len(k.Printed()))
	}
}

// Metadata has a protobuf form for every kind, including custom kinds.
func TestMetadataInProtobuf(t *testing.T) {
	const accept = protobufType + ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	for _, k := range []kinds.Kind{kinds.ConfigMaps(), widgets("")} {
		c := newCodec(t, widgets(""))
		o := object(t, widget)
		data, err := c.Object(negotiate(t, c, accept, k, false), k, o, codec.TableOptions{})
		require.NoError(t, err)
		got, _, err := peer.protobuf.Decode(data, nil, nil)
		require.NoError(t, err)
		require.Equal(t, "w", got.(*metav1.PartialObjectMetadata).Name)
		require.Equal(t, map[string]string{"a": "b"}, got.(*metav1.PartialObjectMetadata).Labels)

		list := registry.ObjectList{ListMeta: namespace.ListMeta{ResourceVersion: "4"}, Items: []registry.Object{o}}
		data, err = c.List(negotiate(t, c, accept, k, false), k, list, codec.TableOptions{})
		require.NoError(t, err)
		got, _, err = peer.protobuf.Decode(data, nil, nil)
		require.NoError(t, err)
		require.Equal(t, "4", got.(*metav1.PartialObjectMetadataList).ResourceVersion)
		require.Equal(t, "w", got.(*metav1.PartialObjectMetadataList).Items[0].Name)
	}
	c := newCodec(t)
	_, err := c.Object(negotiate(t, c, protobufType, kinds.ConfigMaps(), false), widgets(""), object(t, widget), codec.TableOptions{})
	require.Error(t, err, "a custom kind has no protobuf form")
}

// A Status is sent as a Status even if the client accepts a Table or a stream.
func TestStatusForms(t *testing.T) {
	c, k := newCodec(t), kinds.ConfigMaps()
	s := metav1.Status{Status: "Failure", Message: "no", Reason: metav1.StatusReasonNotFound, Code: 404, Details: &metav1.StatusDetails{Name: "x"}}
	const document = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"NotFound","details":{"name":"x"},"code":404}`
	for _, accept := range []string{jsonType, table, metadata} {
		got, err := c.Status(negotiate(t, c, accept, k, false), s)
		require.NoError(t, err)
		require.Equal(t, document+"\n", string(got))
	}
	got, err := c.Status(negotiate(t, c, protobufType, k, true), s)
	require.NoError(t, err)
	decoded, _, err := peer.protobuf.Decode(got, nil, nil)
	require.NoError(t, err)
	decoded.GetObjectKind().SetGroupVersionKind(s.GroupVersionKind())
	require.Empty(t, cmp.Diff(&s, decoded))

	got, err = c.ErrorEvent(negotiate(t, c, jsonType, k, true), s)
	require.NoError(t, err)
	require.Equal(t, `{"type":"ERROR","object":`+document+"}\n", string(got))
}

// decodeEvents reads the events of a watch with the decoders of clients.
func decodeEvents(t *testing.T, stream []byte, inProtobuf bool) (list []metav1.WatchEvent) {
	t.Helper()
	var framer runtime.Framer = kjson.Framer
	var events runtime.Decoder = kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, peer.scheme, peer.scheme, kjson.SerializerOptions{})
	if inProtobuf {
		framer, events = protobuf.LengthDelimitedFramer, peer.raw
	}
	d := streaming.NewDecoder(framer.NewFrameReader(closer(stream)), events)
	for {
		var e metav1.WatchEvent
		_, _, err := d.Decode(nil, &e)
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(t, err)
		list = append(list, e)
	}
}

// Kubernetes' own stream decoder reads a watch in protobuf.
func TestWatchFrames(t *testing.T) {
	c, k := newCodec(t), kinds.ConfigMaps()
	big := make([]byte, 200_000) // more than one buffer of the decoder, and lengths of several bytes
	for i := range big {
		big[i] = 'x'
	}
	objects := []registry.Object{
		object(t, `{"metadata":{"name":"a","resourceVersion":"1"},"data":{"k":"v"}}`),
		object(t, `{"metadata":{"name":"b","resourceVersion":"2"},"data":{"k":"`+string(big)+`"}}`),
		{Meta: namespace.Meta{ResourceVersion: "3", Annotations: map[string]string{"k8s.io/initial-events-end": "true"}}},
	}
	for _, accept := range []string{jsonType, protobufType} {
		f := negotiate(t, c, accept, k, true)
		s := peer.json
		if accept == protobufType {
			s = peer.protobuf
		}
		var stream []byte
		for i, eventType := range []string{"ADDED", "MODIFIED", "BOOKMARK"} {
			frame, err := c.Event(f, k, eventType, objects[i], codec.TableOptions{})
			require.NoError(t, err)
			stream = append(stream, frame...)
		}
		frame, err := c.ErrorEvent(f, metav1.Status{Status: "Failure", Code: 410, Reason: metav1.StatusReasonExpired})
		require.NoError(t, err)
		events := decodeEvents(t, append(stream, frame...), accept == protobufType)
		require.Len(t, events, 4)
		for i, want := range []string{"ADDED", "MODIFIED", "BOOKMARK"} {
			require.Equal(t, want, events[i].Type)
			got, gvk, err := s.Decode(events[i].Object.Raw, nil, nil)
			require.NoError(t, err)
			require.Equal(t, "ConfigMap", gvk.Kind)
			typed, err := c.Typed(k, objects[i])
			require.NoError(t, err)
			same(t, typed, got.(*corev1.ConfigMap))
		}
		require.Equal(t, "ERROR", events[3].Type)
		got, _, err := s.Decode(events[3].Object.Raw, nil, nil)
		require.NoError(t, err)
		require.EqualValues(t, 410, got.(*metav1.Status).Code)
	}
}

func TestWatchForms(t *testing.T) {
	k := widgets("")
	c := newCodec(t, k)
	const partial = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"w","namespace":"n","resourceVersion":"5","labels":{"a":"b"}}}`
	tests := []struct{ name, accept, want string }{
		{"JSON", jsonType, `{"type":"DELETED","object":` + widget + "}\n"},
		{"metadata", metadata, `{"type":"DELETED","object":` + partial + "}\n"},
		{"table", table, `{"type":"DELETED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"5"},"columnDefinitions":null,"rows":[{"cells":["w","<unknown>"],"object":` + partial + "}]}}\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := c.Event(negotiate(t, c, test.accept, k, true), k, "DELETED", object(t, widget), codec.TableOptions{NoHeaders: true})
			require.NoError(t, err)
			require.Equal(t, test.want, string(got))
		})
	}
	f := negotiate(t, c, protobufType+";as=PartialObjectMetadata;v=v1;g=meta.k8s.io", k, true)
	frame, err := c.Event(f, k, "ADDED", object(t, widget), codec.TableOptions{})
	require.NoError(t, err)
	events := decodeEvents(t, frame, true)
	require.Len(t, events, 1)
	got, _, err := peer.protobuf.Decode(events[0].Object.Raw, nil, nil)
	require.NoError(t, err)
	require.Equal(t, "w", got.(*metav1.PartialObjectMetadata).Name)
}

// If an object cannot be encoded, the result is an error and no partial document.
func TestUnencodable(t *testing.T) {
	k := widgets("")
	k.Columns = []kinds.Column{{Name: "Bad", Value: func(registry.Object) any { return func() {} }}}
	c := newCodec(t, k)
	_, err := c.Object(negotiate(t, c, table, k, false), k, object(t, widget), codec.TableOptions{})
	require.ErrorContains(t, err, `column "Bad" of widgets.example.com "w"`)
	data, err := c.Event(negotiate(t, c, table, k, true), k, "ADDED", object(t, widget), codec.TableOptions{})
	require.Error(t, err)
	require.Empty(t, data)
	cm := kinds.ConfigMaps()
	broken := registry.Object{Meta: namespace.Meta{Name: "x"}, Fields: map[string]json.RawMessage{"data": json.RawMessage(`{"a":5}`)}}
	_, err = c.Object(negotiate(t, c, protobufType, cm, false), cm, broken, codec.TableOptions{})
	require.ErrorContains(t, err, `configmaps "x" cannot be read as *v1.ConfigMap`)
}
