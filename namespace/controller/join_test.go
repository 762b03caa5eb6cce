package controller_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// teller is hooks that note all that they are told, after the name of the listener.
func teller(name string, notes *[]string) controller.Hooks {
	note := func(hook string) func(namespace.Ref) {
		return func(ref namespace.Ref) { *notes = append(*notes, fmt.Sprint(name, " ", hook, " ", ref)) }
	}
	return controller.Hooks{
		Queued:      note("queued"),
		PassStarted: note("started"),
		PassEnded: func(ref namespace.Ref, result pass.Result, err error, took time.Duration) {
			note(fmt.Sprintf("ended %v %v %v", result.Outcome, err, took))(ref)
		},
		Retried: func(ref namespace.Ref, delay time.Duration, reason controller.Reason) {
			note(fmt.Sprintf("retried %v %v", delay, reason))(ref)
		},
		Left:      note("left"),
		Finalized: note("finalized"),
		Removed:   note("removed"),
	}
}

// tellAll calls every hook of h, with what tells them apart.
func tellAll(h controller.Hooks) {
	ref := namespace.Ref{Name: "a", UID: "1"}
	h.Queued(ref)
	h.PassStarted(ref)
	h.PassEnded(ref, pass.Result{Outcome: pass.Waiting}, errors.New("boom"), time.Second)
	h.Retried(ref, time.Minute, controller.ReasonFailed)
	h.Left(ref)
	h.Finalized(ref)
	h.Removed(ref)
}

// Every listener is told all that one is told alone, and in their order.
func TestJoin(t *testing.T) {
	var alone []string
	tellAll(teller("x", &alone))
	require.Len(t, alone, reflect.TypeFor[controller.Hooks]().NumField(), "a hook that this test does not know")

	var notes, want []string
	tellAll(controller.Join(teller("x", &notes), controller.Hooks{}, teller("y", &notes)))
	for _, note := range alone {
		want = append(want, note, "y"+note[1:])
	}
	require.Empty(t, cmp.Diff(want, notes))
}

// What nobody wants to hear costs nothing.
func TestJoinNobody(t *testing.T) {
	for _, joined := range []controller.Hooks{controller.Join(), controller.Join(controller.Hooks{}, controller.Hooks{})} {
		require.True(t, reflect.ValueOf(joined).IsZero())
	}
	one := controller.Join(controller.Hooks{Left: func(namespace.Ref) {}}, controller.Hooks{})
	require.NotNil(t, one.Left)
	one.Left = nil
	require.True(t, reflect.ValueOf(one).IsZero())
}

// A listener that panics does not silence those after it, and the controller hears of
// the panic.
func TestJoinPanic(t *testing.T) {
	var notes []string
	bad := controller.Hooks{
		Queued:    func(namespace.Ref) { panic("boom") },
		PassEnded: func(namespace.Ref, pass.Result, error, time.Duration) { panic("boom") },
		Retried:   func(namespace.Ref, time.Duration, controller.Reason) { panic("boom") },
	}
	joined := controller.Join(teller("x", &notes), bad, teller("y", &notes), bad)
	require.Panics(t, func() { joined.Queued(namespace.Ref{}) })
	require.Panics(t, func() { joined.PassEnded(namespace.Ref{}, pass.Result{}, nil, 0) })
	require.Panics(t, func() { joined.Retried(namespace.Ref{}, 0, "") })
	require.Len(t, notes, 6)
}

// Joining costs the caller no allocation.
func TestJoinAllocates(t *testing.T) {
	count := 0
	quiet := controller.Hooks{
		Queued:    func(namespace.Ref) { count++ },
		PassEnded: func(namespace.Ref, pass.Result, error, time.Duration) { count++ },
	}
	joined := controller.Join(quiet, quiet, quiet)
	ref := namespace.Ref{Name: "a", UID: "1"}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		joined.Queued(ref)
		joined.PassEnded(ref, pass.Result{}, nil, time.Second)
	}))
	require.Equal(t, 101*6, count)
}

// A controller tells that a namespace has become another's, and nothing more of it but
// its end, until it is its own again.
func TestLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		division, diary := newShare(all), newDiary()
		left := controller.Hooks{Left: func(ref namespace.Ref) { diary.add(moment{what: "left", ref: ref}) }}
		run(t, w.host, w.deleter, kubernetes, controller.Options{Division: division, Hooks: controller.Join(diary.hooks(), left)})
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
		require.Equal(t, append(first, "left"), diary.story("a"), "told once")
		division.set(all)
		synctest.Wait()
		require.Equal(t, append(append(first, "left"), first...), diary.story("a"))
		division.set(none)
		time.Sleep(time.Hour)
		w.fakes[0].Release(target, "held")
		w.setFinalizers(t, "a")
		time.Sleep(time.Hour)
		require.Equal(t, append(append(append(first, "left"), first...), "left", "removed"), diary.story("a"))
	})
}
