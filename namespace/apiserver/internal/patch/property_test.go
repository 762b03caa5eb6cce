package patch

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func randomName(r *rand.Rand) string { return []string{"a", "b", "c/d", "~1", "e\"<f", "0"}[r.IntN(6)] }

// randomTree returns a tree without nulls in objects: a merge patch cannot make them.
func randomTree(r *rand.Rand, depth int) any {
	switch n := r.IntN(8); {
	case depth > 0 && n < 3:
		out := map[string]any{}
		for range r.IntN(4) {
			out[randomName(r)] = randomTree(r, depth-1)
		}
		return out
	case depth > 0 && n == 3:
		out := []any{}
		for range r.IntN(4) {
			out = append(out, randomTree(r, depth-1))
		}
		return out
	case n == 4:
		return r.IntN(2) == 0
	case n == 5:
		return json.Number([]string{"0", "1", "1.5", "9007199254740993"}[r.IntN(4)])
	}
	return string(rune('p' + r.IntN(5)))
}

func randomObject(r *rand.Rand) map[string]any {
	out := map[string]any{}
	for range 1 + r.IntN(4) {
		out[randomName(r)] = randomTree(r, 4)
	}
	return out
}

// diff returns the merge patch from a to b.
func diff(a, b map[string]any) map[string]any {
	out := map[string]any{}
	for name := range a {
		if _, ok := b[name]; !ok {
			out[name] = nil
		}
	}
	for name, value := range b {
		x, isObjectX := a[name].(map[string]any)
		y, isObjectY := value.(map[string]any)
		switch before, ok := a[name]; {
		case isObjectX && isObjectY:
			if d := diff(x, y); len(d) > 0 {
				out[name] = d
			}
		case !ok || !reflect.DeepEqual(before, value):
			out[name] = value
		}
	}
	return out
}

func encoded(t *testing.T, tree any) []byte {
	t.Helper()
	data, err := format(tree)
	require.NoError(t, err)
	return data
}

func TestMergeOfADifference(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 400 {
		a, b := randomObject(r), randomObject(r)
		want, patch := encoded(t, b), encoded(t, diff(a, b))
		got, err := mergePatch(encoded(t, a), patch)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "a %v\npatch %s", a, patch)
		got, err = mergePatch(got, patch)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "twice is once")
	}
}

// operations returns the JSON patch from a to b. It tests the values that it replaces.
func operations(a, b map[string]any, at string) []map[string]any {
	var out []map[string]any
	for name, value := range a {
		path := at + "/" + escape.Replace(name)
		out = append(out, map[string]any{"op": "test", "path": path, "value": value})
		if _, ok := b[name]; !ok {
			out = append(out, map[string]any{"op": "remove", "path": path})
		}
	}
	for name, value := range b {
		path := at + "/" + escape.Replace(name)
		x, isObjectX := a[name].(map[string]any)
		y, isObjectY := value.(map[string]any)
		switch before, ok := a[name]; {
		case isObjectX && isObjectY:
			out = append(out, operations(x, y, path)...)
		case !ok:
			out = append(out, map[string]any{"op": "add", "path": path, "value": value})
		case !reflect.DeepEqual(before, value):
			out = append(out, map[string]any{"op": "replace", "path": path, "value": value})
		}
		out = append(out, map[string]any{"op": "test", "path": path, "value": value})
	}
	return out
}

var escape = strings.NewReplacer("~", "~0", "/", "~1")

func TestOperationsOfADifference(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 400 {
		a, b := randomObject(r), randomObject(r)
		patch, err := json.Marshal(operations(a, b, ""))
		require.NoError(t, err)
		got, err := patchedBy(encoded(t, a), patch)
		require.NoError(t, err, "a %v\npatch %s", a, patch)
		require.Equal(t, string(encoded(t, b)), string(got), "a %v\npatch %s", a, patch)
	}
}

// A field with any name can be moved away and back.
func TestNamesOfFields(t *testing.T) {
	for _, name := range []string{"a", "a/b", "~1", "0", "-1", "-", "<&>", `"`, "\\", "\u2028", "\x00", " ", "\u00fc", "\U0001F600"} {
		doc := encoded(t, map[string]any{"x": map[string]any{name: json.Number("1"), "other": json.Number("2")}})
		path := "/x/" + escape.Replace(name)
		got, err := patchedBy(doc, encoded(t, []any{
			map[string]any{"op": "test", "path": path, "value": json.Number("1")},
			map[string]any{"op": "move", "from": path, "path": "/y"},
			map[string]any{"op": "add", "path": path, "value": "new"},
			map[string]any{"op": "replace", "path": path, "value": "newer"},
			map[string]any{"op": "test", "path": path, "value": "newer"},
			map[string]any{"op": "remove", "path": path},
			map[string]any{"op": "copy", "from": "/y", "path": path},
			map[string]any{"op": "remove", "path": "/y"},
		}))
		require.NoError(t, err, "%q", name)
		require.Equal(t, string(doc), string(got))
		got, err = mergePatch(doc, encoded(t, map[string]any{"x": map[string]any{name: map[string]any{"n": nil, "m": "<"}}}))
		require.NoError(t, err, "%q", name)
		require.Equal(t, string(encoded(t, map[string]any{"x": map[string]any{name: map[string]any{"m": "<"}, "other": json.Number("2")}})), string(got))
	}
}

// patchedBy returns the result of a JSON patch in its canonical form.
func patchedBy(doc, body []byte) ([]byte, error) {
	out, err := jsonPatch(doc, body)
	if err != nil {
		return nil, err
	}
	return canonical(out)
}
