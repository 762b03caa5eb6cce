package registry_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// holds runs Holds and notes what it yields.
func holds(ctx context.Context, e *env, after string, l *log) {
	kinds := map[namespace.HoldEventType]string{
		namespace.HoldSet: "set", namespace.HoldOver: "over", namespace.HoldsSynced: "synced",
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

// A token is that of one index: it is not taken for that of another.
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
	var types []namespace.HoldEventType
	var errs []error
	for event, err := range e.Holds(e.ctx, "") {
		types, errs = append(types, event.Type), append(errs, err)
	}
	require.Equal(t, []namespace.HoldEventType{namespace.HoldsSynced, 0}, types)
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], registry.ErrClosed)
}

// An index that is out of step, left so by an older release or a restored backup, is put
// in step by whoever asks for a hold, for its end, or for the deletion, and by every write
// of the annotation.
func TestIndexOutOfStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		const key = "/registry/.hold/x"
		made := e.graced("x", "1h")
		hold := namespace.Hold{Until: time.Now().Add(time.Hour), By: "ops"}
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
				return second(e.annotate("x", namespace.HoldAnnotation, " "+e.get("x").Annotations[namespace.HoldAnnotation]))
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
