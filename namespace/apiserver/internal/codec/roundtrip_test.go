package codec_test

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
)

// filler fills objects with random values that a client could send.
func filler(seed int64) *randfill.Filler {
	own := func(serializer.CodecFactory) []any {
		return []any{
			func(t *metav1.MicroTime, c randfill.Continue) {
				t.Time = time.Unix(int64(c.Uint32()), 1000*int64(c.Rand.Intn(1_000_000))).Local()
			},
			func(e *metav1.ManagedFieldsEntry, c randfill.Continue) {
				c.FillNoCustom(e)
				e.FieldsV1 = &metav1.FieldsV1{}
				if err := e.FieldsV1.UnmarshalJSON([]byte(`{"f:data":{".":{},"f:` + string(rune('a'+c.Rand.Intn(26))) + `":{}}}`)); err != nil {
					panic(err)
				}
			},
			func(m *metav1.ObjectMeta, c randfill.Continue) {
				c.FillNoCustom(m)
				m.CreationTimestamp = metav1.Unix(int64(c.Uint32()), 0)
				if c.Bool() {
					at, grace := metav1.Unix(int64(c.Uint32()), 0), c.Int63()
					m.DeletionTimestamp, m.DeletionGracePeriodSeconds = &at, &grace
				}
				if c.Bool() {
					m.OwnerReferences = []metav1.OwnerReference{{APIVersion: c.String(0), Kind: "Owner", Name: "x", UID: "u", Controller: new(bool)}}
				}
				m.ManagedFields = make([]metav1.ManagedFieldsEntry, c.Rand.Intn(3))
				for i := range m.ManagedFields {
					c.Fill(&m.ManagedFields[i])
					m.ManagedFields[i].Time = &m.CreationTimestamp
				}
				m.Finalizers = nil // a set here: unique
				for i := range c.Rand.Intn(3) {
					m.Finalizers = append(m.Finalizers, c.String(0)+string(rune('a'+i)))
				}
			},
		}
	}
	return fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, own), rand.NewSource(seed), serializer.NewCodecFactory(peer.scheme)).
		NilChance(0.3).NumElements(0, 3)
}

func fillObject(f *randfill.Filler, k kinds.Kind) runtime.Object {
	o := k.Object.DeepCopyObject()
	f.Fill(o)
	return o
}

// same compares objects as Kubernetes does: a missing list equals an empty one.
func same(t *testing.T, want, got runtime.Object) {
	t.Helper()
	want, got = want.DeepCopyObject(), got.DeepCopyObject()
	want.GetObjectKind().SetGroupVersionKind(got.GetObjectKind().GroupVersionKind())
	if !apiequality.Semantic.DeepEqual(want, got) {
		t.Fatal(cmp.Diff(want, got))
	}
}

// An object sent in one encoding can be read in every encoding without a change. Its protobuf
// form has the same bytes as in Kubernetes.
func TestRoundTrip(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	c, fill := newCodec(t), filler(seed)
	for _, k := range builtIn() {
		for range 4 {
			sent := fillObject(fill, k)
			bodies := map[string][]byte{
				jsonType: encode(t, peer.json, k, sent), protobufType: encode(t, peer.protobuf, k, sent),
			}
			yaml, err := yamlOf(bodies[jsonType])
			require.NoError(t, err)
			bodies[yamlType] = yaml
			for contentType, body := range bodies {
				o, warnings, err := c.Decode(k, contentType, body, codec.Strict)
				require.NoError(t, err, "%s: %q", contentType, body)
				require.Empty(t, warnings)
				checkAnswers(t, c, k, sent, o)
				checkList(t, c, k, sent, o)
			}
		}
	}
}

func checkAnswers(t *testing.T, c *codec.Codec, k kinds.Kind, sent runtime.Object, o registry.Object) {
	t.Helper()
	answer, err := c.Object(negotiate(t, c, protobufType, k, false), k, o, codec.TableOptions{})
	require.NoError(t, err)
	got, gvk, err := peer.protobuf.Decode(answer, nil, nil)
	require.NoError(t, err)
	require.Equal(t, k.Kind, gvk.Kind)
	require.Equal(t, k.APIVersion(), gvk.GroupVersion().String())
	same(t, sent, got)
	typed, err := c.Typed(k, o)
	require.NoError(t, err)
	same(t, sent, typed)
	require.Equal(t, encode(t, peer.protobuf, k, typed), answer, "the bytes that Kubernetes would send")

	answer, err = c.Object(codec.Format{}, k, o, codec.TableOptions{})
	require.NoError(t, err)
	got, _, err = peer.json.Decode(answer, nil, nil)
	require.NoError(t, err)
	same(t, sent, got)

	again, _, err := c.Decode(k, jsonType, answer, codec.Strict)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(o, again), "what a client writes back unchanged is unchanged")

	back, err := c.Untyped(k, typed)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(o, back))
	same(t, sent, typed)
}

func checkList(t *testing.T, c *codec.Codec, k kinds.Kind, sent runtime.Object, o registry.Object) {
	t.Helper()
	left := int64(7)
	list := registry.ObjectList{
		ListMeta: namespace.ListMeta{ResourceVersion: "12", Continue: "next", RemainingItemCount: &left},
		Items:    []registry.Object{o, o},
	}
	for _, accept := range []string{jsonType, protobufType} {
		answer, err := c.List(negotiate(t, c, accept, k, false), k, list, codec.TableOptions{})
		require.NoError(t, err)
		s := peer.json
		if accept == protobufType {
			s = peer.protobuf
		}
		got, gvk, err := s.Decode(answer, nil, nil)
		require.NoError(t, err)
		require.Equal(t, k.Kind+"List", gvk.Kind)
		listed, err := meta.ListAccessor(got)
		require.NoError(t, err)
		require.Equal(t, []any{"12", "next", &left}, []any{listed.GetResourceVersion(), listed.GetContinue(), listed.GetRemainingItemCount()})
		items, err := meta.ExtractList(got)
		require.NoError(t, err)
		require.Len(t, items, 2)
		same(t, sent, items[0])
		same(t, sent, items[1])
		if accept == protobufType {
			typed, err := c.Typed(k, o)
			require.NoError(t, err)
			theirs := k.List.DeepCopyObject()
			require.NoError(t, meta.SetList(theirs, []runtime.Object{typed, typed}))
			theirs.(metav1.ListMetaAccessor).GetListMeta().SetResourceVersion("12")
			theirs.(metav1.ListMetaAccessor).GetListMeta().SetContinue("next")
			theirs.(metav1.ListMetaAccessor).GetListMeta().SetRemainingItemCount(&left)
			k := k
			k.Kind += "List"
			require.Equal(t, encode(t, peer.protobuf, k, theirs), answer, "the bytes that Kubernetes would send")
		}
	}
}

// A raw format sends a stored document unchanged.
func TestRawForms(t *testing.T) {
	c, k := newCodec(t), kinds.ConfigMaps()
	o := object(t, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"3"},"data":{"a":"b"}}`)
	document, err := json.Marshal(o)
	require.NoError(t, err)
	left := int64(1)
	for _, meta := range []namespace.ListMeta{{}, {ResourceVersion: "9", Continue: "n", RemainingItemCount: &left}} {
		for _, n := range []int{0, 1, 3} {
			list := registry.ObjectList{ListMeta: meta}
			var raw []json.RawMessage
			for range n {
				list.Items, raw = append(list.Items, o), append(raw, document)
			}
			want, err := c.List(codec.Format{}, k, list, codec.TableOptions{})
			require.NoError(t, err)
			require.Equal(t, string(want), string(rawList(c, k, meta, raw)))
		}
	}
	want, err := c.Object(codec.Format{}, k, o, codec.TableOptions{})
	require.NoError(t, err)
	require.Equal(t, string(want), string(c.RawObject(document)))
	watch := negotiate(t, c, jsonType, k, true)
	want, err = c.Event(watch, k, "ADDED", o, codec.TableOptions{})
	require.NoError(t, err)
	require.Equal(t, string(want), string(c.RawEvent("ADDED", document)))
	require.True(t, watch.Raw())
	for _, accept := range []string{protobufType, yamlType, table, metadata, jsonType + ";pretty=1"} {
		require.False(t, negotiate(t, c, accept, k, false).Raw(), accept)
	}
}

// A typed object shares no memory with its source.
func TestTypedSharesNothing(t *testing.T) {
	c, k := newCodec(t), kinds.ConfigMaps()
	o := object(t, `{"metadata":{"name":"x","labels":{"a":"b"},"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"n","uid":"u","controller":true}]},"data":{"a":"b"}}`)
	before := o.DeepCopy()
	typed, err := c.Typed(k, o)
	require.NoError(t, err)
	cm := typed.(*corev1.ConfigMap)
	cm.Labels["a"], cm.Data["a"] = "changed", "changed"
	*cm.OwnerReferences[0].Controller = false
	require.Empty(t, cmp.Diff(before, o))

	_, err = c.Typed(widgets(""), o)
	require.ErrorIs(t, err, namespace.ErrBadRequest)
}

// Fields are sorted, so that equal objects have equal bytes.
func TestFieldOrder(t *testing.T) {
	k := widgets("")
	c := newCodec(t, k)
	o := registry.Object{Meta: namespace.Meta{Name: "x"}, Fields: map[string]json.RawMessage{}}
	want := `{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"x"}`
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		o.Fields[name] = json.RawMessage("1")
		want += `,"` + name + `":1`
	}
	for range 20 {
		got, err := c.Object(codec.Format{}, k, o, codec.TableOptions{})
		require.NoError(t, err)
		require.Equal(t, want+"}\n", string(got))
	}
}

// Metadata is encoded with the same bytes as by encoding/json: stored documents and responses
// must not differ.
func TestMetadataBytes(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	c, k, fill := newCodec(t), kinds.ConfigMaps(), filler(seed)
	for range 40 {
		o, err := c.Untyped(k, fillObject(fill, k))
		require.NoError(t, err)
		if o.Annotations != nil {
			o.Annotations["html"] = "<a href=\"x\">&\u2028</a>\x7f"
		}
		want, err := json.Marshal(o)
		require.NoError(t, err)
		got, err := c.Object(codec.Format{}, k, o, codec.TableOptions{})
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(got, want[:bytes.Index(want, []byte(`"metadata"`))]))
		require.Equal(t, metadataOf(t, want), metadataOf(t, got))
	}
	for _, m := range []namespace.Meta{{}, {Name: "x", CreationTimestamp: phase.Time{Time: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}}} {
		_, want := json.Marshal(m)
		_, err := c.Object(codec.Format{}, k, registry.Object{Meta: m}, codec.TableOptions{})
		require.Equal(t, want == nil, err == nil)
	}
}

func metadataOf(t *testing.T, document []byte) string {
	t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(document, &fields))
	return string(fields["metadata"])
}
