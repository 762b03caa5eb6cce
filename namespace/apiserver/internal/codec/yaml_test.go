package codec_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
)

// YAML means what it means to kubectl.
func TestYAML(t *testing.T) {
	k := widgets("")
	c := newCodec(t, k)
	const head = "metadata: {name: x}\nspec:\n"
	for _, test := range []struct{ yaml, want string }{
		{"  a: 1\n  b: 1.5\n  c: true\n  d: yes\n  e: \"yes\"\n  f: null\n  g: ~\n  h: 2026-01-02\n", `{"a":1,"b":1.5,"c":true,"d":true,"e":"yes","f":null,"g":null,"h":"2026-01-02"}`},
		{"  big: 18446744073709551615\n  octal: 0777\n  text: |\n    ---\n    é\"\n", `{"big":18446744073709551615,"octal":511,"text":"---\né\"\n"}`},
		{"  1: a\n  true: b\n  1.5: c\n", `{"1":"a","1.5":"c","true":"b"}`},
		{"  a: &x {b: [1, 2]}\n  c: *x\n", `{"a":{"b":[1,2]},"c":{"b":[1,2]}}`},
		{"  a: &x {b: 1}\n  c: {<<: *x, d: 2}\n", `{"a":{"b":1},"c":{"b":1,"d":2}}`},
		{"  a: '\u2028<&>'\n", "{\"a\":\"\\u2028<&>\"}"},
	} {
		for _, frame := range []string{head + test.yaml, "---\n" + head + test.yaml, "# comment\n---\n" + head + test.yaml + "---\n", head + test.yaml + "...\n"} {
			o, _, err := c.Decode(k, yamlType, []byte(frame), codec.Strict)
			require.NoError(t, err, frame)
			require.Equal(t, test.want, string(o.Fields["spec"]))
		}
	}
}

// Nothing is overlooked, however far behind the document it is.
func TestYAMLStreams(t *testing.T) {
	k := widgets("")
	c := newCodec(t, k)
	const document = "metadata: {name: x}\n"
	for _, behind := range []string{"", "---\n", "---\n---\n", "---\n# nothing\n---\nnull\n...\n---\n~\n", strings.Repeat("---\n", 50)} {
		_, _, err := c.Decode(k, yamlType, []byte(document+behind), codec.Strict)
		require.NoError(t, err, behind)
		for _, another := range []string{document, "a\n", "{}\n", "0\n"} {
			for _, tail := range []string{"", "---\n"} {
				_, _, err = c.Decode(k, yamlType, []byte(document+behind+"---\n"+another+tail), codec.Strict)
				require.ErrorIs(t, err, namespace.ErrBadRequest)
				require.ErrorContains(t, err, "there is more than one document", "%s%s", behind, another)
			}
		}
		_, _, err = c.Decode(k, yamlType, []byte(document+behind+"---\n{"), codec.Strict)
		require.ErrorIs(t, err, namespace.ErrBadRequest)
	}
	_, _, err := c.Decode(k, yamlType, []byte(document+strings.Repeat("---\n", 200)), codec.Strict)
	require.ErrorContains(t, err, "more than 100 documents")
}

// A small document with aliases cannot stand for a huge one.
func TestYAMLBombs(t *testing.T) {
	k := widgets("")
	c := newCodec(t, k)
	nested := "metadata: {name: x}\na0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		ref := "*a" + string(rune('0'+i))
		nested += "a" + string(rune('1'+i)) + ": &a" + string(rune('1'+i)) + " [" + strings.Repeat(ref+", ", 8) + ref + "]\n"
	}
	wide := "metadata: {name: x}\na: &a " + strings.Repeat("x", 300_000) + "\nb: [" + strings.Repeat("*a, ", 5_000) + "*a]\n"
	for _, bomb := range []string{nested, wide} {
		_, _, err := c.Decode(k, yamlType, []byte(bomb), codec.Warn)
		require.ErrorIs(t, err, namespace.ErrBadRequest)
		require.Regexp(t, "excessive aliasing|repeat too much", err.Error())
	}
}
