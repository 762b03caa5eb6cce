package registry_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// A hold does not make a namespace anything but Active, and takes nothing of it away.
func TestR2_OnHoldIsActive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.graced("x", "1h")
		for range 2 {
			n := e.terminate("x")
			require.Equal(t, phase.Active, n.Status.Phase)
			require.True(t, n.DeletionTimestamp.IsZero())
		}
		e.hold("x", -time.Hour)
		require.Equal(t, phase.Active, e.get("x").Status.Phase, "due is not deleted")
		require.Empty(t, e.get("x").Stage())
	})
}

// Finalizers of a namespace on hold may all be gone: it is removed when it is deleted, not
// before (R1), and with it its entry.
func TestR1_OnHoldIsNotRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.graced("x", "1h")
		e.terminate("x")
		e.release("x")
		require.Equal(t, phase.Active, e.get("x").Phase())
		require.NotEmpty(t, e.indexed("x"))
		time.Sleep(time.Hour)
		before := e.revision()
		e.terminate("x")
		require.False(t, e.has("x"))
		require.Equal(t, before+1, e.revision())
		require.Empty(t, e.indexed("x"))
	})
}

// Once it is Terminating no hold brings it back or stops it, whatever its annotation says.
func TestR3_HoldOfATerminatingNamespaceMeansNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.graced("x", "1h")
		e.terminate("x")
		time.Sleep(time.Hour)
		deleted := e.terminate("x")
		time.Sleep(time.Minute)
		for _, value := range []string{"", holdUntil(t, time.Now().Add(time.Hour)), holdUntil(t, time.Now())} {
			n, err := e.annotate("x", namespace.HoldAnnotation, value)
			if value != "" {
				require.ErrorIs(t, err, namespace.ErrInvalid)
				n, err = e.get("x"), nil
			}
			require.NoError(t, err)
			require.Equal(t, deleted.DeletionTimestamp, n.DeletionTimestamp)
			require.Empty(t, e.indexed("x"))
			n = e.terminate("x")
			require.Equal(t, phase.Terminating, n.Phase())
			require.Equal(t, deleted.DeletionTimestamp, n.DeletionTimestamp)
			_, err = e.Restore(e.ctx, "x", anyVersion)
			require.ErrorIs(t, err, namespace.ErrTerminating)
		}
		e.release("x")
		require.False(t, e.has("x"))
	})
}

// Nothing of holds touches spec.finalizers.
func TestR4_HoldsKeepFinalizers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		made := e.create("x", "example.com/agent")
		e.hold("x", time.Hour)
		_, err := e.Restore(e.ctx, "x", anyVersion)
		require.NoError(t, err)
		require.Equal(t, made.Spec.Finalizers, e.get("x").Spec.Finalizers)
		require.Equal(t, finalizer.NewSet("example.com/agent", "kubernetes"), e.get("x").Spec.Finalizers)
	})
}

// Content may be created until the deletion has begun, and not from then on: the commit
// that ends a hold closes the gate.
func TestR6_HoldEndsWithTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.graced("x", "1h")
		e.terminate("x")
		time.Sleep(2 * time.Hour)
		e.put(widgets, "x", object("late")) // due, but its deletion has not begun
		e.terminate("x")
		_, err := e.content(widgets).Create(e.ctx, "x", object("too-late"))
		require.ErrorIs(t, err, namespace.ErrTerminating)
	})
}

// A hold is of one incarnation: what was asked of one never reaches another.
func TestR8_HoldIsOfOneIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		first := e.create("x")
		held := e.hold("x", time.Hour)
		e.terminate("x") // without a grace: at once
		e.release("x")
		second := e.create("x")
		require.Empty(t, e.indexed("x"))
		only := namespace.Preconditions{UID: first.UID}
		_, err := e.Delete(e.ctx, "x", namespace.Preconditions{UID: first.UID, ResourceVersion: held.ResourceVersion})
		require.ErrorIs(t, err, namespace.ErrConflict)
		_, err = e.DeleteAfter(e.ctx, "x", namespace.Hold{Until: time.Now()}, only)
		require.ErrorIs(t, err, namespace.ErrConflict)
		e.hold("x", time.Minute)
		_, err = e.Restore(e.ctx, "x", only)
		require.ErrorIs(t, err, namespace.ErrConflict)
		require.True(t, strings.HasSuffix(e.indexed("x"), " "+second.UID))
	})
}

// A DELETE that begins a hold adds to the namespace. There is room for that however large
// the namespace is, and for the updates that come after it.
func TestR12_AHoldHasRoom(t *testing.T) {
	for _, limits := range []store.Limits{{}, {Value: 4000}, {Bytes: 6000}} {
		synctest.Test(t, func(t *testing.T) {
			s, err := memory.New(&memory.Options{Limits: limits})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			e := newEnvOver(t, s)
			size := namespace.MaxAnnotations
			if limits != (store.Limits{}) {
				size = 6000
			}
			for ; !e.has("x"); size-- {
				n := annotated(named("x"), namespace.GraceAnnotation, "1h")
				n.Annotations["a"] = strings.Repeat("x", size)
				_, err := e.Create(e.ctx, n)
				require.True(t, err == nil || errors.Is(err, namespace.ErrInvalid), err)
			}
			n, err := e.Delete(audit.WithActor(e.ctx, "<ops>"), "x", anyVersion)
			require.NoError(t, err, limits)
			_, held, err := namespace.HoldOf(n.Meta)
			require.NoError(t, err)
			require.True(t, held)
			_, err = e.annotate("x", namespace.GraceAnnotation, "2h")
			require.NoError(t, err, "the hold does not keep it from being written")
			_, err = e.annotate("x", "b", strings.Repeat("x", 100))
			require.ErrorIs(t, err, namespace.ErrInvalid, "nothing else has more room for it")

			time.Sleep(2 * time.Hour)
			require.Equal(t, phase.Terminating, e.terminate("x").Status.Phase)
			e.release("x")
			require.False(t, e.has("x"))
		})
	}
}
