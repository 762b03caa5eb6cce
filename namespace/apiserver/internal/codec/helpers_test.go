package codec_test

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

const (
	jsonType     = "application/json"
	yamlType     = "application/yaml"
	protobufType = "application/vnd.kubernetes.protobuf"
)

// peer has the serializers of Kubernetes' clients.
var peer = func() (p struct {
	scheme         *runtime.Scheme
	protobuf, json runtime.Serializer
	raw            runtime.Serializer
}) {
	p.scheme = runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(p.scheme))
	utilruntime.Must(coordinationv1.AddToScheme(p.scheme))
	utilruntime.Must(metav1.AddMetaToScheme(p.scheme))
	metav1.AddToGroupVersion(p.scheme, schema.GroupVersion{Version: "v1"})
	p.protobuf = protobuf.NewSerializer(p.scheme, p.scheme)
	p.raw = protobuf.NewRawSerializer(p.scheme, p.scheme)
	p.json = kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, p.scheme, p.scheme, kjson.SerializerOptions{Strict: true})
	return p
}()

func builtIn() []kinds.Kind {
	return []kinds.Kind{
		kinds.Namespaces(), kinds.ConfigMaps(), kinds.Secrets(), kinds.ServiceAccounts(), kinds.Events(),
		kinds.ResourceQuotas(), kinds.LimitRanges(), kinds.Leases(),
	}
}

// widgets is a custom kind; its schema may be empty.
func widgets(schema string) kinds.Kind {
	k := kinds.Custom(registry.Type{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true})
	k.Schema = json.RawMessage(schema)
	return k
}

func newCodec(t testing.TB, custom ...kinds.Kind) *codec.Codec {
	t.Helper()
	c, err := codec.New(append(builtIn(), custom...))
	require.NoError(t, err)
	return c
}

func object(t testing.TB, document string) registry.Object {
	t.Helper()
	var o registry.Object
	require.NoError(t, json.Unmarshal([]byte(document), &o))
	return o
}

func negotiate(t testing.TB, c *codec.Codec, accept string, k kinds.Kind, watch bool) codec.Format {
	t.Helper()
	f, err := c.Negotiate(accept, k, watch)
	require.NoError(t, err)
	return f
}

// encode returns the body that a Kubernetes client sends.
func encode(t testing.TB, s runtime.Serializer, k kinds.Kind, o runtime.Object) []byte {
	t.Helper()
	o = o.DeepCopyObject()
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind})
	var b bytes.Buffer
	require.NoError(t, s.Encode(o, &b))
	return b.Bytes()
}

func closer(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }

// rawList returns the body of a list of stored documents.
func rawList(c *codec.Codec, k kinds.Kind, meta namespace.ListMeta, documents []json.RawMessage) []byte {
	head, end := c.RawList(k, meta)
	size := len(head) + len(end) + len(documents)
	for _, document := range documents {
		size += len(document)
	}
	out := append(make([]byte, 0, size), head...)
	for i, document := range documents {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, document...)
	}
	return append(out, end...)
}
