package hold_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/hold"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// Processes that come and go over a store that goes wrong carry out every hold that is
// over, none before, and none that was taken off (R8, R11, R12).
func TestHoldsUnderFaults(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var begun, injected int
	for round := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, round))
			s, err := memory.New(nil)
			require.NoError(t, err)
			faulty, flaky := inject(t, s, rand.New(rand.NewPCG(seed, round+1000)))
			w := newWorldOver(t, s)
			over, err := registry.New(faulty, nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, over.Close()) })
			for i := range 8 {
				w.held(fmt.Sprint("n", i), time.Duration(i)*time.Minute)
			}
			flaky.Store(true)
			stops := []func(){w.run(over, hold.Options{Patience: time.Second}), w.run(over, hold.Options{Patience: time.Second})}
			for range 300 {
				if rnd.IntN(10) == 0 { // one of them dies, and is started again
					i := rnd.IntN(len(stops))
					stops[i]()
					stops[i] = w.run(over, hold.Options{Patience: time.Second})
				}
				w.randomHold(rnd)
				time.Sleep(time.Duration(rnd.IntN(60)) * time.Second)
				w.checkEnds()
			}
			flaky.Store(false)
			time.Sleep(5 * time.Minute) // longer than any backoff
			synctest.Wait()
			w.checkEnds()
			for _, n := range w.all() {
				if h, held, _ := declare.HoldOf(n.Meta); held && n.Phase() == phase.Active {
					require.False(t, h.Due(time.Now()), "%s is overdue since %v", n.Name, h.Until)
				}
			}
			for _, line := range w.diary.take() {
				if strings.HasPrefix(line, "deleted") {
					begun++
				}
			}
			for _, n := range faulty.Injected() {
				injected += n
			}
		})
	}
	require.Greater(t, begun, 100)
	require.Greater(t, injected, 100)
	t.Log(begun, "deletions,", injected, "faults")
}

// inject returns s with random faults while flaky is set.
func inject(t *testing.T, s *memory.Store, rnd *rand.Rand) (*storetest.Faulty, *atomic.Bool) {
	var mu sync.Mutex
	var flaky atomic.Bool
	kinds := []storetest.Fault{
		{Kind: storetest.Lost}, {Kind: storetest.Landed}, {Kind: storetest.Conflict}, {Kind: storetest.Fail, Changes: 2},
		{Kind: storetest.Gone, Changes: 1}, {Delay: 10 * time.Second},
	}
	faulty, err := storetest.Inject(s, func(storetest.Attempt) storetest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if n := rnd.IntN(15); flaky.Load() && n < len(kinds) {
			return kinds[n]
		}
		return storetest.Fault{}
	})
	require.NoError(t, err)
	return faulty, &flaky
}

// randomHold changes a hold, or creates a namespace again. The change may be refused because
// the deletion has begun.
func (w *world) randomHold(rnd *rand.Rand) {
	ctx, name := w.t.Context(), fmt.Sprint("n", rnd.IntN(8))
	until := declare.Hold{Until: time.Now().Add(time.Duration(rnd.IntN(300)-30) * time.Second)}
	switch rnd.IntN(4) {
	case 0:
		_, _ = w.Restore(ctx, name, anything)
	case 1, 2:
		_, _ = w.DeleteAfter(ctx, name, until, anything)
	default:
		n, err := w.Get(ctx, name)
		if err != nil || n.Phase() == phase.Active {
			return
		}
		n.Spec.Finalizers = finalizer.Set{}
		_, err = w.Finalize(ctx, n)
		require.NoError(w.t, err)
		_, err = w.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: name}})
		require.NoError(w.t, err)
	}
}

// checkEnds requires that every Terminating namespace was on hold and that its hold had
// ended. The time of a deletion has whole seconds, rounded down.
func (w *world) checkEnds() {
	w.t.Helper()
	for _, n := range w.all() {
		if n.Phase() == phase.Terminating {
			h, held, err := declare.HoldOf(n.Meta)
			require.NoError(w.t, err)
			require.True(w.t, held, "%s was deleted without a hold", n.Name)
			require.False(w.t, n.DeletionTimestamp.Add(time.Second-1).Before(h.Until), "%s was deleted at %v, on hold until %v", n.Name, n.DeletionTimestamp, h.Until)
		}
	}
}

func (w *world) all() []namespace.Namespace {
	w.t.Helper()
	list, err := w.List(w.t.Context(), registry.ListOptions{})
	require.NoError(w.t, err)
	return list.Items
}
