package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
)

// requireSame holds that reading doc as JSON is decoding and encoding it, and that
// selectors see the same of it.
func requireSame[T any](t *testing.T, f form[T], doc []byte) {
	t.Helper()
	entry := store.Entry{Key: "/registry/x", Value: doc, Revision: 1<<40 + 7}
	before := bytes.Clone(doc)
	object, wantErr := f.decode(entry)
	var want []byte
	if wantErr == nil {
		want, wantErr = f.encode(object)
	}
	r := reader[T]{form: f, chunked: true}
	got, ok, err := r.read(entry)
	require.Equal(t, wantErr == nil, err == nil, "%q: %v, but %v", doc, wantErr, err)
	require.Equal(t, before, doc, "what is stored is read-only")
	if err != nil {
		return
	}
	require.True(t, ok)
	require.Equal(t, string(want), string(got), "%q", doc)
	plain, err := json.Marshal(object)
	require.NoError(t, err)
	var escaped bytes.Buffer
	json.HTMLEscape(&escaped, got)
	require.Equal(t, string(plain), escaped.String())

	var seen []string
	r.byFields, r.matches = true, func(part T) bool {
		seen = append(seen, selectable(part))
		return false
	}
	_, ok, err = r.read(entry)
	require.NoError(t, err)
	require.False(t, ok)
	for _, part := range seen {
		require.Equal(t, selectable(object), part, "%q", doc)
	}
	require.NotEmpty(t, seen)
}

// selectable is all of an object that selectors may look at.
func selectable(object any) string {
	switch o := object.(type) {
	case namespace.Namespace:
		return fmt.Sprint(o.Name, o.Phase(), len(o.Labels), o.Labels)
	case Object:
		return fmt.Sprint(o.Name, " ", o.Namespace, len(o.Labels), o.Labels, o.Fields)
	}
	return ""
}

// isKnown reports whether doc is read without decoding it.
func isKnown[T any](f form[T], doc []byte) bool {
	var o outline
	return o.read(doc) && f.known(&o)
}

// random makes metadata, objects and namespaces of all kinds.
type random struct {
	*rand.Rand
	ordinary bool // only what comes up in earnest
}

func (r random) text() string {
	ordinary := []string{"a", "x-1", "kubernetes", "example.com/agent", "a longer text with spaces", `{"quoted":"a\b"}`, "zwei\nZeilen\t", "Größe 世界", "<&>", ""}
	odd := []string{"\u2028", "\x00\x1f", "\b\f", "\x7f", "\ufffd", "bad \xff utf-8", "😀", "\\u003c", "/"}
	if !r.ordinary && r.IntN(4) == 0 {
		return odd[r.IntN(len(odd))] + ordinary[r.IntN(len(ordinary))]
	}
	return ordinary[r.IntN(len(ordinary))]
}

func (r random) time() phase.Time {
	switch r.IntN(4) {
	case 0:
		return phase.Time{}
	case 1:
		if !r.ordinary {
			return phase.At(time.Unix(r.Int64N(50e9)-25e9, 0))
		}
	}
	return phase.At(time.Unix(1_600_000_000+r.Int64N(1<<30), 0))
}

func (r random) names() finalizer.Set {
	var names []finalizer.Name
	for range r.IntN(4) {
		names = append(names, finalizer.Name(r.text()))
	}
	return finalizer.NewSet(names...)
}

func (r random) texts() map[string]string {
	out := map[string]string{}
	for range r.IntN(5) {
		if key := r.text(); !r.ordinary || plain([]byte(`"`+key+`"`), 0) > 0 && key != `{"quoted":"a\b"}` {
			out[key] = r.text()
		}
	}
	return out
}

func (r random) meta() namespace.Meta {
	m := namespace.Meta{
		Name: r.text(), GenerateName: r.text(), Namespace: r.text(), UID: r.text(), Generation: r.Int64N(3),
		CreationTimestamp: r.time(), DeletionTimestamp: r.time(), Labels: r.texts(), Annotations: r.texts(), Finalizers: r.names(),
	}
	if r.IntN(2) == 0 {
		m.Name, m.GenerateName, m.Namespace, m.UID = "", "", "", ""
	}
	if yes, grace := r.IntN(2) == 0, r.Int64N(3); yes {
		m.DeletionGracePeriodSeconds = &grace
		m.OwnerReferences = []namespace.OwnerReference{{APIVersion: r.text(), Kind: r.text(), Controller: &yes}, {Name: r.text(), BlockOwnerDeletion: &yes}}
		m.ManagedFields = []namespace.ManagedFieldsEntry{{Manager: r.text(), Time: r.time(), FieldsV1: namespace.RawJSON(`{"f:a":{".":[1,{}]}}`)}, {Subresource: "status"}}
	}
	return m
}

var someJSON = []json.RawMessage{
	json.RawMessage(`{}`), json.RawMessage(`[]`), json.RawMessage(`null`), json.RawMessage(`-1.5e+3`), json.RawMessage(`0`), json.RawMessage(`true`),
	json.RawMessage(`{"metadata":{"resourceVersion":"7","labels":{"a":"b"}},"kind":"x"}`), json.RawMessage(`"\u00e9\ud83d\ude00 \"<&> \/ ä"`),
	json.RawMessage(`[[],{},[{"a":[1,2,{"b":null}]}],"]}"]`), json.RawMessage(`"a text that is longer than eight bytes, with a \\ in it"`),
}

func (r random) object() Object {
	o := Object{TypeMeta: namespace.TypeMeta{Kind: "Widget", APIVersion: "example.com/v1"}, Meta: r.meta(), Fields: map[string]json.RawMessage{}}
	if !r.ordinary && r.IntN(2) == 0 {
		o.Kind, o.APIVersion = r.text(), r.text()
	}
	for _, name := range []string{"spec", "status", "data", "a<b"} {
		if r.IntN(2) == 0 && (name != "a<b" || !r.ordinary) {
			o.Fields[name] = someJSON[r.IntN(len(someJSON))]
		}
	}
	return o
}

func (r random) namespace() namespace.Namespace {
	n := namespace.Namespace{TypeMeta: namespace.TypeMeta{Kind: "Namespace", APIVersion: "v1"}, Meta: r.meta()}
	n.Spec.Finalizers = r.names()
	if r.IntN(2) == 0 {
		n.Status.Conditions = phase.Conditions(nil, phase.Observation{}, "", time.Unix(1_700_000_000, 0))
	}
	return n
}

// mutated returns doc as somebody else might have written it.
func (r random) mutated(doc []byte) []byte {
	pieces := []string{
		" ", "\n", ",", ":", "{", "}", "[", "]", `"`, `\`, "0", "-", "null", `"kind":"x",`, `,"metadata":{}`, `,"zzz":1`, `"resourceVersion":"9",`,
		`"labels":{"b":"1","a":"2"},`, `"Name":"y",`, "\u2028", "\xff", `\/`, `\u0041`, "é", "Terminating", "2024-02-30T00:00:00Z", "e1",
	}
	doc = bytes.Clone(doc)
	for range 1 + r.IntN(3) {
		at := r.IntN(len(doc) + 1)
		end := min(len(doc), at+r.IntN(4))
		if r.IntN(2) == 0 {
			end = at
		}
		doc = slices.Replace(doc, at, end, []byte(pieces[r.IntN(len(pieces))])...)
	}
	return doc
}

func seeded(t testing.TB) random {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return random{Rand: rand.New(rand.NewPCG(seed, 0))}
}

// What is read as JSON is what decoding and encoding makes of it, whoever wrote it.
func TestJSONIsThatOfTheObject(t *testing.T) {
	r := seeded(t)
	known := 0
	for n := range 1500 {
		r.ordinary = n%2 == 0
		object, err := encodeObject(r.object())
		require.NoError(t, err)
		ns, err := encodeNamespace(r.namespace())
		require.NoError(t, err)
		for _, doc := range [][]byte{object, ns} {
			for range 3 {
				requireSame(t, objectForm(objectKind), doc)
				requireSame(t, namespaceForm, doc)
				if isKnown(namespaceForm, doc) || isKnown(objectForm(objectKind), doc) {
					known++
				}
				doc = r.mutated(doc)
			}
		}
	}
	require.Greater(t, known, 1500, "documents that need no decoding")
}

// What the registry stores is read without decoding it.
func TestStoredDocumentsAreKnown(t *testing.T) {
	r := seeded(t)
	r.ordinary = true
	for range 2000 {
		doc, err := encodeObject(r.object())
		require.NoError(t, err)
		require.True(t, isKnown(objectForm(objectKind), doc), "%s", doc)
		doc, err = encodeNamespace(r.namespace())
		require.NoError(t, err)
		require.True(t, isKnown(namespaceForm, doc), "%s", doc)
	}
}

func TestR2_StoredPhaseDoesNotCount(t *testing.T) {
	for doc, want := range map[string]string{
		`{"metadata":{"name":"x"},"spec":{},"status":{"phase":"Active"}}`:                                      `{"metadata":{"name":"x","resourceVersion":"7"},"spec":{},"status":{"phase":"Active"}}`,
		`{"metadata":{"name":"x"},"spec":{},"status":{"phase":"Terminating"}}`:                                 `{"metadata":{"name":"x","resourceVersion":"7"},"spec":{},"status":{"phase":"Active"}}`,
		`{"metadata":{"name":"x"},"spec":{},"status":{}}`:                                                      `{"metadata":{"name":"x","resourceVersion":"7"},"spec":{},"status":{"phase":"Active"}}`,
		`{"metadata":{"deletionTimestamp":"2024-01-01T00:00:00Z"},"spec":{},"status":{"phase":"Active"}}`:      `{"metadata":{"resourceVersion":"7","deletionTimestamp":"2024-01-01T00:00:00Z"},"spec":{},"status":{"phase":"Terminating"}}`,
		`{"metadata":{"deletionTimestamp":"2024-01-01T00:00:00Z"},"spec":{},"status":{"phase":"Terminating"}}`: `{"metadata":{"resourceVersion":"7","deletionTimestamp":"2024-01-01T00:00:00Z"},"spec":{},"status":{"phase":"Terminating"}}`,
		`{"metadata":{"resourceVersion":"3"},"spec":{},"status":{"phase":"Active"}}`:                           `{"metadata":{"resourceVersion":"7"},"spec":{},"status":{"phase":"Active"}}`,
	} {
		r := reader[namespace.Namespace]{form: namespaceForm}
		got, _, err := r.read(store.Entry{Value: []byte(doc), Revision: 7})
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

// Documents that would be encoded in another way than they stand there.
func TestOtherDocumentsAreDecoded(t *testing.T) {
	for _, doc := range []string{
		``, `{`, `[]`, `null`, ` {"metadata":{}}`, `{"metadata":{}} `, `{"metadata":{}}x`, `{"metadata":null}`, `{"metadata":[]}`,
		`{"kind":"","metadata":{}}`, `{"apiVersion":"v1","kind":"x","metadata":{}}`, `{"metadata":{},"kind":"x"}`, `{"kind":"<","metadata":{}}`,
		`{"metadata":{"name":""}}`, `{"metadata":{"name":"x","name":"y"}}`, `{"metadata":{"uid":"x","name":"y"}}`, `{"metadata":{"Name":"x"}}`,
		`{"metadata":{"name":"x",}}`, `{"metadata":{,"name":"x"}}`, `{"metadata":{"name":"x" }}`, `{"metadata":{"name":"x""uid":"y"}}`,
		`{"metadata":{"name":"\u0041"}}`, `{"metadata":{"name":"\/"}}`, `{"metadata":{"name":"<"}}`, "{\"metadata\":{\"name\":\"\u2028\"}}",
		"{\"metadata\":{\"name\":\"\xff\"}}", `{"metadata":{"name":"\u003C"}}`, "{\"metadata\":{\"name\":\"\n\"}}",
		`{"metadata":{"generation":0}}`, `{"metadata":{"generation":01}}`, `{"metadata":{"generation":-0}}`, `{"metadata":{"generation":1.0}}`,
		`{"metadata":{"generation":9223372036854775808}}`, `{"metadata":{"deletionGracePeriodSeconds":null}}`, `{"metadata":{"deletionGracePeriodSeconds":00}}`,
		`{"metadata":{"creationTimestamp":null}}`, `{"metadata":{"creationTimestamp":"0001-01-01T00:00:00Z"}}`, `{"metadata":{"creationTimestamp":"2023-02-29T00:00:00Z"}}`,
		`{"metadata":{"creationTimestamp":"2024-01-01T00:00:00+00:00"}}`, `{"metadata":{"creationTimestamp":"2024-01-01T24:00:00Z"}}`, `{"metadata":{"creationTimestamp":"2024-01-01T00:00:60Z"}}`,
		`{"metadata":{"creationTimestamp":"2024-04-31T00:00:00Z"}}`, `{"metadata":{"creationTimestamp":"1900-02-29T00:00:00Z"}}`, `{"metadata":{"creationTimestamp":"2024-00-01T00:00:00Z"}}`, `{"metadata":{"creationTimestamp":"2024-01-01t00:00:00z"}}`,
		`{"metadata":{"labels":{}}}`, `{"metadata":{"labels":{"b":"1","a":"2"}}}`, `{"metadata":{"labels":{"a":"1","a":"2"}}}`, `{"metadata":{"labels":{"a":null}}}`,
		`{"metadata":{"labels":{"a":"1",}}}`, `{"metadata":{"finalizers":[]}}`, `{"metadata":{"finalizers":["a","a"]}}`, `{"metadata":{"finalizers":["a",]}}`,
		`{"metadata":{"ownerReferences":[{}]}}`, `{"metadata":{"managedFields":[{"fieldsV1":null}]}}`, `{"metadata":{"managedFields":[{"fieldsV1":{"a":"<"}}]}}`,
		`{"metadata":{"unknown":1}}`, `{"metadata":{"resourceVersion":"1"}}`,
		`{"metadata":{},"b":1,"a":1}`, `{"metadata":{},"a":1,"a":1}`, `{"metadata":{},"a": 1}`, `{"metadata":{},"a":1 }`, `{"metadata":{},"a":}`, `{"metadata":{},"a"}`,
		`{"metadata":{},"a":01}`, `{"metadata":{},"a":-}`, `{"metadata":{},"a":1.}`, `{"metadata":{},"a":1e}`, `{"metadata":{},"a":nul}`, `{"metadata":{},"a":"\x"}`, `{"metadata":{},"a":"\u12g4"}`,
		"{\"metadata\":{},\"a\":\"\x1f\"}", `{"metadata":{},"a":[1,]}`, `{"metadata":{},"a":[1}}`, `{"metadata":{},"a":{"b":1]}`, `{"metadata":{},"a":{"b"}}`, `{"metadata":{},"a":{1:1}}`,
		`{"metadata":{},"a":[1 ,2]}`, `{"metadata":{},"a":{"b": 1}}`, `{"metadata":{},"a":"x}`, `{"metadata":{},"\u0061":1}`, `{"metadata":{},"":1}`, `{"metadata":{},"a":[[}`,
	} {
		require.False(t, isKnown(objectForm(objectKind), []byte(doc)), doc)
		requireSame(t, objectForm(objectKind), []byte(doc))
		require.False(t, isKnown(namespaceForm, []byte(doc)), doc)
		requireSame(t, namespaceForm, []byte(doc))
	}
	for _, tail := range []string{
		`}`, `,"spec":{}}`, `,"status":{"phase":"Active"},"spec":{}}`, `,"spec":{},"status":{"phase":"Active"},"x":1}`, `,"spec":{},"status":{"phase":"Active"}}}`,
		`,"spec":{"finalizers":[]},"status":{"phase":"Active"}}`, `,"spec":null,"status":{"phase":"Active"}}`, `,"spec":{},"status":{"phase":"Active","conditions":[]}}`,
		`,"spec":{},"status":{"phase":"Active","conditions":[{"type":"a","status":"b","lastTransitionTime":null}]}}`,
	} {
		doc := []byte(`{"metadata":{"name":"x"}` + tail)
		require.False(t, isKnown(namespaceForm, doc), string(doc))
		requireSame(t, namespaceForm, doc)
	}
	deep := slices.Concat([]byte(`{"metadata":{},"a":`), bytes.Repeat([]byte("["), 65), bytes.Repeat([]byte("]"), 65), []byte(`}`))
	require.False(t, isKnown(objectForm(objectKind), deep))
	requireSame(t, objectForm(objectKind), deep)
	requireSame(t, objectForm(objectKind), slices.Concat([]byte(`{"metadata":{},"a":"`), bytes.Repeat([]byte("x"), MaxObject), []byte(`"}`)))
}

func FuzzJSON(f *testing.F) {
	r := random{Rand: rand.New(rand.NewPCG(1, 2))}
	for range 20 {
		object, _ := encodeObject(r.object())
		ns, _ := encodeNamespace(r.namespace())
		f.Add(object)
		f.Add(ns)
		f.Add(r.mutated(object))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		requireSame(t, objectForm(objectKind), doc)
		requireSame(t, namespaceForm, doc)
	})
}
