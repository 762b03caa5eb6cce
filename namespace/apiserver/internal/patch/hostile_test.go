package patch_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/patch"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
)

// words are the names and directives of hostile patches. The libraries treat them specially.
var words = []string{
	"metadata", "name", "uid", "labels", "annotations", "finalizers", "ownerReferences", "managedFields", "secrets", "imagePullSecrets",
	"data", "spec", "parts", "tags", "count", "status", "manager", "operation", "apiVersion", "fieldsType", "fieldsV1", "time", "kind",
	"$patch", "$retainKeys", "$setElementOrder/secrets", "$setElementOrder/finalizers", "$deleteFromPrimitiveList/finalizers",
	"$setElementOrder/", "$deleteFromPrimitiveList/", "$setElementOrder/parts", "f:data", "f:metadata", "f:labels", ".", `k:{"name":"a"}`,
	`k:{`, `v:"a"`, "v:", "i:0", "i:", "f:spec", "f:parts", "f:tags", "hard", "kubectl.kubernetes.io/last-applied-configuration",
}

var leaves = []any{
	nil, true, 0, 1, -1, 1.5, "", "a", "b", "delete", "replace", "merge", "Apply", "Update", "v1", "example.com/v1", "FieldsV1",
	"2020-01-01T00:00:00Z", "u", 1e300, int64(1) << 62, "{}", `{"f:a":{}}`,
}

func hostile(r *rand.Rand, depth int) any {
	switch n := r.IntN(6); {
	case depth > 0 && n < 3:
		out := map[string]any{}
		for range r.IntN(5) {
			out[words[r.IntN(len(words))]] = hostile(r, depth-1)
		}
		return out
	case depth > 0 && n == 3:
		out := []any{}
		for range r.IntN(4) {
			out = append(out, hostile(r, depth-1))
		}
		return out
	}
	return leaves[r.IntN(len(leaves))]
}

// top returns a hostile object in which the interesting fields are likely.
func top(r *rand.Rand, k kinds.Kind) map[string]any {
	out := map[string]any{"apiVersion": k.APIVersion(), "kind": k.Kind}
	for _, name := range []string{"metadata", "secrets", "imagePullSecrets", "data", "spec", "status", "$setElementOrder/secrets"} {
		if r.IntN(2) == 0 {
			out[name] = hostile(r, 4)
		}
	}
	if r.IntN(2) == 0 {
		meta := map[string]any{"name": "a"}
		for _, name := range []string{"finalizers", "ownerReferences", "managedFields", "labels", "annotations", "$deleteFromPrimitiveList/finalizers"} {
			if r.IntN(4) == 0 {
				meta[name] = hostile(r, 3)
			}
		}
		out["metadata"] = meta
	}
	return out
}

func TestHostilePatches(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	p := newPatcher(t)
	stored := map[string]string{
		"ConfigMap": configMap, "Widget": widget, "Gadget": gadget,
		"ServiceAccount": `{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"a","uid":"u","finalizers":["a.b/c"]},"secrets":[{"name":"a"}]}`,
	}
	applied := 0
	for range 400 {
		k := []kinds.Kind{kinds.ConfigMaps(), kinds.ServiceAccounts(), widgets(), gadgets()}[r.IntN(4)]
		body, err := json.Marshal(top(r, k))
		require.NoError(t, err)
		current := object(t, stored[k.Kind])
		if r.IntN(2) == 0 {
			entry := namespace.ManagedFieldsEntry{Manager: "m", Operation: "Apply", APIVersion: k.APIVersion(), FieldsType: "FieldsV1"}
			if fields, err := json.Marshal(hostile(r, 3)); err == nil {
				entry.FieldsV1 = fields
			}
			current.ManagedFields = []namespace.ManagedFieldsEntry{entry}
		}
		contentType := []string{mergePatch, strategic, applyPatch}[r.IntN(3)]
		_, _, err = p.Apply(k, "", &current, patch.Request{
			Type: types.PatchType(contentType), Body: body, FieldManager: "n", Force: contentType == applyPatch && r.IntN(2) == 0, Now: noon,
		})
		var refusal *namespace.Error
		var status apierrors.APIStatus
		require.True(t, err == nil || errors.As(err, &refusal) || errors.As(err, &status), "seed %d: %s: %v", seed, body, err)
		if err == nil {
			applied++
		}
	}
	require.Greater(t, applied, 5)
}
