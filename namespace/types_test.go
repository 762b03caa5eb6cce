package namespace_test

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// The module kubernetescompat compares the JSON with the types of Kubernetes.
func TestJSON(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, out string }{
		{"empty", `{}`, `{"metadata":{},"spec":{},"status":{}}`},
		{"nulls", `{"metadata":null,"spec":{"finalizers":null},"status":{"conditions":null}}`, `{"metadata":{},"spec":{},"status":{}}`},
		{"times are cut to seconds in UTC", `{"metadata":{"creationTimestamp":"2026-01-02T05:04:05.9+02:00"}}`,
			`{"metadata":{"creationTimestamp":"2026-01-02T03:04:05Z"},"spec":{},"status":{}}`},
		{"a condition's time is null when it is not set", `{"status":{"conditions":[{"type":"T","status":"True"}]}}`,
			`{"metadata":{},"spec":{},"status":{"conditions":[{"type":"T","status":"True","lastTransitionTime":null}]}}`},
		{"fieldsV1", `{"metadata":{"managedFields":[{"fieldsV1":{ "f:a" : {} }},{"fieldsV1":null}]}}`,
			`{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{}}},{}]},"spec":{},"status":{}}`},
		{"unknown fields", `{"more":1,"spec":{"later":true}}`, `{"metadata":{},"spec":{},"status":{}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, err := decode([]byte(tt.in))
			require.NoError(t, err)
			out, err := json.Marshal(n)
			require.NoError(t, err)
			require.Equal(t, tt.out, string(out))
		})
	}
	out, err := json.Marshal(namespace.List{})
	require.NoError(t, err)
	require.Equal(t, `{"metadata":{},"items":null}`, string(out))
}

func decode(data []byte) (n namespace.Namespace, err error) {
	err = json.Unmarshal(data, &n)
	return n, err
}

// A decoded namespace shares nothing with the buffer.
func TestDecodeSharesNothing(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(full())
	require.NoError(t, err)
	n, err := decode(data)
	require.NoError(t, err)
	for i := range data {
		data[i] = '!'
	}
	require.Empty(t, cmp.Diff(full(), n, cmp.Transformer("compact", compact)))
}

// compact removes white space.
func compact(r namespace.RawJSON) string {
	out, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func TestPhaseAndStage(t *testing.T) {
	t.Parallel()
	n := namespace.PrepareCreate(namespace.Namespace{Meta: namespace.Meta{Name: "x"}}, "", "u", earlier)
	require.Equal(t, phase.Active, n.Phase())
	require.Equal(t, phase.Stage(""), n.Stage())
	n = namespace.MarkDeleted(n, now)
	require.Equal(t, phase.Terminating, n.Phase())
	require.Equal(t, phase.DeletingContent, n.Stage())
	n.Status.Conditions = phase.Conditions(nil, phase.Observation{}, "", now)
	require.Equal(t, phase.WaitingForFinalizers, n.Stage())
	n.Spec = namespace.Spec{}
	require.Equal(t, phase.ReadyToRemove, n.Stage())
	n.Finalizers = finalizer.NewSet("a/b")
	require.Equal(t, phase.WaitingForFinalizers, n.Stage())
}

// FuzzDecode checks that decoding, encoding and decoding again gives the same namespace, and that
// requests with it are validated without a panic.
func FuzzDecode(f *testing.F) {
	for _, doc := range []string{
		`{}`, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"a","finalizers":["a/b"]},"spec":{"finalizers":["kubernetes"]}}`,
		`{"metadata":{"name":"A","generateName":"a-","labels":{"/":"é"},"annotations":{"a":""},"ownerReferences":[{"controller":true},{"controller":true}],"managedFields":[{"fieldsV1":[]}]}}`,
		`{"metadata":{"deletionTimestamp":"2026-01-02T03:04:05Z"},"status":{"phase":"Active","conditions":[{},{}]}}`,
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := decode(data)
		if err != nil {
			return
		}
		out, err := json.Marshal(n)
		require.NoError(t, err)
		again, err := decode(out)
		require.NoError(t, err)
		twice, err := json.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, string(out), string(twice))
		requests(t, n)
	})
}

// requests makes every request with a client's document. Refusals must be typed errors, and accepted
// requests must keep the rules.
func requests(t *testing.T, asked namespace.Namespace) {
	t.Helper()
	refused := func(err error) bool {
		if err == nil {
			return false
		}
		require.True(t, isRefusal(err), "%v", err)
		return true
	}
	created := namespace.PrepareCreate(asked, finalizer.Kubernetes, "uid-1", earlier)
	refused(namespace.ValidateCreate(created))
	old := namespace.PrepareCreate(namespace.Namespace{Meta: namespace.Meta{Name: "x"}}, finalizer.Kubernetes, "uid-1", earlier)
	for _, old := range []namespace.Namespace{old, namespace.MarkDeleted(old, now)} {
		updated := namespace.PrepareUpdate(old, asked)
		refused(namespace.ValidateUpdate(old, updated))
		status := namespace.PrepareStatus(old, asked)
		refused(namespace.ValidateStatus(old, status))
		finalized := namespace.PrepareFinalize(old, asked)
		refused(namespace.ValidateFinalize(old, finalized))
		for _, n := range []namespace.Namespace{updated, status, finalized} {
			require.Equal(t, old.UID, n.UID)
			require.Equal(t, old.DeletionTimestamp, n.DeletionTimestamp)
		}
		require.True(t, updated.Spec.Finalizers.Equal(old.Spec.Finalizers))
		refused(namespace.ValidateDelete(old, namespace.Preconditions{UID: asked.UID, ResourceVersion: asked.ResourceVersion}, "default"))
	}
	decision := namespace.Decide(asked, namespace.Party{Finalizer: finalizer.Kubernetes}, namespace.Observed{}, time.Unix(0, 0))
	require.False(t, decision.Finalize && asked.DeletionTimestamp.IsZero())
}

// full returns a namespace with every field set. TestDeepCopyIsComplete checks that.
func full() namespace.Namespace {
	data, err := os.ReadFile("testdata/full.json")
	if err != nil {
		panic(err)
	}
	n, err := decode(data)
	if err != nil {
		panic(err)
	}
	return n
}

func fullList() namespace.List {
	left := int64(3)
	return namespace.List{
		TypeMeta: namespace.TypeMeta{Kind: "NamespaceList", APIVersion: "v1"},
		ListMeta: namespace.ListMeta{SelfLink: "/s", ResourceVersion: "7", Continue: "c", RemainingItemCount: &left},
		Items:    []namespace.Namespace{full(), full()},
	}
}

// Changes of a copy do not change the original.
func TestDeepCopy(t *testing.T) {
	t.Parallel()
	original, kept := full(), full()
	c := original.DeepCopy()
	require.Empty(t, cmp.Diff(original, c))
	*c.DeletionGracePeriodSeconds = 99
	c.Labels["team"] = "b"
	delete(c.Annotations, "example.com/note")
	c.OwnerReferences[0].Name = "other"
	*c.OwnerReferences[0].Controller = false
	*c.OwnerReferences[0].BlockOwnerDeletion = false
	c.ManagedFields[0].Manager = "other"
	c.ManagedFields[0].FieldsV1[0] = 'x'
	c.Finalizers = c.Finalizers.With("x/y")
	c.Spec.Finalizers = c.Spec.Finalizers.Without(finalizer.Kubernetes)
	c.Status.Conditions[0].Message = "other"
	require.Empty(t, cmp.Diff(kept, original))

	list := fullList()
	copied := list.DeepCopy()
	require.Empty(t, cmp.Diff(list, copied))
	*copied.RemainingItemCount = 99
	copied.Items[0].Name = "other"
	copied.Items[1].Labels["team"] = "b"
	require.Empty(t, cmp.Diff(fullList(), list))

	require.Empty(t, cmp.Diff(namespace.Namespace{}, namespace.Namespace{}.DeepCopy()), "nil stays nil")
	require.Empty(t, cmp.Diff(namespace.List{}, namespace.List{}.DeepCopy()))
}

// The test fails for a new field that full does not set or DeepCopy shares.
func TestDeepCopyIsComplete(t *testing.T) {
	t.Parallel()
	n, list := full(), fullList()
	apart(t, "Namespace", reflect.ValueOf(n), reflect.ValueOf(n.DeepCopy()))
	apart(t, "List", reflect.ValueOf(list), reflect.ValueOf(list.DeepCopy()))
}

// apart requires that a and b share no mutable memory, and that no field is empty.
func apart(t *testing.T, path string, a, b reflect.Value) {
	t.Helper()
	require.False(t, a.IsZero(), "%s is not set in the full value", path)
	switch a.Interface().(type) {
	case phase.Time, finalizer.Set: // immutable
		return
	}
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			apart(t, path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))
		}
	case reflect.Pointer:
		require.NotEqual(t, a.Pointer(), b.Pointer(), "%s is shared", path)
		apart(t, path, a.Elem(), b.Elem())
	case reflect.Slice:
		require.NotEqual(t, a.Pointer(), b.Pointer(), "%s is shared", path)
		require.Positive(t, a.Len(), path)
		if k := a.Type().Elem().Kind(); k == reflect.Struct || k == reflect.Pointer || k == reflect.Slice || k == reflect.Map {
			apart(t, path+"[]", a.Index(0), b.Index(0))
		}
	case reflect.Map:
		require.NotEqual(t, a.Pointer(), b.Pointer(), "%s is shared", path)
		require.Equal(t, reflect.String, a.Type().Elem().Kind(), "%s holds references: teach this test", path)
	case reflect.String, reflect.Int64, reflect.Bool:
	default:
		t.Fatalf("%s is a %s: teach this test", path, a.Kind())
	}
}

// The full document is decoded and encoded without loss.
func TestFullDocument(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/full.json")
	require.NoError(t, err)
	out, err := json.MarshalIndent(full(), "", "  ")
	require.NoError(t, err)
	var want, got any
	require.NoError(t, json.Unmarshal(data, &want))
	require.NoError(t, json.Unmarshal(out, &got))
	require.Empty(t, cmp.Diff(want, got))
}
