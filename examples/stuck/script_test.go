package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const script = `title: T
pain: P
seen: S
cause: gone

# It is
# told.
create x
explain x
remedy
gone x`

func TestScript(t *testing.T) {
	e, err := parse("x", script)
	require.NoError(t, err)
	require.Equal(t, "x", e.namespace())
	require.Equal(t, step{Line: 6, Verb: tell, Words: []string{"It", "is", "told."}}, e.Steps[0])
	require.Equal(t, remedy, e.Steps[e.remedy()].Verb)

	for _, tt := range []struct{ name, old, new, want string }{
		{"no title", "title: T", "", "it has no title"},
		{"no cause", "cause: gone", "", "it has no cause"},
		{"no such step", "create x", "paint x", `8: there is no step "paint"`},
		{"too few words", "create x", "create", "8: create has 0 words"},
		{"too many words", "explain x", "explain x y", "9: explain has 2 words"},
		{"no explanation", "explain x", "", "must explain"},
		{"no remedy", "remedy", "", "must explain"},
		{"no end", "gone x", "", "must explain"},
		{"open quotation", "create x", `create "x`, "8: a quotation does not end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse("x", strings.Replace(script, tt.old, tt.new, 1))
			require.ErrorContains(t, err, tt.want)
		})
	}
}
