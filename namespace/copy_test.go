package namespace_test

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// full returns a namespace in which every field is set; the test below sees to it.
func full() namespace.Namespace {
	data, err := os.ReadFile("testdata/full.json")
	if err != nil {
		panic(err)
	}
	n, err := namespace.Decode(data)
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

// Whatever a copy's owner does to it, the original stays as it is.
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

	require.Empty(t, cmp.Diff(namespace.Namespace{}, namespace.Namespace{}.DeepCopy()), "what is nil stays nil")
	require.Empty(t, cmp.Diff(namespace.List{}, namespace.List{}.DeepCopy()))
}

// A new field cannot be forgotten: it must be set in the full value, and then
// nothing behind a reference may be shared.
func TestDeepCopyIsComplete(t *testing.T) {
	t.Parallel()
	n, list := full(), fullList()
	apart(t, "Namespace", reflect.ValueOf(n), reflect.ValueOf(n.DeepCopy()))
	apart(t, "List", reflect.ValueOf(list), reflect.ValueOf(list.DeepCopy()))
}

// apart requires that a and b share nothing that can be changed, and that nothing
// in them is empty.
func apart(t *testing.T, path string, a, b reflect.Value) {
	t.Helper()
	require.False(t, a.IsZero(), "%s is not set in the full value", path)
	switch a.Interface().(type) {
	case phase.Time, finalizer.Set: // values: no operation of theirs changes what others hold
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

// The full document comes back byte for byte but for white space.
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
