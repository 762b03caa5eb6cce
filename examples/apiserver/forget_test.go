package main

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// What was declared about a namespace is forgotten some time after it is gone, and not
// while it is there.
func TestOldRecordsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s, err := memory.New(nil)
		require.NoError(t, err)
		defer s.Close()
		r, err := registry.New(s, nil)
		require.NoError(t, err)
		for _, name := range []string{"gone", "there"} {
			var n namespace.Namespace
			n.Name, n.Annotations = name, map[string]string{declare.GraceAnnotation: "0s"}
			_, err := r.Create(ctx, n)
			require.NoError(t, err)
		}
		n, err := r.Delete(ctx, "gone", namespace.Preconditions{})
		require.NoError(t, err)
		n.Spec.Finalizers = finalizer.Set{}
		_, err = r.Finalize(ctx, n)
		require.NoError(t, err)
		records, err := audit.New(s, nil)
		require.NoError(t, err)
		count := func(name string) int {
			list, err := records.List(ctx, name)
			require.NoError(t, err)
			return len(list)
		}
		go func() { _ = forget(ctx, s, r, slog.New(slog.DiscardHandler)) }()
		time.Sleep(remembered - time.Hour)
		require.Equal(t, []int{1, 1}, []int{count("gone"), count("there")})
		time.Sleep(2*time.Hour + forgetEvery)
		require.Equal(t, []int{0, 1}, []int{count("gone"), count("there")})
	})
}
