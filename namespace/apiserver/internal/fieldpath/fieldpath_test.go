package fieldpath_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/fieldpath"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/quantity"
)

func find(t *testing.T, path, spec string) ([]fieldpath.Found, error) {
	t.Helper()
	p, err := fieldpath.Parse(path)
	require.NoError(t, err)
	return fieldpath.Of(map[string]json.RawMessage{"spec": json.RawMessage(spec)}).Find(p)
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		path, spec string
		want       []fieldpath.Found
		mismatch   string
	}{
		{path: "spec.size", spec: `{"size":1.50}`, want: []fieldpath.Found{{"spec.size", json.Number("1.50")}}},
		{path: "spec", spec: `"1Gi"`, want: []fieldpath.Found{{"spec", "1Gi"}}},
		{path: "spec.size", spec: `{"size":null}`},
		{path: "spec.size", spec: `null`},
		{path: "spec.size", spec: `{"Size":1}`},
		{path: "status.size", spec: `{"size":1}`},
		{path: "spec.size", spec: `[]`, mismatch: "spec must be an object"},
		{path: "spec.a.b", spec: `{"a":"x"}`, mismatch: "spec.a must be an object"},
		{path: "spec[*]", spec: `{}`, mismatch: "spec must be a list"},
		{path: "spec.list[*].q", spec: `{"list":[{"q":"1"},null,{},{"q":"2"}]}`, want: []fieldpath.Found{{"spec.list[0].q", "1"}, {"spec.list[3].q", "2"}}},
		{path: "spec[*][*]", spec: `[["a"],["b","c"]]`, want: []fieldpath.Found{{"spec[0][0]", "a"}, {"spec[1][0]", "b"}, {"spec[1][1]", "c"}}},
		{path: "spec['example.com/gpu']", spec: `{"example.com/gpu":"4"}`, want: []fieldpath.Found{{"spec[example.com/gpu]", "4"}}},
	} {
		got, err := find(t, c.path, c.spec)
		if c.mismatch != "" {
			var m *fieldpath.Mismatch
			require.ErrorAs(t, err, &m, c.path)
			require.EqualError(t, err, c.mismatch)
			continue
		}
		require.NoError(t, err, c.path)
		require.Empty(t, cmp.Diff(c.want, got), "%s in %s", c.path, c.spec)
	}
}

// An encoded field contains the modifications of found values. Other values keep their bytes,
// including numbers and the characters < > &.
func TestEncode(t *testing.T) {
	d := fieldpath.Of(map[string]json.RawMessage{"spec": json.RawMessage(`{"list":[{"n":1e2}],"html":"<&>"}`), "data": json.RawMessage(`{ "a" : 1 }`)})
	p, err := fieldpath.Parse("spec.list[*]")
	require.NoError(t, err)
	found, err := d.Find(p)
	require.NoError(t, err)
	require.Len(t, found, 1)
	found[0].Value.(map[string]any)["m"] = "new"
	raw, err := d.Encode("spec")
	require.NoError(t, err)
	require.Equal(t, `{"html":"<&>","list":[{"m":"new","n":1e2}]}`, string(raw))
	raw, err = d.Encode("data")
	require.NoError(t, err)
	require.Equal(t, `{ "a" : 1 }`, string(raw))
	require.Equal(t, "spec", p.Top())
	require.Equal(t, "spec.list[*]", p.String())
}

func TestBadInput(t *testing.T) {
	for _, path := range []string{
		"", ".", "spec.", ".spec", "spec..size", "[*]", "['a']", "spec[", "spec[*", "spec[0]", "spec['a", "spec['']", "spec[*]x", "spec.*", "a b",
		"metadata.name", "kind", "apiVersion", "spec.\xff", "spec]" + strings.Repeat("a", 2000), "spec" + strings.Repeat("[*]", 40), strings.Repeat("a", 2000),
	} {
		_, err := fieldpath.Parse(path)
		require.Error(t, err, "%.80q", path)
	}
	_, err := find(t, "spec.size", `{"size"`)
	require.Error(t, err)
	found, err := fieldpath.Of(nil).Find(fieldpath.Path{})
	require.NoError(t, err)
	require.Empty(t, found)
	require.Equal(t, `"`+strings.Repeat("x", 61)+`..."`, fieldpath.Show(strings.Repeat("x", 100)))
	require.Equal(t, `true`, fieldpath.Show(true))
}

func FuzzParse(f *testing.F) {
	f.Add("spec.containers[*].resources.requests['example.com/gpu']", `{"containers":[{"resources":{"requests":{"example.com/gpu":"1"}}}]}`)
	f.Add("spec.size", `{"size":"1e30"}`)
	f.Add("spec[*][*]", `[[1]]`)
	f.Fuzz(func(t *testing.T, path, spec string) {
		p, err := fieldpath.Parse(path)
		if err != nil {
			return
		}
		if p.IsZero() || p.Top() == "" || p.String() != path {
			t.Fatalf("%q was parsed to %q", path, p)
		}
		found, err := fieldpath.Of(map[string]json.RawMessage{p.Top(): json.RawMessage(spec)}).Find(p)
		if err != nil {
			return
		}
		for _, v := range found {
			if q, err := quantity.Parse(v.Value); err == nil {
				sum := q.DeepCopy()
				sum.Add(q)
				if len(sum.String()) > 200 {
					t.Fatalf("the sum of %v is too long", v.Value)
				}
			}
		}
	})
}
