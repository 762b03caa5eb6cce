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

	"github.com/stretchr/testify/require"
)

// Who is in nobody's way goes on; who was overtaken, and all who come after, go one
// by one, in order; nothing is left of the line in the end.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all turns
		at := func() *turn { return &turn{turns: &all, namespace: "x"} }
		free := at()
		require.NoError(t, free.take(t.Context(), false))
		require.Nil(t, free.held, "there is no line")
		first := at()
		require.NoError(t, first.take(t.Context(), true))
		require.NoError(t, first.take(t.Context(), true), "once is enough")
		elsewhere := &turn{turns: &all, namespace: "y"}
		require.NoError(t, elsewhere.take(t.Context(), false), "another namespace has its own line")

		var mu sync.Mutex
		var order []int
		var waiting sync.WaitGroup
		for i := range 4 {
			waiting.Go(func() {
				next := at()
				if err := next.take(t.Context(), false); err != nil {
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
			late := at()
			if err := late.take(ctx, false); !errors.Is(err, cause) || late.held != nil {
				t.Errorf("who leaves the line got %v", err)
			}
			late.give() // nothing
		})
		synctest.Wait()
		cancel(cause)
		synctest.Wait()
		require.Empty(t, order, "nobody goes before the first is done")
		first.give()
		waiting.Wait()
		require.Equal(t, []int{0, 1, 2, 3}, order)
		require.Empty(t, all.line)
	})
}

// A registry without admission, and the zero turn, never wait.
func TestNoTurnWithoutAdmission(t *testing.T) {
	none := (&core{}).turnAt("x")
	require.NoError(t, none.take(t.Context(), true))
	require.Nil(t, none.held)
	none.give()
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
