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

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
)

// graced creates a namespace that DELETE puts on hold for so long.
func (e *env) graced(name, grace string) namespace.Namespace {
	e.t.Helper()
	n, err := e.Create(e.ctx, annotated(named(name), namespace.GraceAnnotation, grace))
	require.NoError(e.t, err)
	return n
}

// hold puts a namespace on hold.
func (e *env) hold(name string, d time.Duration) namespace.Namespace {
	e.t.Helper()
	n, err := e.DeleteAfter(e.ctx, name, namespace.Hold{Until: time.Now().Add(d), By: "ops", Reason: "unused"}, anyVersion)
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
	_, value, err := namespace.Hold{Until: at}.Annotation()
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
		hold, held, err := namespace.HoldOf(n.Meta)
		require.NoError(t, err)
		require.True(t, held)
		require.Equal(t, time.Now().Add(24*time.Hour).UTC(), hold.Until)
		require.Equal(t, "DELETE was asked for, and the namespace has a grace of 24h0m0s", hold.Reason)
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
		require.Contains(t, n.Annotations, namespace.HoldAnnotation, "it stays, as history")
		require.Empty(t, e.indexed("x"))
		require.Equal(t, before+1, e.revision(), "all of it is one commit")
	})
}

// What a DELETE makes of a namespace that is on hold, or has a grace, or both, as far as
// they can be read.
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
				e.place(t, annotated(named("x"), namespace.GraceAnnotation, tc.grace, namespace.HoldAnnotation, hold))
				before := e.get("x")
				n, err := e.Delete(e.ctx, "x", anyVersion)
				switch tc.want {
				case "Terminating":
					require.NoError(t, err)
					require.Equal(t, phase.Terminating, n.Phase())
					require.Empty(t, e.indexed("x"))
				case "held":
					require.NoError(t, err)
					h, _, err := namespace.HoldOf(n.Meta)
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
					require.Equal(t, "metadata.annotations["+namespace.GraceAnnotation+"]", refusal.Causes[0].Field)
					require.Equal(t, before, e.get("x"))
				}
			})
		})
	}
}

// place stores a namespace whose annotations nobody has checked, as an older release or
// another program may have left it; empty ones are left out.
func (e *env) place(t testing.TB, n namespace.Namespace) {
	wanted := n.Annotations
	n.Annotations = map[string]string{}
	unchecked, due := map[string]string{}, namespace.Hold{}
	for key, value := range wanted {
		readable := map[string]string{key: value}
		h, held, noHold := namespace.HoldOf(namespace.Meta{Annotations: readable})
		_, noGrace := namespace.GraceOf(namespace.Meta{Annotations: readable})
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
	_, err = e.store.Commit(e.ctx, store.Txn{Do: []store.Operation{store.Put(entry.Key, []byte(text))}})
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
		n, err := e.DeleteAfter(e.ctx, "x", namespace.Hold{Until: until, By: "ops", Reason: "unused"}, namespace.Preconditions{UID: made.UID, ResourceVersion: made.ResourceVersion})
		require.NoError(t, err)
		require.Equal(t, n, e.get("x"))
		h, _, err := namespace.HoldOf(n.Meta)
		require.NoError(t, err)
		require.Equal(t, namespace.Hold{Until: until.UTC(), By: "ops", Reason: "unused"}, h)
		before := e.revision()
		require.Equal(t, n, e.hold("x", time.Hour), "the same hold again")
		require.Equal(t, before, e.revision(), "writes nothing")
		e.hold("x", time.Minute)
		require.True(t, strings.HasPrefix(e.indexed("x"), time.Now().Add(time.Minute).UTC().Format(time.RFC3339)))
		time.Sleep(2 * time.Minute) // due, and nobody has deleted it yet
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
		_, err := e.annotate("protected", namespace.ProtectionPrefix+"billing", `{"owner":"billing","reason":"invoices"}`)
		require.NoError(t, err)
		before := e.revision()
		soon := namespace.Hold{Until: time.Now().Add(time.Hour)}
		after := func(name string, h namespace.Hold, only namespace.Preconditions) error {
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
			{after("dying", soon, anyVersion), namespace.ErrTerminating, "a hold comes too late"},
			{after("dying", soon, anyVersion), namespace.ErrConflict, "it is being terminated since 2000-01-01T00:00:00Z"},
			{after("x", soon, namespace.Preconditions{UID: "other"}), namespace.ErrConflict, "Precondition failed: UID"},
			{after("x", soon, namespace.Preconditions{ResourceVersion: "1"}), namespace.ErrConflict, "Precondition failed: ResourceVersion"},
			{after("x", soon, namespace.Preconditions{ResourceVersion: "one"}), namespace.ErrBadRequest, "one"},
			{after("x", namespace.Hold{}, anyVersion), namespace.ErrInvalid, "until"},
			{after("x", namespace.Hold{Until: soon.Until, By: "\xff"}, anyVersion), namespace.ErrInvalid, "UTF-8"},
			{after("x", namespace.Hold{Until: soon.Until, Reason: strings.Repeat("long", 1<<14)}, anyVersion), namespace.ErrInvalid, "reason"},
			{after("x", namespace.Hold{Until: soon.Until.AddDate(9000, 0, 0)}, anyVersion), namespace.ErrInvalid, "until"},
			{after("", soon, anyVersion), namespace.ErrBadRequest, "must not be empty"},
			{after("../x", soon, anyVersion), namespace.ErrBadRequest, "must not begin with '.'"},
			{after("a/b", soon, anyVersion), namespace.ErrBadRequest, "may not contain '/'"},
			{restore("x", anyVersion), namespace.ErrConflict, "it is not on hold"},
			{restore("missing", anyVersion), namespace.ErrNotFound, `namespaces "missing" not found`},
			{restore("dying", anyVersion), namespace.ErrTerminating, "a hold comes too late"},
			{restore("dying", anyVersion), namespace.ErrConflict, "a hold comes too late"},
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

// A protection refuses to begin a hold, and refuses when one that was set before it is
// over; it keeps nobody from restoring.
func TestProtectedOnHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.graced("x", "1h")
		protect := func(value string) {
			_, err := e.annotate("x", namespace.ProtectionPrefix+"billing", value)
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
	n, err := e.Create(e.ctx, annotated(named("x"), namespace.HoldAnnotation, holdUntil(t, at)))
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
		return func() (namespace.Namespace, error) { return e.annotate("x", namespace.HoldAnnotation, value) }
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

// A hold that is malformed cannot be set; one that is stored is in nobody's way.
func TestMalformedHold(t *testing.T) {
	e := newEnv(t)
	e.create("x")
	_, err := e.annotate("x", namespace.HoldAnnotation, "tomorrow")
	var refusal *namespace.Error
	require.ErrorAs(t, err, &refusal)
	require.ErrorIs(t, err, namespace.ErrInvalid)
	require.Equal(t, "metadata.annotations["+namespace.HoldAnnotation+"]", refusal.Causes[0].Field)
	_, err = e.Create(e.ctx, annotated(named("y"), namespace.GraceAnnotation, "-1h"))
	require.ErrorIs(t, err, namespace.ErrInvalid)

	e.place(t, annotated(named("old"), namespace.HoldAnnotation, "tomorrow", namespace.GraceAnnotation, "a day"))
	require.Empty(t, e.indexed("old"))
	_, err = e.annotate("old", "example.com/a", "b")
	require.NoError(t, err, "an unrelated update")
	require.Empty(t, e.indexed("old"))
	_, err = e.Restore(e.ctx, "old", anyVersion)
	require.NoError(t, err)
	require.NotContains(t, e.get("old").Annotations, namespace.HoldAnnotation)
	e.place(t, annotated(named("older"), namespace.HoldAnnotation, "tomorrow"))
	e.hold("older", time.Hour)
	require.NotEmpty(t, e.indexed("older"))
}
