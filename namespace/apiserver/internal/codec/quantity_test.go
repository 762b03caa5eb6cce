package codec_test

import (
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
)

// costly are quantities that take hours, or gigabytes, to read or to add. The test
// would not end if they were.
var costly = []string{
	"1e-2147483640", "-1.5E-2147483640", "1e2147483640", "1E+2147483640", "1e-000000002147483640", "1e31", ".5e-31",
	strings.Repeat("1", 50_000), "0." + strings.Repeat("0", 50_000) + "1", " 1e-2147483640 ",
}

func quotaBody(form string) string {
	return `{"metadata":{"name":"x"},"spec":{"hard":{"pods":` + form + `}}}`
}

func TestCostlyQuantities(t *testing.T) {
	c, k := newCodec(t), kinds.ResourceQuotas()
	for _, text := range costly {
		name := text[:min(len(text), 20)]
		_, _, err := c.Decode(k, jsonType, []byte(quotaBody(text)), codec.Warn)
		require.ErrorIs(t, err, namespace.ErrBadRequest, name)
		for _, contentType := range []string{jsonType, yamlType} {
			_, _, err := c.Decode(k, contentType, []byte(quotaBody(`"`+text+`"`)), codec.Warn)
			require.ErrorIs(t, err, namespace.ErrBadRequest, name)
			require.ErrorContains(t, err, "an exponent of at most 30", name)
		}
		_, err = c.Typed(k, object(t, quotaBody(`"`+text+`"`)))
		require.ErrorContains(t, err, "an exponent of at most 30", name)

		_, _, err = c.Decode(k, protobufType, quotaMessage(t, text), codec.Warn)
		require.ErrorIs(t, err, namespace.ErrBadRequest, name)
		require.ErrorContains(t, err, "an exponent of at most 30", name)
	}
	for _, text := range []string{"1e30", "1e-3", "5E", "12Ei", "1.5", "100m", strings.Repeat("1", 18)} {
		_, _, err := c.Decode(k, jsonType, []byte(quotaBody(`"`+text+`"`)), codec.Strict)
		require.NoError(t, err, text)
		_, _, err = c.Decode(k, protobufType, quotaMessage(t, text), codec.Strict)
		require.NoError(t, err, text)
	}
}

// quotaMessage is a quota whose quantity is any text; the Go type would not hold it.
func quotaMessage(t *testing.T, text string) []byte {
	t.Helper()
	field := func(tag byte, content []byte) []byte {
		size := []byte{}
		for n := len(content); ; n >>= 7 {
			if n < 0x80 {
				size = append(size, byte(n))
				break
			}
			size = append(size, byte(n)|0x80)
		}
		return append(append([]byte{tag}, size...), content...)
	}
	quantity := field(0x0a, []byte(text))
	entry := append(field(0x0a, []byte("pods")), field(0x12, quantity)...)
	spec := field(0x0a, entry)
	meta := metav1.ObjectMeta{Name: "x"}
	metaBytes, err := meta.Marshal()
	require.NoError(t, err)
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "ResourceQuota", APIVersion: "v1"}, Raw: append(field(0x0a, metaBytes), field(0x12, spec)...)}
	data, err := u.Marshal()
	require.NoError(t, err)
	return append([]byte("k8s\x00"), data...)
}

// The same texts are welcome where they are no quantities.
func TestCostlyTextsAreNoQuantities(t *testing.T) {
	c := newCodec(t)
	for _, text := range append(costly, "5e42") {
		sent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"1e99": text}}, Data: map[string]string{"a": text, "1e99": "b"}}
		for _, body := range [][]byte{encode(t, peer.json, kinds.ConfigMaps(), sent), encode(t, peer.protobuf, kinds.ConfigMaps(), sent)} {
			contentType := jsonType
			if body[0] == 'k' {
				contentType = protobufType
			}
			o, _, err := c.Decode(kinds.ConfigMaps(), contentType, body, codec.Strict)
			require.NoError(t, err)
			typed, err := c.Typed(kinds.ConfigMaps(), o)
			require.NoError(t, err)
			same(t, sent, typed)
		}
		_, _, err := c.Decode(widgets(""), jsonType, fmt.Appendf(nil, `{"metadata":{"name":"x"},"spec":%q}`, text), codec.Strict)
		require.NoError(t, err)
	}
	_, _, err := c.Decode(kinds.Secrets(), jsonType, []byte(`{"metadata":{"name":"x"},"data":{"a":"5e42"}}`), codec.Strict)
	require.NoError(t, err, "base64")
}
