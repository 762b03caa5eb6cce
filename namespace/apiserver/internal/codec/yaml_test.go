package codec_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kyaml "sigs.k8s.io/yaml"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// YAML is read as kubectl reads it.
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

// A further document in the stream is an error, wherever it is.
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

// YAML preserves every string, in values and in names, for readers such as kubectl.
func TestYAMLCarriesEveryCharacter(t *testing.T) {
	var texts []string
	var chunk strings.Builder
	for r := rune(0); r <= utf8.MaxRune; r++ {
		// Characters in the middle of a higher plane are alike.
		if inner := r&0xffff >= 0x400 && r&0xffff < 0xfc00; utf8.ValidRune(r) && (r <= 0xffff || !inner) {
			chunk.WriteRune(r)
		}
		if r%509 == 0 || r == utf8.MaxRune {
			texts = append(texts, chunk.String())
			chunk.Reset()
		}
	}
	for _, r := range []rune{0, 7, '\t', '\n', '\r', 0x1b, 0x7e, 0x7f, 0x80, 0x84, 0x85, 0x86, 0x9f, 0xa0, 0x2027, 0x2028, 0x2029, 0xd7ff, 0xe000, 0xfdd0, 0xfefe, 0xfeff, 0xfffd, 0xfffe, 0xffff, 0x10000, 0x1f600, 0x1fffe, utf8.MaxRune} {
		c := string(r)
		texts = append(texts, c, "a"+c, c+"a", "a "+c+" b", c+c, "a\n"+c+"\n", strings.Repeat("long ", 40)+c)
	}
	custom := widgets("")
	c := newCodec(t, custom)
	for _, k := range []kinds.Kind{kinds.ConfigMaps(), custom} {
		data := map[string]string{}
		for i, text := range texts {
			data[fmt.Sprintf("k%d", i)] = text
			if !k.BuiltIn() {
				data[text] = "v"
			}
		}
		raw, err := json.Marshal(data)
		require.NoError(t, err)
		o := registry.Object{TypeMeta: namespace.TypeMeta{Kind: k.Kind, APIVersion: k.APIVersion()}, Meta: namespace.Meta{Name: "x"}, Fields: map[string]json.RawMessage{"data": raw}}
		f, err := c.Negotiate(yamlType, k, false)
		require.NoError(t, err)
		body, err := c.Object(f, k, o, codec.TableOptions{})
		require.NoError(t, err)
		var read struct{ Data map[string]string }
		require.NoError(t, kyaml.Unmarshal(body, &read))
		require.Empty(t, cmp.Diff(data, read.Data))
		again, _, err := c.Decode(k, yamlType, body, codec.Strict)
		require.NoError(t, err)
		var kept map[string]string
		require.NoError(t, json.Unmarshal(again.Fields["data"], &kept))
		require.Empty(t, cmp.Diff(data, kept))
		for _, text := range texts {
			_, err := c.Status(f, metav1.Status{Status: metav1.StatusFailure, Message: text})
			require.NoError(t, err)
		}
	}
}

// Numbers have their usual YAML form, and JSON escapes are decoded.
func TestYAMLOfNumbersAndEscapes(t *testing.T) {
	k := widgets("")
	c := newCodec(t, k)
	f, err := c.Negotiate(yamlType, k, false)
	require.NoError(t, err)
	for value, want := range map[string]string{
		"1": "1", "-0": "0", "1.0": "1", "1e3": "1000", "1.5": "1.5", "-9223372036854775808": "-9223372036854775808", "18446744073709551615": "18446744073709551615",
		"18446744073709551616": "1.8446744073709552e+19", "null": "null", "true": "true", `"1"`: `"1"`, `"yes"`: `"yes"`, `"\/\ud83d\ude00"`: `"/\U0001F600"`, `"2026-01-02"`: `"2026-01-02"`,
	} {
		o := registry.Object{Meta: namespace.Meta{Name: "x"}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(value)}}
		body, err := c.Object(f, k, o, codec.TableOptions{})
		require.NoError(t, err, value)
		require.Contains(t, string(body), "\nspec: "+want+"\n", value)
	}
}
