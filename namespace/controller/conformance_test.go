package controller_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// The registry satisfies the contract of controller.Namespaces.
func TestRegistryConforms(t *testing.T) {
	controllertest.Run(t, func(t *testing.T) controllertest.Backend {
		s, err := memory.New(nil)
		require.NoError(t, err)
		r, err := registry.New(s, nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.Close()); require.NoError(t, s.Close()) })
		return controllertest.Backend{
			Namespaces: r,
			Create:     r.Create,
			Delete: func(ctx context.Context, name string) error {
				_, err := r.Delete(ctx, name, namespace.Preconditions{})
				return err
			},
			Forget: func(ctx context.Context) error {
				page, err := s.List(ctx, store.Query{Prefix: "/", Limit: 1})
				if err != nil {
					return err
				}
				return s.Compact(ctx, page.Position.Revision)
			},
			Ahead: func(ctx context.Context) (string, error) { // a token of another registry, as after a restore from a backup
				s, err := memory.New(nil)
				require.NoError(t, err)
				lost, err := registry.New(s, nil)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, lost.Close()); require.NoError(t, s.Close()) })
				for _, name := range names("lost", 50) {
					_, err := lost.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: name}})
					require.NoError(t, err)
				}
				for event, err := range lost.Terminating(ctx, "") {
					return event.Token, err
				}
				return "", ctx.Err()
			},
		}
	})
}
