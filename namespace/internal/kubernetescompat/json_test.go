package kubernetescompat

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// both decodes doc into Kubernetes' type K and into our type O, and encodes both again.
func both[K, O any](doc []byte) (theirs, ours []byte, theirErr, ourErr error) {
	var k K
	var o O
	if theirErr = json.Unmarshal(doc, &k); theirErr == nil {
		theirs, theirErr = json.Marshal(k)
	}
	if ourErr = json.Unmarshal(doc, &o); ourErr == nil {
		ours, ourErr = json.Marshal(o)
	}
	return theirs, ours, theirErr, ourErr
}

// same requires both to decode doc and to encode it to the same bytes.
func same[K, O any](t *testing.T, doc []byte) {
	t.Helper()
	theirs, ours, theirErr, ourErr := both[K, O](doc)
	require.NoError(t, theirErr, "%s", doc)
	require.NoError(t, ourErr, "%s", doc)
	require.Empty(t, cmp.Diff(string(theirs), string(ours)), "%s", doc)
}

var documents = map[string]string{
	"nothing":            `{}`,
	"kind only":          `{"kind":"Namespace","apiVersion":"v1"}`,
	"nulls":              `{"metadata":null,"spec":null,"status":null}`,
	"empty parts":        `{"metadata":{},"spec":{},"status":{}}`,
	"empty lists":        `{"metadata":{"labels":{},"annotations":{},"finalizers":[],"ownerReferences":[],"managedFields":[]},"spec":{"finalizers":[]},"status":{"conditions":[]}}`,
	"null lists":         `{"metadata":{"labels":null,"annotations":null,"finalizers":null,"ownerReferences":null,"managedFields":null},"spec":{"finalizers":null},"status":{"conditions":null}}`,
	"null timestamps":    `{"metadata":{"creationTimestamp":null,"deletionTimestamp":null,"deletionGracePeriodSeconds":null}}`,
	"as older versions":  `{"metadata":{"name":"a","creationTimestamp":null},"spec":{},"status":{}}`,
	"times":              `{"metadata":{"creationTimestamp":"2026-01-02T03:04:05Z","deletionTimestamp":"2026-01-02T05:04:05.999999999+02:00"}}`,
	"escaped time":       `{"metadata":{"creationTimestamp":"\u0032026-01-02T03:04:05Z"}}`,
	"old time":           `{"metadata":{"creationTimestamp":"0001-01-01T00:00:00Z"}}`,
	"grace":              `{"metadata":{"deletionGracePeriodSeconds":0,"generation":9223372036854775807}}`,
	"labels in order":    `{"metadata":{"labels":{"z":"1","a":"2","m/n":""},"annotations":{"b":"<&>\u2028\"\\","a":"\u00e9"}}}`,
	"owners":             `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true,"blockOwnerDeletion":false},{}]}}`,
	"managed fields":     `{"metadata":{"managedFields":[{"manager":"m","operation":"Apply","apiVersion":"v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{ "f:a" : {"k:{\"x\":\"<\"}":{}} },"subresource":"status"}]}}`,
	"empty managed":      `{"metadata":{"managedFields":[{"time":null,"fieldsV1":null},{"fieldsV1":{}}]}}`,
	"identity":           `{"metadata":{"name":"n","generateName":"n-","namespace":"x","selfLink":"/s","uid":"u","resourceVersion":"7"}}`,
	"finalizers":         `{"metadata":{"finalizers":["b/b","a/a"]},"spec":{"finalizers":["openshift.com/origin","kubernetes"]}}`,
	"null finalizer":     `{"spec":{"finalizers":["a",null]}}`,
	"conditions":         `{"status":{"phase":"Terminating","conditions":[{"type":"NamespaceContentRemaining","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"R","message":"m"},{"type":"","status":"","lastTransitionTime":null}]}}`,
	"unknown fields":     `{"metadata":{"clusterName":"x","name":"n"},"spec":{"later":{}},"more":[1]}`,
	"keys in other case": `{"METADATA":{"NAME":"n"}}`,
	"twice":              `{"metadata":{"name":"a","labels":{"a":"1"}},"metadata":{"labels":{"b":"2"}}}`,
	"bad UTF-8":          "{\"metadata\":{\"name\":\"a\xffb\",\"labels\":{\"\xff\":\"x\"}}}",
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	for name, doc := range documents {
		t.Run(name, func(t *testing.T) { same[corev1.Namespace, namespace.Namespace](t, []byte(doc)) })
	}
}

func TestTestdata(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		doc, err := os.ReadFile(f)
		require.NoError(t, err)
		same[corev1.Namespace, namespace.Namespace](t, doc)
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{
		`{}`,
		`{"kind":"NamespaceList","apiVersion":"v1","metadata":{},"items":[]}`,
		`{"metadata":null,"items":null}`,
		`{"metadata":{"selfLink":"/s","resourceVersion":"7","continue":"t","remainingItemCount":0},"items":[{},{"metadata":{"name":"n"}}]}`,
	} {
		same[corev1.NamespaceList, namespace.List](t, []byte(doc))
	}
}

// Both refuse JSON of the wrong type.
func TestWrongTypes(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{
		``, `{`, `[]`, `"x"`, `{"kind":1}`, `{"metadata":[]}`, `{"metadata":{"name":{}}}`, `{"metadata":{"labels":["a"]}}`,
		`{"metadata":{"labels":{"a":1}}}`, `{"metadata":{"creationTimestamp":1}}`, `{"metadata":{"creationTimestamp":""}}`,
		`{"metadata":{"creationTimestamp":"yesterday"}}`, `{"metadata":{"generation":1.5}}`, `{"metadata":{"generation":"1"}}`,
		`{"metadata":{"deletionGracePeriodSeconds":{}}}`, `{"spec":{"finalizers":"a"}}`, `{"spec":{"finalizers":[1]}}`,
		`{"status":{"conditions":{}}}`, `{"status":{"phase":true}}`, `{}{}`,
	} {
		_, _, theirs, ours := both[corev1.Namespace, namespace.Namespace]([]byte(doc))
		require.Error(t, theirs, "%s", doc)
		require.Error(t, ours, "%s", doc)
	}
}

// Repeated finalizers are the only loss.
func TestRepeatedFinalizersCollapse(t *testing.T) {
	t.Parallel()
	theirs, ours, theirErr, ourErr := both[corev1.Namespace, namespace.Namespace]([]byte(`{"spec":{"finalizers":["a/b","c/d","a/b"]}}`))
	require.NoError(t, theirErr)
	require.NoError(t, ourErr)
	require.Equal(t, `{"metadata":{},"spec":{"finalizers":["a/b","c/d","a/b"]},"status":{}}`, string(theirs))
	require.Equal(t, `{"metadata":{},"spec":{"finalizers":["a/b","c/d"]},"status":{}}`, string(ours))
}

// TestGenerated checks that random objects of Kubernetes' type pass through our type unchanged.
func TestGenerated(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	g := generator{rand.New(rand.NewPCG(seed, 1))}
	for range 5000 {
		doc, err := json.Marshal(g.namespace())
		require.NoError(t, err)
		same[corev1.Namespace, namespace.Namespace](t, doc)
		var ours namespace.Namespace
		require.NoError(t, json.Unmarshal(doc, &ours))
		out, err := json.Marshal(ours)
		require.NoError(t, err)
		require.Equal(t, string(doc), string(out))
	}
}

// FuzzJSON decodes any bytes into both types: both refuse them, or both encode the same bytes.
func FuzzJSON(f *testing.F) {
	for _, doc := range documents {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		theirs, ours, theirErr, ourErr := both[corev1.Namespace, namespace.Namespace](doc)
		if ourErr != nil {
			if theirErr == nil && strings.Contains(ourErr.Error(), "between the years") {
				return // Kubernetes accepts times that it writes in a form that it cannot read
			}
			require.Error(t, theirErr)
			return
		}
		require.NoError(t, theirErr)
		// Kubernetes keeps what it decodes to a zero time apart from no time until it
		// is decoded again, and repeated finalizers.
		theirs, _, theirErr, _ = both[corev1.Namespace, namespace.Namespace](theirs)
		require.NoError(t, theirErr)
		theirs, err := collapsed(theirs)
		require.NoError(t, err)
		require.Equal(t, string(theirs), string(ours))
	})
}

func collapsed(doc []byte) ([]byte, error) {
	var k corev1.Namespace
	if err := json.Unmarshal(doc, &k); err != nil {
		return nil, err
	}
	k.Finalizers = unique(k.Finalizers)
	k.Spec.Finalizers = unique(k.Spec.Finalizers)
	out, err := json.Marshal(k)
	return bytes.TrimSpace(out), err
}

func unique[T comparable](list []T) []T {
	seen := map[T]bool{}
	var out []T
	for _, e := range list {
		if !seen[e] {
			out = append(out, e)
		}
		seen[e] = true
	}
	return out
}

type generator struct{ *rand.Rand }

func (g generator) some() bool { return g.IntN(2) == 0 }

func (g generator) text() string {
	const letters = "ab/.-<&>\"\\\u2028é\x00 0Z_"
	runes := []rune(letters)
	var b strings.Builder
	for range g.IntN(6) {
		b.WriteRune(runes[g.IntN(len(runes))])
	}
	return b.String()
}

func (g generator) time() metav1.Time {
	return metav1.NewTime(time.Unix(g.Int64N(4e9)-1e9, g.Int64N(1e9)).In(time.FixedZone("", g.IntN(86400)-43200)))
}

func list[T any](g generator, make func() T) []T {
	var l []T
	for range g.IntN(3) {
		l = append(l, make())
	}
	return l
}

func maybe[T any](g generator, make func() T) *T {
	if g.some() {
		return nil
	}
	v := make()
	return &v
}

func (g generator) labels() map[string]string {
	if g.some() {
		return nil
	}
	m := map[string]string{}
	for range g.IntN(4) {
		m[g.text()] = g.text()
	}
	return m
}

func (g generator) meta() metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		//lint:ignore SA1019 old clients send it
		SelfLink: g.text(),
		Name:     g.text(), GenerateName: g.text(), Namespace: g.text(),
		UID: types.UID(g.text()), ResourceVersion: g.text(), Generation: g.Int64N(3) - 1,
		DeletionTimestamp:          maybe(g, g.time),
		DeletionGracePeriodSeconds: maybe(g, func() int64 { return g.Int64N(3) }),
		Labels:                     g.labels(), Annotations: g.labels(),
		Finalizers: unique(list(g, g.text)),
		OwnerReferences: list(g, func() metav1.OwnerReference {
			return metav1.OwnerReference{APIVersion: g.text(), Kind: g.text(), Name: g.text(), UID: types.UID(g.text()),
				Controller: maybe(g, g.some), BlockOwnerDeletion: maybe(g, g.some)}
		}),
		ManagedFields: list(g, func() metav1.ManagedFieldsEntry {
			return metav1.ManagedFieldsEntry{Manager: g.text(), Operation: metav1.ManagedFieldsOperationType(g.text()),
				APIVersion: g.text(), Time: maybe(g, g.time), FieldsType: g.text(), Subresource: g.text(),
				FieldsV1: maybe(g, func() metav1.FieldsV1 {
					return metav1.FieldsV1{Raw: []byte([]string{`{}`, `{"f:a":{"f:b":{}}}`, ` { "." : {} }`}[g.IntN(3)])}
				})}
		}),
	}
	if g.some() {
		m.CreationTimestamp = g.time()
	}
	return m
}

func (g generator) namespace() corev1.Namespace {
	return corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{Kind: g.text(), APIVersion: g.text()},
		ObjectMeta: g.meta(),
		Spec: corev1.NamespaceSpec{Finalizers: unique(list(g, func() corev1.FinalizerName {
			return corev1.FinalizerName(g.text())
		}))},
		Status: corev1.NamespaceStatus{
			Phase: corev1.NamespacePhase(g.text()),
			Conditions: list(g, func() corev1.NamespaceCondition {
				c := corev1.NamespaceCondition{Type: corev1.NamespaceConditionType(g.text()), Status: corev1.ConditionStatus(g.text()),
					Reason: g.text(), Message: g.text()}
				if g.some() {
					c.LastTransitionTime = g.time()
				}
				return c
			}),
		},
	}
}
