package registry_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Every write of a namespace reports the warnings about what it wrote, a dry run too; one
// that writes nothing, or is refused, none, but for a DELETE that finds a hold.
func TestWritesWarn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		var got []string
		ctx := registry.WithWarnings(e.ctx, func(text string) { got = append(got, text) })
		warns := func(n namespace.Namespace, err error) namespace.Namespace {
			t.Helper()
			require.NoError(t, err)
			require.Len(t, got, 1)
			got = nil
			return n
		}
		silent := func(n namespace.Namespace, err error) namespace.Namespace {
			t.Helper()
			require.Empty(t, got)
			return n
		}
		const grace = namespace.GraceAnnotation
		warns(e.DryRun().Create(ctx, annotated(named("x"), grace, "1h")))
		n := warns(e.Create(ctx, annotated(named("x"), grace, "1h")))
		silent(e.Create(ctx, annotated(named("x"), grace, "1h")))
		silent(e.Update(ctx, n))
		warns(e.Update(ctx, annotated(n, grace, "2h")))
		silent(e.Update(ctx, annotated(n, grace, "3h"))) // a conflict
		warns(e.DryRun().Delete(ctx, "x", anyVersion))
		warns(e.Delete(ctx, "x", anyVersion))
		n = warns(e.Delete(ctx, "x", anyVersion))
		silent(e.UpdateStatus(ctx, n))
		silent(e.Restore(ctx, "x", namespace.Preconditions{UID: "other"}))
		warns(e.Restore(ctx, "x", anyVersion))
		warns(e.DeleteAfter(ctx, "x", namespace.Hold{Until: time.Now().Add(time.Minute)}, anyVersion))
		silent(e.DeleteAfter(ctx, "x", namespace.Hold{Until: time.Now().Add(time.Minute)}, anyVersion))
		warns(e.DeleteAfter(ctx, "x", namespace.Hold{Until: time.Now().Add(time.Second)}, anyVersion))
		time.Sleep(time.Second)
		n = silent(e.Delete(ctx, "x", anyVersion))
		silent(e.Update(ctx, annotated(n, "nslifecycle.io/deletion-grase", "1h")))
		n.Spec.Finalizers = n.Spec.Finalizers.Without("kubernetes")
		silent(e.Finalize(ctx, n))
	})
}
