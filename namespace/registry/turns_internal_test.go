package registry

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

// Who is in nobody's way goes on; who was overtaken at a key, and all who are to write
// it after that, go one by one, in order; nothing is left of the line in the end.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all turns
		conditions := []store.Condition{store.At("x", 1), store.At("y", 1), store.Exists("z")}
		writes := []store.Operation{store.Put("x", nil), store.Delete("z")}
		first := &turn{turns: &all}
		require.Empty(t, first.behind(conditions, writes, nil), "there is no line")
		require.NoError(t, first.take(t.Context(), nil))
		require.Empty(t, all.lines, "who is in nobody's way makes none")
		require.NoError(t, first.take(t.Context(), []string{"x", "y", "z"}))
		require.NoError(t, first.take(t.Context(), []string{"x"}), "once is enough")
		require.Empty(t, first.behind(conditions, writes, nil), "its own line")
		next := &turn{turns: &all}
		require.Equal(t, []string{"x"}, next.behind(conditions, writes, nil), "what is only held, or is no revision, is not waited for")
		require.Empty(t, next.behind(conditions, writes, func(key string) bool { return key == "x" }), "nor what the write is about")
		require.NoError(t, next.take(t.Context(), []string{"w"}), "each key has its own line")
		next.give()

		var mu sync.Mutex
		var order []int
		var waiting sync.WaitGroup
		for i := range 4 {
			waiting.Go(func() {
				next := turn{turns: &all}
				if err := next.take(t.Context(), []string{"x"}); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				next.give()
			})
			synctest.Wait() // it stands in line
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		waiting.Go(func() {
			late := turn{turns: &all}
			if err := late.take(ctx, []string{"w", "x"}); !errors.Is(err, cause) || !late.has("w") || late.has("x") {
				t.Errorf("who leaves the line got %v", err)
			}
			late.give()
		})
		synctest.Wait()
		cancel(cause)
		synctest.Wait()
		require.Empty(t, order, "nobody goes before the first is done")
		first.give()
		waiting.Wait()
		require.Equal(t, []int{0, 1, 2, 3}, order)
		require.Empty(t, all.lines)
	})
}

// Writes that need several turns never wait for each other, in whatever order they
// come to need them.
func TestTurnsAtSeveralKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all turns
		var writing sync.WaitGroup
		taken := map[string]*int{"a": new(int), "b": new(int), "c": new(int)} // each is of who has the turn
		for _, keys := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a", "c"}, {"c", "a"}} {
			writing.Go(func() {
				for range 50 {
					one := turn{turns: &all}
					for i, key := range keys {
						if err := one.take(t.Context(), []string{key}); err != nil {
							t.Error(err)
						}
						time.Sleep(time.Millisecond) // of the bubble: the others take theirs
						for _, key := range keys[:i+1] {
							*taken[key]++
							if !one.has(key) {
								t.Errorf("there is no turn at %s", key)
							}
						}
					}
					one.give()
				}
			})
		}
		writing.Wait()
		require.Empty(t, all.lines)
		require.Equal(t, []int{50 * (3 + 1 + 2 + 1), 50 * (2 + 2 + 3), 50 * (1 + 3 + 1 + 2)}, []int{*taken["a"], *taken["b"], *taken["c"]})
	})
}

// A registry without admission, a write of a link, and the zero turn never wait.
func TestNoTurn(t *testing.T) {
	asking := &core{admission: []Admission{nil}}
	require.NotNil(t, asking.turnAt(t.Context()).turns)
	for _, none := range []turn{
		(&core{}).turnAt(t.Context()), asking.turnAt(context.WithValue(t.Context(), insideWrite{}, true)),
	} {
		require.NoError(t, none.take(t.Context(), []string{"x"}))
		require.Empty(t, none.held)
		require.Empty(t, none.behind([]store.Condition{store.At("x", 1)}, []store.Operation{store.Delete("x")}, nil))
		none.give()
	}
}

// The text of a field is what decoding the whole document finds.
func FuzzFieldText(f *testing.F) {
	for _, doc := range []string{`{"a":{"b":"x"}}`, `{"a":{"b":1.50,"b":true}}`, `{"a":null}`, `{"a":[{"b":1}]}`, `{"a":{"\u0062":"é"}}`, `{"a":"b"}`} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var o Object
		if json.Unmarshal(doc, &o) != nil {
			return
		}
		fields, wrong := compacted(o.Fields)
		if len(wrong) > 0 {
			return
		}
		o.Fields = fields
		require.Equal(t, textOf(o.Fields["a"], "b"), o.text("a.b"))
		require.Equal(t, textOf(o.Fields["a"]), o.text("a"))
	})
}

// textOf is [Object.text] by way of encoding/json.
func textOf(value json.RawMessage, path ...string) string {
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
		return string(slices.Clone(value))
	}
	return ""
}
