package document_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/document"
	"github.com/nslifecycle/nslifecycle/phase"
)

// random makes random objects.
type random struct{ *rand.Rand }

func (r random) text() string {
	texts := []string{
		"a", "x-1", "example.com/agent", "a longer text with spaces", `,"resourceVersion":"0"`, `{"quoted":"a\b"}`, "two\nlines\t", "Größe 世界",
		"<&>", "", "\u2028", "\x00\x1f", "\x7f", "\ufffd", "😀", "\\u003c", "/", "#", "Metadata", strings.Repeat("long ", 100),
	}
	return texts[r.IntN(len(texts))]
}

func (r random) time() phase.Time {
	switch r.IntN(3) {
	case 0:
		return phase.Time{}
	case 1:
		return phase.At(time.Unix(r.Int64N(50e9)-25e9, 0))
	}
	return phase.At(time.Unix(1_600_000_000+r.Int64N(1<<30), 0))
}

func (r random) texts() map[string]string {
	m := map[string]string{}
	for range r.IntN(5) {
		m[r.text()] = r.text()
	}
	return m
}

func (r random) meta() namespace.Meta {
	m := namespace.Meta{
		Name: r.text(), GenerateName: r.text(), Namespace: r.text(), UID: r.text() + "u", ResourceVersion: "7", Generation: r.Int64N(3),
		CreationTimestamp: r.time(), DeletionTimestamp: r.time(), Labels: r.texts(), Annotations: r.texts(),
	}
	for range r.IntN(4) {
		m.Finalizers = m.Finalizers.With(finalizer.Name(r.text()))
	}
	if yes := r.IntN(2) == 0; yes {
		m.OwnerReferences = []namespace.OwnerReference{{APIVersion: r.text(), Kind: r.text(), Controller: &yes}}
		m.ManagedFields = []namespace.ManagedFieldsEntry{{Manager: r.text(), Time: r.time(), FieldsV1: namespace.RawJSON(`{"f:a":{".":[1,{}]}}`)}}
	}
	return m
}

func (r random) fields() map[string]json.RawMessage {
	values := []string{
		``, `{}`, `[]`, `null`, `-1.5e+3`, `true`, `{"metadata":{"resourceVersion":"7","labels":{"a":"b"}},"kind":"x"}`,
		`"\u00e9 \"<&> \/ ä"`, `[[],{},[{"a":[1,2,{"b":null}]}],"]}"]`,
	}
	m := map[string]json.RawMessage{}
	for range r.IntN(4) {
		m[r.text()] = json.RawMessage(values[r.IntN(len(values))])
	}
	return m
}

func requireRoundTrip(t *testing.T, kind namespace.TypeMeta, meta namespace.Meta, of map[string]json.RawMessage) []byte {
	t.Helper()
	fields := document.AppendFields(nil, of)
	value, err := document.Encode(kind, meta, fields)
	require.NoError(t, err)
	again, err := document.Encode(kind, meta, document.AppendFields(nil, maps.Clone(of)))
	require.NoError(t, err)
	require.Equal(t, value, again, "the encoding of equal objects")

	d, err := document.Parse(value)
	require.NoError(t, err)
	require.Equal(t, kind, d.TypeMeta())
	require.Equal(t, meta.UID, d.UID())
	require.True(t, d.HasUID(meta.UID))
	require.Equal(t, !meta.DeletionTimestamp.IsZero(), d.Deleting)
	require.Equal(t, meta.Finalizers.Len() > 0, d.HasFinalizers())
	var names []finalizer.Name
	for _, name := range d.Finalizers() {
		names = append(names, finalizer.Name(name))
	}
	require.True(t, meta.Finalizers.Equal(finalizer.NewSet(names...)))
	labels := map[string]string{"before": "x"}
	d.Labels(labels)
	require.Empty(t, cmp.Diff(meta.Labels, labels, cmpopts.EquateEmpty()))

	meta.ResourceVersion = "12"
	got, err := d.Meta()
	require.NoError(t, err)
	got.ResourceVersion = "12"
	require.Empty(t, cmp.Diff(meta, got, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b finalizer.Set) bool { return a.Equal(b) })))
	want, err := document.JSON(kind, meta, fields)
	require.NoError(t, err)
	require.True(t, json.Valid(want), "%s", want)
	require.Equal(t, string(want), string(d.AppendJSON(nil, 12)))
	require.LessOrEqual(t, len(want), d.Size())
	var plain map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(value, &plain), "a stored value is JSON")
	require.Contains(t, plain, "#")
	back, err := d.Fields()
	require.NoError(t, err)
	require.Len(t, back, len(fields))
	for name, value := range of {
		if len(value) == 0 {
			value = json.RawMessage("null")
		}
		require.Equal(t, string(value), string(back[name]))
	}
	return value
}

func TestRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := random{rand.New(rand.NewPCG(seed, 0))}
	for range 1000 {
		requireRoundTrip(t, namespace.TypeMeta{Kind: r.text(), APIVersion: r.text()}, r.meta(), r.fields())
	}
}

// A deletion timestamp may be added to an object that fills the store's limit: the encoding
// must not grow by more than the JSON.
func TestDeletionTimestampGrowsTheEncodingLittle(t *testing.T) {
	fields := map[string]json.RawMessage{}
	for i := range 1000 {
		fields[fmt.Sprint("field", i)] = json.RawMessage(fmt.Sprintf(`"%0*d"`, 100+i%60, i))
	}
	meta := namespace.Meta{Name: "a", UID: "u", Finalizers: finalizer.NewSet("example.com/f")}
	before, err := document.Encode(namespace.TypeMeta{}, meta, document.AppendFields(nil, fields))
	require.NoError(t, err)
	meta.DeletionTimestamp, meta.DeletionGracePeriodSeconds = phase.At(time.Now()), new(int64)
	after, err := document.Encode(namespace.TypeMeta{}, meta, document.AppendFields(nil, fields))
	require.NoError(t, err)
	require.Equal(t, len(before)+len(`,"deletionTimestamp":"2006-01-02T15:04:05Z","deletionGracePeriodSeconds":0`), len(after))
}

func TestEncodeRequiresUID(t *testing.T) {
	_, err := document.Encode(namespace.TypeMeta{}, namespace.Meta{}, nil)
	require.Error(t, err)
}

func TestParseRejectsDamage(t *testing.T) {
	value := requireRoundTrip(t, namespace.TypeMeta{Kind: "Widget", APIVersion: "v1"},
		namespace.Meta{Name: "a", UID: "u", Labels: map[string]string{"a": "b"}}, map[string]json.RawMessage{"spec": json.RawMessage(`{"a":1}`)})
	for i := range value {
		_, err := document.Parse(value[:i])
		require.ErrorIs(t, err, document.ErrDamaged, "cut at %d", i)
		bad := bytes.Clone(value)
		bad[i] ^= 0x10
		_, err = document.Parse(bad)
		require.ErrorIs(t, err, document.ErrDamaged, "byte %d changed", i)
	}
	for _, foreign := range []string{"", "{", `{"metadata":{"name":"a","uid":"u"}}`, `{"#":"` + strings.Repeat("1", 100), `{"#":"2` + strings.Repeat("0", 100)} {
		_, err := document.Parse([]byte(foreign))
		require.ErrorIs(t, err, document.ErrDamaged, "%q", foreign)
	}
}

// Parse and the methods of a Document must not panic, regardless of the value. The fuzzer
// corrects the checksum, which otherwise rejects almost every mutation.
func FuzzParse(f *testing.F) {
	r := random{rand.New(rand.NewPCG(1, 2))}
	for range 20 {
		value, err := document.Encode(namespace.TypeMeta{Kind: r.text(), APIVersion: r.text()}, r.meta(), document.AppendFields(nil, r.fields()))
		require.NoError(f, err)
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		value = document.WithChecksum(value)
		d, err := document.Parse(value)
		if err != nil {
			require.ErrorIs(t, err, document.ErrDamaged)
			return
		}
		d.Finalizers()
		d.Labels(map[string]string{})
		d.TypeMeta()
		d.AppendJSON(nil, 7)
		if _, err := d.Meta(); err != nil {
			require.ErrorIs(t, err, document.ErrDamaged)
		}
		if _, err := d.Fields(); err != nil {
			require.ErrorIs(t, err, document.ErrDamaged)
		}
	})
}

// Objects that clients send survive a round trip.
func FuzzRoundTrip(f *testing.F) {
	f.Add("Widget", "v1", "a", "u", "label", "value", "example.com/f", int64(0), "spec", `{"a":[1]}`)
	f.Add("", "", "", `,"resourceVersion":"0"`, "", "<", "", int64(-1), "a<b", "null")
	f.Fuzz(func(t *testing.T, kind, apiVersion, name, uid, label, labelValue, finalizerName string, deletion int64, field, value string) {
		for _, s := range []string{kind, apiVersion, name, uid, label, labelValue, finalizerName, field} {
			if s != strings.ToValidUTF8(s, "\ufffd") {
				return
			}
		}
		var compact bytes.Buffer
		if uid == "" || json.Compact(&compact, []byte(value)) != nil {
			return
		}
		meta := namespace.Meta{Name: name, UID: uid, Labels: map[string]string{label: labelValue}, Finalizers: finalizer.NewSet(finalizer.Name(finalizerName))}
		if deletion %= 1 << 36; deletion > 0 {
			meta.DeletionTimestamp = phase.At(time.Unix(deletion, 0))
		}
		requireRoundTrip(t, namespace.TypeMeta{Kind: kind, APIVersion: apiVersion}, meta, map[string]json.RawMessage{field: compact.Bytes()})
	})
}
