package weigh_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/weigh"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// The weight of a document is at least the memory that its decoding allocates.
func TestWeightsAreUpperBounds(t *testing.T) {
	custom := kinds.Custom(registry.Type{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true})
	list := []kinds.Kind{custom, kinds.ConfigMaps()}
	c, err := codec.New(list)
	require.NoError(t, err)
	const size = 200_000
	many := func(part string) string { return strings.TrimSuffix(strings.Repeat(part, size/len(part)), ",") }
	fields := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	proto := func(meta metav1.ObjectMeta, data map[string]string) string {
		raw, err := (&corev1.ConfigMap{ObjectMeta: meta, Data: data}).Marshal()
		require.NoError(t, err)
		body, err := (&apiruntime.Unknown{TypeMeta: apiruntime.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, Raw: raw}).Marshal()
		require.NoError(t, err)
		return "k8s\x00" + string(body)
	}
	const json, yaml, protobuf = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
	for _, tt := range []struct {
		name, contentType string
		kind              kinds.Kind
		body              string
		heavy             bool
	}{
		{"text", json, custom, `{"metadata":{"name":"x"},"spec":{"x":"` + many("text, and: more ") + `"}}`, false},
		{"empty objects", json, custom, `{"metadata":{"name":"x"},"spec":{"x":[` + many("{},") + `]}}`, true},
		{"empty objects that are pruned", json, custom, `{"metadata":{"name":"x"},"spec":{"x":[` + many("{},") + `],"x":1}}`, true},
		{"empty lists", json, custom, `{"metadata":{"name":"x"},"spec":{"x":[` + many("[],") + `]}}`, true},
		{"numbers", json, custom, `{"metadata":{"name":"x"},"spec":{"x":[` + many("1,") + `]}}`, true},
		{"short texts", json, custom, `{"metadata":{"name":"x"},"spec":{"x":[` + many(`"a",`) + `]}}`, true},
		{"objects with a field", json, custom, `{"metadata":{"name":"x"},"spec":{"x":[` + many(`{"a":1},`) + `]}}`, true},
		{"nested lists", json, custom, `{"metadata":{"name":"x"},"spec":{"x":[` + many("[[[[1]]]],") + `]}}`, true},
		{"fields", json, custom, `{"metadata":{"name":"x"},"spec":{` + fields(`"%d":1,`) + `}}`, true},
		{"owners of a custom kind", json, custom, `{"metadata":{"name":"x","ownerReferences":[` + many("{},") + `]}}`, true},
		{"escaped metadata", json, custom, `{"metad\u0061ta":{"name":"x","ownerReferences":[` + many("{},") + `]}}`, true},
		{"objects with a field in owners", json, custom, `{"spec":{},"metadata":{"name":"x","ownerReferences":[` + many(`{"uid":""},`) + `]}}`, true},
		{"labels", json, custom, `{"metadata":{"name":"x","labels":{` + fields(`"%d":"",`) + `}}}`, true},
		{"top fields", json, custom, `{"metadata":{"name":"x"},` + fields(`"%d":1,`) + `}`, true},
		{"unknown fields of metadata", json, custom, `{"metadata":{"name":"x",` + fields(`"%d":1,`) + `}}`, true},
		{"owners", json, kinds.ConfigMaps(), `{"metadata":{"name":"x","ownerReferences":[` + many("{},") + `]}}`, true},
		{"managed fields", json, kinds.ConfigMaps(), `{"metadata":{"name":"x","managedFields":[` + many("{},") + `]}}`, true},
		{"data", json, kinds.ConfigMaps(), `{"metadata":{"name":"x"},"data":{` + fields(`"%d":"",`) + `}}`, true},
		{"unknown fields", json, kinds.ConfigMaps(), `{"metadata":{"name":"x"},` + fields(`"%d":1,`) + `}`, true},
		{"YAML: a list", yaml, custom, "metadata: {name: x}\nspec: {x: [" + many("a,") + "]}\n", true},
		{"YAML: empty objects", yaml, custom, "metadata: {name: x}\nspec: {x: [" + many("{},") + "]}\n", true},
		{"YAML: a block", yaml, custom, "metadata: {name: x}\nspec:\n" + many("- a\n"), true},
		{"YAML: fields", yaml, custom, "metadata: {name: x}\nspec:\n" + fields(" a%d: 1\n"), true},
		{"YAML: markers", yaml, custom, "metadata: {name: x}\nspec:\n" + many("-\n"), true},
		{"YAML that is JSON", yaml, custom, `{"metadata":{"name":"x"},"spec":{"x":[` + many("{},") + `]}}`, true},
		{"YAML: text", yaml, custom, "metadata: {name: x}\nspec:\n  x: \"" + many("text without structure ") + "\"\n", true},
		{"YAML: aliases", yaml, custom, "metadata: {name: x}\nspec:\n  a: &a [{a: 1},{a: 1},{a: 1},{a: 1},{a: 1},{a: 1},{a: 1}]\n  b: [" + strings.Repeat("*a,", 5_000) + "]\n", true},
		{"protobuf: owners", protobuf, kinds.ConfigMaps(), proto(metav1.ObjectMeta{Name: "x", OwnerReferences: make([]metav1.OwnerReference, 10_000)}, nil), true},
		{"protobuf: managed fields", protobuf, kinds.ConfigMaps(), proto(metav1.ObjectMeta{Name: "x", ManagedFields: make([]metav1.ManagedFieldsEntry, 10_000)}, nil), true},
		{"protobuf: text", protobuf, kinds.ConfigMaps(), proto(metav1.ObjectMeta{Name: "x"}, map[string]string{"x": many("text, and: more ")}), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var weight int64
			switch tt.contentType {
			case json:
				weight = weigh.JSON([]byte(tt.body), tt.kind.BuiltIn())
			case protobuf:
				weight = weigh.Protobuf([]byte(tt.body))
			default:
				document, err := codec.Document([]byte(tt.body))
				require.NoError(t, err)
				weight = weigh.YAML([]byte(tt.body)) + weigh.JSON(document, tt.kind.BuiltIn())
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, _ = c.Decode(tt.kind, tt.contentType, []byte(tt.body), "")
			runtime.ReadMemStats(&after)
			taken := after.TotalAlloc - before.TotalAlloc
			require.Less(t, taken, uint64(weight)+64<<10, "%.1f bytes allocated, and a weight of %.1f, for each byte",
				float64(taken)/float64(len(tt.body)), float64(weight)/float64(len(tt.body)))
			if !tt.heavy {
				require.Less(t, weight, int64(20*len(tt.body)), "ordinary documents are not refused")
			}
		})
	}
}
