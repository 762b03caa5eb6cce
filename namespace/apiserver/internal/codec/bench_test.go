package codec_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

const benchObject = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"settings-%04d","namespace":"team","uid":"8f14e45f-ceea-467f-a8d1-0c0c0c0c%04d",` +
	`"resourceVersion":"%d","creationTimestamp":"2026-01-02T03:04:05Z","labels":{"app":"shop","tier":"web"}},"data":{"a":"1","config":"%s"}}`

// benchObjects returns 1,000 configmaps of 1 kB as objects, as stored documents, and as
// Kubernetes' Go types.
func benchObjects(b *testing.B, c *codec.Codec) (list registry.ObjectList, raw []json.RawMessage, typed *corev1.ConfigMapList) {
	b.Helper()
	typed = &corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"}}
	list.ListMeta = namespace.ListMeta{ResourceVersion: "5000"}
	for i := range 1_000 {
		document := fmt.Sprintf(benchObject, i, i, i+1, strings.Repeat("x", 700))
		o := object(b, document)
		list.Items, raw = append(list.Items, o), append(raw, json.RawMessage(document))
		cm, err := c.Typed(kinds.ConfigMaps(), o)
		require.NoError(b, err)
		typed.Items = append(typed.Items, *cm.(*corev1.ConfigMap))
	}
	return list, raw, typed
}

// run measures the time of encode and the size of its result.
func run(b *testing.B, name string, encode func() ([]byte, error)) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			data, err := encode()
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(data)))
		}
	})
}

func encodeWith(s runtime.Encoder, o runtime.Object) func() ([]byte, error) {
	return func() ([]byte, error) {
		var buf bytes.Buffer
		err := s.Encode(o, &buf)
		return buf.Bytes(), err
	}
}

func BenchmarkList1000(b *testing.B) {
	c, k := newCodec(b), kinds.ConfigMaps()
	list, raw, typed := benchObjects(b, c)
	run(b, "raw", func() ([]byte, error) { return rawList(c, k, list.ListMeta, raw), nil })
	for _, accept := range []string{jsonType, protobufType, table, metadata} {
		f, err := c.Negotiate(accept, k, false)
		require.NoError(b, err)
		name := strings.ReplaceAll(strings.ReplaceAll(accept, "application/", ""), "/", "_")
		run(b, name, func() ([]byte, error) { return c.List(f, k, list, codec.TableOptions{}) })
	}
	run(b, "peer-json.Marshal-of-typed", func() ([]byte, error) { return json.Marshal(typed) })
	run(b, "peer-protobuf-of-typed", encodeWith(peer.protobuf, typed))
}

func BenchmarkEvent(b *testing.B) {
	c, k := newCodec(b), kinds.ConfigMaps()
	list, raw, typed := benchObjects(b, c)
	for _, accept := range []string{jsonType, protobufType, table} {
		f, err := c.Negotiate(accept, k, true)
		require.NoError(b, err)
		name := strings.ReplaceAll(strings.ReplaceAll(accept, "application/", ""), "/", "_")
		run(b, name, func() ([]byte, error) {
			return c.Event(f, k, "ADDED", list.Items[0], codec.TableOptions{NoHeaders: true})
		})
	}
	run(b, "raw", func() ([]byte, error) {
		return c.RawEvent("ADDED", raw[0]), nil
	})
	run(b, "peer-json.Marshal-of-typed", func() ([]byte, error) {
		return json.Marshal(&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Object: &typed.Items[0]}})
	})
}

func BenchmarkDecode(b *testing.B) {
	c, k, custom := newCodec(b, widgets("")), kinds.ConfigMaps(), widgets("")
	_, raw, typed := benchObjects(b, c)
	cm := &typed.Items[0]
	cm.Kind, cm.APIVersion = "ConfigMap", "v1"
	var binary bytes.Buffer
	require.NoError(b, peer.protobuf.Encode(cm, &binary))
	ofCustom := []byte(strings.NewReplacer(`"ConfigMap"`, `"Widget"`, `"v1"`, `"example.com/v1"`).Replace(string(raw[0])))
	for _, bench := range []struct {
		name, contentType string
		body              []byte
		kind              kinds.Kind
	}{
		{"json", jsonType, raw[0], k}, {"protobuf", protobufType, binary.Bytes(), k}, {"json-of-custom-kind", jsonType, ofCustom, custom},
	} {
		run(b, bench.name, func() ([]byte, error) {
			_, _, err := c.Decode(bench.kind, bench.contentType, bench.body, codec.Warn)
			return bench.body, err
		})
	}
	run(b, "peer-strict-json-to-typed", func() ([]byte, error) {
		_, _, err := peer.json.Decode(raw[0], nil, nil)
		return raw[0], err
	})
}

func BenchmarkNegotiate(b *testing.B) {
	c, k := newCodec(b), kinds.ConfigMaps()
	for name, accept := range map[string]string{"kubectl": kubectlGet, "typed": typedBinary} {
		run(b, name, func() ([]byte, error) {
			_, err := c.Negotiate(accept, k, false)
			return nil, err
		})
	}
}
