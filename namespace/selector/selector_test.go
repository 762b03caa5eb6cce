package selector_test

import (
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

func TestFieldsQuestions(t *testing.T) {
	s, err := selector.ParseFields("status.phase!=Active,metadata.name=x")
	require.NoError(t, err)
	value, ok := s.Exactly("metadata.name")
	require.True(t, ok)
	require.Equal(t, "x", value)
	_, ok = s.Exactly("status.phase")
	require.False(t, ok, "a refusal of a value demands none")
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

// What was parsed reads back as itself and selects the same.
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

// What was parsed reads back as itself and selects the same.
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
