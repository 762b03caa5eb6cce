package patch

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// randomTree returns a tree without nulls in objects: a merge patch cannot make them.
func randomTree(r *rand.Rand, depth int) any {
	switch n := r.IntN(8); {
	case depth > 0 && n < 3:
		out := map[string]any{}
		for range r.IntN(4) {
			out[string(rune('a'+r.IntN(4)))] = randomTree(r, depth-1)
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
		out[string(rune('a'+r.IntN(4)))] = randomTree(r, 4)
	}
	return out
}

// diff returns the merge patch that makes b of a.
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

func clone(t *testing.T, tree any) any {
	t.Helper()
	out, err := (&copier{left: 1 << 20}).copy(tree, 0)
	require.NoError(t, err)
	return out
}

func TestMergeOfADifference(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		a, b := randomObject(r), randomObject(r)
		patch := diff(a, b)
		got := mergePatch(clone(t, a), clone(t, patch))
		require.True(t, equal(got, b, 0), "a %v\nb %v\npatch %v\ngot %v", a, b, patch, got)
		require.Equal(t, b, mergePatch(got, clone(t, patch)), "twice is once")
	}
}

// randomOperations returns a patch of which most operations apply to a document.
func randomOperations(r *rand.Rand) []map[string]any {
	path := func() string {
		out := ""
		for range 1 + r.IntN(2) {
			out += "/" + []string{"a", "b", "c", "d", "0", "1", "-1", "-", "2"}[r.IntN(9)]
		}
		return out
	}
	var out []map[string]any
	for range 1 + r.IntN(4) {
		op := map[string]any{"op": []string{"add", "remove", "replace", "move", "copy", "test"}[r.IntN(6)], "path": path()}
		switch op["op"] {
		case "add", "replace", "test":
			op["value"] = randomTree(r, 2)
		case "move", "copy":
			op["from"] = path()
		}
		out = append(out, op)
	}
	return out
}

// Where the library that Kubernetes uses applies a patch, the outcome is the same.
func TestOperationsAgainstTheLibrary(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	applied := 0
	for range 4_000 {
		doc, err := json.Marshal(randomObject(r))
		require.NoError(t, err)
		patch, err := json.Marshal(randomOperations(r))
		require.NoError(t, err)
		want, wantErr := byLibrary(doc, patch)
		tree, err := parse(doc)
		require.NoError(t, err)
		list, err := parseOperations(patch)
		require.NoError(t, err)
		got, gotErr := applyOperations(tree, list)
		if wantErr != nil || gotErr != nil {
			continue // which of two failures comes first, and nonstandard paths, may differ
		}
		applied++
		out, err := format(got)
		require.NoError(t, err)
		require.True(t, jsonpatch.Equal(want, out), "seed %d\ndoc %s\npatch %s\nwant %s\ngot %s", seed, doc, patch, want, out)
	}
	require.Greater(t, applied, 200)
}

func byLibrary(doc, patch []byte) (out []byte, err error) {
	defer func() {
		if fault := recover(); fault != nil { // it has its faults: see TestJSONPatch
			err = fmt.Errorf("%v", fault)
		}
	}()
	p, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return p.Apply(doc)
}
