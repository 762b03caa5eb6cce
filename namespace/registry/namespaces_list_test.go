package registry_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

func TestListNamespaces(t *testing.T) {
	e := newEnv(t)
	for i := range 7 {
		n := named(fmt.Sprintf("n%d", i))
		n.Labels = map[string]string{"even": fmt.Sprint(i%2 == 0)}
		_, err := e.Create(e.ctx, n)
		require.NoError(t, err)
	}
	e.terminate("n3")
	e.terminate("n4")
	for _, tc := range []struct {
		labels, fields string
		want           string
	}{
		{"", "", "n0 n1 n2 n3 n4 n5 n6"},
		{"even=true", "", "n0 n2 n4 n6"},
		{"even=true", "status.phase=Active", "n0 n2 n6"},
		{"", "status.phase=Terminating", "n3 n4"},
		{"", "metadata.name=n2", "n2"},
		{"", "name!=n2,status.phase!=Terminating", "n0 n1 n5 n6"},
		{"", "metadata.name=n", ""},
		{namespace.NameLabel + " in (n1,n6)", "", "n1 n6"},
	} {
		for _, bounds := range [][2]int{{0, 0}, {1, 0}, {2, 0}, {7, 0}, {100, 0}, {0, 1}, {0, 700}, {2, 700}, {0, 1 << 20}} {
			limit := bounds[0]
			o := registry.ListOptions{Labels: labels(t, tc.labels), Fields: fields(t, tc.fields), Limit: limit, Bytes: bounds[1]}
			var names []string
			for pages := 0; ; pages++ {
				require.Less(t, pages, 10, "pages must come to an end")
				list, err := e.List(e.ctx, o)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(e.revision()), list.ResourceVersion)
				if limit > 0 {
					require.LessOrEqual(t, len(list.Items), limit)
				}
				if bounds[1] == 1 {
					require.LessOrEqual(t, len(list.Items), 1)
				}
				for _, n := range list.Items {
					names = append(names, n.Name)
				}
				if o.Continue = list.Continue; o.Continue == "" {
					break
				}
			}
			require.Equal(t, tc.want, strings.Join(names, " "), "%+v limit and bytes %v", tc, bounds)
		}
	}
	_, err := e.List(e.ctx, registry.ListOptions{Fields: fields(t, "spec.x=1")})
	requireError(t, err, namespace.ErrBadRequest, "field label not supported: spec.x")
	data, err := json.Marshal(must(e.List(e.ctx, registry.ListOptions{Fields: fields(t, "name=none")})))
	require.NoError(t, err)
	require.JSONEq(t, fmt.Sprintf(`{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[]}`, e.revision()), string(data))
}

// All pages are of the snapshot of the first one; a token of another history, or
// of one that was compacted, is gone.
func TestPagesPinASnapshot(t *testing.T) {
	e := newEnv(t)
	e.create("a")
	e.create("b")
	first, err := e.List(e.ctx, registry.ListOptions{Limit: 1})
	require.NoError(t, err)
	e.create("aa")
	e.release("b")
	e.terminate("b")
	second, err := e.List(e.ctx, registry.ListOptions{Limit: 1, Continue: first.Continue})
	require.NoError(t, err)
	require.Equal(t, "b", second.Items[0].Name)
	require.Empty(t, second.Continue)
	require.Equal(t, first.ResourceVersion, second.ResourceVersion)

	exact, err := e.List(e.ctx, registry.ListOptions{ResourceVersion: first.ResourceVersion, Exact: true})
	require.NoError(t, err)
	require.Len(t, exact.Items, 2)
	newer, err := e.List(e.ctx, registry.ListOptions{ResourceVersion: first.ResourceVersion})
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(e.revision()), newer.ResourceVersion, "at least that new")
	_, err = e.List(e.ctx, registry.ListOptions{ResourceVersion: fmt.Sprint(e.revision() + 1)})
	require.ErrorIs(t, err, namespace.ErrBadRequest)
	require.ErrorIs(t, err, store.ErrFuture)

	require.NoError(t, e.store.(store.Compactor).Compact(e.ctx, e.revision()))
	_, err = e.List(e.ctx, registry.ListOptions{Limit: 1, Continue: first.Continue})
	require.ErrorIs(t, err, namespace.ErrGone)
	require.ErrorContains(t, err, "The provided continue parameter is too old to display a consistent list result.")
	_, err = e.List(e.ctx, registry.ListOptions{ResourceVersion: first.ResourceVersion, Exact: true})
	require.ErrorIs(t, err, namespace.ErrGone)

	other := newEnv(t)
	other.create("a")
	other.create("b")
	_, err = other.List(e.ctx, registry.ListOptions{Continue: first.Continue})
	require.ErrorIs(t, err, namespace.ErrGone, "the token carries the epoch")
}
