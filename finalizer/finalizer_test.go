package finalizer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
)

const neither = "name is neither a standard finalizer name nor is it fully qualified"

func TestNameProblems(t *testing.T) {
	t.Parallel()
	const part = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric" +
		" character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
	tests := []struct {
		name finalizer.Name
		want []string
	}{
		{finalizer.Kubernetes, nil},
		{finalizer.Orphan, nil},
		{finalizer.ForegroundDeletion, nil},
		{"openshift.com/origin", nil},
		{"a/b", nil},
		{"agent", []string{neither}},
		{"Kubernetes", []string{neither}},
		{"", []string{"name part must be non-empty", part, neither}},
		{"white space", []string{part, neither}},
		{"/b", []string{"prefix part must be non-empty"}},
		{"a/b!", []string{part}},
		{finalizer.Name("a/" + strings.Repeat("b", 64)), []string{"name part must be no more than 63 bytes"}},
		{finalizer.Name(strings.Repeat("a.", 127) + "a/b"), []string{"prefix part must be no more than 253 bytes"}},
	}
	for _, tt := range tests {
		t.Run(string(tt.name), func(t *testing.T) {
			require.Empty(t, cmp.Diff(tt.want, tt.name.Problems()))
			if tt.want == nil {
				require.NoError(t, tt.name.Validate())
				return
			}
			err := tt.name.Validate()
			require.ErrorIs(t, err, finalizer.ErrInvalid)
			require.ErrorContains(t, err, strconv.Quote(string(tt.name)))
			for _, text := range tt.want {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	for _, name := range []finalizer.Name{"", "x", "..", "a/../b", "a/b/c", "/", "a/", "\xff/b", "a/\x00", "é/b", finalizer.Name(strings.Repeat("x", 1<<20))} {
		require.ErrorIs(t, name.Validate(), finalizer.ErrInvalid, "%.40q", name)
	}
	for _, doc := range []string{``, `{}`, `"a/b"`, `[1]`, `[["a/b"]]`, `["a/b"`, `true`} {
		s := finalizer.NewSet("a/b")
		require.Error(t, json.Unmarshal([]byte(doc), &s), "%s", doc)
		require.True(t, s.Equal(finalizer.NewSet("a/b")), "%s changed the set", doc)
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	s := finalizer.NewSet("a/1", "b/2", "a/1", "c/3")
	require.Equal(t, []finalizer.Name{"a/1", "b/2", "c/3"}, s.Names())
	require.Equal(t, 3, s.Len())
	require.True(t, s.Has("b/2"))
	require.False(t, s.Has("b"))
	require.Equal(t, []finalizer.Name{"a/1", "b/2", "c/3", "d/4"}, s.With("d/4").Names())
	require.Equal(t, []finalizer.Name{"a/1", "c/3"}, s.Without("b/2").Names())
	require.True(t, s.With("a/1").Equal(s), "an existing name keeps its place")
	require.True(t, s.Without("x/9").Equal(s))
	require.False(t, s.Equal(finalizer.NewSet("c/3", "b/2", "a/1")), "order counts")
	require.True(t, finalizer.Set{}.IsZero())
	require.True(t, finalizer.NewSet().Equal(finalizer.Set{}))
	require.Nil(t, finalizer.Set{}.Names())
	require.Nil(t, finalizer.NewSet("a/1").Without("a/1").Names())
	var all []string
	for i, n := range s.All() {
		all = append(all, fmt.Sprint(i, " ", n))
	}
	require.Equal(t, []string{"0 a/1", "1 b/2", "2 c/3"}, all)
}

func TestSetDiff(t *testing.T) {
	t.Parallel()
	many := make([]finalizer.Name, 1000)
	for i := range many {
		many[i] = finalizer.Name("example.com/" + strconv.Itoa(i))
	}
	tests := []struct {
		name           string
		from, to       finalizer.Set
		added, removed []finalizer.Name
	}{
		{"both empty", finalizer.Set{}, finalizer.Set{}, nil, nil},
		{"equal", finalizer.NewSet("a", "b"), finalizer.NewSet("a", "b"), nil, nil},
		{"only the order differs", finalizer.NewSet("a", "b"), finalizer.NewSet("b", "a"), nil, nil},
		{"added, in order", finalizer.NewSet("b"), finalizer.NewSet("c", "b", "a"), []finalizer.Name{"c", "a"}, nil},
		{"removed, in order", finalizer.NewSet("c", "b", "a"), finalizer.NewSet("b"), nil, []finalizer.Name{"c", "a"}},
		{"both", finalizer.NewSet("a"), finalizer.NewSet("b"), []finalizer.Name{"b"}, []finalizer.Name{"a"}},
		{"many", finalizer.NewSet(many[:900]...), finalizer.NewSet(many[100:]...), many[900:], many[:100]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			added, removed := tt.from.Diff(tt.to)
			require.Empty(t, cmp.Diff(tt.added, added))
			require.Empty(t, cmp.Diff(tt.removed, removed))
		})
	}
}

// No operation and no caller can change an existing set.
func TestSetNeverAliases(t *testing.T) {
	t.Parallel()
	in := []finalizer.Name{"a", "b", "c", "a"} // the repetition leaves spare room in the set
	s := finalizer.NewSet(in...)
	in[0] = "changed"
	s.Names()[1] = "changed"
	added, _ := finalizer.Set{}.Diff(s)
	added[2] = "changed"
	one, two := s.With("x"), s.With("y") // would share the spare room of s
	less, least := s.Without("b"), s.Without("a")
	_ = less.With("z")
	other := s.With("w")
	require.True(t, other.Has("w"))
	copied := s
	require.NoError(t, json.Unmarshal([]byte(`["q","r","s"]`), &copied))

	require.Equal(t, []finalizer.Name{"a", "b", "c"}, s.Names())
	require.Equal(t, []finalizer.Name{"a", "b", "c", "x"}, one.Names())
	require.Equal(t, []finalizer.Name{"a", "b", "c", "y"}, two.Names())
	require.Equal(t, []finalizer.Name{"a", "c"}, less.Names())
	require.Equal(t, []finalizer.Name{"b", "c"}, least.Names())
	require.Equal(t, []finalizer.Name{"q", "r", "s"}, copied.Names())
}

func TestSetAllocations(t *testing.T) {
	s := finalizer.NewSet("openshift.com/origin", finalizer.Kubernetes)
	var kept finalizer.Set
	for name, c := range map[string]struct {
		most float64
		do   func()
	}{
		"Has":                {0, func() { s.Has(finalizer.Kubernetes) }},
		"Equal":              {0, func() { s.Equal(kept) }},
		"With, there":        {0, func() { kept = s.With(finalizer.Kubernetes) }},
		"With":               {1, func() { kept = s.With("example.com/agent") }},
		"Without, not there": {0, func() { kept = s.Without("example.com/agent") }},
		"Without":            {1, func() { kept = s.Without(finalizer.Kubernetes) }},
		"NewSet":             {1, func() { kept = finalizer.NewSet("a", "b", "a") }},
		"Diff of equals":     {0, func() { s.Diff(s) }},
		"All": {0, func() {
			for range s.All() {
			}
		}},
	} {
		require.LessOrEqual(t, testing.AllocsPerRun(100, c.do), c.most, name)
	}
}

func TestSetJSON(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, out string }{
		{`["b","a"]`, `["b","a"]`},
		{` [ "a" ] `, `["a"]`},
		{`[]`, `[]`},
		{`null`, `[]`},
		{`["a","b","a"]`, `["a","b"]`},
		{`["a",null]`, `["a",""]`},
		{`["<&>"]`, `["\u003c\u0026\u003e"]`},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			s := finalizer.NewSet("old")
			require.NoError(t, json.Unmarshal([]byte(tt.in), &s))
			out, err := json.Marshal(s)
			require.NoError(t, err)
			require.Equal(t, tt.out, string(out))
		})
	}
	type holder struct {
		Finalizers finalizer.Set `json:"finalizers,omitzero"`
	}
	out, err := json.Marshal(holder{finalizer.NewSet("a").Without("a")})
	require.NoError(t, err)
	require.Equal(t, `{}`, string(out))

	var plain strings.Builder
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(holder{finalizer.NewSet("<&>")}))
	require.Equal(t, "{\"finalizers\":[\"<&>\"]}\n", plain.String(), "the outer encoder decides")
}

// With quadratic cost this test would take minutes.
func TestLongLists(t *testing.T) {
	t.Parallel()
	names := make([]finalizer.Name, 200_000)
	for i := range names {
		names[i] = finalizer.Name("a/" + strconv.Itoa(i))
	}
	s := finalizer.NewSet(names...)
	added, removed := s.Diff(finalizer.NewSet(names[1:]...))
	require.Empty(t, added)
	require.Equal(t, names[:1], removed)
}

// FuzzSet runs operations on a set and on a slice. It keeps every version of the set, to detect later
// changes.
func FuzzSet(f *testing.F) {
	f.Add([]byte{0x00, 0x01, 0x12, 0x01, 0x11})
	f.Fuzz(func(t *testing.T, ops []byte) {
		type version struct {
			set   finalizer.Set
			model []finalizer.Name
		}
		history := []version{{}}
		for _, op := range ops[:min(len(ops), 64)] {
			at := history[len(history)-1]
			name := finalizer.Name("example.com/" + strconv.Itoa(int(op>>4)))
			model := slices.Clone(at.model)
			var set finalizer.Set
			switch op % 4 {
			case 0:
				set = at.set.With(name)
				if !slices.Contains(model, name) {
					model = append(model, name)
				}
			case 1:
				set = at.set.Without(name)
				model = slices.DeleteFunc(model, func(n finalizer.Name) bool { return n == name })
			case 2:
				data, err := json.Marshal(at.set)
				require.NoError(t, err)
				require.NoError(t, json.Unmarshal(data, &set))
			case 3: // from an older version: branches must not meet
				old := history[int(op>>4)%len(history)]
				set, model = old.set.With(name), slices.Clone(old.model)
				if !slices.Contains(model, name) {
					model = append(model, name)
				}
			}
			history = append(history, version{set, model})
		}
		for _, v := range history {
			require.True(t, slices.Equal(v.model, v.set.Names()))
			require.Equal(t, len(v.model), v.set.Len())
			require.Equal(t, len(v.model) == 0, v.set.IsZero())
			added, removed := history[len(history)/2].set.Diff(v.set)
			mid := history[len(history)/2].model
			require.True(t, slices.Equal(added, without(v.model, mid)))
			require.True(t, slices.Equal(removed, without(mid, v.model)))
		}
	})
}

func without(names, others []finalizer.Name) []finalizer.Name {
	return slices.DeleteFunc(slices.Clone(names), func(n finalizer.Name) bool { return slices.Contains(others, n) })
}

// FuzzSetJSON checks that decoding, encoding and decoding again gives the same set.
func FuzzSetJSON(f *testing.F) {
	for _, s := range []string{`[]`, `null`, `["a/b","a/b"]`, `[null]`, `["\u2028<"]`, `{}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s, again finalizer.Set
		if json.Unmarshal(data, &s) != nil {
			return
		}
		for n := range slices.Values(s.Names()) {
			if err := n.Validate(); err != nil {
				require.True(t, errors.Is(err, finalizer.ErrInvalid))
			}
		}
		out, err := json.Marshal(s)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(out, &again))
		require.True(t, s.Equal(again))
	})
}

func ExampleSet() {
	held := finalizer.NewSet("openshift.com/origin", finalizer.Kubernetes)
	left := held.Without(finalizer.Kubernetes)
	fmt.Println(held.Names())
	fmt.Println(left.Names())
	added, removed := held.Diff(left)
	fmt.Println(len(added), removed)
	// Output:
	// [openshift.com/origin kubernetes]
	// [openshift.com/origin]
	// 0 [kubernetes]
}

func ExampleName_Validate() {
	fmt.Println(finalizer.Name("openshift.com/origin").Validate())
	fmt.Println(finalizer.Name("origin").Validate())
	// Output:
	// <nil>
	// invalid finalizer "origin": name is neither a standard finalizer name nor is it fully qualified
}

func BenchmarkSet(b *testing.B) {
	s := finalizer.NewSet("openshift.com/origin", finalizer.Kubernetes)
	b.Run("Without", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Without(finalizer.Kubernetes)
		}
	})
	b.Run("JSON", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			data, _ := json.Marshal(s)
			var d finalizer.Set
			_ = json.Unmarshal(data, &d)
		}
	})
}
