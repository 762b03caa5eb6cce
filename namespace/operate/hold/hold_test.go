package hold_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/hold"
)

func TestDeletesDueNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.held("before", time.Hour)
		stop := w.run(w, hold.Options{})
		w.held("after", 2*time.Hour)
		w.held("restored", 2*time.Hour)
		w.held("longer", 2*time.Hour)
		w.held("shorter", 100*time.Hour)
		w.held("over", -time.Hour)
		w.terminating("over")
		time.Sleep(time.Hour - 1)
		w.active("before")
		time.Sleep(time.Nanosecond)
		w.terminating("before")
		w.restore("restored")
		w.hold("longer", 3*time.Hour)
		w.hold("shorter", time.Minute)
		time.Sleep(time.Minute)
		w.terminating("shorter")
		time.Sleep(59 * time.Minute)
		w.terminating("after")
		w.active("restored", "longer")
		time.Sleep(2 * time.Hour)
		w.terminating("longer")
		time.Sleep(1000 * time.Hour)
		w.active("restored")
		require.Equal(t, []string{"deleted after", "deleted before", "deleted longer", "deleted over", "deleted shorter"}, w.diary.take())
		stop()
		require.Equal(t, 5, strings.Count(w.log.String(), "\n"), "one line for each:\n%s", w.log.String())
	})
}

// The deletion that a DELETE of a namespace with a grace began is carried out, although
// another DELETE would only begin to wait.
func TestGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(w, hold.Options{})
		n := namespace.Namespace{Meta: namespace.Meta{Name: "x", Annotations: map[string]string{declare.GraceAnnotation: "24h"}}}
		_, err := w.Create(t.Context(), n)
		require.NoError(t, err)
		_, err = w.Delete(t.Context(), "x", anything)
		require.NoError(t, err)
		time.Sleep(24*time.Hour - 1)
		w.active("x")
		time.Sleep(time.Nanosecond)
		w.terminating("x")
	})
}

// A hold that is removed or moved between the read and the deletion is not carried out.
func TestR8_RemovedHoldIsNotCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.held("restored", time.Hour)
		w.held("moved", time.Hour)
		w.held("again", time.Hour)
		w.run(&intercepted{Namespaces: w, delete: func(ctx context.Context, name string) error {
			switch name {
			case "restored":
				w.restore(name)
			case "moved":
				w.hold(name, time.Hour)
			case "again": // another of the same name, which is not on hold
				n, err := w.Get(ctx, name)
				if err != nil || n.Labels["second"] != "" {
					return err
				}
				_, err = w.Delete(ctx, name, anything)
				require.NoError(t, err)
				_, err = w.Finalize(ctx, namespace.Namespace{Meta: namespace.Meta{Name: name}})
				require.NoError(t, err)
				second := namespace.Namespace{Meta: namespace.Meta{Name: name, Labels: map[string]string{"second": "true"}}}
				_, err = w.Create(ctx, second)
				require.NoError(t, err)
			}
			return nil
		}}, hold.Options{})
		time.Sleep(time.Hour)
		w.active("restored", "moved", "again")
		require.Empty(t, w.diary.take())
		time.Sleep(time.Hour - 1)
		w.active("restored", "moved", "again")
	})
}

// Any number of processes may run: each deletion begins once, and is reported by the
// process that began it.
func TestR11_SeveralProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var want []string
		for i := range 40 {
			w.held(fmt.Sprintf("n%02d", i), time.Duration(i/10)*time.Minute)
			want = append(want, fmt.Sprintf("deleted n%02d", i))
		}
		for range 4 {
			w.run(w, hold.Options{})
		}
		time.Sleep(time.Hour)
		require.Equal(t, want, w.diary.take())
	})
}

// A process that ends, at whatever step, leaves nothing behind that another one lacks.
func TestR11_CrashAndRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.held("x", time.Hour)
		w.held("y", 2*time.Hour)
		reached := make(chan struct{})
		stop := w.run(&intercepted{Namespaces: w, delete: func(ctx context.Context, _ string) error {
			close(reached)
			<-ctx.Done() // the process is killed before the deletion was asked for
			return context.Cause(ctx)
		}}, hold.Options{Patience: 24 * time.Hour})
		<-reached
		stop()
		w.active("x", "y")
		time.Sleep(24 * time.Hour)
		w.active("x", "y")
		require.Empty(t, w.diary.take(), "the end of a process is no failure")
		w.run(w, hold.Options{})
		w.terminating("x", "y")
	})
}

// A refused deletion is reported once and retried: it succeeds within MaxDelay after the
// cause is gone.
func TestRefusalIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.held("x", time.Hour)
		var refusal atomic.Pointer[namespace.Error]
		refuse := func(why string) { refusal.Store(&namespace.Error{Kind: namespace.ErrForbidden, Message: why}) }
		refuse("protected by a")
		var tries atomic.Int64
		w.run(&intercepted{Namespaces: w, delete: func(context.Context, string) error {
			tries.Add(1)
			if r := refusal.Load(); r != nil {
				return r
			}
			return nil
		}}, hold.Options{})
		time.Sleep(25 * time.Hour)
		require.Equal(t, []string{"refused x: protected by a"}, w.diary.take())
		require.Greater(t, tries.Load(), int64(24*60))
		require.Less(t, tries.Load(), int64(24*60*2), "backoff, and no hot loop")
		refuse("protected by b")
		time.Sleep(time.Hour)
		require.Equal(t, []string{"refused x: protected by b"}, w.diary.take())
		w.active("x")
		refusal.Store(nil)
		time.Sleep(time.Minute)
		w.terminating("x")
		require.Equal(t, []string{"deleted x"}, w.diary.take())
		require.Equal(t, []string{
			`level=WARN msg="the hold of a namespace has ended, but its deletion was refused; it will be retried" namespace=x err="protected by a"`,
			`level=WARN msg="the hold of a namespace has ended, but its deletion was refused; it will be retried" namespace=x err="protected by b"`,
			`level=INFO msg="the hold of a namespace has ended; its deletion has begun" namespace=x`,
		}, strings.Split(strings.TrimSpace(w.log.String()), "\n"))
	})
}

// A deletion that is alternately refused and failing is reported once for each. A refusal
// is the same as long as its causes are, whatever its text.
func TestRefusalsAndFailuresAlternate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.held("x", time.Hour)
		var tries atomic.Int64
		var field atomic.Value
		field.Store("metadata.annotations[protection.nslifecycle.io/a]")
		w.run(&intercepted{Namespaces: w, delete: func(context.Context, string) error {
			n := tries.Add(1)
			if n%2 == 0 {
				return errors.New("broken")
			}
			return &namespace.Error{
				Kind: namespace.ErrForbidden, Message: fmt.Sprint("no, for the ", n),
				Causes: []namespace.Violation{{Type: declare.ProtectedCause, Field: field.Load().(string), Message: fmt.Sprint(n)}},
			}
		}}, hold.Options{})
		time.Sleep(25 * time.Hour)
		require.Equal(t, []string{"failed x: broken", "refused x: no, for the 1"}, w.diary.take())
		require.Greater(t, tries.Load(), int64(24*60))
		require.Equal(t, 2, strings.Count(w.log.String(), "\n"))
		field.Store("metadata.annotations[protection.nslifecycle.io/b]")
		time.Sleep(time.Hour)
		require.Len(t, w.diary.take(), 1, "it is another refusal")
		w.hold("x", time.Hour)
		time.Sleep(2 * time.Hour)
		require.Len(t, w.diary.take(), 2, "it is another hold")
	})
}

// A refusal of a hold that was moved during the attempt does not count for the new hold.
func TestRefusedWhileTheHoldMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.held("x", time.Hour)
		moved := false
		w.run(&intercepted{Namespaces: w, delete: func(_ context.Context, name string) error {
			if !moved {
				moved = true
				w.hold(name, time.Hour)
				time.Sleep(time.Second) // until the watch has reported it
			}
			return &namespace.Error{Kind: namespace.ErrForbidden, Message: "no"}
		}}, hold.Options{})
		time.Sleep(time.Hour + time.Minute)
		require.Equal(t, []string{"refused x: no"}, w.diary.take())
		time.Sleep(10 * time.Hour)
		require.Equal(t, []string{"refused x: no"}, w.diary.take())
	})
}

// Failing and hanging deletions do not delay others, and are retried.
func TestR10_FailuresDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 20 {
			w.held(fmt.Sprint("failing", i), time.Hour)
			w.held(fmt.Sprint("hanging", i), time.Hour)
		}
		w.held("healthy", 2*time.Hour+7*time.Second)
		var healed atomic.Bool
		var hanging atomic.Int64
		w.run(&intercepted{Namespaces: w, get: func(ctx context.Context, name string) error {
			switch {
			case !healed.Load() && strings.HasPrefix(name, "failing"):
				return errors.New("broken")
			case !healed.Load() && strings.HasPrefix(name, "hanging"):
				hanging.Add(1)
				defer hanging.Add(-1)
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		}}, hold.Options{Workers: 4})
		time.Sleep(2*time.Hour + 7*time.Second)
		w.terminating("healthy")
		require.Positive(t, hanging.Load(), "the sick are tried again meanwhile")
		reports := w.diary.take()
		require.Len(t, reports, 41, "each once: %v", reports)
		healed.Store(true)
		time.Sleep(3 * time.Minute)
		require.Len(t, w.diary.take(), 40)
	})
}

// A failed deletion is retried after MinDelay, even while the workers cannot keep up with
// first attempts.
func TestR10_RetriesHaveAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.held("unlucky", 0)
		for i := range 200 {
			w.held(fmt.Sprint("n", i), time.Minute)
		}
		var tried atomic.Bool
		w.run(&intercepted{Namespaces: w, get: func(_ context.Context, name string) error {
			if name == "unlucky" && !tried.Swap(true) {
				time.Sleep(time.Minute - 100*time.Millisecond)
				return errors.New("broken")
			}
			time.Sleep(time.Second)
			return nil
		}}, hold.Options{Workers: 2, Patience: time.Hour})
		time.Sleep(time.Minute + 3*time.Second)
		w.terminating("unlucky")
		reports := w.diary.take()
		require.Less(t, len(reports), 10, "there is more to do: %v", reports)
	})
}

// A hold that moves between the read and the deletion ends at its new time.
func TestHoldMovesDuringTheRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.held("x", time.Hour)
		var reads atomic.Int64
		w.run(&intercepted{Namespaces: w, get: func(_ context.Context, name string) error {
			if reads.Add(1) == 1 {
				w.hold(name, 10*time.Hour)
			}
			return nil
		}, got: func(name string) {
			if reads.Load() == 1 {
				w.hold(name, time.Minute)
				time.Sleep(time.Second) // until the watch has reported it
			}
		}}, hold.Options{})
		time.Sleep(time.Hour + time.Minute)
		w.terminating("x")
		require.Equal(t, int64(2), reads.Load())
	})
}

// A namespace that is no longer on hold is not read.
func TestRemovedHoldCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.held("before", time.Hour)
		w.held("after", time.Hour)
		w.held("trying", 0)
		var reads counts
		stop := w.run(&intercepted{Namespaces: w, get: func(_ context.Context, name string) error {
			reads.add(name)
			return errors.New("broken")
		}}, hold.Options{})
		time.Sleep(time.Minute)
		w.restore("before")
		time.Sleep(time.Hour)
		w.restore("after")
		w.restore("trying")
		synctest.Wait()
		tried := reads.of("trying")
		require.Positive(t, tried)
		time.Sleep(10 * time.Hour)
		stop()
		require.Zero(t, reads.of("before"))
		require.Equal(t, tried, reads.of("trying"))
	})
}

// A hook that panics ends Run with its panic, and nothing runs on (the bubble would not
// end otherwise).
func TestHookThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.held("x", 0)
		require.PanicsWithValue(t, "hook", func() {
			_ = hold.Run(t.Context(), w, &hold.Options{Hooks: hold.Hooks{Deleted: func(namespace.Ref) { panic("hook") }}})
		})
	})
}

func TestBadInput(t *testing.T) {
	w := newWorld(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for want, o := range map[string]hold.Options{
		"hold: Options.Workers is -1: it must be at least 2":                {Workers: -1},
		"hold: Options.Workers is 1: it must be at least 2":                 {Workers: 1},
		"hold: Options.Patience is -1ns: it must not be negative":           {Patience: -1},
		"hold: Options.MinDelay is -1ns: it must not be negative":           {MinDelay: -1},
		"hold: Options.MaxDelay is -1ns: it must be at least MinDelay (1s)": {MaxDelay: -1},
		"hold: Options.MaxDelay is 1ns: it must be at least MinDelay (2ns)": {MinDelay: 2, MaxDelay: 1},
	} {
		require.EqualError(t, hold.Run(ended, w, &o), want)
	}
	require.NoError(t, hold.Run(ended, w, nil), "a context that has ended ends it at once")
	require.NoError(t, hold.Run(ended, w, &hold.Options{MinDelay: time.Hour}), "a first delay above the default of the longest")
}
