package registry

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

func TestTokens(t *testing.T) {
	for _, p := range []store.Position{{}, {Epoch: "e", Revision: 7}, {Epoch: "\"é\n", Revision: 1 << 62}} {
		for _, after := range []string{"", "x", "a/b", `"\`} {
			position, key, ok := decodeToken("/p/", encodeToken("/p/", p, after))
			require.True(t, ok)
			require.Equal(t, p, position)
			require.Equal(t, after, key)
		}
	}
	for _, bad := range []string{"", "x", "e30", "bnVsbA", encodeToken("/p/", store.Position{Revision: -1}, ""), encodeToken("/q/", store.Position{}, ""), strings.Repeat("A", maxToken+1)} {
		_, _, ok := decodeToken("/p/", bad)
		require.False(t, ok, "%.40s", bad)
	}
	counted := encodePageToken("/p/", store.Position{Revision: 7}, "x", 3)
	_, _, ok := decodeToken("/p/", counted)
	require.False(t, ok, "only pages have a count")
	_, _, left, ok := decodePageToken("/p/", counted)
	require.True(t, ok)
	require.EqualValues(t, 3, left)
}

// A token is refused, or decodes to the values that it was encoded from.
func FuzzTokens(f *testing.F) {
	f.Add(encodeToken("/p/", store.Position{Epoch: "e", Revision: 7}, "x/y"))
	f.Add(encodePageToken("/p/", store.Position{Epoch: "e", Revision: 7}, "x/y", 3))
	f.Add("e30")
	f.Fuzz(func(t *testing.T, text string) {
		position, after, left, ok := decodePageToken("/p/", text)
		if !ok {
			return
		}
		require.GreaterOrEqual(t, position.Revision, store.Revision(0))
		require.GreaterOrEqual(t, left, int64(0))
		require.LessOrEqual(t, left, int64(maxRemaining))
		p, k, n, ok := decodePageToken("/p/", encodePageToken("/p/", position, after, left))
		require.True(t, ok)
		require.Equal(t, position, p)
		require.Equal(t, after, k)
		require.Equal(t, left, n)
	})
}

// No two entries share a key, and no name escapes its prefix.
func FuzzKeys(f *testing.F) {
	f.Add("x", "a")
	f.Add("../y", "namespaces")
	f.Add(".gate", "x")
	keys, err := newLayout("registry")
	require.NoError(f, err)
	widgets := Type{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true}
	f.Fuzz(func(t *testing.T, ns, name string) {
		if checkSegment("", ns) != nil || checkSegment("", name) != nil {
			return
		}
		key := keys.content(widgets.Name(), ns) + name
		parts := strings.Split(key, "/")
		require.Equal(t, []string{"", "registry", "widgets.example.com", ns, name}, parts)
		require.True(t, utf8.ValidString(key))
		for _, place := range []string{keys.namespace(ns), keys.gate(ns), keys.termination(ns)} {
			require.Equal(t, 4, len(strings.Split(place, "/")))
			require.False(t, strings.HasPrefix(key, place+"/"))
		}
		typ := Type{Group: ns, Version: "v1", Resource: name, Kind: "Kind"}
		if typ.validate() == nil {
			prefix := keys.content(typ.Name(), "")
			require.NotEqual(t, keys.namespaces(), prefix)
			require.False(t, strings.HasPrefix(prefix, keys.root+"."))
			require.Equal(t, 4, len(strings.Split(prefix, "/")))
		}
	})
}

// Two objects share a key only if they are one: of the same type, in the same namespace,
// and of the same name. No object shares a key with a namespace.
func FuzzKeysOfTwo(f *testing.F) {
	f.Add("ab", "", "c", "d", "a", "", "bc", "d")
	f.Add("a", "b", "c", "d", "a", "", "b", "cd")
	f.Add("a", "b.c", "d", "e", "a", "b", "c.d", "e")
	f.Add("a", "", "b", "c", "a", "", "", "b")
	f.Add("namespaces", "example.com", "", "a", "namespaces", "example", "", "a")
	keys, err := newLayout("registry")
	require.NoError(f, err)
	key := func(resource, group, ns, name string) (string, bool) {
		typ := Type{Group: group, Version: "v1", Resource: resource, Kind: "Kind", Namespaced: ns != ""}
		ok := typ.validate() == nil && checkSegment("", name) == nil && (ns == "" || checkSegment("", ns) == nil)
		return keys.content(typ.Name(), ns) + name, ok
	}
	f.Fuzz(func(t *testing.T, resource1, group1, ns1, name1, resource2, group2, ns2, name2 string) {
		one, ok := key(resource1, group1, ns1, name1)
		two, valid := key(resource2, group2, ns2, name2)
		if !ok || !valid {
			return
		}
		same := resource1 == resource2 && group1 == group2 && ns1 == ns2 && name1 == name2
		require.Equal(t, same, one == two, "%q and %q", one, two)
		require.NotEqual(t, keys.namespace(name1), one)
	})
}

func TestGateCacheIsBounded(t *testing.T) {
	var g gateCache
	for i := range maxGates + 100 {
		ns := strconv.Itoa(i)
		g.put(ns, store.Revision(i+1))
		g.put(ns, store.Revision(i+2))
		revision, ok := g.get(ns)
		require.True(t, ok)
		require.Equal(t, store.Revision(i+2), revision)
	}
	require.Len(t, g.revisions, maxGates)
	last := strconv.Itoa(maxGates + 99)
	g.remove(last)
	_, ok := g.get(last)
	require.False(t, ok)
}

// Objects whose types, namespaces and names are the same letters in a row, cut
// differently, are different objects.
func TestKeysOfTheSameLetters(t *testing.T) {
	keys, err := newLayout("registry")
	require.NoError(t, err)
	const letters = "abcdef"
	seen := map[string]string{}
	for i := 1; i < len(letters); i++ {
		for j := i; j < len(letters); j++ { // no namespace: j == i
			for g := 0; g < i; g++ { // no group: 0
				typ := Type{Group: letters[i-g : i], Version: "v1", Resource: letters[:i-g], Kind: "Kind", Namespaced: j > i}
				require.NoError(t, typ.validate())
				what := typ.Resource + " " + typ.Group + " " + letters[i:j] + " " + letters[j:]
				key := keys.content(typ.Name(), letters[i:j]) + letters[j:]
				require.Empty(t, seen[key], "%s and %s", what, seen[key])
				seen[key] = what
			}
		}
	}
	require.Len(t, seen, 35)
}

// An object survives a round trip through JSON and through the store.
func FuzzObject(f *testing.F) {
	for _, doc := range []string{
		`{"metadata":{"name":"a","uid":"u","finalizers":["x/y"]},"spec":{"a":[1,{}]}}`, `{}`, ` { "a" : "}\"" , "b":-1.5e3 } `,
		`{"Metadata":{"uid":"no"},"metadata":{"uid":"yes"}}`, `{"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z"},"metadata":null}`,
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var whole map[string]json.RawMessage
		valid := json.Unmarshal(doc, &whole) == nil && whole != nil
		var o Object
		if err := json.Unmarshal(doc, &o); err != nil {
			if _, ok := whole["metadata"]; !ok && valid && utf8.Valid(doc) && whole["kind"] == nil && whole["apiVersion"] == nil {
				t.Fatalf("%q was refused: %v", doc, err)
			}
			return
		}
		require.True(t, valid, "%q was accepted", doc)
		if !utf8.Valid(doc) {
			return
		}
		for name, value := range whole {
			if !reservedField(name) {
				require.Equal(t, string(value), string(o.Fields[name]))
			}
		}
		back, err := json.Marshal(o)
		if err != nil {
			return // such as a time that JSON cannot hold
		}
		var again Object
		require.NoError(t, json.Unmarshal(back, &again))
		again.Fields, _ = compactFields(again.Fields)
		o.Fields, _ = compactFields(o.Fields)
		if o.UID == "" {
			o.UID = "u"
		}
		stored, err := encodeObject(o)
		require.NoError(t, err)
		restored, err := decodeObject(store.Entry{Key: "k", Value: stored, Revision: 1})
		require.NoError(t, err)
		o.ResourceVersion = "1"
		require.Empty(t, cmp.Diff(o, restored, cmpopts.EquateEmpty()))
	})
}

// A selectable field has the value that decoding the whole document finds.
func FuzzFieldText(f *testing.F) {
	for _, doc := range []string{`{"a":{"b":"x"}}`, `{"a":{"b":1.50,"b":true}}`, `{"a":null}`, `{"a":[{"b":1}]}`, `{"a":{"\u0062":"é"}}`, `{"a":"b"}`} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var o Object
		if json.Unmarshal(doc, &o) != nil {
			return
		}
		fields, wrong := compactFields(o.Fields)
		if len(wrong) > 0 {
			return
		}
		require.Equal(t, decodedText(fields["a"], "b"), fieldText(fields, "a.b"))
		require.Equal(t, decodedText(fields["a"]), fieldText(fields, "a"))
	})
}

// decodedText is fieldText by decoding the value.
func decodedText(value json.RawMessage, path ...string) string {
	for _, name := range path {
		fields := map[string]json.RawMessage{}
		if json.Unmarshal(value, &fields) != nil {
			return ""
		}
		value = fields[name]
	}
	decoder := json.NewDecoder(strings.NewReader(string(value)))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		return ""
	}
	switch v := v.(type) {
	case string:
		return v
	case json.Number, bool:
		return string(value)
	}
	return ""
}
