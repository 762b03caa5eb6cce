package registry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// A dry run answers what would be, and writes nothing, neither the namespace nor the
// index.
func TestHoldDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.graced("x", "1h")
		before := e.revision()
		n, err := e.DryRun().Delete(e.ctx, "x", anyVersion)
		require.NoError(t, err)
		require.Equal(t, phase.Active, n.Phase())
		require.Contains(t, n.Annotations, namespace.HoldAnnotation)
		_, err = e.DryRun().DeleteAfter(e.ctx, "x", namespace.Hold{Until: time.Now()}, anyVersion)
		require.NoError(t, err)
		_, err = e.DryRun().Restore(e.ctx, "x", anyVersion)
		require.ErrorIs(t, err, namespace.ErrConflict, "it is not on hold")
		require.Equal(t, before, e.revision())
		e.terminate("x")
		before = e.revision()
		n, err = e.DryRun().Restore(e.ctx, "x", anyVersion)
		require.NoError(t, err)
		require.NotContains(t, n.Annotations, namespace.HoldAnnotation)
		time.Sleep(time.Hour)
		n, err = e.DryRun().Delete(e.ctx, "x", anyVersion)
		require.NoError(t, err)
		require.Equal(t, phase.Terminating, n.Phase(), "it is due")
		require.Equal(t, before, e.revision())
		require.NotEmpty(t, e.indexed("x"))
	})
}

// To admission the begin of a hold and its end are updates, which it may change and
// refuse; what it leaves of the annotation is what the index says.
func TestHoldAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		var seen []string
		at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
		r, err := registry.New(s, &registry.Options{Admission: []registry.Admission{link(func(_ context.Context, w *registry.Write) error {
			seen = append(seen, w.Itself.Operation.String())
			if w.Itself.Operation != registry.Update || w.Itself.New == nil {
				return nil
			}
			switch {
			case w.Namespace == "refused":
				return errors.New("not now")
			case w.Namespace == "moved" && w.Itself.New.Annotations[namespace.HoldAnnotation] != "":
				w.Itself.New.Annotations[namespace.HoldAnnotation] = holdUntil(t, at)
			}
			return nil
		})}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.Close()) })
		e := &env{Registry: r, t: t, ctx: t.Context(), store: s}
		for _, name := range []string{"x", "moved", "refused"} {
			e.graced(name, "1h")
		}
		seen = nil
		e.terminate("x")
		e.terminate("x")
		_, err = e.Restore(e.ctx, "x", anyVersion)
		require.NoError(t, err)
		e.hold("x", 0)
		e.terminate("x")
		require.Equal(t, []string{"UPDATE", "UPDATE", "UPDATE", "DELETE"}, seen, "what changes nothing is not asked about")
		n := e.terminate("moved")
		require.Equal(t, "2030-01-02T03:04:05Z "+n.UID, e.indexed("moved"))
		_, err = e.Delete(e.ctx, "refused", anyVersion)
		require.ErrorIs(t, err, namespace.ErrForbidden)
		require.Empty(t, e.indexed("refused"))
	})
}
