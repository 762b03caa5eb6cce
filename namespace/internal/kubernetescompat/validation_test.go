package kubernetescompat

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
	"github.com/nslifecycle/nslifecycle/namespace"
)

var strange = []string{
	"", "a", "A", "my-name", "my.name", "-a", "a-", "a.", ".a", "a..b", "a/b", "/", "a/", "/a", "a/b/c", "x_y", "é", "a\xffb", "a b",
	"a\n", "kubernetes", "orphan", "example.com/Agent", "Example.com/agent",
	strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 64) + ".b", strings.Repeat("a.", 127) + "a",
	"example.com/" + strings.Repeat("a", 64), strings.Repeat("a.", 127) + "a/b",
}

func TestForms(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	g := generator{r}
	values := strange
	for range 2000 {
		values = append(values, g.text())
	}
	for _, s := range values {
		require.Empty(t, cmp.Diff(utilvalidation.IsDNS1123Label(s), syntax.Label(s)), "label %q", s)
		require.Empty(t, cmp.Diff(utilvalidation.IsDNS1123Subdomain(s), syntax.Subdomain(s)), "subdomain %q", s)
		require.Empty(t, cmp.Diff(utilvalidation.IsQualifiedName(s), syntax.QualifiedName(s)), "qualified name %q", s)
		require.Empty(t, cmp.Diff(utilvalidation.IsValidLabelValue(s), syntax.LabelValue(s)), "label value %q", s)
	}
}

func causes(list field.ErrorList) []namespace.Violation {
	var vs []namespace.Violation
	for _, e := range list {
		vs = append(vs, namespace.Violation{Type: string(e.Type), Field: e.Field, Message: e.ErrorBody()})
	}
	return vs
}

// Violations of metadata have the same fields and texts. Ours are in the order of the document;
// Kubernetes iterates over maps in random order.
func TestMetadata(t *testing.T) {
	t.Parallel()
	inOrder := cmpopts.SortSlices(func(a, b namespace.Violation) bool { return a.Field+a.Message < b.Field+b.Message })
	for _, namespaced := range []bool{false, true} {
		for _, s := range strange {
			theirs := metav1.ObjectMeta{
				Name: s, GenerateName: s, Namespace: s, Generation: int64(len(s)) - 1,
				Labels: map[string]string{s: s, "ok": s}, Annotations: map[string]string{s: strings.ToValidUTF8(s, "")},
				ManagedFields: []metav1.ManagedFieldsEntry{{Operation: metav1.ManagedFieldsOperationType(strings.ToValidUTF8(s, "")), FieldsType: s, Subresource: strings.ToValidUTF8(s, "")}},
			}
			ours := namespace.Meta{
				Name: s, GenerateName: s, Namespace: s, Generation: int64(len(s)) - 1,
				Labels: theirs.Labels, Annotations: theirs.Annotations,
				ManagedFields: []namespace.ManagedFieldsEntry{{Operation: strings.ToValidUTF8(s, ""), FieldsType: s, Subresource: strings.ToValidUTF8(s, "")}},
			}
			want := causes(validation.ValidateObjectMeta(&theirs, namespaced, validation.NameIsDNSLabel, field.NewPath("metadata")))
			got := namespace.ValidateMeta(ours, namespace.NameRule{Namespaced: namespaced})
			require.Empty(t, cmp.Diff(want, got, inOrder), "%q", s)
			want = causes(validation.ValidateObjectMeta(&theirs, namespaced, validation.NameIsDNSSubdomain, field.NewPath("metadata")))
			got = namespace.ValidateMeta(ours, namespace.NameRule{Namespaced: namespaced, Subdomain: true})
			require.Empty(t, cmp.Diff(want, got, inOrder), "%q", s)
		}
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	annotations := map[string]string{"a": strings.Repeat("x", namespace.MaxAnnotations)}
	want := causes(validation.ValidateAnnotations(annotations, field.NewPath("metadata", "annotations")))
	got := namespace.ValidateMeta(namespace.Meta{Name: "n", Annotations: annotations}, namespace.NameRule{})
	require.Empty(t, cmp.Diff(want, got))
}

func TestNoNewFinalizers(t *testing.T) {
	t.Parallel()
	want := causes(validation.ValidateNoNewFinalizers([]string{"c/c", "b/b", "a/a"}, []string{"b/b"}, field.NewPath("metadata", "finalizers")))
	got := namespace.NoNewFinalizers(
		namespace.Meta{Finalizers: finalizer.NewSet("b/b")},
		namespace.Meta{Finalizers: finalizer.NewSet("c/c", "b/b", "a/a")})
	require.Empty(t, cmp.Diff(want, got))
}

// The message of a refusal, for one violation and for several.
func TestMessages(t *testing.T) {
	t.Parallel()
	for _, s := range strange {
		n := namespace.PrepareCreate(namespace.Namespace{Meta: namespace.Meta{Name: s}}, "", "u", time.Unix(1, 0))
		theirs := metav1.ObjectMeta{Name: s, Labels: n.Labels}
		list := validation.ValidateObjectMeta(&theirs, false, validation.NameIsDNSLabel, field.NewPath("metadata"))
		err := namespace.ValidateCreate(n)
		if len(list) == 0 {
			require.NoError(t, err, "%q", s)
			continue
		}
		want := apierrors.NewInvalid(schema.GroupKind{Kind: "Namespace"}, s, list)
		require.EqualError(t, err, want.Error())
		var refused *namespace.Error
		require.True(t, errors.As(err, &refused))
		require.Len(t, refused.Causes, len(want.ErrStatus.Details.Causes))
	}
}
