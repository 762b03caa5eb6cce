package registry_test

import (
	"context"
	"errors"
	"fmt"
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

// A dry run returns the expected result and writes neither the namespace nor the index.
func TestHoldDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.graced("x", "1h")
		before := e.revision()
		n, err := e.DryRun().Delete(e.ctx, "x", anyVersion)
		require.NoError(t, err)
		require.Equal(t, phase.Active, n.Phase())
		require.Contains(t, n.Annotations, declare.HoldAnnotation)
		_, err = e.DryRun().DeleteAfter(e.ctx, "x", declare.Hold{Until: time.Now()}, anyVersion)
		require.NoError(t, err)
		_, err = e.DryRun().Restore(e.ctx, "x", anyVersion)
		require.ErrorIs(t, err, namespace.ErrConflict, "it is not on hold")
		require.Equal(t, before, e.revision())
		e.terminate("x")
		before = e.revision()
		n, err = e.DryRun().Restore(e.ctx, "x", anyVersion)
		require.NoError(t, err)
		require.NotContains(t, n.Annotations, declare.HoldAnnotation)
		time.Sleep(time.Hour)
		n, err = e.DryRun().Delete(e.ctx, "x", anyVersion)
		require.NoError(t, err)
		require.Equal(t, phase.Terminating, n.Phase(), "it is due")
		require.Equal(t, before, e.revision())
		require.NotEmpty(t, e.indexed("x"))
	})
}

// The chain sees the beginning of a hold as a Delete in a dry run and then an Update,
// which it may change or refuse, and its end as an Update. The index follows the resulting
// annotation.
func TestHoldAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		var seen []string
		at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
		r, err := registry.New(s, &registry.Options{Admission: []registry.Admission{plugin(func(_ context.Context, w *registry.Write) error {
			seen = append(seen, w.Itself.Verb.String())
			if w.Itself.Verb != registry.Update || w.Itself.New == nil {
				return nil
			}
			switch {
			case w.Namespace == "refused":
				return errors.New("not now")
			case w.Namespace == "moved" && w.Itself.New.Annotations[declare.HoldAnnotation] != "":
				w.Itself.New.Annotations[declare.HoldAnnotation] = holdUntil(t, at)
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
		require.Equal(t, []string{"DELETE", "UPDATE", "UPDATE", "DELETE", "UPDATE", "DELETE"}, seen, "a request without effect does not pass the chain")
		n := e.terminate("moved")
		require.Equal(t, "2030-01-02T03:04:05Z "+n.UID, e.indexed("moved"))
		_, err = e.Delete(e.ctx, "refused", anyVersion)
		require.ErrorIs(t, err, namespace.ErrForbidden)
		require.Empty(t, e.indexed("refused"))
	})
}

// A client that may not delete a namespace may not put it on hold either: the chain sees
// the Delete in the client's context. Writes that it joins to that Delete are not
// committed, since nothing is deleted yet.
func TestAdmissionSeesTheDeletionThatAHoldBegins(t *testing.T) {
	e := admittedEnv(t, nil, plugin(func(ctx context.Context, w *registry.Write) error {
		if w.Itself == nil || w.Itself.Verb != registry.Delete {
			return nil
		}
		if audit.Actor(ctx) == "mallory" {
			return errors.New("not you")
		}
		if !w.DryRun {
			return nil
		}
		w.TouchGate()
		o, err := w.Get(ctx, configmaps, "count")
		if err != nil {
			return err
		}
		changed := o
		changed.Labels = map[string]string{"deleted": "true"}
		return w.Replace(o, changed)
	}))
	n := annotated(named("x"), declare.GraceAnnotation, "1h")
	n.Spec.Finalizers = finalizer.NewSet("example.com/agent")
	_, err := e.Create(e.ctx, n)
	require.NoError(t, err)
	count := e.put(configmaps, "x", object("count"))
	gate, err := e.store.Get(e.ctx, "/registry/.gate/x")
	require.NoError(t, err)
	before := e.revision()
	mallory := audit.WithActor(e.ctx, "mallory")
	_, err = e.Delete(mallory, "x", anyVersion)
	requireError(t, err, namespace.ErrForbidden, `namespaces "x" is forbidden: not you`)
	_, err = e.DeleteAfter(mallory, "x", declare.Hold{Until: time.Now()}, anyVersion)
	requireError(t, err, namespace.ErrForbidden, `namespaces "x" is forbidden: not you`)
	require.Equal(t, before, e.revision())
	e.terminate("x")
	require.Equal(t, before+1, e.revision())
	require.NotEmpty(t, e.indexed("x"))
	_, err = e.Delete(mallory, "x", anyVersion)
	require.NoError(t, err, "it changes nothing")
	still, err := e.content(configmaps).Get(e.ctx, "x", "count")
	require.NoError(t, err)
	require.Equal(t, count, still)
	same, err := e.store.Get(e.ctx, "/registry/.gate/x")
	require.NoError(t, err)
	require.Equal(t, gate, same)
	_, err = e.Restore(mallory, "x", anyVersion)
	require.NoError(t, err)
}

// A plugin that reverts a hold or a restoration causes an error, since the caller would
// otherwise expect the opposite.
func TestAdmissionRevertsAHold(t *testing.T) {
	var undo func(annotations map[string]string)
	e := admittedEnv(t, nil, plugin(func(_ context.Context, w *registry.Write) error {
		if w.Itself != nil && w.Itself.Verb == registry.Update && undo != nil {
			undo(w.Itself.New.Annotations)
		}
		return nil
	}))
	e.graced("x", "1h")
	refused := func(_ namespace.Namespace, err error, text string) {
		t.Helper()
		requireError(t, err, namespace.ErrForbidden, `namespaces "x" is forbidden: `+text)
		require.ErrorIs(t, err, registry.ErrAdmission)
	}
	undo = func(annotations map[string]string) { delete(annotations, declare.HoldAnnotation) }
	before := e.revision()
	n, err := e.Delete(e.ctx, "x", anyVersion)
	refused(n, err, "an admission plugin removed the hold")
	n, err = e.DeleteAfter(e.ctx, "x", declare.Hold{Until: time.Now()}, anyVersion)
	refused(n, err, "an admission plugin removed the hold")
	require.Equal(t, before, e.revision())
	undo = nil
	hold := e.terminate("x").Annotations[declare.HoldAnnotation]
	undo = func(annotations map[string]string) { annotations[declare.HoldAnnotation] = hold }
	n, err = e.Restore(e.ctx, "x", anyVersion)
	refused(n, err, "an admission plugin put it on hold again")
	require.Equal(t, before+1, e.revision())
}

// A namespace that is invalid under the current rules can be deleted, held and restored.
// Changes by plugins must follow the current rules.
func TestHoldOfInvalidNamespace(t *testing.T) {
	for _, admitted := range []bool{false, true} {
		t.Run(fmt.Sprint("admission ", admitted), func(t *testing.T) {
			label := ""
			e := newEnv(t)
			if admitted {
				e = admittedEnv(t, nil, plugin(func(_ context.Context, w *registry.Write) error {
					if label != "" && w.Itself != nil && w.Itself.Verb == registry.Update {
						w.Itself.New.Labels[label] = ""
					}
					return nil
				}))
			}
			e.graced("x", "1h")
			entry, err := e.store.Get(e.ctx, "/registry/namespaces/x")
			require.NoError(t, err)
			invalid := edited(t, entry.Value, `"labels":{`, `"labels":{"bad key!":"v",`)
			_, err = e.store.Commit(e.ctx, store.Txn{Do: []store.Operation{store.Put(entry.Key, invalid)}})
			require.NoError(t, err)
			e.terminate("x")
			require.NotEmpty(t, e.indexed("x"))
			e.hold("x", time.Hour)
			_, err = e.Restore(e.ctx, "x", anyVersion)
			require.NoError(t, err)
			require.Equal(t, "v", e.get("x").Labels["bad key!"])
			if label = "also bad!"; admitted {
				_, err = e.Delete(e.ctx, "x", anyVersion)
				require.ErrorIs(t, err, registry.ErrAdmission)
				require.ErrorContains(t, err, "also bad!")
				require.NotContains(t, err.Error(), "bad key!")
			}
		})
	}
}
