package controller_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

type ctxKey string

// record returns hooks that append each call to calls, after name. PassStarted adds name
// to the context.
func record(name string, mu *sync.Mutex, calls *[]string) controller.Hooks {
	add := func(call string) {
		mu.Lock()
		defer mu.Unlock()
		*calls = append(*calls, name+" "+call)
	}
	on := func(hook string) func(namespace.Ref) {
		return func(ref namespace.Ref) { add(hook + " " + ref.Name) }
	}
	return controller.Hooks{
		Queued: on("queued"),
		PassStarted: func(ctx context.Context, ref namespace.Ref) context.Context {
			on("started")(ref)
			return context.WithValue(ctx, ctxKey(name), ref.Name)
		},
		PassEnded: func(ctx context.Context, ref namespace.Ref, result pass.Result, err error, took time.Duration) {
			add(fmt.Sprintf("ended %v: %v, %v, context of %v", ref.Name, result.Outcome, err, ctx.Value(ctxKey(name))))
		},
		Retried: func(ref namespace.Ref, _ time.Duration, reason controller.Reason) {
			on(fmt.Sprintf("retried %v", reason))(ref)
		},
		Released:  on("released"),
		Finalized: on("finalized"),
		Removed:   on("removed"),
	}
}

// The controller calls every hook in the order of Options.Hooks. A panic in one hook does
// not prevent the others.
func TestHooks(t *testing.T) {
	bad := controller.Hooks{
		Queued:      func(namespace.Ref) { panic("boom") },
		PassStarted: func(context.Context, namespace.Ref) context.Context { panic("boom") },
		PassEnded:   func(context.Context, namespace.Ref, pass.Result, error, time.Duration) { panic("boom") },
		Retried:     func(namespace.Ref, time.Duration, controller.Reason) { panic("boom") },
		Released:    func(namespace.Ref) { panic("boom") },
		Finalized:   func(namespace.Ref) { panic("boom") },
		Removed:     func(namespace.Ref) { panic("boom") },
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		var mu sync.Mutex
		var calls []string
		division := newShare(all)
		run(t, w.host, w.deleter, kubernetes, controller.Options{
			Division: division,
			Hooks:    []controller.Hooks{record("x", &mu, &calls), bad, {}, record("y", &mu, &calls)},
		})
		target := w.create(t, "a")
		w.fakes[0].Put(target, contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
		w.delete(t, "a")
		synctest.Wait()
		division.set(none)
		synctest.Wait()
		division.set(all)
		synctest.Wait()
		w.fakes[0].Release(target, "held")
		time.Sleep(time.Hour)
		waiting := []string{"queued a", "started a", "ended a: waiting, <nil>, context of a", "retried remaining a"}
		want := slices.Concat(waiting, []string{"released a"}, waiting,
			[]string{"queued a", "started a", "ended a: removed, <nil>, context of a", "finalized a", "removed a"})
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, calls, 2*len(want))
		for i, call := range want {
			require.Equal(t, []string{"x " + call, "y " + call}, calls[2*i:2*i+2])
		}
		for i := range reflect.TypeFor[controller.Hooks]().NumField() {
			hook := strings.ToLower(strings.TrimPrefix(reflect.TypeFor[controller.Hooks]().Field(i).Name, "Pass"))
			require.Contains(t, strings.Join(calls, "\n"), "x "+hook, "the test does not cover the hook")
		}
	})
}

// The controller reports the release of a namespace once. Until it owns the namespace again,
// it reports only the removal.
func TestReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		division, diary := newShare(all), newDiary()
		released := controller.Hooks{Released: func(ref namespace.Ref) { diary.add(moment{what: "released", ref: ref}) }}
		run(t, w.host, w.deleter, kubernetes, controller.Options{Division: division, Hooks: append(diary.hooks(), released)})
		target := w.create(t, "a")
		w.fakes[0].Put(target, contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
		w.delete(t, "a")
		synctest.Wait()
		first := []string{"queued", "started", "ended waiting", "retried remaining"}
		require.Equal(t, first, diary.story("a"))
		for range 3 {
			division.set(none)
			time.Sleep(time.Hour)
		}
		require.Equal(t, append(first, "released"), diary.story("a"), "Released must be called once")
		division.set(all)
		synctest.Wait()
		require.Equal(t, append(append(first, "released"), first...), diary.story("a"))
		division.set(none)
		time.Sleep(time.Hour)
		w.fakes[0].Release(target, "held")
		w.setFinalizers(t, "a")
		time.Sleep(time.Hour)
		require.Equal(t, append(append(append(first, "released"), first...), "released", "removed"), diary.story("a"))
	})
}
