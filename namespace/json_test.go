package namespace_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// What is left out, what is null and what is always there. The module
// kubernetescompat below this package checks all of it against Kubernetes' types.
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
			n, err := namespace.Decode([]byte(tt.in))
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

// What was decoded stays as it is, whatever becomes of the buffer.
func TestDecodeKeepsNothing(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(full())
	require.NoError(t, err)
	n, err := namespace.Decode(data)
	require.NoError(t, err)
	for i := range data {
		data[i] = '!'
	}
	require.Empty(t, cmp.Diff(full(), n, cmp.Transformer("compact", compact)))
}

// compact makes documents comparable that differ in white space.
func compact(r namespace.RawJSON) string {
	out, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func TestDecodeSaysWhere(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"nothing", ``, "the document is malformed at byte 0: unexpected end of JSON input"},
		{"cut off", `{"metadata":`, "the document is malformed at byte 12: unexpected end of JSON input"},
		{"a stray byte", `{"metadata":x}`, "the document is malformed at byte 13: invalid character 'x' looking for beginning of value"},
		{"more after the end", `{} {}`, "the document is malformed at byte 4: invalid character '{' after top-level value"},
		{"a list", `[]`, `the document cannot be a JSON array`},
		{"a wrong type", `{"metadata":{"labels":{"a":1}}}`, `the field "metadata.labels" cannot be a JSON number`},
		{"a wrong time", `{"metadata":{"creationTimestamp":"now"}}`,
			`the document is malformed: a time must be in RFC 3339 form: parsing time "now" as "2006-01-02T15:04:05Z07:00": cannot parse "now" as "2006"`},
		{"wrong finalizers", `{"spec":{"finalizers":"kubernetes"}}`,
			"the document is malformed: finalizers must be a list of strings: json: cannot unmarshal string into Go value of type []finalizer.Name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, err := namespace.Decode([]byte(tt.in))
			require.ErrorIs(t, err, namespace.ErrBadRequest)
			require.EqualError(t, err, tt.want)
			require.Empty(t, cmp.Diff(namespace.Namespace{}, n))
		})
	}
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

// FuzzDecode checks that whatever decodes encodes to what decodes to the same,
// and that requests made of it are validated without a panic.
func FuzzDecode(f *testing.F) {
	for _, doc := range []string{
		`{}`, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"a","finalizers":["a/b"]},"spec":{"finalizers":["kubernetes"]}}`,
		`{"metadata":{"name":"A","generateName":"a-","labels":{"/":"é"},"annotations":{"a":""},"ownerReferences":[{"controller":true},{"controller":true}],"managedFields":[{"fieldsV1":[]}]}}`,
		`{"metadata":{"deletionTimestamp":"2026-01-02T03:04:05Z"},"status":{"phase":"Active","conditions":[{},{}]}}`,
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := namespace.Decode(data)
		if err != nil {
			require.ErrorIs(t, err, namespace.ErrBadRequest)
			return
		}
		out, err := json.Marshal(n)
		require.NoError(t, err)
		again, err := namespace.Decode(out)
		require.NoError(t, err)
		twice, err := json.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, string(out), string(twice))
		requests(t, n)
	})
}

// requests makes every request of a document that a client sent, and requires
// what can be refused to be refused with a typed error and the rest to keep the
// rules.
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
