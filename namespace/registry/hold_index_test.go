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
	require.NoError(t, e.Close())
	for event, err := range e.Holds(e.ctx, "") {
		if event.Type != namespace.HoldsSynced {
			require.ErrorIs(t, err, registry.ErrClosed)
		}
	}
}
