package kinds

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzScan compares entries and member with encoding/json, and checks that malformed documents do
// not panic.
func FuzzScan(f *testing.F) {
	for _, document := range []string{
		`{}`, `[]`, `{"a":1}`, `{ "a" : { "b" : [1, "}"] } , "b":"\"]" }`, `[1, {"a":2}, "x,y", [], null]`, `"x"`, `5`, `null`,
		`{"a"`, `{"a":`, `[1,`, `{"\`, `[,,]`, `{a:b}`, `{"a"}`, `[]]`, `{"a":1]}`, `{:}`,
	} {
		f.Add([]byte(document), "a")
	}
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		count, found := entries(data), member(data, name)
		if !json.Valid(data) {
			return
		}
		var compact json.RawMessage
		require.NoError(t, json.Unmarshal(data, &compact))
		compact = compact[:len(compact):len(compact)]
		var object map[string]json.RawMessage
		var list []json.RawMessage
		switch {
		case json.Unmarshal(compact, &list) == nil && list != nil:
			require.EqualValues(t, len(list), entries(compact))
			require.Nil(t, member(compact, name))
		case json.Unmarshal(compact, &object) == nil && object != nil:
			require.GreaterOrEqual(t, entries(compact), int64(len(object)), "keys may repeat")
			if found != nil {
				require.True(t, json.Valid(found), "%q", found)
			}
			if value, ok := object[name]; ok && plain(name) && !escaped(data) {
				require.Equal(t, string(value), string(member(compact, name)))
			}
		default:
			require.Zero(t, count)
			require.Nil(t, found)
		}
	})
}

// Brackets and quotes within strings do not end a value.
func TestScanStrings(t *testing.T) {
	for document, want := range map[string]int64{
		`{"a":"\",\"b\":1"}`: 1, `["\\","]"]`: 2, `["\\\"",[","],{}]`: 3, `{"\"":"{"}`: 1, `[]`: 0, `{"a":[1,2],"b":{"c":1,"d":2}}`: 2,
	} {
		require.Equal(t, want, entries(json.RawMessage(document)), document)
	}
	require.Equal(t, `"]"`, string(member(json.RawMessage(`{"x":"\"a\":1","a":"]"}`), "a")))
}

// plain reports whether JSON encodes a name without escapes.
func plain(name string) bool {
	quoted, err := json.Marshal(name)
	return err == nil && string(quoted) == `"`+name+`"`
}

func escaped(data []byte) bool {
	for _, c := range data {
		if c == '\\' || c >= 0x80 {
			return true
		}
	}
	return false
}
