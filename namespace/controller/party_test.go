package controller_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// A controller for the zero Party removes the registry's own finalizer and writes the plain
// conditions. New rejects a primary party with another finalizer. An additional party logs
// that another process must remove the registry's finalizer.
func TestPartyOfARegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := memory.New(nil)
		require.NoError(t, err)
		r, err := registry.New(s, &registry.Options{
			Finalizer: "example.com/acme",
			Types:     []registry.Type{{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}},
		})
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, r.Close())
			require.NoError(t, s.Close())
		})
		d, err := r.Deleter(nil)
		require.NoError(t, err)
		require.Equal(t, namespace.Party{Finalizer: "example.com/acme", Primary: true}, r.Party())

		_, err = controller.New(r, d, kubernetes, nil)
		require.ErrorIs(t, err, namespace.ErrBadRequest)
		require.ErrorContains(t, err, `every namespace of this host has the finalizer "example.com/acme"`)

		run := func(party namespace.Party) *journal {
			lines := new(journal)
			c, err := controller.New(r, d, party, &controller.Options{Logger: slog.New(slog.NewTextHandler(lines, nil))})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- c.Run(ctx) }()
			t.Cleanup(func() {
				cancel()
				require.NoError(t, <-ended)
			})
			synctest.Wait()
			return lines
		}
		const additional = "another process must remove"
		lines := run(namespace.Party{Finalizer: "example.com/other"})
		require.Contains(t, lines.String(), additional)
		require.Contains(t, lines.String(), `other=example.com/acme`)

		ns, err := r.Create(t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: "a", Finalizers: finalizer.NewSet("example.com/keep")}})
		require.NoError(t, err)
		_, err = r.Delete(t.Context(), "a", namespace.Preconditions{})
		require.NoError(t, err)
		synctest.Wait()
		ns, err = r.Get(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, 1, ns.Spec.Finalizers.Len(), "the additional party leaves it")

		lines = run(namespace.Party{})
		ns, err = r.Get(t.Context(), "a")
		require.NoError(t, err)
		require.True(t, ns.Spec.Finalizers.IsZero())
		require.NotContains(t, lines.String(), additional)
		var plain []phase.ConditionType
		for _, c := range ns.Status.Conditions {
			plain = append(plain, c.Type)
		}
		require.Contains(t, plain, phase.ContentRemaining)
	})
}
