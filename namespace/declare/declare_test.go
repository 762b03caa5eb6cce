package declare_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
)

// causes returns the violations of a refusal.
func causes(t *testing.T, err error) violations {
	t.Helper()
	if err == nil {
		return nil
	}
	require.ErrorIs(t, err, namespace.ErrInvalid)
	var refused *namespace.Error
	require.True(t, errors.As(err, &refused))
	return refused.Causes
}

const holdIs = `{"until":"2026-05-06T07:08:09Z"}`

// unreadable returns unreadable declarations.
func unreadable() map[string]string {
	return map[string]string{
		legal:                                    `{"owner":"team-a"}`,
		waiverKey:                                `{}`,
		declare.HoldAnnotation:                   `tomorrow`,
		declare.GraceAnnotation:                  `-1s`,
		"Protection.nslifecycle.io/Legal":        legalIs,
		"waiver.NSLIFECYCLE.io/a":                waiverIs,
		"nslifecycle.io/Delete-After":            holdIs,
		"NsLifecycle.io/deletion-grace":          "1h",
		"protection.nslifecycle.io/none/of/them": legalIs,
		"protection.nslifecycle.io/\u212a":       legalIs, // the sign for Kelvin, a k in lower case
	}
}

func TestValidateDeclared(t *testing.T) {
	t.Parallel()
	fine := []string{legal, legalIs, backups, backupIs, waiverKey, waiverIs, declare.HoldAnnotation, holdIs, declare.GraceAnnotation, "24h",
		"example.com/a", "{", "nslifecycle.io/other", "{", "notprotection.nslifecycle.io/a", "{", "x/protection.nslifecycle.io", "{", "nslifecycle.io", "{"}
	n := named("x")
	n.Meta = annotated(fine...)
	require.NoError(t, declare.ValidateCreate(namespace.PrepareCreate(n, "", "u", earlier)))

	old := namespace.PrepareCreate(named("x"), "", "u", earlier)
	for key, value := range unreadable() {
		asked := named("x")
		asked.Annotations = map[string]string{key: value, "a": "b"}
		created := causes(t, declare.ValidateCreate(namespace.PrepareCreate(asked, "", "u", now)))
		require.NotEmpty(t, created, key)
		for _, was := range []namespace.Namespace{old, namespace.MarkDeleted(old, now)} {
			require.Empty(t, cmp.Diff(created, causes(t, declare.ValidateUpdate(was, namespace.PrepareUpdate(was, asked), now))), key)
		}
	}
}

// A terminating namespace accepts no declaration except waivers. Existing declarations may stay or be
// removed.
func TestR3_NoDeclarationAgainstATermination(t *testing.T) {
	t.Parallel()
	old := namespace.PrepareCreate(named("x"), "", "u", earlier)
	old.Annotations = map[string]string{backups: backupIs}
	dying := namespace.MarkDeleted(old, now)
	for key, value := range map[string]string{legal: legalIs, backups: legalIs, declare.HoldAnnotation: holdIs, declare.GraceAnnotation: "1h"} {
		asked := old.DeepCopy()
		asked.Annotations[key] = value
		require.NoError(t, declare.ValidateUpdate(old, namespace.PrepareUpdate(old, asked), earlier), key)
		require.Empty(t, cmp.Diff([]namespace.Violation{{
			Type: namespace.FieldForbidden, Field: "metadata.annotations[" + key + "]",
			Message: "Forbidden: the namespace has been terminating since 2026-05-06T07:08:09Z; no protection, hold or grace stops or delays that: omit the annotation",
		}}, causes(t, declare.ValidateUpdate(dying, namespace.PrepareUpdate(dying, asked), earlier))), key)
	}
	asked := dying.DeepCopy()
	asked.Annotations[waiverKey] = waiverIs
	require.NoError(t, declare.ValidateUpdate(dying, namespace.PrepareUpdate(dying, asked), now))
	asked.Annotations = nil
	require.NoError(t, declare.ValidateUpdate(dying, namespace.PrepareUpdate(dying, asked), now))
}

func TestViolationsNameTheField(t *testing.T) {
	t.Parallel()
	n := named("x")
	n.Annotations = unreadable()
	delete(n.Annotations, "protection.nslifecycle.io/none/of/them")
	delete(n.Annotations, "protection.nslifecycle.io/\u212a")
	n.Annotations["waiver.nslifecycle.io/fine"] = waiverIs
	n.Annotations["waiver.nslifecycle.io/\xff"] = "\xff"
	var fields []string
	for _, v := range causes(t, declare.ValidateCreate(namespace.PrepareCreate(n, "", "u", now))) {
		require.Equal(t, namespace.FieldInvalid, v.Type)
		fields = append(fields, v.Field)
	}
	require.Equal(t, []string{
		"metadata.annotations", "metadata.annotations[waiver.nslifecycle.io/\uFFFD]", // invalid UTF-8 is reported once
		"metadata.annotations", "metadata.annotations", "metadata.annotations",
		"metadata.annotations[nslifecycle.io/delete-after]", "metadata.annotations[nslifecycle.io/deletion-grace]",
		"metadata.annotations[protection.nslifecycle.io/legal]", "metadata.annotations", "metadata.annotations[waiver.nslifecycle.io/metrics]",
	}, fields)

	for key, want := range map[string]string{
		"Protection.nslifecycle.io/Legal": `Namespace "x" is invalid: metadata.annotations: Invalid value: "Protection.nslifecycle.io/Legal":` +
			` the key must be in lower case: "protection.nslifecycle.io/Legal"`,
		"nslifecycle.io/Delete-After": `Namespace "x" is invalid: metadata.annotations: Invalid value: "nslifecycle.io/Delete-After":` +
			` the key must be in lower case: "nslifecycle.io/delete-after"`,
		legal: `Namespace "x" is invalid: metadata.annotations[protection.nslifecycle.io/legal]: Invalid value: "{\"owner\":\"team-a\"}": reason is required`,
	} {
		n := named("x")
		n.Annotations = map[string]string{key: unreadable()[key]}
		require.EqualError(t, declare.ValidateCreate(namespace.PrepareCreate(n, "", "u", now)), want)
	}
}

// Stored declarations never block an update that keeps or removes them.
func TestUnchangedDeclarationsAreNotValidated(t *testing.T) {
	t.Parallel()
	old := namespace.PrepareCreate(named("x"), "", "u", earlier)
	old.Annotations = unreadable()
	delete(old.Annotations, "protection.nslifecycle.io/none/of/them")
	for _, old := range []namespace.Namespace{old, namespace.MarkDeleted(old, now)} {
		asked := old.DeepCopy()
		asked.Labels["a"] = "b"
		require.NoError(t, declare.ValidateUpdate(old, namespace.PrepareUpdate(old, asked), now))
		for key := range old.Annotations {
			asked := old.DeepCopy()
			delete(asked.Annotations, key)
			require.NoError(t, declare.ValidateUpdate(old, namespace.PrepareUpdate(old, asked), now), key)
			asked.Annotations[key] = "{"
			require.Len(t, causes(t, declare.ValidateUpdate(old, namespace.PrepareUpdate(old, asked), now)), 1, key)
		}
		require.NoError(t, namespace.ValidateStatus(old, namespace.PrepareStatus(old, named("x"))))
		require.NoError(t, namespace.ValidateFinalize(old, namespace.PrepareFinalize(old, named("x"))))
	}
}

// Namespaces without declarations have no cost.
func TestDeclarationsCostNothing(t *testing.T) {
	n := named("x")
	n.Annotations = map[string]string{"example.com/a": "{}", "kubectl.kubernetes.io/last-applied-configuration": "{}", "nslifecycle.io/other": ""}
	n = namespace.PrepareCreate(n, "", "uid-1", earlier)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = declare.ValidateDelete(n, namespace.Preconditions{UID: "uid-1"}, "default")
		_, _ = declare.Protections(n.Meta)
		_, _ = declare.Waivers(n.Meta)
	}))
	updates := func(key string) float64 {
		n := n.DeepCopy()
		n.Annotations[key] = legalIs
		return testing.AllocsPerRun(100, func() { _ = declare.ValidateUpdate(n, n, now) })
	}
	require.Equal(t, updates("example.com/legal"), updates(legal), "an unchanged declaration costs as much as any annotation")
}

// A hold in the past comes from an export or is a mistake. It would delete the namespace at once,
// without a grace.
func TestPastHoldIsRefused(t *testing.T) {
	t.Parallel()
	for offset, refused := range map[time.Duration]bool{-time.Hour: true, 0: true, time.Second: false, time.Hour: false} {
		key, value, err := declare.Hold{Until: now.Add(offset)}.Annotation()
		require.NoError(t, err)
		n := named("x")
		n.Annotations = map[string]string{key: value}
		made := namespace.PrepareCreate(n, "", "uid", now)
		err = declare.ValidateCreate(made)
		if !refused {
			require.NoError(t, err)
			require.NoError(t, declare.ValidateUpdate(made, made, now))
			continue
		}
		require.ErrorIs(t, err, namespace.ErrInvalid)
		var refusal *namespace.Error
		require.ErrorAs(t, err, &refusal)
		require.Len(t, refusal.Causes, 1)
		require.Equal(t, "metadata.annotations[nslifecycle.io/delete-after]", refusal.Causes[0].Field)
		require.ErrorContains(t, err, "until is in the past")
		without := namespace.PrepareCreate(named("x"), "", "uid", now)
		require.EqualError(t, declare.ValidateUpdate(without, namespace.PrepareUpdate(without, n), now), err.Error(), "an update neither")
		require.NoError(t, declare.ValidateUpdate(without, namespace.PrepareUpdate(without, n), now.Add(offset-1)))
	}
}

// The hold that a DELETE sets does not count in the limit of annotations.
func TestFullAnnotationsOnHold(t *testing.T) {
	t.Parallel()
	n := named("x")
	n.Annotations = map[string]string{declare.GraceAnnotation: "1h"}
	n.Annotations["a"] = strings.Repeat("x", namespace.MaxAnnotations-len(declare.GraceAnnotation)-len("1h")-len("a"))
	n = namespace.PrepareCreate(n, "", "uid", now)
	require.NoError(t, declare.ValidateCreate(n))
	held, err := declare.PrepareDelete(n, "ada", now)
	require.NoError(t, err)
	require.Contains(t, held.Annotations, declare.HoldAnnotation)
	require.NoError(t, declare.ValidateUpdate(n, held, now))
	held.Annotations["b"] = ""
	require.ErrorContains(t, declare.ValidateUpdate(n, held, now), "metadata.annotations: Too long")
	n.Annotations = map[string]string{declare.HoldAnnotation: strings.Repeat("x", namespace.MaxAnnotations+(8<<10))}
	require.ErrorContains(t, declare.ValidateUpdate(n, n, now), "metadata.annotations: Too long", "a large hold counts")
}
