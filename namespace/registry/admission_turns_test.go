package registry_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// overtaken is a link that replaces the counter "used" with every widget, and has
// somebody else be faster at the first attempt; at the second it does something more.
func overtaken(t *testing.T, plain *env, then func(ctx context.Context) error) link {
	attempt := 0
	return onWidgets(func(ctx context.Context, w *registry.Write) error {
		used, err := w.Get(ctx, counters, "used")
		if err != nil {
			return err
		}
		updated := used.DeepCopy()
		updated.Labels = map[string]string{"by": "link"}
		if err := w.Replace(used, updated); err != nil {
			return err
		}
		switch attempt++; attempt {
		case 1:
			updated.Labels["by"] = "another"
			_, err = plain.content(counters).Update(ctx, "x", updated)
			require.NoError(t, err)
			return nil
		case 2:
			return then(ctx)
		}
		return nil
	})
}

// While the writers of one type wait for each other, or for a link that takes its
// time, those of another go on.
func TestR10_OthersDoNotStandInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		slow, release := make(chan struct{}), make(chan struct{})
		plain := admittedEnv(t, s)
		e := admittedEnv(t, s, overtaken(t, plain, func(context.Context) error {
			close(slow)
			<-release
			return nil
		}))
		e.create("x")
		e.put(counters, "x", object("used"))
		created := make(chan error)
		go func() {
			_, err := e.content(widgets).Create(e.ctx, "x", object("a"))
			created <- err
		}()
		<-slow // it has the turn
		for i := range 3 {
			e.put(configmaps, "x", object(fmt.Sprint("c", i))) // a deadlock of the bubble if it waits
		}
		_, err = e.content(configmaps).Update(e.ctx, "x", object("c0", "example.com/f"))
		require.NoError(t, err)
		_, err = e.content(configmaps).DeleteCollection(e.ctx, "x", labels(t, ""), fields(t, ""))
		require.NoError(t, err)
		_, err = e.content(counters).Update(e.ctx, "x", object("used", "example.com/f"))
		require.NoError(t, err, "not even who writes the very object that is fought over")
		close(release)
		require.NoError(t, <-created)
	})
}

// A link that writes through a registry, which it should not, does not wait for the
// turn of the write that it is asked about.
func TestLinkThatWritesDoesNotWaitForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		var e *env
		asked := 0
		plain := admittedEnv(t, s)
		e = admittedEnv(t, s, overtaken(t, plain, func(ctx context.Context) error {
			asked++
			dry, err := e.DryRun().Content(widgets)
			require.NoError(t, err)
			_, err = dry.Create(ctx, "x", object("nested"))
			return err
		}))
		e.create("x")
		e.put(counters, "x", object("used"))
		e.put(widgets, "x", object("a"))
		require.Equal(t, 1, asked)
	})
}
