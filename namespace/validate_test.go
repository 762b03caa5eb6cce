package namespace_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

const (
	labelText = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an" +
		" alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
	neither = "name is neither a standard finalizer name nor is it fully qualified"
	utf8    = "Invalid value: must be valid UTF-8"
)

func yes() *bool { b := true; return &b }

type violations = []namespace.Violation

func TestValidateMeta(t *testing.T) {
	t.Parallel()
	ok := namespace.Meta{Name: "x"}
	with := func(change func(*namespace.Meta)) namespace.Meta {
		m := ok.DeepCopy()
		change(&m)
		return m
	}
	content := namespace.NameRule{Subdomain: true, Namespaced: true}
	tests := []struct {
		name string
		meta namespace.Meta
		rule namespace.NameRule
		want violations
	}{
		{"fine", ok, namespace.NameRule{}, nil},
		{"fine content", namespace.Meta{Name: "a.b", GenerateName: "a.b-", Namespace: "x"}, content, nil},
		{"fine, cluster-scoped content", namespace.Meta{Name: "a.b"}, namespace.NameRule{Subdomain: true}, nil},
		{"no name", namespace.Meta{}, namespace.NameRule{}, violations{
			{"FieldValueRequired", "metadata.name", "Required value: name or generateName is required"}}},
		{"a name with dots", namespace.Meta{Name: "a.b"}, namespace.NameRule{}, violations{
			{"FieldValueInvalid", "metadata.name", `Invalid value: "a.b": must not contain dots`}}},
		{"a path as name", namespace.Meta{Name: "../x"}, namespace.NameRule{}, violations{
			{"FieldValueInvalid", "metadata.name", `Invalid value: "../x": ` + labelText}}},
		{"a namespace in a namespace", with(func(m *namespace.Meta) { m.Namespace = "y" }), namespace.NameRule{}, violations{
			{"FieldValueForbidden", "metadata.namespace", "Forbidden: not allowed on this type"}}},
		{"content without a namespace", ok, content, violations{
			{"FieldValueRequired", "metadata.namespace", "Required value"}}},
		{"content in a bad namespace", with(func(m *namespace.Meta) { m.Namespace = "a/b" }), content, violations{
			{"FieldValueInvalid", "metadata.namespace", `Invalid value: "a/b": ` + labelText}}},
		{"a negative generation", with(func(m *namespace.Meta) { m.Generation = -1 }), namespace.NameRule{}, violations{
			{"FieldValueInvalid", "metadata.generation", "Invalid value: -1: must be greater than or equal to 0"}}},
		{"invalid UTF-8 everywhere", with(func(m *namespace.Meta) {
			m.SelfLink, m.UID, m.ResourceVersion = "\xff", "\xff", "\xff"
			m.Annotations = map[string]string{"a": "\xff"}
			m.OwnerReferences = []namespace.OwnerReference{{APIVersion: "\xff", Kind: "\xff", Name: "\xff", UID: "\xff"}}
			m.ManagedFields = []namespace.ManagedFieldsEntry{{Operation: "Apply", Manager: "\xff", APIVersion: "\xff", Subresource: "\xff"}}
		}), namespace.NameRule{}, violations{
			{"FieldValueInvalid", "metadata.selfLink", utf8},
			{"FieldValueInvalid", "metadata.uid", utf8},
			{"FieldValueInvalid", "metadata.resourceVersion", utf8},
			{"FieldValueInvalid", "metadata.annotations[a]", utf8},
			{"FieldValueInvalid", "metadata.ownerReferences[0].apiVersion", utf8},
			{"FieldValueInvalid", "metadata.ownerReferences[0].kind", utf8},
			{"FieldValueInvalid", "metadata.ownerReferences[0].name", utf8},
			{"FieldValueInvalid", "metadata.ownerReferences[0].uid", utf8},
			{"FieldValueInvalid", "metadata.managedFields[0].manager", utf8},
			{"FieldValueInvalid", "metadata.managedFields[0].apiVersion", utf8},
			{"FieldValueInvalid", "metadata.managedFields[0].subresource", utf8},
		}},
		{"owners", with(func(m *namespace.Meta) {
			m.OwnerReferences = []namespace.OwnerReference{
				{APIVersion: "v1", Kind: "Event", Name: "e", UID: "u", Controller: yes()},
				{APIVersion: "g/v/w", Kind: "K", Name: "n", UID: "u", Controller: yes()},
				{APIVersion: "g/"},
			}
		}), namespace.NameRule{}, violations{
			{"FieldValueInvalid", "metadata.ownerReferences[0]", "Invalid value: /v1, Kind=Event is disallowed from being an owner"},
			{"FieldValueInvalid", "metadata.ownerReferences[1].apiVersion", `Invalid value: "g/v/w": version must not be empty`},
			{"FieldValueInvalid", "metadata.ownerReferences",
				`Invalid value: Only one reference can have Controller set to true. Found "true" in references for Event/e and K/n`},
			{"FieldValueInvalid", "metadata.ownerReferences[2].apiVersion", `Invalid value: "g/": version must not be empty`},
			{"FieldValueInvalid", "metadata.ownerReferences[2].kind", `Invalid value: "": must not be empty`},
			{"FieldValueInvalid", "metadata.ownerReferences[2].name", `Invalid value: "": must not be empty`},
			{"FieldValueInvalid", "metadata.ownerReferences[2].uid", `Invalid value: "": must not be empty`},
		}},
		{"finalizers", with(func(m *namespace.Meta) {
			m.Finalizers = finalizer.NewSet("orphan", "a/b", "agent", "foregroundDeletion")
		}), namespace.NameRule{}, violations{
			{"FieldValueInvalid", "metadata.finalizers[2]", `Invalid value: "agent": ` + neither},
			{"FieldValueInvalid", "metadata.finalizers", "Invalid value: finalizer orphan and foregroundDeletion cannot be both set"},
		}},
		{"managed fields", with(func(m *namespace.Meta) {
			m.ManagedFields = []namespace.ManagedFieldsEntry{
				{Operation: "Update", FieldsType: "FieldsV1", FieldsV1: namespace.RawJSON(" {} ")},
				{Operation: "Apply", Manager: strings.Repeat("m", 129), FieldsV1: namespace.RawJSON("[]"), Subresource: strings.Repeat("s", 257)},
				{Operation: "Apply", FieldsV1: namespace.RawJSON("{")},
			}
		}), namespace.NameRule{}, violations{
			{"FieldValueTooLong", "metadata.managedFields[1].manager", "Too long: may not be more than 128 bytes"},
			{"FieldValueInvalid", "metadata.managedFields[1].fieldsV1", "Invalid value: must be a JSON object"},
			{"FieldValueTooLong", "metadata.managedFields[1].subresource", "Too long: may not be more than 256 bytes"},
			{"FieldValueInvalid", "metadata.managedFields[2].fieldsV1", "Invalid value: must be a JSON object"},
		}},
		{"annotations too large", with(func(m *namespace.Meta) {
			m.Annotations = map[string]string{"a": strings.Repeat("x", namespace.MaxAnnotations)}
		}), namespace.NameRule{}, violations{
			{"FieldValueTooLong", "metadata.annotations", "Too long: may not be more than 262144 bytes"}}},
		{"annotations just fit", with(func(m *namespace.Meta) {
			m.Annotations = map[string]string{"a": strings.Repeat("x", namespace.MaxAnnotations-1)}
		}), namespace.NameRule{}, nil},
		{"no such times", with(func(m *namespace.Meta) {
			m.CreationTimestamp, m.DeletionTimestamp = year12000, year12000
			m.ManagedFields = []namespace.ManagedFieldsEntry{{Operation: "Apply", Time: year12000}}
		}), namespace.NameRule{}, violations{
			{"FieldValueInvalid", "metadata.creationTimestamp", noSuchYear},
			{"FieldValueInvalid", "metadata.deletionTimestamp", noSuchYear},
			{"FieldValueInvalid", "metadata.managedFields[0].time", noSuchYear}}},
		{"metadata too large", with(func(m *namespace.Meta) { m.SelfLink = strings.Repeat("x", namespace.MaxSize) }), namespace.NameRule{}, violations{
			{"FieldValueTooLong", "metadata", "Too long: may not be more than 1048576 bytes"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Empty(t, cmp.Diff(tt.want, namespace.ValidateMeta(tt.meta, tt.rule)))
		})
	}
}

// The error lists every violation, in the order of the document and in the form of Kubernetes.
func TestValidateCreate(t *testing.T) {
	t.Parallel()
	n := named("Bad", "origin", "kubernetes")
	n.GenerateName = "-"
	n.Labels = map[string]string{"z!": "ok", "a": "-"}
	err := namespace.ValidateCreate(namespace.PrepareCreate(n, "", "u", now))
	require.ErrorIs(t, err, namespace.ErrInvalid)
	var refused *namespace.Error
	require.True(t, errors.As(err, &refused))
	require.Equal(t, "namespaces", refused.Resource)
	require.Equal(t, "Bad", refused.Name)
	var fields []string
	for _, v := range refused.Causes {
		fields = append(fields, v.Field)
	}
	require.Equal(t, []string{"metadata.name", "metadata.generateName", "metadata.labels", "metadata.labels", "spec.finalizers"}, fields)
	require.True(t, strings.HasPrefix(err.Error(), `Namespace "Bad" is invalid: [metadata.name: Invalid value: "Bad": `+labelText+
		`, metadata.generateName: Invalid value: "-": `), err.Error())
	require.True(t, strings.HasSuffix(err.Error(), `, spec.finalizers: Invalid value: "origin": `+neither+"]"), err.Error())

	err = namespace.ValidateCreate(namespace.PrepareCreate(named("a.b"), "", "u", now))
	require.EqualError(t, err, `Namespace "a.b" is invalid: metadata.name: Invalid value: "a.b": must not contain dots`)
}

// As in Kubernetes, the message lists a repeated violation once, and Causes lists it twice.
func TestInvalid(t *testing.T) {
	t.Parallel()
	one, two := namespace.Violation{Field: "a", Message: "m"}, namespace.Violation{Field: "b", Message: "m"}
	require.EqualError(t, namespace.Invalid("Widget.example.com", "widgets.example.com", "x", violations{one, one}), `Widget.example.com "x" is invalid: a: m`)
	err := namespace.Invalid("Widget.example.com", "widgets.example.com", "x", violations{one, two, one})
	require.EqualError(t, err, `Widget.example.com "x" is invalid: [a: m, b: m]`)
	var refused *namespace.Error
	require.True(t, errors.As(err, &refused))
	require.Equal(t, violations{one, two, one}, refused.Causes)
}

func TestWrongKind(t *testing.T) {
	t.Parallel()
	for _, typ := range []namespace.TypeMeta{{Kind: "Pod", APIVersion: "v1"}, {Kind: "Namespace"}, {Kind: "Namespace", APIVersion: "v2"}, {APIVersion: "v1"}} {
		asked := named("x")
		asked.TypeMeta = typ
		old := namespace.PrepareCreate(named("x"), "", "u", now)
		for _, err := range []error{
			namespace.ValidateCreate(namespace.PrepareCreate(asked, "", "u", now)),
			namespace.ValidateUpdate(old, namespace.PrepareUpdate(old, asked)),
			namespace.ValidateStatus(old, namespace.PrepareStatus(old, asked)),
			namespace.ValidateFinalize(old, namespace.PrepareFinalize(old, asked)),
		} {
			require.ErrorIs(t, err, namespace.ErrBadRequest)
			require.ErrorContains(t, err, `is not a namespace: send kind "Namespace" and apiVersion "v1", or neither`)
		}
	}
}

func TestValidateUpdate(t *testing.T) {
	t.Parallel()
	old := namespace.PrepareCreate(named("x"), "", "u", earlier)
	old.Finalizers = finalizer.NewSet("a/a")
	more := old.DeepCopy()
	more.Finalizers = finalizer.NewSet("a/a", "c/c", "b/b")
	require.NoError(t, namespace.ValidateUpdate(old, namespace.PrepareUpdate(old, more)), "while it is Active")

	dying := namespace.MarkDeleted(old, now)
	err := namespace.ValidateUpdate(dying, namespace.PrepareUpdate(dying, more))
	require.ErrorIs(t, err, namespace.ErrInvalid)
	require.EqualError(t, err, `Namespace "x" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object`+
		` is being deleted, found new finalizers []string{"b/b", "c/c"}`)
	less := old.DeepCopy()
	less.Finalizers = finalizer.Set{}
	require.NoError(t, namespace.ValidateUpdate(dying, namespace.PrepareUpdate(dying, less)))

	other := named("y")
	require.EqualError(t, namespace.ValidateUpdate(old, namespace.PrepareUpdate(old, other)),
		`Namespace "y" is invalid: metadata.name: Invalid value: "y": field is immutable`)

	// Without Prepare, each changed field is a violation.
	grace := int64(1)
	forged := dying.DeepCopy()
	forged.UID, forged.CreationTimestamp, forged.DeletionTimestamp, forged.DeletionGracePeriodSeconds = "v", phase.Time{}, phase.At(earlier), &grace
	forged.Labels[namespace.NameLabel] = "z"
	err = namespace.ValidateUpdate(dying, forged)
	for _, field := range []string{"metadata.uid", "metadata.creationTimestamp", "metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds"} {
		require.ErrorContains(t, err, field+": Invalid value: ")
	}
	require.ErrorContains(t, err, `metadata.labels: Invalid value: "z": the label kubernetes.io/metadata.name must be the name of the namespace`)
}

const noSuchYear = "Invalid value: a time must be between the years 0 and 9999, got the year 12000"

// year12000 has no JSON form.
var year12000 = phase.Time{Time: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)}

func TestValidateStatus(t *testing.T) {
	t.Parallel()
	active := namespace.PrepareCreate(named("x"), "", "u", earlier)
	dying := namespace.MarkDeleted(active, now)
	large := active.DeepCopy()
	large.SelfLink = strings.Repeat("x", namespace.MaxSize*3/4)
	status := func(s namespace.Status) namespace.Namespace {
		n := named("x")
		n.Status = s
		return n
	}
	tests := []struct {
		name   string
		old    namespace.Namespace
		status namespace.Status
		want   string
	}{
		{"derived", active, namespace.Status{}, ""},
		{"right", dying, namespace.Status{Phase: phase.Terminating}, ""},
		{"dying too early", active, namespace.Status{Phase: phase.Terminating},
			"status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"},
		{"risen again", dying, namespace.Status{Phase: phase.Active},
			"status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"},
		{"conditions", active, namespace.Status{Conditions: []phase.Condition{
			{Type: "T", Status: phase.True}, {Status: phase.False}, {Type: "T", Status: "Perhaps"}, {Type: "\xff", Status: phase.Unknown, Reason: "\xff", Message: "\xff"}}},
			`[status.conditions[1].type: Required value, status.conditions[2].type: Duplicate value: "T",` +
				` status.conditions[2].status: Unsupported value: "Perhaps": supported values: "False", "True", "Unknown",` +
				" status.conditions[3].type: " + utf8 + ", status.conditions[3].reason: " + utf8 + ", status.conditions[3].message: " + utf8 + "]"},
		{"too large", active, namespace.Status{Conditions: []phase.Condition{
			{Type: "T", Status: phase.True, Message: strings.Repeat("m", namespace.MaxSize)}}},
			"status.conditions: Too long: may not be more than 1048576 bytes"},
		{"large metadata leaves room", large, namespace.Status{Conditions: []phase.Condition{
			{Type: "T", Status: phase.True, Message: strings.Repeat("m", namespace.MaxSize/2)}}}, ""},
		{"no such time", active, namespace.Status{Conditions: []phase.Condition{{Type: "T", Status: phase.True, LastTransitionTime: year12000}}},
			"status.conditions[0].lastTransitionTime: Invalid value: a time must be between the years 0 and 9999, got the year 12000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := namespace.ValidateStatus(tt.old, namespace.PrepareStatus(tt.old, status(tt.status)))
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, namespace.ErrInvalid)
			require.EqualError(t, err, `Namespace "x" is invalid: `+tt.want)
		})
	}
}

func TestValidateFinalize(t *testing.T) {
	t.Parallel()
	old := namespace.MarkDeleted(namespace.PrepareCreate(named("x"), "", "u", earlier), now)
	require.NoError(t, namespace.ValidateFinalize(old, namespace.PrepareFinalize(old, named("x", "kubernetes", "late/party"))),
		"a late party may still hold it")
	require.NoError(t, namespace.ValidateFinalize(old, namespace.PrepareFinalize(old, named("x"))))
	err := namespace.ValidateFinalize(old, namespace.PrepareFinalize(old, named("x", "kubernetes", "late", "a/b!")))
	require.ErrorIs(t, err, namespace.ErrInvalid)
	require.ErrorContains(t, err, `[spec.finalizers[1]: Invalid value: "late": `+neither+`, spec.finalizers[2]: Invalid value: "a/b!": name part must`)
	many := namespace.PrepareFinalize(old, named("x", finalizer.Name("a/"+strings.Repeat("b", namespace.MaxSize))))
	require.ErrorContains(t, namespace.ValidateFinalize(old, many), "spec.finalizers: Too long: may not be more than 1048576 bytes")
}

func TestValidateDelete(t *testing.T) {
	t.Parallel()
	n := named("x")
	n.UID, n.ResourceVersion = "uid-1", "7"
	type pre = namespace.Preconditions
	for _, p := range []pre{{}, {UID: "uid-1"}, {ResourceVersion: "7"}, {UID: "uid-1", ResourceVersion: "7"}} {
		require.NoError(t, namespace.ValidateDelete(n, p, "default"))
	}
	err := namespace.ValidateDelete(n, pre{UID: "uid-2", ResourceVersion: "8"})
	require.ErrorIs(t, err, namespace.ErrConflict)
	require.EqualError(t, err, `Operation cannot be fulfilled on namespaces "x": Precondition failed: UID in precondition: uid-2, UID in object meta: uid-1`)
	err = namespace.ValidateDelete(n, pre{ResourceVersion: "8"})
	require.ErrorIs(t, err, namespace.ErrConflict)
	require.EqualError(t, err,
		`Operation cannot be fulfilled on namespaces "x": Precondition failed: ResourceVersion in precondition: 8, ResourceVersion in object meta: 7`)
	err = namespace.ValidateDelete(named("default"), pre{UID: "other"}, "kube-system", "default")
	require.ErrorIs(t, err, namespace.ErrForbidden)
	require.EqualError(t, err, `namespaces "default" is forbidden: this namespace may not be deleted`)
}

func TestNames(t *testing.T) {
	t.Parallel()
	require.Nil(t, namespace.ValidateName("development"))
	require.Equal(t, []string{"must not contain dots"}, namespace.ValidateName("a.b"))
	prefixed := func(prefix string, rule namespace.NameRule) []namespace.Violation {
		return namespace.ValidateMeta(namespace.Meta{Name: "a", GenerateName: prefix}, rule)
	}
	label, subdomain := namespace.NameRule{}, namespace.NameRule{Subdomain: true}
	for _, prefix := range []string{"a", "a-", "a--", strings.Repeat("a", 62) + "-"} {
		require.Nil(t, prefixed(prefix, label), prefix)
		require.Nil(t, namespace.ValidateName(namespace.GenerateName(prefix, 12345)), prefix)
	}
	require.Nil(t, prefixed("a.b-", subdomain))
	for _, prefix := range []string{"-", "A-", "a.", "a.-", "a/", strings.Repeat("a", 63) + "-"} {
		require.NotNil(t, prefixed(prefix, label), prefix)
	}
	require.NotNil(t, prefixed("a.-", subdomain))
	require.Equal(t, namespace.GenerateName("a-", 1), namespace.GenerateName("a-", 1))
	require.NotEqual(t, namespace.GenerateName("a-", 1), namespace.GenerateName("a-", 2))
	require.Len(t, namespace.GenerateName(strings.Repeat("a", 100), 1<<63), 63)
}

// For any argument, every function returns a typed error or a value that keeps the rules, and changes
// nothing.
func TestBadInput(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", namespace.MaxSize+1)
	grace := int64(-1)
	for _, n := range []namespace.Namespace{
		{}, named("\xff"), named("/"), named(".."), named(long), named("x", "", "\xff", finalizer.Name(long)),
		{Meta: namespace.Meta{Name: "x", Generation: -1, DeletionGracePeriodSeconds: &grace, GenerateName: long, Namespace: "\x00"}},
		{Meta: namespace.Meta{Name: "x", Labels: map[string]string{"": "\xff", long: long}, Annotations: map[string]string{"\xff": "\xff"}}},
		{Meta: namespace.Meta{Name: "x", OwnerReferences: make([]namespace.OwnerReference, 3), ManagedFields: make([]namespace.ManagedFieldsEntry, 3)}},
		{TypeMeta: namespace.TypeMeta{Kind: "\xff"}},
	} {
		kept := n.DeepCopy()
		requests(t, n)
		require.Error(t, namespace.ValidateCreate(namespace.PrepareCreate(n, "bad token!", "", now)))
		require.Empty(t, cmp.Diff(kept, n))
	}
	require.NoError(t, namespace.Invalid("Namespace", "namespaces", "x", nil))
	require.Less(t, len(namespace.Invalid("Namespace", "namespaces", long, violations{{"T", "f", "m"}}).Error()), 3000)
	require.Nil(t, namespace.NoNewFinalizers(namespace.Meta{}, namespace.Meta{}))
	d := namespace.Decide(namespace.Namespace{}, namespace.Party{}, namespace.Observed{Estimate: -1}, now)
	require.Equal(t, namespace.Decision{Done: true}, d)
}
