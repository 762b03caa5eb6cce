package kubernetes

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// Every field of Kubernetes' type, including fields of later versions, survives the conversion, in
// JSON and in protobuf. An empty field stays different from an absent one.
func TestConversionsLoseNothing(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	f := filler{rand.New(rand.NewPCG(seed, 1))}
	for range 3000 {
		var k corev1.Namespace
		f.fill(reflect.ValueOf(&k).Elem())
		back := toKubernetes(fromKubernetes(&k))
		require.Equal(t, toJSON(t, k), toJSON(t, back))
		want, err := k.Marshal()
		require.NoError(t, err)
		got, err := back.Marshal()
		require.NoError(t, err)
		require.Equal(t, want, got)
		// An empty set of finalizers has only one form, which both encodings omit.
		k.Finalizers, back.Finalizers = nil, nil
		k.Spec.Finalizers, back.Spec.Finalizers = nil, nil
		require.Empty(t, cmp.Diff(&k, back))
	}
}

// The package writes the same JSON as Kubernetes.
func TestConversionsAgreeWithJSON(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	f := filler{rand.New(rand.NewPCG(seed, 2))}
	for range 1000 {
		var k corev1.Namespace
		f.fill(reflect.ValueOf(&k).Elem())
		doc := toJSON(t, k)
		var decoded namespace.Namespace
		require.NoError(t, json.Unmarshal([]byte(doc), &decoded))
		require.Equal(t, doc, toJSON(t, fromKubernetes(&k)))
		require.Equal(t, doc, toJSON(t, toKubernetes(decoded)))
	}
}

func TestConversionsShareNothing(t *testing.T) {
	t.Parallel()
	var k corev1.Namespace
	f := filler{rand.New(rand.NewPCG(7, 7))}
	for len(k.Labels) == 0 || len(k.Annotations) == 0 || len(k.OwnerReferences) == 0 || k.OwnerReferences[0].Controller == nil ||
		len(k.ManagedFields) == 0 || k.ManagedFields[0].FieldsV1 == nil || len(k.Status.Conditions) == 0 ||
		k.DeletionGracePeriodSeconds == nil || len(k.Spec.Finalizers) == 0 || len(k.Finalizers) == 0 {
		k = corev1.Namespace{}
		f.fill(reflect.ValueOf(&k).Elem())
	}
	theirs, ours := k.DeepCopy(), fromKubernetes(&k)
	oursBefore, kept := toJSON(t, ours), ours.DeepCopy()
	f.scribble(reflect.ValueOf(theirs).Elem()) // proves that scribble changes everything
	require.NotEqual(t, toJSON(t, k), toJSON(t, theirs))

	f.scribble(reflect.ValueOf(&k).Elem())
	require.Equal(t, oursBefore, toJSON(t, ours), "the converted object shares memory with its source")
	out := toKubernetes(ours)
	f.scribble(reflect.ValueOf(out).Elem())
	require.Equal(t, oursBefore, toJSON(t, ours), "the source shares memory with its conversion")
	require.Equal(t, oursBefore, toJSON(t, kept))
}

// FuzzConversions converts any JSON of Kubernetes' type to this library's type and back.
func FuzzConversions(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"metadata":{"labels":{},"finalizers":[],"managedFields":[{"fieldsV1":null},{"fieldsV1":{"f:a":{}}}]},"spec":{"finalizers":["kubernetes"]},"status":{"conditions":[{}]}}`))
	f.Add([]byte(`{"metadata":{"creationTimestamp":"2026-01-02T05:04:05.9+02:00","deletionTimestamp":"0001-01-01T00:00:00Z","deletionGracePeriodSeconds":0}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		var k corev1.Namespace
		if json.Unmarshal(doc, &k) != nil {
			return
		}
		ours := fromKubernetes(&k)
		if _, err := json.Marshal(ours); err != nil {
			return // a time whose JSON Kubernetes would not read
		}
		doc = []byte(toJSON(t, k))
		k = corev1.Namespace{}
		require.NoError(t, json.Unmarshal(doc, &k)) // the form in which a server writes it
		k.Finalizers, k.Spec.Finalizers = once(k.Finalizers), once(k.Spec.Finalizers)
		require.Equal(t, toJSON(t, k), toJSON(t, toKubernetes(fromKubernetes(&k))))
	})
}

// once removes duplicates. A name that is listed twice means no more than once.
func once[S comparable](list []S) (distinct []S) {
	seen := map[S]bool{}
	for _, s := range list {
		if !seen[s] {
			distinct = append(distinct, s)
		}
		seen[s] = true
	}
	return distinct
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	doc, err := json.Marshal(v)
	require.NoError(t, err)
	return string(doc)
}

// filler fills values of any type at random, or changes everything in them.
type filler struct{ *rand.Rand }

func (f filler) fill(v reflect.Value) {
	switch v.Interface().(type) {
	case metav1.Time:
		if f.IntN(4) > 0 {
			v.Set(reflect.ValueOf(metav1.Unix(f.Int64N(4e9), 0).Rfc3339Copy()).Convert(v.Type()))
		}
		return
	case metav1.FieldsV1:
		raw := []string{`{}`, `{"f:a":{"f:b":{}}}`, `{"k:{\"x\":\"<\"}":{}}`}[f.IntN(3)]
		_ = v.Addr().Interface().(*metav1.FieldsV1).UnmarshalJSON([]byte(raw))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString([]string{"", "a/b", "é<&>\u2028"}[f.IntN(3)] + strconv.Itoa(f.IntN(1e9)))
	case reflect.Bool:
		v.SetBool(f.IntN(2) == 0)
	case reflect.Int64:
		v.SetInt(f.Int64N(5) - 1)
	case reflect.Pointer:
		if f.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem())
			if zero, ok := v.Interface().(*metav1.Time); ok && zero.IsZero() {
				v.SetZero() // it could not be distinguished from an absent one
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	case reflect.Slice:
		if n := f.IntN(4); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n-1, n-1))
		}
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		if f.IntN(3) > 0 {
			v.Set(reflect.ValueOf(map[string]string{}))
		}
		for range f.IntN(3) * min(1, v.Len()+f.IntN(2)) {
			if !v.IsNil() {
				v.SetMapIndex(reflect.ValueOf(strconv.Itoa(f.IntN(100))), reflect.ValueOf("v"))
			}
		}
	default:
		panic("a field of a kind that the conversions do not know: " + v.Type().String())
	}
}

// scribble changes everything that v refers to.
func (f filler) scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "!")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8:
		v.SetUint('7')
	case reflect.Pointer:
		if !v.IsNil() {
			f.scribble(v.Elem())
		}
	case reflect.Struct:
		if _, ok := v.Interface().(metav1.Time); ok {
			v.Set(reflect.ValueOf(metav1.Unix(1, 0)))
			return
		}
		for i := range v.NumField() {
			f.scribble(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			f.scribble(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.ValueOf("!"))
		}
	}
}
