package syntax

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// No check lets anything through that could not be part of a path or a document,
// and what it says is short, however long the value.
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
