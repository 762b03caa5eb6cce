package patch_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/patch"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// fuzz applies bodies to an object and checks the invariants of all patches.
func fuzz(f *testing.F, contentType string, k kinds.Kind, stored string) {
	p := newPatcher(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		current := object(t, stored)
		current.ManagedFields = []namespace.ManagedFieldsEntry{
			{Manager: "m", Operation: "Apply", APIVersion: k.APIVersion(), FieldsType: "FieldsV1", FieldsV1: namespace.RawJSON(`{"f:data":{"f:k":{}}}`)},
		}
		before, err := json.Marshal(current)
		require.NoError(t, err)
		request := patch.Request{Type: types.PatchType(contentType), Body: body, FieldManager: "n", Now: noon}
		got, _, err := p.Apply(k, "", &current, request)
		after, errAfter := json.Marshal(current)
		require.NoError(t, errAfter)
		require.Equal(t, string(before), string(after), "the current object was changed")
		if err != nil {
			var refusal *namespace.Error
			var status apierrors.APIStatus
			require.True(t, errors.As(err, &refusal) || errors.As(err, &status), "%v", err)
			return
		}
		require.Equal(t, current.Name, got.Name)
		require.Equal(t, current.UID, got.UID)
		data, err := json.Marshal(got)
		require.NoError(t, err)
		var again registry.Object
		require.NoError(t, json.Unmarshal(data, &again))
	})
}

func FuzzJSONPatch(f *testing.F) {
	f.Add([]byte(`[{"op":"add","path":"/spec/list/-","value":null},{"op":"copy","from":"/spec","path":"/x"},{"op":"test","path":"/x/big","value":1}]`))
	f.Add([]byte(`[{"op":"replace","path":""},{"op":"move","from":"/spec/list/-1","path":"/metadata/labels/a~1b"},{"op":"remove","path":"/spec"}]`))
	fuzz(f, jsonPatch, gadgets(), gadget)
}

func FuzzMergePatch(f *testing.F) {
	f.Add([]byte(`{"spec":{"o":null,"x":{"y":[{"z":null}]}},"metadata":{"labels":{"a":"b"},"managedFields":[{}]}}`))
	fuzz(f, mergePatch, widgets(), widget)
}

func FuzzStrategicMergePatch(f *testing.F) {
	f.Add([]byte(`{"secrets":[{"$patch":"delete","name":"a"},{"name":"b"}],"$setElementOrder/secrets":[{"name":"b"}]}`))
	f.Add([]byte(`{"metadata":{"$deleteFromPrimitiveList/finalizers":["a.b/c"],"$retainKeys":["name"],"finalizers":null},"$patch":"replace"}`))
	fuzz(f, strategic, kinds.ServiceAccounts(), `{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"a","uid":"u","finalizers":["a.b/c"]},"secrets":[{"name":"a"}],"imagePullSecrets":[{"name":"i"}]}`)
}

func FuzzApply(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n"))
	f.Add([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"ownerReferences":[{"uid":"1"},{}],"finalizers":["a"]},"data":null,"binaryData":{"b":"AA=="}}`))
	fuzz(f, applyPatch, kinds.ConfigMaps(), configMap)
}

func FuzzApplyOfACustomKind(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"example.com/v1","kind":"Widget","spec":{"parts":[{"name":"p"},{"count":1}],"tags":["a","a"]},"status":{"ready":null}}`))
	fuzz(f, applyPatch, widgets(), widget)
}
