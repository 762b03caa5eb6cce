package selector_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
)

func TestLabelsMatch(t *testing.T) {
	labels := map[string]string{"app": "web", "tier": "2", "empty": "", "example.com/team": "blue"}
	for _, tc := range []struct {
		text string
		want bool
	}{
		{"", true},
		{"  ", true},
		{"app=web", true},
		{"app==web", true},
		{"app=db", false},
		{"app!=db", true},
		{"app!=web", false},
		{"missing!=web", true},
		{"missing=web", false},
		{"app", true},
		{"missing", false},
		{"!missing", true},
		{"! app", false},
		{"app in (db, web)", true},
		{"app in (db)", false},
		{"missing in (db)", false},
		{"app notin (db,web)", false},
		{"missing notin (db,web)", true},
		{"empty=", true},
		{"empty in ()", true},
		{"empty in (x,)", true},
		{"app=", false},
		{"missing=", false},
		{"tier>1", true},
		{"tier>2", false},
		{"tier < 3", true},
		{"tier<-5", false},
		{"app>1", false},
		{"missing<1", false},
		{"example.com/team=blue,app=web,!missing", true},
		{"example.com/team=blue,app=db", false},
		{"in in (a)", false},
	} {
		s, err := selector.ParseLabels(tc.text)
		require.NoError(t, err, tc.text)
		require.Equal(t, tc.want, s.Matches(labels), tc.text)
		again, err := selector.ParseLabels(s.String())
		require.NoError(t, err, s.String())
		require.Equal(t, s.String(), again.String())
	}
}

func TestLabelsString(t *testing.T) {
	s, err := selector.ParseLabels(" b in (y,x,x) , a , !c, d notin (q), e=1, f>3,g<4, h notin (1,2)")
	require.NoError(t, err)
	require.Equal(t, "a,b in (x,y),!c,d!=q,e=1,f>3,g<4,h notin (1,2)", s.String())
	require.False(t, s.Empty())
	require.True(t, selector.Labels{}.Empty())
	require.True(t, selector.Labels{}.Matches(nil))
}

func TestFieldsMatch(t *testing.T) {
	get := func(field string) string {
		return map[string]string{"metadata.name": "x", "odd": `a,b=c\`}[field]
	}
	for _, tc := range []struct {
		text string
		want bool
	}{
		{"", true},
		{"metadata.name=x", true},
		{"metadata.name==x", true},
		{"metadata.name!=x", false},
		{"metadata.name=y", false},
		{"metadata.name=x,absent=", true},
		{"metadata.name=x,absent!=", false},
		{",metadata.name=x,", true},
		{`odd=a\,b\=c\\`, true},
		{`odd!=a\,b\=c\\`, false},
	} {
		s, err := selector.ParseFields(tc.text)
		require.NoError(t, err, tc.text)
		require.Equal(t, tc.want, s.Matches(get), tc.text)
		again, err := selector.ParseFields(s.String())
		require.NoError(t, err, s.String())
		require.Empty(t, cmp.Diff(s.String(), again.String()))
	}
}

func TestFieldsExactlyAndCheck(t *testing.T) {
	s, err := selector.ParseFields("status.phase!=Active,metadata.name=x")
	require.NoError(t, err)
	value, ok := s.Exactly("metadata.name")
	require.True(t, ok)
	require.Equal(t, "x", value)
	_, ok = s.Exactly("status.phase")
	require.False(t, ok, "a != requires no value")
	require.NoError(t, s.Check("metadata.name", "status.phase"))
	require.EqualError(t, s.Check("metadata.name"), "field label not supported: status.phase")
	require.ErrorIs(t, s.Check(), namespace.ErrBadRequest)
	require.True(t, selector.Fields{}.Empty())
	require.False(t, s.Empty())
}

func TestBadInput(t *testing.T) {
	for _, text := range []string{
		"a b", "a=b c", "=b", "a=(b)", "a in b", "a in (b", "a in b)", "a in (b))", "a,", ",a", "a,,b", "!", "!a=b", "a>b", "a>",
		"a=b=c", "a in (b;c)", "Ä=1", "a=ä", "a=" + strings.Repeat("x", 64), strings.Repeat("x", 64), "/a=1", "a/=1", "a/b/c=1",
		"A.com/b", "-a", "a-", "a=-b", "a=b-", "a\x00=b", "\xff", strings.Repeat("a,", selector.MaxLength/2) + "a",
		strings.Repeat("d", 254) + "/a", "a..b/c",
	} {
		s, err := selector.ParseLabels(text)
		require.ErrorIs(t, err, namespace.ErrBadRequest, "%.40q", text)
		var typed *namespace.Error
		require.ErrorAs(t, err, &typed)
		require.True(t, s.Empty())
	}
	for _, text := range []string{
		"a", "=b", "!=b", "a=b=c", `a=b\`, `a=\x`, "a!b=c", "\xff=a", strings.Repeat("a", selector.MaxLength+1), "a=b,c",
	} {
		s, err := selector.ParseFields(text)
		require.ErrorIs(t, err, namespace.ErrBadRequest, "%.40q", text)
		require.True(t, s.Empty())
	}
}

// A parsed selector, printed and parsed again, is equal and selects the same.
func FuzzLabels(f *testing.F) {
	for _, s := range []string{"", "a=b", "a in (b,c),d", "!x,y>3", "a notin (,b)", "k/v!=1", "in in(in)"} {
		f.Add(s, "a", "b")
	}
	f.Fuzz(func(t *testing.T, text, key, value string) {
		s, err := selector.ParseLabels(text)
		if err != nil {
			require.ErrorIs(t, err, namespace.ErrBadRequest)
			return
		}
		again, err := selector.ParseLabels(s.String())
		require.NoError(t, err, "%q was printed for %q", s, text)
		require.Equal(t, s.String(), again.String())
		for _, labels := range []map[string]string{nil, {key: value}, {"a": "b"}, {"a": "7"}} {
			require.Equal(t, s.Matches(labels), again.Matches(labels), "%q, %v", text, labels)
		}
	})
}

// A parsed selector, printed and parsed again, is equal and selects the same.
func FuzzFields(f *testing.F) {
	for _, s := range []string{"", "a=b", "a!=b,c==d", `a=\,\=\\`, "a=,b!="} {
		f.Add(s, "b")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		s, err := selector.ParseFields(text)
		if err != nil {
			require.ErrorIs(t, err, namespace.ErrBadRequest)
			return
		}
		again, err := selector.ParseFields(s.String())
		require.NoError(t, err, "%q was printed for %q", s, text)
		require.Equal(t, s, again)
		get := func(string) string { return value }
		require.Equal(t, s.Matches(get), again.Matches(get))
	})
}

func BenchmarkLabelsMatch(b *testing.B) {
	s, err := selector.ParseLabels("app=web,tier in (a,b),!legacy")
	require.NoError(b, err)
	labels := map[string]string{"app": "web", "tier": "b", "x": "y"}
	b.ReportAllocs()
	for b.Loop() {
		if !s.Matches(labels) {
			b.Fatal("no match")
		}
	}
}

func BenchmarkParseLabels(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := selector.ParseLabels("app=web,tier in (a,b),!legacy"); err != nil {
			b.Fatal(err)
		}
	}
}

// many returns n different requirements.
func many(n int, format string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(parts, ",")
}

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
	require.NoError(t, err, "values of a set do not count")
}

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

// A host may compute fields, so Matches reads each of them once.
func TestFieldsReadOnce(t *testing.T) {
	f, err := selector.ParseFields("a!=1,b!=1,a!=2,b!=2,a!=3")
	require.NoError(t, err)
	var read []string
	require.True(t, f.Matches(func(field string) string {
		read = append(read, field)
		return "x"
	}))
	require.Equal(t, []string{"a", "b"}, read)
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

// BenchmarkLabelsMatchMany measures the most expensive selectors.
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
