package syntax

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

func TestTexts(t *testing.T) {
	t.Parallel()
	const key = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character" +
		" (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
	const label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an" +
		" alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
	const subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end" +
		" with an alphanumeric character (e.g. 'example.com', regex used for validation is" +
		` '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	const value = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an" +
		" alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is" +
		" '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
	long := strings.Repeat("a", 64)
	tests := []struct {
		name  string
		check func(string) []string
		in    string
		want  []string
	}{
		{"label", Label, "my-name", nil},
		{"label of one byte", Label, "0", nil},
		{"longest label", Label, long[:63], nil},
		{"label too long", Label, long, []string{"must be no more than 63 characters"}},
		{"label with dots", Label, "a.b", []string{"must not contain dots"}},
		{"label too long with dots", Label, long + ".b", []string{"must be no more than 63 characters", "must not contain dots"}},
		{"empty label", Label, "", []string{label}},
		{"label in capitals", Label, "A", []string{label}},
		{"label with a slash", Label, "a/b", []string{label}},
		{"label that climbs", Label, "..", []string{label}},
		{"label that ends in a dash", Label, "a-", []string{label}},
		{"label with a line feed", Label, "a\n", []string{label}},
		{"label with invalid UTF-8", Label, "a\xff", []string{label}},
		{"subdomain", Subdomain, "a.b-c.0", nil},
		{"subdomain with an empty label", Subdomain, "a..b", []string{subdomain}},
		{"subdomain too long", Subdomain, strings.Repeat("a.", 127) + "a", []string{"must be no more than 253 characters"}},
		{"qualified name", QualifiedName, "example.com/My_name.0", nil},
		{"name without prefix", QualifiedName, "My_name.0", nil},
		{"empty name", QualifiedName, "", []string{"name part must be non-empty", "name part " + key}},
		{"empty prefix", QualifiedName, "/a", []string{"prefix part must be non-empty"}},
		{"empty name after prefix", QualifiedName, "a/", []string{"name part must be non-empty", "name part " + key}},
		{"bad prefix", QualifiedName, "A/b", []string{"prefix part " + subdomain}},
		{"name part too long", QualifiedName, "a/" + long, []string{"name part must be no more than 63 bytes"}},
		{"bad name part", QualifiedName, "a/b!", []string{"name part " + key}},
		{"two slashes", QualifiedName, "a/b/c",
			[]string{"a valid label key " + key + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"}},
		{"label value", LabelValue, "My_value.0", nil},
		{"empty label value", LabelValue, "", nil},
		{"label value too long", LabelValue, long, []string{"must be no more than 63 bytes"}},
		{"bad label value", LabelValue, "-a", []string{value}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Empty(t, cmp.Diff(tt.want, tt.check(tt.in)))
		})
	}
}

func TestValidValuesDoNotAllocate(t *testing.T) {
	for name, check := range map[string]func(){
		"Label":         func() { Label("my-name") },
		"Subdomain":     func() { Subdomain("my.name.example.com") },
		"QualifiedName": func() { QualifiedName("example.com/my-name") },
		"LabelValue":    func() { LabelValue("my_value") },
	} {
		require.Zero(t, testing.AllocsPerRun(100, check), name)
	}
}

// FuzzForms compares the checks with the regular expressions in their texts.
func FuzzForms(f *testing.F) {
	for _, s := range []string{"", "a", "a.b", "a-", "-a", "A/b", "a/b/c", "a..b", "a\n", "a\xff", "x_y", "é"} {
		f.Add(s)
	}
	matches := func(form string) func(string) bool { return regexp.MustCompile("^(?:" + form + ")$").MatchString }
	label, subdomain, key, value := matches(labelForm), matches(subdomainForm), matches(keyForm), matches(valueForm)
	f.Fuzz(func(t *testing.T, s string) {
		require.Equal(t, label(s) && len(s) <= MaxLabel, Label(s) == nil, "label %q", s)
		require.Equal(t, subdomain(s) && len(s) <= MaxSubdomain, Subdomain(s) == nil, "subdomain %q", s)
		require.Equal(t, value(s) && len(s) <= MaxLabel, LabelValue(s) == nil, "label value %q", s)
		prefix, name, qualified := strings.Cut(s, "/")
		if !qualified {
			name = s
		}
		want := key(name) && len(name) <= MaxLabel && (!qualified || subdomain(prefix) && len(prefix) <= MaxSubdomain)
		require.Equal(t, want, QualifiedName(s) == nil, "qualified name %q", s)
	})
}

func BenchmarkQualifiedName(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		QualifiedName("example.com/my-name")
	}
}

func TestPathSegment(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 253)
	for _, tt := range []struct{ s, want string }{
		{"a", ""},
		{"Ä b...", ""},
		{long, ""},
		{"", "must not be empty"},
		{long + "a", "must be no more than 253 bytes, has 254"},
		{".", "may not be '.'"},
		{"..", "may not be '..'"},
		{"a\xff", "must be valid UTF-8"},
		{"a/b%", "may not contain '/'; may not contain '%'"},
		{"a\u0085", "may not contain control characters"},
	} {
		require.Equal(t, tt.want, strings.Join(PathSegment(tt.s), "; "), "%q", tt.s)
	}
}

// No check accepts a value that changes the meaning of a path or a document, and the texts are
// short for every value.
func TestBadInput(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		".", "..", "/", "a/b/c", "../a", "a b", " ", "a\n", "\x00", "a\x00", "\xff", "a\xff", "ä", "%2f", "a%2fb", "*", "?a=b",
		strings.Repeat("a", 1<<20), strings.Repeat("/", 1<<20), strings.Repeat("a.", 1<<19),
	} {
		for what, check := range map[string]func(string) []string{
			"label": Label, "subdomain": Subdomain, "qualified name": QualifiedName, "label value": LabelValue,
		} {
			wrong := check(bad)
			require.NotEmpty(t, wrong, "%s %.20q", what, bad)
			require.Less(t, len(strings.Join(wrong, "")), 1000, "%s %.20q", what, bad)
		}
	}
	for _, check := range []func(string) []string{Label, Subdomain, QualifiedName} {
		require.NotEmpty(t, check(""))
	}
	require.Empty(t, LabelValue(""))
}

func BenchmarkPathSegment(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		PathSegment("my-name.0123456789")
	}
}
