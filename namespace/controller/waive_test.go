package controller_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// waivable returns a world of two types. The second type fails while down is set.
func waivable(t *testing.T) (w *world, down *atomic.Bool) {
	down = new(atomic.Bool)
	w = newWorld(t, 2, func(i int) contenttest.FakeOptions {
		return contenttest.FakeOptions{Fault: func(_ context.Context, call contenttest.Call) error {
			if i == 1 && down.Load() && call.Op == deleter.OpList {
				return errors.New("connection refused")
			}
			return nil
		}}
	})
	return w, down
}

// waive adds a waiver for the second type to the namespace.
func (w *world) waive(t *testing.T, name string, length time.Duration) {
	t.Helper()
	synctest.Wait() // wait for passes that also write the namespace
	ns, err := w.host.Get(t.Context(), name)
	require.NoError(t, err)
	key, value, err := declare.Waiver{Name: "test", Source: resource(1).String(), By: "ada", Reason: "uninstalled", Until: time.Now().Add(length)}.Annotation()
	require.NoError(t, err)
	ns.Annotations = map[string]string{key: value}
	_, err = w.host.Update(t.Context(), ns)
	require.NoError(t, err)
}

// The controller asks a waived source in every pass while the waiver lasts. The start and
// the end of the waiver cost one log line each.
func TestR7_WaiverBeginsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, down := waivable(t)
		down.Store(true)
		target := w.create(t, "a")
		w.fakes[0].Put(target, contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
		logger, lines := clockedLog()
		run(t, w.host, w.deleter, kubernetes, controller.Options{Logger: logger})
		w.delete(t, "a")
		time.Sleep(4 * time.Hour)
		w.waive(t, "a", 8*time.Hour)
		time.Sleep(time.Hour)
		w.fakes[1].ResetCalls()
		time.Sleep(6 * time.Hour)
		require.Greater(t, w.fakes[1].Calls(), 6*60*3/4, "it is asked all the same")
		time.Sleep(5 * time.Hour)
		require.False(t, w.gone("a"))
		w.fakes[0].Release(target, "held")
		time.Sleep(8 * time.Hour)
		require.False(t, w.gone("a"), "the waiver is over")
		w.waive(t, "a", time.Hour)
		time.Sleep(time.Hour)
		require.True(t, w.gone("a"))

		failed := func(remaining string) string {
			return `level=WARN msg="namespace could not be emptied; it will be retried" namespace=a remaining=` + remaining +
				` err="pass for namespace \"a\": things001.example.com: list: connection refused"`
		}
		want := []string{
			logTerminating,
			failed("1"),
			`level=INFO msg="namespace has content left" namespace=a remaining=1 waived=[things001.example.com]`,
			failed("1"),
			`level=INFO msg="namespace removed" namespace=a waived=[things001.example.com]`,
		}
		require.Empty(t, cmp.Diff(want, untimed(lines)))
	})
}

// R7: if a controller saw objects in a source, a waiver for the source is void until the
// source answers again.
func TestR7_ControllerRemembersWhatAWaiverWouldHide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, down := waivable(t)
		target := w.create(t, "a")
		w.fakes[1].Put(target, contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
		run(t, w.host, w.deleter, kubernetes, controller.Options{})
		w.delete(t, "a")
		synctest.Wait()
		require.Equal(t, []string{"held"}, w.fakes[1].Names(target))
		down.Store(true)
		time.Sleep(time.Hour)
		w.waive(t, "a", 24*time.Hour)
		time.Sleep(8 * time.Hour)
		require.False(t, w.gone("a"), "the object is there still")
		down.Store(false)
		w.fakes[1].Release(target, "held")
		time.Sleep(time.Hour)
		require.True(t, w.gone("a"))
	})
}

// R7: such a waiver is also void for a restarted controller, which has not seen the objects
// itself.
func TestR7_RestartedControllerRemembersWhatAWaiverWouldHide(t *testing.T) {
	for name, stored := range map[string]bool{"a host": false, "a registry": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, down := waivable(t)
				var namespaces interface {
					controller.Namespaces
					Create(context.Context, namespace.Namespace) (namespace.Namespace, error)
					Update(context.Context, namespace.Namespace) (namespace.Namespace, error)
				} = w.host
				remove := func() error { _, err := w.host.Delete(t.Context(), "a"); return err }
				if stored {
					s, err := memory.New(nil)
					require.NoError(t, err)
					r, err := registry.New(s, nil)
					require.NoError(t, err)
					t.Cleanup(func() { require.NoError(t, r.Close()); require.NoError(t, s.Close()) })
					namespaces = r
					remove = func() error { _, err := r.Delete(t.Context(), "a", namespace.Preconditions{}); return err }
				}
				ns, err := namespaces.Create(t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: "a"}})
				require.NoError(t, err)
				target := deleter.Target{Namespace: "a", UID: ns.UID, DeletedAt: time.Now()}
				w.fakes[1].Put(target, contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
				restart := run(t, namespaces, w.deleter, kubernetes, controller.Options{})
				require.NoError(t, remove())
				synctest.Wait()
				restart()
				down.Store(true)
				ns, err = namespaces.Get(t.Context(), "a")
				require.NoError(t, err)
				key, value, err := declare.Waiver{Name: "test", Source: resource(1).String(), By: "ada", Reason: "uninstalled", Until: time.Now().Add(24 * time.Hour)}.Annotation()
				require.NoError(t, err)
				ns.Annotations = map[string]string{key: value}
				_, err = namespaces.Update(t.Context(), ns)
				require.NoError(t, err)
				for range 3 {
					restart = run(t, namespaces, w.deleter, kubernetes, controller.Options{})
					time.Sleep(time.Hour)
					restart()
				}
				_, err = namespaces.Get(t.Context(), "a")
				require.NoError(t, err, "the object is there still")
				down.Store(false)
				w.fakes[1].Release(target, "held")
				run(t, namespaces, w.deleter, kubernetes, controller.Options{})
				time.Sleep(time.Hour)
				_, err = namespaces.Get(t.Context(), "a")
				require.ErrorIs(t, err, namespace.ErrNotFound)
			})
		})
	}
}

// R8: a waiver of one namespace does not affect another namespace for which the same source
// fails.
func TestR8_WaiverBesideAnotherNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, down := waivable(t)
		down.Store(true)
		run(t, w.host, w.deleter, kubernetes, controller.Options{})
		for _, name := range []string{"a", "b"} {
			w.create(t, name)
			w.delete(t, name)
		}
		w.waive(t, "a", 24*time.Hour)
		time.Sleep(time.Hour)
		require.True(t, w.gone("a"))
		require.False(t, w.gone("b"))
	})
}

// A waived source that hangs costs one log line for each change of state, even if the first
// pass ends before the source's call times out.
func TestR7_LogOfWaivedSourceThatHangs(t *testing.T) {
	failed := func(causes ...string) string {
		return `level=WARN msg="namespace could not be emptied; it will be retried" namespace=a remaining=1 err="pass for namespace \"a\": ` + strings.Join(causes, "; ") + `"`
	}
	const (
		source    = "things001.example.com: "
		impatient = "the deleter did not answer within "
		hangs     = "no answer within 1m0s: context deadline exceeded"
		waived    = `level=INFO msg="namespace has content left" namespace=a remaining=1 waived=[things001.example.com]`
	)
	// The first pass runs out of patience. The second pass only lists. The third pass also
	// deletes and runs out of patience again. Later passes have enough patience.
	first := failed(impatient+"40s", source+"delete collection: "+impatient+"40s", source+"list: "+impatient+"40s", "the pass was cut short: "+impatient+"40s")
	third := failed(impatient+"1m20s", source+"delete collection: "+hangs, source+"list: "+impatient+"1m20s", "the pass was cut short: "+impatient+"1m20s")
	for _, tt := range []struct {
		waived bool
		want   []string
	}{
		{true, []string{logTerminating, first, waived, third, waived}},
		{false, []string{logTerminating, first, failed(source + "list: " + hangs)}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 2, func(i int) contenttest.FakeOptions {
				if i == 1 {
					return contenttest.FakeOptions{Latency: 24 * time.Hour}
				}
				return contenttest.FakeOptions{}
			})
			target := w.create(t, "a")
			w.fakes[0].Put(target, contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
			if tt.waived {
				w.waive(t, "a", 48*time.Hour)
			}
			logger, lines := clockedLog()
			run(t, w.host, w.deleter, kubernetes, controller.Options{Logger: logger, Patience: 40 * time.Second})
			w.delete(t, "a")
			time.Sleep(24 * time.Hour)
			require.Empty(t, cmp.Diff(tt.want, untimed(lines)))
			w.fakes[0].Release(target, "held")
			time.Sleep(time.Hour)
			require.Equal(t, tt.waived, w.gone("a"))
		})
	}
}

// If the controller saw objects before a waiver, it logs the waiver as void.
func TestLogOfWaiverThatDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, down := waivable(t)
		target := w.create(t, "a")
		w.fakes[1].Put(target, contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
		logger, lines := clockedLog()
		run(t, w.host, w.deleter, kubernetes, controller.Options{Logger: logger})
		w.delete(t, "a")
		time.Sleep(time.Hour)
		down.Store(true)
		time.Sleep(time.Hour)
		w.waive(t, "a", 24*time.Hour)
		time.Sleep(8 * time.Hour)
		const failed = `level=WARN msg="namespace could not be emptied; it will be retried" namespace=a remaining=0 err="pass for namespace \"a\": things001.example.com: list: connection refused`
		require.Empty(t, cmp.Diff([]string{
			logTerminating,
			`level=INFO msg="namespace has content left" namespace=a remaining=1`,
			failed + `"`,
			failed + ` (not waived: 1 object was left of it when it last answered)"`,
		}, untimed(lines)))
	})
}

// untimed returns the lines of a log without their times.
func untimed(j *journal) []string {
	var list []string
	for _, line := range strings.Split(strings.TrimSpace(j.String()), "\n") {
		_, line, _ = strings.Cut(line, " ")
		list = append(list, line)
	}
	return list
}
