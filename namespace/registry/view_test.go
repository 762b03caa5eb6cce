package registry_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// The namespace may be removed and made again between the look at it and the listing of
// the first page: that is of the moment of the look.
func TestR8_ViewAndItsNamespaceAreOfOneMoment(t *testing.T) {
	inner, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, inner.Close()) })
	behind := newEnvOver(t, inner)
	n := behind.create("x")
	behind.put(widgets, "x", object("old"))
	behind.terminate("x")
	between := &betweenLists{Store: inner, do: func() {
		require.NoError(t, behind.removeAll(behind.ctx, "x"))
		behind.create("x")
		behind.put(widgets, "x", object("new"))
	}}
	e := newEnvOver(t, between)
	sources, err := e.Sources(widgets)
	require.NoError(t, err)
	page, err := sources[0].Content.(deleter.Viewer).View(e.ctx, deleter.Target{Namespace: "x", UID: n.UID}, 0, "")
	require.NoError(t, err)
	require.Equal(t, 2, between.lists)
	require.Len(t, page.Items, 1)
	require.Equal(t, "old", page.Items[0].Name)
}

// betweenLists does something before the second listing.
type betweenLists struct {
	store.Store
	lists int
	do    func()
}

func (b *betweenLists) List(ctx context.Context, q store.Query) (store.Page, error) {
	if b.lists++; b.lists == 2 {
		b.do()
	}
	return b.Store.List(ctx, q)
}
