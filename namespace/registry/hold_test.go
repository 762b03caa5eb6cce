package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// graced creates a namespace that DELETE puts on hold for so long.
func (e *env) graced(name, grace string) namespace.Namespace {
	e.t.Helper()
	n, err := e.Create(e.ctx, annotated(named(name), declare.GraceAnnotation, grace))
	require.NoError(e.t, err)
	return n
}

// hold puts a namespace on hold.
func (e *env) hold(name string, d time.Duration) namespace.Namespace {
	e.t.Helper()
	n, err := e.DeleteAfter(e.ctx, name, declare.Hold{Until: time.Now().Add(d), By: "ops", Reason: "unused"}, anyVersion)
	require.NoError(e.t, err)
	return n
}

// indexed returns the entry in the index of holds; empty: none.
func (e *env) indexed(name string) string {
	e.t.Helper()
	entry, err := e.store.Get(e.ctx, "/registry/.hold/"+name)
	if errors.Is(err, store.ErrNotFound) {
		return ""
	}
	require.NoError(e.t, err)
	return string(entry.Value)
}

// annotate sets an annotation as kubectl annotate does, or takes it off if it is empty.
func (e *env) annotate(name, key, value string) (namespace.Namespace, error) {
	e.t.Helper()
	n := e.get(name)
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	if n.Annotations[key] = value; value == "" {
		delete(n.Annotations, key)
	}
	return e.Update(e.ctx, n)
}

func holdUntil(t testing.TB, at time.Time) string {
	_, value, err := declare.Hold{Until: at}.Annotation()
	require.NoError(t, err)
	return value
}

// DELETE of a namespace with a grace begins a hold; while that goes on it changes
// nothing, and from its end on it deletes.
func TestDeleteWithGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		made := e.graced("x", "24h")
		n := e.terminate("x")
		require.Equal(t, phase.Active, n.Status.Phase)
		hold, held, err := declare.HoldOf(n.Meta)
		require.NoError(t, err)
		require.True(t, held)
		require.Equal(t, time.Now().Add(24*time.Hour).UTC(), hold.Until)
		require.Equal(t, "requested by DELETE; the namespace has a grace of 24h0m0s", hold.Reason)
		require.Equal(t, n, e.get("x"), "it is answered as it is stored")
		require.Equal(t, hold.Until.Format(time.RFC3339Nano)+" "+made.UID, e.indexed("x"))
		e.put(widgets, "x", object("a")) // it is Active

		time.Sleep(24*time.Hour - 1)
		before := e.revision()
		require.Equal(t, n, e.terminate("x"), "a second DELETE changes nothing")
		require.Equal(t, before, e.revision())
		_, err = e.Delete(e.ctx, "x", namespace.Preconditions{ResourceVersion: made.ResourceVersion})
		require.ErrorIs(t, err, namespace.ErrConflict, "preconditions are looked at first")
		_, err = e.Delete(e.ctx, "x", namespace.Preconditions{UID: "other"})
		require.ErrorIs(t, err, namespace.ErrConflict)

		time.Sleep(time.Nanosecond)
		before = e.revision()
		n, err = e.Delete(e.ctx, "x", namespace.Preconditions{UID: made.UID, ResourceVersion: n.ResourceVersion})
		require.NoError(t, err)
		require.Equal(t, phase.Terminating, n.Phase())
		require.Contains(t, n.Annotations, declare.HoldAnnotation, "it stays, as history")
		require.Empty(t, e.indexed("x"))
		require.Equal(t, before+1, e.revision(), "all of it is one commit")
	})
}

// DELETE of a namespace with a hold, a grace, or both, readable or not.
func TestDeleteOnHold(t *testing.T) {
	const unreadable = "soon"
	for _, tc := range []struct {
		name, grace string
		hold        string // empty, unreadable, or a duration from now
		want        string // "Terminating", "held" for the grace, "same", or an error
	}{
		{"nothing", "", "", "Terminating"},
		{"on hold, but without a grace", "", "1h", "Terminating"},
		{"due, without a grace", "", "-1h", "Terminating"},
		{"a hold that cannot be read", "", unreadable, "Terminating"},
		{"grace", "2h", "", "held"},
		{"no grace", "0s", "", "Terminating"},
		{"no grace, on hold", "0s", "1h", "Terminating"},
		{"grace, on hold", "2h", "1h", "same"},
		{"grace, due now", "2h", "0s", "Terminating"},
		{"grace, due", "2h", "-1h", "Terminating"},
		{"grace, and a hold that cannot be read", "2h", unreadable, "held"},
		{"a grace that cannot be read", unreadable, "", `namespaces "x" is forbidden: `},
		{"a grace that cannot be read, on hold", unreadable, "1h", `namespaces "x" is forbidden: `},
		{"a grace that cannot be read, due", unreadable, "-1h", "Terminating"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				hold := tc.hold
				if d, err := time.ParseDuration(hold); err == nil {
					hold = holdUntil(t, time.Now().Add(d))
				}
				e.place(t, annotated(named("x"), declare.GraceAnnotation, tc.grace, declare.HoldAnnotation, hold))
				before := e.get("x")
				n, err := e.Delete(e.ctx, "x", anyVersion)
				switch tc.want {
				case "Terminating":
					require.NoError(t, err)
					require.Equal(t, phase.Terminating, n.Phase())
					require.Empty(t, e.indexed("x"))
				case "held":
					require.NoError(t, err)
					h, _, err := declare.HoldOf(n.Meta)
					require.NoError(t, err)
					require.Equal(t, time.Now().Add(2*time.Hour).UTC(), h.Until)
				case "same":
					require.NoError(t, err)
					require.Equal(t, before, n)
					require.NotEmpty(t, e.indexed("x"))
				default:
					require.ErrorIs(t, err, namespace.ErrForbidden)
					require.ErrorContains(t, err, tc.want)
					var refusal *namespace.Error
					require.ErrorAs(t, err, &refusal)
					require.Equal(t, "metadata.annotations["+declare.GraceAnnotation+"]", refusal.Causes[0].Field)
					require.Equal(t, before, e.get("x"))
				}
			})
		})
	}
}

// place stores a namespace with unchecked annotations, as another program may have left
// them. It omits empty ones.
func (e *env) place(t testing.TB, n namespace.Namespace) {
	wanted := n.Annotations
	n.Annotations = map[string]string{}
	unchecked, due := map[string]string{}, declare.Hold{}
	for key, value := range wanted {
		readable := map[string]string{key: value}
		h, held, noHold := declare.HoldOf(namespace.Meta{Annotations: readable})
		_, noGrace := declare.GraceOf(namespace.Meta{Annotations: readable})
		switch {
		case value == "":
		case noHold != nil, noGrace != nil:
			unchecked[key] = value
		case held && h.Due(time.Now()):
			due = h
		default:
			n.Annotations[key] = value
		}
	}
	_, err := e.Create(e.ctx, n)
	require.NoError(t, err)
	if !due.Until.IsZero() {
		_, err = e.DeleteAfter(e.ctx, n.Name, due, anyVersion)
		require.NoError(t, err)
	}
	entry, err := e.store.Get(e.ctx, "/registry/namespaces/"+n.Name)
	require.NoError(t, err)
	text := string(entry.Value)
	for key, value := range unchecked {
		if strings.Contains(text, `"annotations":{`) {
			text = strings.Replace(text, `"annotations":{`, fmt.Sprintf(`"annotations":{%q:%q,`, key, value), 1)
		} else {
			text = strings.Replace(text, `"labels":`, fmt.Sprintf(`"annotations":{%q:%q},"labels":`, key, value), 1)
		}
	}
	_, err = e.store.Commit(e.ctx, store.Txn{Do: []store.Operation{store.Put(entry.Key, storedValue(e.t, text))}})
	require.NoError(t, err)
	for key, value := range unchecked {
		require.Equal(t, value, e.get(n.Name).Annotations[key])
	}
}

func TestDeleteAfterAndRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		made := e.create("x")
		until := time.Now().Add(time.Hour)
		n, err := e.DeleteAfter(e.ctx, "x", declare.Hold{Until: until, By: "ops", Reason: "unused"}, namespace.Preconditions{UID: made.UID, ResourceVersion: made.ResourceVersion})
		require.NoError(t, err)
		require.Equal(t, n, e.get("x"))
		h, _, err := declare.HoldOf(n.Meta)
		require.NoError(t, err)
		require.Equal(t, declare.Hold{Until: until.UTC(), By: "ops", Reason: "unused"}, h)
		before := e.revision()
		require.Equal(t, n, e.hold("x", time.Hour), "the same hold again")
		require.Equal(t, before, e.revision(), "writes nothing")
		e.hold("x", time.Minute)
		require.True(t, strings.HasPrefix(e.indexed("x"), time.Now().Add(time.Minute).UTC().Format(time.RFC3339)))
		time.Sleep(2 * time.Minute) // due, but not deleted yet
		before = e.revision()
		n, err = e.Restore(e.ctx, "x", namespace.Preconditions{UID: made.UID})
		require.NoError(t, err)
		require.Equal(t, before+1, e.revision())
		require.Empty(t, e.indexed("x"))
		n.ResourceVersion = made.ResourceVersion
		require.Equal(t, made, n, "as if it had never been on hold")
	})
}

func TestHoldRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.create("default")
		e.create("x")
		e.create("dying")
		e.terminate("dying")
		e.create("protected")
		_, err := e.annotate("protected", declare.ProtectionPrefix+"billing", `{"owner":"billing","reason":"invoices"}`)
		require.NoError(t, err)
		before := e.revision()
		soon := declare.Hold{Until: time.Now().Add(time.Hour)}
		after := func(name string, h declare.Hold, only namespace.Preconditions) error {
			_, err := e.DeleteAfter(e.ctx, name, h, only)
			return err
		}
		restore := func(name string, only namespace.Preconditions) error {
			_, err := e.Restore(e.ctx, name, only)
			return err
		}
		ended, cancel := context.WithCancel(e.ctx)
		cancel()
		for i, tc := range []struct {
			err, kind error
			text      string
		}{
			{after("default", soon, anyVersion), namespace.ErrForbidden, "this namespace may not be deleted"},
			{after("kube-system", soon, anyVersion), namespace.ErrForbidden, "this namespace may not be deleted"},
			{after("missing", soon, anyVersion), namespace.ErrNotFound, `namespaces "missing" not found`},
			{after("protected", soon, anyVersion), namespace.ErrForbidden, "billing"},
			{after("dying", soon, anyVersion), namespace.ErrTerminating, "can no longer be set or removed"},
			{after("dying", soon, anyVersion), namespace.ErrConflict, "it has been terminating since 2000-01-01T00:00:00Z"},
			{after("x", soon, namespace.Preconditions{UID: "other"}), namespace.ErrConflict, "Precondition failed: UID"},
			{after("x", soon, namespace.Preconditions{ResourceVersion: "1"}), namespace.ErrConflict, "Precondition failed: ResourceVersion"},
			{after("x", soon, namespace.Preconditions{ResourceVersion: "one"}), namespace.ErrBadRequest, "one"},
			{after("x", declare.Hold{}, anyVersion), namespace.ErrInvalid, "until"},
			{after("x", declare.Hold{Until: soon.Until, By: "\xff"}, anyVersion), namespace.ErrInvalid, "UTF-8"},
			{after("x", declare.Hold{Until: soon.Until, Reason: strings.Repeat("long", 1<<14)}, anyVersion), namespace.ErrInvalid, "reason"},
			{after("x", declare.Hold{Until: soon.Until.AddDate(9000, 0, 0)}, anyVersion), namespace.ErrInvalid, "until"},
			{after("", soon, anyVersion), namespace.ErrBadRequest, "must not be empty"},
			{after("../x", soon, anyVersion), namespace.ErrBadRequest, "must not begin with '.'"},
			{after("a/b", soon, anyVersion), namespace.ErrBadRequest, "may not contain '/'"},
			{restore("x", anyVersion), namespace.ErrConflict, "it is not on hold"},
			{restore("missing", anyVersion), namespace.ErrNotFound, `namespaces "missing" not found`},
			{restore("dying", anyVersion), namespace.ErrTerminating, "can no longer be set or removed"},
			{restore("dying", anyVersion), namespace.ErrConflict, "can no longer be set or removed"},
			{restore("x", namespace.Preconditions{UID: "other"}), namespace.ErrConflict, "Precondition failed: UID"},
			{restore("x", namespace.Preconditions{ResourceVersion: "one"}), namespace.ErrBadRequest, "one"},
			{restore("", anyVersion), namespace.ErrBadRequest, "must not be empty"},
			{restore("a%", anyVersion), namespace.ErrBadRequest, "may not contain '%'"},
			{func() error { _, err := e.DeleteAfter(ended, "x", soon, anyVersion); return err }(), context.Canceled, ""},
			{func() error { _, err := e.Restore(ended, "x", anyVersion); return err }(), context.Canceled, ""},
		} {
			require.ErrorIs(t, tc.err, tc.kind, i)
			require.ErrorContains(t, tc.err, tc.text, i)
		}
		require.Equal(t, before, e.revision(), "nothing was written")
	})
}

// A protection prevents a new hold, and the deletion at the end of an earlier hold. It
// does not prevent Restore.
func TestProtectedOnHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.graced("x", "1h")
		protect := func(value string) {
			_, err := e.annotate("x", declare.ProtectionPrefix+"billing", value)
			require.NoError(t, err)
		}
		protect(`{"owner":"billing","reason":"invoices"}`)
		_, err := e.Delete(e.ctx, "x", anyVersion)
		require.ErrorIs(t, err, namespace.ErrForbidden)
		require.Empty(t, e.indexed("x"))
		protect("")
		e.terminate("x")
		protect(`{"owner":"billing","reason":"invoices"}`)
		time.Sleep(time.Hour)
		_, err = e.Delete(e.ctx, "x", anyVersion)
		require.ErrorIs(t, err, namespace.ErrForbidden, "it is due, but protected")
		require.NotEmpty(t, e.indexed("x"))
		_, err = e.Restore(e.ctx, "x", anyVersion)
		require.NoError(t, err)
		require.Empty(t, e.indexed("x"))
	})
}

// Whatever changes the annotation has the index follow in the same commit.
func TestIndexFollowsTheAnnotation(t *testing.T) {
	e := newEnv(t)
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	n, err := e.Create(e.ctx, annotated(named("x"), declare.HoldAnnotation, holdUntil(t, at)))
	require.NoError(t, err)
	require.Equal(t, "2030-01-02T03:04:05Z "+n.UID, e.indexed("x"), "it was created on hold")
	step := func(want string, do func() (namespace.Namespace, error)) {
		t.Helper()
		before := e.revision()
		_, err := do()
		require.NoError(t, err)
		require.LessOrEqual(t, e.revision(), before+1)
		require.Equal(t, want, e.indexed("x"))
	}
	set := func(value string) func() (namespace.Namespace, error) {
		return func() (namespace.Namespace, error) { return e.annotate("x", declare.HoldAnnotation, value) }
	}
	step("2031-01-02T03:04:05.5Z "+n.UID, set(`{"until":"2031-01-02T04:04:05.5+01:00"}`))
	step("2031-01-02T03:04:05.5Z "+n.UID, set(`{"until":"2031-01-02T03:04:05.5Z","by":"ops"}`))
	status := named("x")
	status.Status.Conditions = []phase.Condition{{Type: "T", Status: phase.True}}
	step("2031-01-02T03:04:05.5Z "+n.UID, func() (namespace.Namespace, error) { return e.UpdateStatus(e.ctx, status) })
	step("2031-01-02T03:04:05.5Z "+n.UID, func() (namespace.Namespace, error) { return e.Finalize(e.ctx, named("x")) })
	step("", set(""))
	step("2030-01-02T03:04:05Z "+n.UID, set(holdUntil(t, at)))
	// Nothing holds it: it is removed by its deletion, and its entry with it.
	step("", func() (namespace.Namespace, error) { return e.Delete(e.ctx, "x", anyVersion) })
	require.False(t, e.has("x"))
	again := e.create("x")
	require.Empty(t, e.indexed("x"), "the next of this name is not on hold")
	step("2030-01-02T03:04:05Z "+again.UID, set(holdUntil(t, at)))
}

// A malformed hold cannot be set. A stored one does not prevent anything.
func TestMalformedHold(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	_, err := e.annotate("x", declare.HoldAnnotation, "tomorrow")
	var refusal *namespace.Error
	require.ErrorAs(t, err, &refusal)
	require.ErrorIs(t, err, namespace.ErrInvalid)
	require.Equal(t, "metadata.annotations["+declare.HoldAnnotation+"]", refusal.Causes[0].Field)
	_, err = e.Create(e.ctx, annotated(named("y"), declare.GraceAnnotation, "-1h"))
	require.ErrorIs(t, err, namespace.ErrInvalid)

	e.place(t, annotated(named("old"), declare.HoldAnnotation, "tomorrow", declare.GraceAnnotation, "a day"))
	require.Empty(t, e.indexed("old"))
	_, err = e.annotate("old", "example.com/a", "b")
	require.NoError(t, err, "an unrelated update")
	require.Empty(t, e.indexed("old"))
	_, err = e.Restore(e.ctx, "old", anyVersion)
	require.NoError(t, err)
	require.NotContains(t, e.get("old").Annotations, declare.HoldAnnotation)
	e.place(t, annotated(named("older"), declare.HoldAnnotation, "tomorrow"))
	e.hold("older", time.Hour)
	require.NotEmpty(t, e.indexed("older"))
}

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
			n, err := e.annotate("x", declare.HoldAnnotation, value)
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

// A hold belongs to one incarnation and never affects another.
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
		_, err = e.DeleteAfter(e.ctx, "x", declare.Hold{Until: time.Now()}, only)
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
				n := annotated(named("x"), declare.GraceAnnotation, "1h")
				n.Annotations["a"] = strings.Repeat("x", size)
				_, err := e.Create(e.ctx, n)
				require.True(t, err == nil || errors.Is(err, namespace.ErrInvalid), err)
			}
			n, err := e.Delete(audit.WithActor(e.ctx, "<ops>"), "x", anyVersion)
			require.NoError(t, err, limits)
			_, held, err := declare.HoldOf(n.Meta)
			require.NoError(t, err)
			require.True(t, held)
			_, err = e.annotate("x", declare.GraceAnnotation, "2h")
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

// holds runs Holds and logs its events.
func holds(ctx context.Context, e *env, after string, l *log) {
	kinds := map[namespace.EventType]string{
		namespace.EventPresent: "set", namespace.EventAbsent: "over", namespace.EventSynced: "synced",
	}
	for event, err := range e.Holds(ctx, after) {
		l.mu.Lock()
		if err != nil {
			l.err = err
		} else {
			line := strings.TrimSpace(kinds[event.Type] + " " + event.Name)
			if !event.Until.IsZero() {
				line += event.Until.Format(" 15:04")
			}
			if event.UID == "" && event.Name != "" {
				line += " ?"
			}
			l.lines = append(l.lines, line)
			l.versions = append(l.versions, event.Token)
		}
		l.mu.Unlock()
	}
}

func TestHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		for _, name := range []string{"a", "b", "c", "d"} {
			e.create(name)
		}
		e.hold("a", time.Hour)
		e.hold("b", 2*time.Hour)
		e.terminate("d")
		ctx, cancel := context.WithCancel(e.ctx)
		var l log
		go holds(ctx, e, "", &l)
		synctest.Wait()
		require.Equal(t, []string{"set a 01:00", "set b 02:00", "synced"}, l.take())
		require.Equal(t, []string{"", ""}, l.versions[:2], "nowhere to resume yet")
		e.hold("c", 3*time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"set c 03:00"}, l.take())
		resume := l.versions[len(l.versions)-1]
		e.hold("a", 4*time.Hour)
		_, err := e.Restore(e.ctx, "b", anyVersion)
		require.NoError(t, err)
		e.terminate("c")
		synctest.Wait()
		require.Equal(t, []string{"set a 04:00", "over b", "over c"}, l.take())
		_, err = e.annotate("a", "example.com/other", "x")
		require.NoError(t, err)
		e.release("c")
		synctest.Wait()
		require.Empty(t, l.take(), "nothing of this is about a hold")
		_, err = e.store.Commit(e.ctx, store.Txn{Do: []store.Operation{store.Put("/registry/.hold/strange", []byte("what?"))}})
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, []string{"set strange ?"}, l.take())
		_, err = e.store.Commit(e.ctx, store.Txn{Do: []store.Operation{store.Delete("/registry/.hold/strange")}})
		require.NoError(t, err)
		cancel()
		synctest.Wait()
		require.ErrorIs(t, l.err, context.Canceled)

		var again log
		ctx, cancel = context.WithCancel(e.ctx)
		defer cancel()
		go holds(ctx, e, resume, &again)
		synctest.Wait()
		require.Equal(t, []string{"set a 04:00", "over b", "over c", "set strange ?", "over strange ?", "synced"}, again.take())
	})
}

// The token of one index is refused by another.
func TestHoldTokens(t *testing.T) {
	e := newEnv(t)
	for event, err := range e.Terminating(e.ctx, "") {
		require.NoError(t, err)
		for _, token := range []string{event.Token, "nonsense", strings.Repeat("x", 1<<20)} {
			n := 0
			for _, err := range e.Holds(e.ctx, token) {
				n++
				require.ErrorIs(t, err, namespace.ErrBadRequest)
			}
			require.Equal(t, 1, n)
		}
		break
	}
	e.create("x")
	require.NoError(t, e.Close())
	var types []namespace.EventType
	var errs []error
	for event, err := range e.Holds(e.ctx, "") {
		types, errs = append(types, event.Type), append(errs, err)
	}
	require.Equal(t, []namespace.EventType{namespace.EventSynced, 0}, types)
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], registry.ErrClosed)
}

// A restored backup may leave the index inconsistent. A hold, a restoration, a deletion,
// and every write of the annotation correct it.
func TestIndexIsCorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		const key = "/registry/.hold/x"
		made := e.graced("x", "1h")
		hold := declare.Hold{Until: time.Now().Add(time.Hour), By: "ops"}
		want := hold.Until.UTC().Format(time.RFC3339Nano) + " " + made.UID
		after := func() error { return second(e.DeleteAfter(e.ctx, "x", hold, anyVersion)) }
		require.NoError(t, after())
		for name, do := range map[string]func() error{
			"the same hold": after,
			"DELETE":        func() error { return second(e.Delete(e.ctx, "x", anyVersion)) },
			"by another": func() error {
				h := hold
				h.By = e.get("x").ResourceVersion
				return second(e.DeleteAfter(e.ctx, "x", h, anyVersion))
			},
			"an update of the annotation": func() error {
				return second(e.annotate("x", declare.HoldAnnotation, " "+e.get("x").Annotations[declare.HoldAnnotation]))
			},
		} {
			for _, op := range []store.Operation{store.Delete(key), store.Put(key, []byte("2010-01-01T00:00:00Z other"))} {
				_, err := e.store.Commit(e.ctx, store.Txn{Do: []store.Operation{op}})
				require.NoError(t, err)
				before := e.revision()
				require.NoError(t, do(), name)
				require.Equal(t, want, e.indexed("x"), name)
				require.Equal(t, before+1, e.revision(), name)
			}
		}
		_, err := e.Restore(e.ctx, "x", anyVersion)
		require.NoError(t, err)
		_, err = e.store.Commit(e.ctx, store.Txn{Do: []store.Operation{store.Put(key, []byte(want))}})
		require.NoError(t, err)
		before := e.revision()
		require.NoError(t, second(e.DryRun().Restore(e.ctx, "x", anyVersion)))
		require.Equal(t, before, e.revision())
		require.NoError(t, second(e.Restore(e.ctx, "x", anyVersion)))
		require.Empty(t, e.indexed("x"))
		require.ErrorIs(t, second(e.Restore(e.ctx, "x", anyVersion)), namespace.ErrConflict, "now there is nothing")
	})
}
