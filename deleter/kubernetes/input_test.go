package kubernetes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// Invalid input is rejected without a request.
func TestBadInputOfContent(t *testing.T) {
	a := newAPI(t, pod("a"))
	c := a.of(podsType, time.Hour)
	good := a.target
	targets := map[string]deleter.Target{"zero": {}}
	for what, change := range map[string]func(*deleter.Target){
		"no namespace":      func(t *deleter.Target) { t.Namespace = "" },
		"a path":            func(t *deleter.Target) { t.Namespace = "../y" },
		"a parent":          func(t *deleter.Target) { t.Namespace = ".." },
		"invalid UTF-8":     func(t *deleter.Target) { t.Namespace = "x\xff" },
		"oversized":         func(t *deleter.Target) { t.Namespace = strings.Repeat("x", 1<<16) },
		"no uid":            func(t *deleter.Target) { t.UID = "" },
		"not being deleted": func(t *deleter.Target) { t.DeletedAt = time.Time{} },
	} {
		target := good
		change(&target)
		targets[what] = target
	}
	for what, target := range targets {
		for call, f := range contentCalls(c, target) {
			require.ErrorIs(t, f(t.Context()), deleter.ErrInvalid, "%s: %s", call, what)
		}
		require.ErrorIs(t, c.Wait(t.Context(), target, "1"), deleter.ErrInvalid, what)
	}
	for _, name := range []string{"", ".", "..", "../secrets/a", "a/b", "a%2fb", "a\x00", "a\n", "a\xff", strings.Repeat("a", 1<<16)} {
		for _, uid := range []string{"", "uid-of-a"} {
			require.ErrorIs(t, c.Delete(t.Context(), good, name, uid), deleter.ErrInvalid, "%.20q", name)
		}
	}
	_, err := c.List(t.Context(), good, -1, "")
	require.ErrorIs(t, err, deleter.ErrInvalid)
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	for call, f := range contentCalls(c, good) {
		require.ErrorIs(t, f(ctx), stopped, call)
	}
	require.ErrorIs(t, c.Wait(ctx, good, "1"), stopped)
	require.Empty(t, a.asked())
	require.Equal(t, []string{"a"}, a.names())
}
