package codec_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

const (
	kubectlGet   = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
	typedJSON    = "application/json, */*"
	typedBinary  = "application/vnd.kubernetes.protobuf,application/json"
	metaClient   = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	metaListing  = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	browser      = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
	dynamicCBOR  = "application/json,application/cbor;q=0.9"
	binaryStream = "application/vnd.kubernetes.protobuf;stream=watch"
)

// The forms of a response.
const (
	inJSON         = "JSON"
	inYAML         = "YAML"
	inProtobuf     = "protobuf"
	tableV1        = "Table v1"
	tableV1beta1   = "Table v1beta1"
	partialJSON    = "metadata in JSON"
	partialBinary  = "metadata in protobuf"
	partialV1beta1 = "metadata v1beta1 in JSON"
)

// formOf returns the form of a format, by encoding an object with it.
func formOf(t *testing.T, c *codec.Codec, f codec.Format, k kinds.Kind) string {
	t.Helper()
	data, err := c.Object(f, k, registry.Object{}, codec.TableOptions{})
	require.NoError(t, err)
	text := string(data)
	form := map[bool]string{true: "protobuf", false: "JSON"}[strings.HasPrefix(text, "k8s\x00")]
	version := map[bool]string{true: " v1beta1", false: ""}[strings.Contains(text, "meta.k8s.io/v1beta1")]
	switch {
	case strings.Contains(text, "Table"):
		return "Table" + map[bool]string{true: " v1beta1", false: " v1"}[version != ""]
	case strings.Contains(text, "PartialObjectMetadata"):
		return "metadata" + version + " in " + form
	case strings.HasPrefix(text, "apiVersion:"):
		return inYAML
	}
	return form
}

// The Accept headers of real clients. The first four are sent by kubectl and client-go of
// 1.20, 1.32 and 1.36.
func TestNegotiate(t *testing.T) {
	const refused = ""
	tests := []struct {
		accept              string
		builtIn, custom     string // the form; "refused" is code 406
		watchIt, watchThose string // the form of a watch
	}{
		{"", inJSON, inJSON, inJSON, inJSON},
		{kubectlGet, tableV1, tableV1, tableV1, tableV1},
		{typedJSON, inJSON, inJSON, inJSON, inJSON},
		{typedBinary, inProtobuf, inJSON, inProtobuf, inJSON},
		{metaClient, partialBinary, partialBinary, partialBinary, partialBinary},
		{metaListing, partialBinary, partialBinary, partialBinary, partialBinary},
		{dynamicCBOR, inJSON, inJSON, inJSON, inJSON},
		{binaryStream, inProtobuf, refused, inProtobuf, refused},
		{browser, inJSON, inJSON, inJSON, inJSON},
		{"*/*", inJSON, inJSON, inJSON, inJSON},
		{"*", inJSON, inJSON, inJSON, inJSON},
		{"application/*", inJSON, inJSON, inJSON, inJSON},
		{"APPLICATION/JSON", inJSON, inJSON, inJSON, inJSON},
		{"application/json;charset=utf-8", inJSON, inJSON, inJSON, inJSON},
		{"application/json;stream=watch", inJSON, inJSON, inJSON, inJSON},
		{"application/json;stream=list", refused, refused, refused, refused},
		{protobufType, inProtobuf, refused, inProtobuf, refused},
		{protobufType + ", application/json;q=0", inProtobuf, refused, inProtobuf, refused},
		{protobufType + ";q=0.2, application/json;q=0.3", inJSON, inJSON, inJSON, inJSON},
		{protobufType + ";q=0.3, application/json;q=0.2", inProtobuf, inJSON, inProtobuf, inJSON},
		{"*/*, " + protobufType, inProtobuf, inJSON, inProtobuf, inJSON},
		{"*/*;q=0.5, application/*;q=0.5, " + protobufType + ";q=0.4", inProtobuf, inJSON, inProtobuf, inJSON}, // as in Kubernetes
		{yamlType, inYAML, inYAML, refused, refused},
		{yamlType + ", application/json;q=0.1", inYAML, inYAML, inJSON, inJSON},
		{jsonType + ";as=Table;v=v1beta1;g=meta.k8s.io", tableV1beta1, tableV1beta1, tableV1beta1, tableV1beta1},
		{jsonType + ";as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io", partialV1beta1, partialV1beta1, partialV1beta1, partialV1beta1},
		{metadata, partialJSON, partialJSON, partialJSON, partialJSON},
		{"*/*;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", partialJSON, partialJSON, partialJSON, partialJSON},
		{protobufType + ";as=Table;v=v1;g=meta.k8s.io", refused, refused, refused, refused},
		{jsonType + ";as=Table;v=v2;g=meta.k8s.io", refused, refused, refused, refused},
		{jsonType + ";as=Table;v=v1", refused, refused, refused, refused},
		{jsonType + ";as=Pod;v=v1;g=meta.k8s.io", refused, refused, refused, refused},
		{jsonType + ";q=2", refused, refused, refused, refused},
		{jsonType + ";q=NaN", refused, refused, refused, refused},
		{"text/plain", refused, refused, refused, refused},
		{"json", refused, refused, refused, refused},
		{"*/json", refused, refused, refused, refused},
		{",,;q=1,/", refused, refused, refused, refused},
	}
	custom := widgets("")
	c := newCodec(t, custom)
	for _, test := range tests {
		for i, want := range []string{test.builtIn, test.custom, test.watchIt, test.watchThose} {
			k := []kinds.Kind{kinds.ConfigMaps(), custom}[i%2]
			watch := i >= 2
			name := test.accept[:min(len(test.accept), 100)]
			f, err := c.Negotiate(test.accept, k, watch)
			if want == refused {
				require.ErrorIs(t, err, codec.ErrNotAcceptable, "%s for %s", name, k.Kind)
				require.Contains(t, err.Error(), "only the following media types are accepted: application/json")
				continue
			}
			require.NoError(t, err, "%s for %s", name, k.Kind)
			require.Equal(t, want, formOf(t, c, f, k), "%s for %s, watch: %v", name, k.Kind, watch)
			require.Equal(t, strings.HasPrefix(want, "Table"), f.Table())
		}
	}
}

// The Content-Type is the same as in Kubernetes: it names a stream, unless the stream is JSON.
func TestContentType(t *testing.T) {
	c, k := newCodec(t), kinds.ConfigMaps()
	for _, test := range []struct {
		accept string
		watch  bool
		want   string
	}{
		{jsonType, false, "application/json"},
		{table, false, "application/json"},
		{jsonType, true, "application/json"},
		{table, true, "application/json"},
		{yamlType, false, "application/yaml"},
		{protobufType, false, "application/vnd.kubernetes.protobuf"},
		{protobufType, true, "application/vnd.kubernetes.protobuf;stream=watch"},
	} {
		f := negotiate(t, c, test.accept, k, test.watch)
		require.Equal(t, test.want, f.ContentType(), test.accept)
		require.NotContains(t, f.Plain().ContentType(), "stream")
		require.False(t, f.Plain().Table())
	}
	require.Equal(t, "application/json", codec.Format{}.ContentType())
}

// A Status may be protobuf for every kind.
func TestNegotiateForStatus(t *testing.T) {
	c := newCodec(t)
	f := negotiate(t, c, typedBinary, kinds.Kind{}, false)
	require.Equal(t, protobufType, f.ContentType())
	_, err := c.Negotiate("text/plain", kinds.Kind{}, false)
	require.ErrorIs(t, err, codec.ErrNotAcceptable)
}

// Only equal formats have equal keys, so that an event encoded for one watcher is never sent
// to a watcher with another format.
func TestKeys(t *testing.T) {
	c, k := newCodec(t), kinds.ConfigMaps()
	seen := map[string]codec.Format{}
	for _, accept := range []string{
		jsonType, jsonType + ";pretty=1", yamlType, protobufType, table, jsonType + ";as=Table;v=v1beta1;g=meta.k8s.io",
		metadata, jsonType + ";as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io", protobufType + ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
	} {
		for _, watch := range []bool{false, true} {
			f, err := c.Negotiate(accept, k, watch)
			if err != nil {
				continue // a watch in YAML
			}
			if other, ok := seen[f.Key()]; ok {
				require.Equal(t, other, f, f.Key())
			}
			seen[f.Key()] = f
		}
	}
	require.Len(t, seen, 16) // 9 forms, of which 8 watch; a watch is never pretty

	options := map[string]codec.TableOptions{}
	for _, include := range []string{"None", "Metadata", "Object"} {
		for _, bare := range []bool{false, true} {
			options[codec.TableOptions{IncludeObject: include, NoHeaders: bare}.Key()] = codec.TableOptions{}
		}
	}
	require.Len(t, options, 6)
	require.Equal(t, codec.TableOptions{IncludeObject: "Metadata"}.Key(), codec.TableOptions{}.Key())
}
