package quota_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/quota"
	"github.com/nslifecycle/nslifecycle/store"
)

// after is a store that calls do after the next read of a gate.
type after struct {
	store.Store
	do func()
}

func (s *after) Get(ctx context.Context, key string) (store.Entry, error) {
	e, err := s.Store.Get(ctx, key)
	if do := s.do; do != nil && strings.Contains(key, "/.gate/") {
		s.do = nil
		do()
	}
	return e, err
}

// A write that read the gate before the namespace and its quota were created is counted.
func TestNamespaceCreatedDuringWrite(t *testing.T) {
	m := newMemory(t)
	plain := openOver(t, m, false)
	s := &after{Store: m}
	e := openOver(t, s, true)
	appear := func(most string) func() {
		return func() {
			n, err := plain.Registry.Create(plain.ctx, namespace.Namespace{Meta: namespace.Meta{Name: space}})
			require.NoError(t, err)
			require.Equal(t, space, n.Name)
			plain.limit("q", "count/widgets.example.com", most)
		}
	}
	s.do = appear("0")
	require.ErrorIs(t, e.create(widgets, widget("a", `{}`)), namespace.ErrForbidden)
	require.NoError(t, e.remove(quota.Resource, "q"))
	_, err := plain.Registry.Delete(e.ctx, space, namespace.Preconditions{})
	require.NoError(t, err)
	_, err = plain.Finalize(e.ctx, namespace.Namespace{Meta: namespace.Meta{Name: space}})
	require.NoError(t, err)

	require.ErrorIs(t, e.create(widgets, widget("a", `{}`)), namespace.ErrNotFound, "the namespace is removed")
	s.do = appear("1")
	require.NoError(t, e.create(widgets, widget("a", `{}`)))
	require.ErrorIs(t, e.create(widgets, widget("b", `{}`)), namespace.ErrForbidden)
}

// Objects that Remove deletes from an Active namespace no longer count.
func TestRemovedIsNotCounted(t *testing.T) {
	e := newEnv(t)
	e.limit("q", "count/widgets.example.com", "1")
	require.NoError(t, e.create(widgets, widget("a", `{}`)))
	require.ErrorIs(t, e.create(widgets, widget("b", `{}`)), namespace.ErrForbidden)
	o, err := e.content(widgets).Get(e.ctx, space, "a")
	require.NoError(t, err)
	gone, err := e.RemoveObject(e.ctx, widgets, space, "a", o.UID, nil)
	require.NoError(t, err)
	require.True(t, gone)
	require.NoError(t, e.create(widgets, widget("b", `{}`)))
}
