package codec_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
)

// costly lists quantities that take hours to parse or gigabytes to add.
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

// quotaMessage returns a quota whose quantity is any text.
func quotaMessage(t testing.TB, text string) []byte {
	t.Helper()
	return quotaOf(t, nil, field(0x12, field(0x0a, []byte(text))))
}

// quotaOf returns a quota with any fields, and one limit with any value.
func quotaOf(t testing.TB, before, value []byte) []byte {
	t.Helper()
	return envelope(t, "ResourceQuota", append(before, quotaFields(value)...))
}

func quotaFields(value []byte) []byte {
	spec := field(0x0a, append(field(0x0a, []byte("pods")), value...))
	return append(field(0x0a, field(0x0a, []byte("x"))), field(0x12, spec)...)
}

func envelope(t testing.TB, kind string, raw []byte) []byte {
	t.Helper()
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: kind, APIVersion: "v1"}, Raw: raw}
	data, err := u.Marshal()
	require.NoError(t, err)
	return append([]byte("k8s\x00"), data...)
}

func field(tag byte, content []byte) []byte {
	return append(binary.AppendUvarint([]byte{tag}, uint64(len(content))), content...)
}

// overlong returns a field whose tag and length have more bytes than they need.
func overlong(tag byte, content []byte) []byte {
	long := func(b byte) []byte { // the highest bits fall off
		return append(append([]byte{b | 0x80}, bytes.Repeat([]byte{0x80}, 8)...), 0x02)
	}
	return slices.Concat(long(tag), long(byte(len(content))), content)
}

// costlyMessages returns quotas from which Kubernetes' decoders read a costly quantity.
func costlyMessages(t testing.TB) map[string][]byte {
	t.Helper()
	text := []byte("1e-2147483640")
	quantity, costly := field(0x0a, text), field(0x12, field(0x0a, text))
	// An unknown field whose content, read with another tag, hides the rest.
	hiding := append(field(0x7a, bytes.Repeat([]byte("1"), 64)), field(0x32, binary.AppendUvarint([]byte{0x7a}, uint64(len(quotaFields(costly)))))...)
	reaching := append([]byte{0x12, byte(len(quantity))}, quantity[:2]...)
	return map[string][]byte{
		"tag":              quotaOf(t, nil, field(0x12, overlong(0x0a, text))),
		"tag of two bytes": quotaOf(t, nil, field(0x12, slices.Concat([]byte{0x8a, 0, byte(len(text))}, text))),
		"all":              quotaOf(t, nil, overlong(0x12, overlong(0x0a, text))),
		"number":           quotaOf(t, nil, field(0x12, slices.Concat([]byte{0x8a, 0x80, 0x80, 0x80, 0x80, 0x01}, quantity[1:]))),
		"wire type":        quotaOf(t, nil, field(0x10, quantity)),
		"wire type 1":      quotaOf(t, nil, field(0x11, quantity)),
		"wire type 5":      quotaOf(t, nil, field(0x15, quantity)),
		"wire type of key": quotaOf(t, nil, append(field(0x09, []byte("cpu")), costly...)),
		"after another":    quotaOf(t, nil, field(0x12, append(field(0x0a, []byte("1")), quantity...))),
		"after a group":    quotaOf(t, []byte{0x7b, 0x7b, 0x08, 0x01, 0x12, 0x01, 'a', 0x7d, 1, 2, 3, 4, 0x79, 1, 2, 3, 4, 5, 6, 7, 8, 0x7c, 0x7c}, costly),
		"hidden":           quotaOf(t, hiding, costly),
		"behind the entry": envelope(t, "ResourceQuota", field(0x12, slices.Concat([]byte{0x0a, byte(len(reaching))}, reaching, quantity[2:]))),
		"status":           envelope(t, "ResourceQuota", field(0x1a, field(0x12, costly))),
	}
}

// No encoding of a message hides its quantities. Kubernetes' decoders read each of these.
func TestCostlyMessages(t *testing.T) {
	c := newCodec(t)
	for name, body := range costlyMessages(t) {
		_, _, err := c.Decode(kinds.ResourceQuotas(), protobufType, body, codec.Warn)
		require.ErrorIs(t, err, namespace.ErrBadRequest, name)
		broken := bytes.ReplaceAll(body, []byte("1e-2147483640"), []byte("1x-2147483640"))
		var envelope runtime.Unknown
		require.NoError(t, envelope.Unmarshal(broken[len("k8s\x00"):]))
		require.ErrorContains(t, new(corev1.ResourceQuota).Unmarshal(envelope.Raw), "quantities must match", name)
	}
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.LimitRangeSpec{
		Limits: []corev1.LimitRangeItem{{}, {MaxLimitRequestRatio: corev1.ResourceList{"cpu": resource.MustParse("123456")}}},
	}}
	body := encode(t, peer.protobuf, kinds.LimitRanges(), limits)
	_, _, err := c.Decode(kinds.LimitRanges(), protobufType, body, codec.Strict)
	require.NoError(t, err)
	_, _, err = c.Decode(kinds.LimitRanges(), protobufType, bytes.ReplaceAll(body, []byte("123456"), []byte("1e9999")), codec.Warn)
	require.ErrorContains(t, err, "an exponent of at most 30")
}

// Blanks and possible beginnings of fields are not scanned repeatedly.
func TestEffortOfMessages(t *testing.T) {
	c := newCodec(t)
	for _, part := range []string{"\n\xc2\x85\t", "1e"} {
		text := bytes.Repeat([]byte(part), 1<<20/len(part))
		for _, raw := range [][]byte{text, field(0x12, field(0x0a, append(field(0x0a, []byte("a")), field(0x12, text)...)))} {
			_, _, err := c.Decode(kinds.ResourceQuotas(), protobufType, envelope(t, "ResourceQuota", raw), codec.Warn)
			require.ErrorIs(t, err, namespace.ErrBadRequest)
		}
	}
}

// The same texts are valid in fields that are not quantities.
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
