package selector_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
)

// many returns so many different requirements in a text.
func many(n int, format string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(parts, ",")
}

// A selector cannot make the look at one object as expensive as its text is long.
func TestTooManyRequirements(t *testing.T) {
	const most = selector.MaxRequirements
	for _, format := range []string{"!a%d", "a!=%d"} {
		_, err := selector.ParseLabels(many(most, format))
		require.NoError(t, err)
		_, err = selector.ParseLabels(many(most+1, format))
		require.ErrorIs(t, err, namespace.ErrBadRequest)
		require.EqualError(t, err, "the label selector has too many requirements, at most 1000 are allowed")
	}
	_, err := selector.ParseFields(many(most, "metadata.name!=%d"))
	require.NoError(t, err)
	_, err = selector.ParseFields(many(most+1, "metadata.name!=%d"))
	require.ErrorIs(t, err, namespace.ErrBadRequest)
	require.EqualError(t, err, "the field selector has too many requirements, at most 1000 are allowed")
	_, err = selector.ParseLabels("a in (" + many(10*most, "%d") + ")")
	require.NoError(t, err, "values of a set are searched")
}

// What is said again and again is held against objects once.
func TestRepeatedRequirements(t *testing.T) {
	repeated := func(parts ...string) string {
		return strings.Join(slices.Repeat(parts, selector.MaxRequirements+200), ",")
	}
	labels, err := selector.ParseLabels(repeated("a", "b in (y,x)", "b in (x,y,x)", "!c", "d>1", "d>01"))
	require.NoError(t, err)
	require.Equal(t, "a,b in (x,y),!c,d>1", labels.String())
	fields, err := selector.ParseFields(repeated("a=1", "b!=2", "a==1", "a!=3"))
	require.NoError(t, err)
	require.Equal(t, "a=1,a!=3,b!=2", fields.String())
}

// A field may take long to find: it is asked for once for each object.
func TestFieldsAskOnce(t *testing.T) {
	f, err := selector.ParseFields("a!=1,b!=1,a!=2,b!=2,a!=3")
	require.NoError(t, err)
	var asked []string
	require.True(t, f.Matches(func(field string) string {
		asked = append(asked, field)
		return "x"
	}))
	require.Equal(t, []string{"a", "b"}, asked)
}

func TestFieldsAnd(t *testing.T) {
	f, err := selector.ParseFields("metadata.name=y,metadata.name!=z,a=1")
	require.NoError(t, err)
	before := f.String()
	g, err := f.And("metadata.name", `x,=\`)
	require.NoError(t, err)
	require.Equal(t, `a=1,metadata.name=x\,\=\\,metadata.name=y,metadata.name!=z`, g.String())
	require.Equal(t, before, f.String())
	value, _ := g.Exactly("metadata.name")
	require.Equal(t, `x,=\`, value)
	again, err := g.And("metadata.name", "y")
	require.NoError(t, err)
	require.Equal(t, `a=1,metadata.name=y,metadata.name=x\,\=\\,metadata.name!=z`, again.String())
	for _, bad := range []string{"\xff", strings.Repeat("x", selector.MaxLength+1)} {
		_, err = f.And("metadata.name", bad)
		require.ErrorIs(t, err, namespace.ErrBadRequest)
	}
}

// BenchmarkLabelsMatchMany is the most that a selector can cost an object.
func BenchmarkLabelsMatchMany(b *testing.B) {
	labels := map[string]string{"a": "x"}
	for name, text := range map[string]string{
		"keys": many(selector.MaxRequirements, "!k%d"), "values": "a notin (" + many(10_000, "%d") + ")",
		"repeats": strings.Repeat("a,", selector.MaxLength/2-1) + "a",
	} {
		b.Run(name, func(b *testing.B) {
			s, err := selector.ParseLabels(text)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				if !s.Matches(labels) {
					b.Fatal("no match")
				}
			}
		})
	}
}
