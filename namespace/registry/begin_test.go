package registry_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// Who lists an empty store and watches from there misses nothing, whatever was
// committed in between.
func TestWatchFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		w := e.content(widgets)
		spaces, err := e.List(e.ctx, registry.ListOptions{})
		require.NoError(t, err)
		require.Equal(t, "0", spaces.ResourceVersion, "the beginning of history")
		objects, err := w.List(e.ctx, "", registry.ListOptions{})
		require.NoError(t, err)
		require.Equal(t, "0", objects.ResourceVersion)

		e.create("x")
		e.put(widgets, "x", object("a"))
		ctx, cancel := context.WithCancel(e.ctx)
		var all, content, inOne, now log
		go follow(&all, e.Watch(ctx, registry.WatchOptions{ResourceVersion: spaces.ResourceVersion}), describeNamespace)
		go follow(&content, w.Watch(ctx, "", registry.WatchOptions{ResourceVersion: objects.ResourceVersion}), describeObject)
		go follow(&inOne, w.Watch(ctx, "x", registry.WatchOptions{ResourceVersion: objects.ResourceVersion}), describeObject)
		go follow(&now, e.Watch(ctx, registry.WatchOptions{}), describeNamespace)
		synctest.Wait()
		require.Empty(t, now.take(), "only the empty version means now")
		e.create("y")
		e.put(widgets, "y", object("b"))
		synctest.Wait()
		require.Equal(t, []string{"ADDED x Active ", "ADDED y Active "}, all.take())
		require.Equal(t, []string{"ADDED x/a ", "ADDED y/b "}, content.take())
		require.Equal(t, []string{"ADDED x/a "}, inOne.take())
		require.Equal(t, []string{"ADDED y Active "}, now.take())
		cancel()
		synctest.Wait()
	})
}

// Where the beginning is no longer known, a watch from there says so.
func TestWatchFromALostBeginning(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	e := newEnvOver(t, s)
	e.create("x")
	e.put(widgets, "x", object("a"))
	require.NoError(t, s.Compact(e.ctx, e.revision()))
	for _, version := range []string{"0", "00", fmt.Sprint(e.revision() - 1)} {
		o := registry.WatchOptions{ResourceVersion: version}
		requireRefused(t, last(e.Watch(e.ctx, o)), version, namespace.ErrGone)
		requireRefused(t, last(e.content(widgets).Watch(e.ctx, "x", o)), version, namespace.ErrGone)
	}

	require.ErrorIs(t, last(newEnvOver(t, noEpoch{s}).Watch(e.ctx, registry.WatchOptions{ResourceVersion: "0"})), namespace.ErrGone,
		"a store that cannot name its beginning")
}

// noEpoch is a store whose positions have no epoch, against the contract.
type noEpoch struct{ store.Store }

func (s noEpoch) List(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := s.Store.List(ctx, q)
	page.Position.Epoch = ""
	return page, err
}
