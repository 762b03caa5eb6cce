package declare_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
)

func TestProtections(t *testing.T) {
	t.Parallel()
	type list = []declare.Protection
	tests := []struct {
		name string
		meta namespace.Meta
		want list
		err  string
	}{
		{"none", namespace.Meta{}, nil, ""},
		{"other annotations", annotated("a", "b", "example.com/protection.nslifecycle.io", legalIs, "protection.nslifecycle.io.example.com/a", legalIs,
			"Protection.nslifecycle.io/a", legalIs), nil, ""},
		{"sorted", annotated(legal, legalIs, backups, backupIs, "z", ""), list{
			{Name: "backups", Owner: "ops", Reason: "the last copy"}, {Name: "legal", Owner: "team-a", Reason: "contract until May"}}, ""},
		{"in any form of JSON", annotated(legal, " {\n\"reason\" : \"\\u00e9t\\u00e9\" , \"owner\":\"\\\"a\\\"\"}\t"), list{{Name: "legal", Owner: `"a"`, Reason: "été"}}, ""},
		{"readable ones beside the others", annotated(legal, "yes", backups, backupIs), list{{Name: "backups", Owner: "ops", Reason: "the last copy"}},
			`Namespace "x" is invalid: metadata.annotations[protection.nslifecycle.io/legal]: Invalid value: "yes": must be a JSON object with owner, reason`},
		{"each that is not", annotated(legal, "", backups, "{}"), nil,
			`Namespace "x" is invalid: [metadata.annotations[protection.nslifecycle.io/backups]: Invalid value: "{}": owner is required,` +
				` metadata.annotations[protection.nslifecycle.io/legal]: Invalid value: "": must be a JSON object with owner, reason]`},
		{"without a name", annotated("protection.nslifecycle.io/", legalIs), nil,
			`Namespace "x" is invalid: metadata.annotations[protection.nslifecycle.io/]: Invalid value: "{\"owner\":\"team-a\",\"reason\":\"contract until May\"}": name part must be non-empty`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			kept := tt.meta.DeepCopy()
			got, err := declare.Protections(tt.meta)
			require.Empty(t, cmp.Diff(tt.want, got))
			require.Empty(t, cmp.Diff(kept, tt.meta))
			if tt.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, namespace.ErrInvalid)
			require.EqualError(t, err, tt.err)
		})
	}
}

// An unreadable protection is reported with the reason.
func TestProtectionIsStrict(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, value, err string }{
		{"empty", ``, "must be a JSON object with owner, reason"},
		{"text", `team-a`, "must be a JSON object with owner, reason"},
		{"null", `null`, "must be a JSON object with owner, reason"},
		{"list", `[]`, "must be a JSON object with owner, reason"},
		{"string", `"{}"`, "must be a JSON object with owner, reason"},
		{"cut off", `{"owner":"a","reason":"b"`, "must be a JSON object with owner, reason"},
		{"cut off in a name", `{"own`, "must be a JSON object with owner, reason"},
		{"cut off in a value", `{"owner":"a`, "must be a JSON object with owner, reason"},
		{"broken", `{"owner":"a";"reason":"b"}`, "must be a JSON object with owner, reason"},
		{"a comma too many", `{"owner":"a","reason":"b",}`, "must be a JSON object with owner, reason"},
		{"two values", legalIs + legalIs, "has text after the JSON object"},
		{"trailing text", legalIs + "x", "has text after the JSON object"},
		{"unknown member", `{"owner":"a","reason":"b","until":"May"}`, `unknown field "until", known are owner, reason`},
		{"the name", `{"name":"legal","owner":"a","reason":"b"}`, `unknown field "name", known are owner, reason`},
		{"another case", `{"Owner":"a","reason":"b"}`, `unknown field "Owner", known are owner, reason`},
		{"twice", `{"owner":"a","owner":"b","reason":"c"}`, "owner appears twice"},
		{"a number", `{"owner":1,"reason":"b"}`, "owner must be a string"},
		{"a null", `{"owner":"a","reason":null}`, "reason must be a string"},
		{"an object", `{"owner":{"reason":"b"},"reason":"b"}`, "owner must be a string"},
		{"no owner", `{"reason":"b"}`, "owner is required"},
		{"no reason", `{"owner":"a"}`, "reason is required"},
		{"a blank owner", `{"owner":" \u00a0","reason":"b"}`, "owner is required"},
		{"a long owner", `{"owner":"` + strings.Repeat("a", 513) + `","reason":"b"}`, "owner has 513 bytes, at most 512 are allowed"},
		{"a long reason", `{"owner":"a","reason":"` + strings.Repeat("b", 1025) + `"}`, "reason has 1025 bytes, at most 1024 are allowed"},
		{"too long", `{"owner":"a","reason":"b"}` + strings.Repeat(" ", 8<<10), "has 8218 bytes, at most 8192 are allowed"},
		{"two lines", `{"owner":"a\nb","reason":"b"}`, "owner must be one line of visible characters"},
		{"a terminal's escape", `{"owner":"a","reason":"\u001b[2J"}`, "reason must be one line of visible characters"},
		{"text turned around", `{"owner":"a","reason":"\u202eb"}`, "reason must be one line of visible characters"},
		{"no UTF-8", "{\"owner\":\"\xff\",\"reason\":\"b\"}", "must be valid UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := declare.Protections(annotated(legal, tt.value))
			require.Empty(t, got)
			var refused *namespace.Error
			require.True(t, errors.As(err, &refused), "%v", err)
			require.ErrorIs(t, err, namespace.ErrInvalid)
			require.Len(t, refused.Causes, 1)
			cause := refused.Causes[0]
			require.Equal(t, "metadata.annotations["+legal+"]", cause.Field)
			require.Equal(t, namespace.FieldInvalid, cause.Type)
			require.True(t, strings.HasSuffix(cause.Message, ": "+tt.err), cause.Message)
		})
	}
}

func TestProtectionAnnotation(t *testing.T) {
	t.Parallel()
	ok := declare.Protection{Name: "legal", Owner: "team-a", Reason: "contract until May"}
	key, value, err := ok.Annotation()
	require.NoError(t, err)
	require.Equal(t, legal, key)
	require.Equal(t, legalIs, value)
	_, value, err = declare.Protection{Name: "a", Owner: "a & b <a@example.com>", Reason: "é"}.Annotation()
	require.NoError(t, err)
	require.Equal(t, `{"owner":"a & b <a@example.com>","reason":"é"}`, value, "readable for operators")
	for _, p := range []declare.Protection{
		ok,
		{Name: "A_b.C", Owner: `"<&>\`, Reason: "نمی\u200cخواهم 日本語 👍 \u3000."},
		{Name: strings.Repeat("a", 63), Owner: strings.Repeat("\"", 512), Reason: strings.Repeat("\\", 1024)},
	} {
		key, value, err := p.Annotation()
		require.NoError(t, err)
		got, err := declare.Protections(annotated(key, value))
		require.NoError(t, err)
		require.Empty(t, cmp.Diff([]declare.Protection{p}, got))
	}
	for _, tt := range []struct {
		change func(*declare.Protection)
		err    string
	}{
		{func(p *declare.Protection) { p.Name = "" }, `the annotation "protection.nslifecycle.io/" is invalid: name part must be non-empty`},
		{func(p *declare.Protection) { p.Name = strings.Repeat("a", 64) }, "name part must be no more than 63 bytes"},
		{func(p *declare.Protection) { p.Name = "a/b" }, "a valid label key must consist of"},
		{func(p *declare.Protection) { p.Name = "\xff" }, "name part must consist of"},
		{func(p *declare.Protection) { p.Owner = "" }, `the annotation "protection.nslifecycle.io/legal" is invalid: owner is required`},
		{func(p *declare.Protection) { p.Reason = "\t" }, "reason is required"},
		{func(p *declare.Protection) { p.Reason = "a\u2028b" }, "reason must be one line of visible characters"},
		{func(p *declare.Protection) { p.Owner = "\xff" }, "owner must be valid UTF-8"},
		{func(p *declare.Protection) { p.Owner = strings.Repeat("a", 513) }, "owner has 513 bytes"},
	} {
		p := ok
		tt.change(&p)
		key, value, err := p.Annotation()
		require.ErrorIs(t, err, namespace.ErrInvalid)
		require.ErrorContains(t, err, tt.err)
		require.Empty(t, key+value)
	}
}

func TestValidateDeleteProtected(t *testing.T) {
	t.Parallel()
	n := protectedNamespace(legal, legalIs, backups, backupIs, "a", "b")
	err := declare.ValidateDelete(n, namespace.Preconditions{UID: "uid-1"}, "default")
	require.ErrorIs(t, err, namespace.ErrForbidden)
	require.EqualError(t, err, `namespaces "x" is forbidden: deletion is protected by backups (owner ops: the last copy), legal (owner team-a: contract until May);`+
		` remove the annotations protection.nslifecycle.io/backups, protection.nslifecycle.io/legal first`)
	var refused *namespace.Error
	require.True(t, errors.As(err, &refused))
	require.Equal(t, "namespaces", refused.Resource)
	require.Equal(t, "x", refused.Name)
	require.Equal(t, violations{
		{Type: "NamespaceProtected", Field: "metadata.annotations[" + backups + "]", Message: "protected by backups (owner ops: the last copy)"},
		{Type: "NamespaceProtected", Field: "metadata.annotations[" + legal + "]", Message: "protected by legal (owner team-a: contract until May)"},
	}, refused.Causes)

	// Unreadable protections protect as well. The message does not repeat them.
	n = protectedNamespace(legal, "\x1b[2J")
	require.EqualError(t, declare.ValidateDelete(n, namespace.Preconditions{}), `namespaces "x" is forbidden: deletion is protected by legal`+
		` (its annotation cannot be read); remove the annotation protection.nslifecycle.io/legal first`)
	for _, key := range []string{"protection.nslifecycle.io/", "protection.nslifecycle.io/\xff\x1b", "protection.nslifecycle.io/" + strings.Repeat("a/", 1<<10)} {
		err = declare.ValidateDelete(protectedNamespace(key, legalIs), namespace.Preconditions{})
		require.ErrorIs(t, err, namespace.ErrForbidden, "%.60q", key)
		require.NotContains(t, err.Error(), "\x1b")
		require.NotContains(t, err.Error(), "\xff")
		require.Less(t, len(err.Error()), 2000)
	}

	// Long lists are shortened.
	many := map[string]string{}
	for i := range 4500 {
		many[fmt.Sprintf("protection.nslifecycle.io/p%04d", i)] = legalIs
	}
	n = protectedNamespace()
	n.Annotations = many
	err = declare.ValidateDelete(n, namespace.Preconditions{})
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Causes, 100)
	require.Less(t, len(err.Error()), 2000)
	require.ErrorContains(t, err, "p0009 (owner team-a: contract until May) and 4490 more; remove the annotations protection.nslifecycle.io/p0000, ")
	require.True(t, strings.HasSuffix(err.Error(), ", protection.nslifecycle.io/p0009 and 4490 more first"), err.Error())

	// Immortal names and preconditions are checked first.
	n = protectedNamespace(legal, legalIs)
	require.ErrorIs(t, declare.ValidateDelete(n, namespace.Preconditions{UID: "other"}), namespace.ErrConflict)
	require.EqualError(t, declare.ValidateDelete(n, namespace.Preconditions{UID: "other"}, "x"), `namespaces "x" is forbidden: this namespace may not be deleted`)
	delete(n.Annotations, legal)
	require.NoError(t, declare.ValidateDelete(n, namespace.Preconditions{}))
}

// A protection prevents the deletion of an Active namespace, even without finalizers. It does not
// prevent the removal of a terminating one.
func TestR1_ProtectedNamespaces(t *testing.T) {
	t.Parallel()
	active := protectedNamespace(legal, legalIs)
	active.Spec.Finalizers = finalizer.Set{}
	require.Error(t, declare.ValidateDelete(active, namespace.Preconditions{}))
	require.False(t, namespace.Removable(active), "it is Active")

	dying := protectedNamespace(legal, legalIs) // by a host that ignores protections
	dying.Finalizers = finalizer.NewSet("example.com/a")
	dying.Spec.Finalizers = finalizer.Set{}
	dying = namespace.MarkDeleted(dying, now)
	require.False(t, namespace.Removable(dying))
	asked := protectedNamespace(legal, legalIs)
	asked.Finalizers = finalizer.Set{}
	updated := namespace.PrepareUpdate(dying, asked)
	require.NoError(t, declare.ValidateUpdate(dying, updated, now))
	require.Contains(t, updated.Annotations, legal)
	require.True(t, namespace.Removable(updated))
}

// A protection that is added later does not change a terminating namespace.
func TestR3_LaterProtectionHasNoEffect(t *testing.T) {
	t.Parallel()
	dying := namespace.MarkDeleted(protectedNamespace(), earlier)
	for _, value := range []string{legalIs, "unreadable"} {
		asked := protectedNamespace(legal, value)
		updated := namespace.PrepareUpdate(dying, asked)
		require.Equal(t, dying.DeletionTimestamp, updated.DeletionTimestamp)
		require.ErrorIs(t, declare.ValidateUpdate(dying, updated, now), namespace.ErrInvalid)
		require.NoError(t, declare.ValidateDelete(updated, namespace.Preconditions{UID: "uid-1"}))
		require.ErrorIs(t, declare.ValidateDelete(updated, namespace.Preconditions{UID: "uid-2"}), namespace.ErrConflict)
		require.Equal(t, updated, namespace.MarkDeleted(updated, now))
	}
}
