package registry_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// A restoration, and the deletion of exactly what was found to be due, have both read the
// namespace and come to commit: whichever is first wins, the other is told so, and what is
// stored is what the winner said (R8, R11).
func TestR11_RestoreAgainstTheDueDeletion(t *testing.T) {
	const deleted, restored = "deleted", "restored"
	for _, winner := range []string{deleted, restored} {
		t.Run(winner, func(t *testing.T) {
			e, plan, _ := faultyEnv(t)
			e.graced("x", "1h")
			due := e.hold("x", -time.Second)
			var commits atomic.Int64
			var met sync.WaitGroup
			met.Add(2)
			won := make(chan struct{})
			p := storetest.Plan(func(a storetest.Attempt) storetest.Fault {
				if a.Method != "commit" {
					return storetest.Fault{}
				}
				who := restored
				if slices.ContainsFunc(a.Txn.Do, func(op store.Operation) bool { return op.Key == "/registry/.gate/x" }) {
					who = deleted
				}
				if commits.Add(1) > 2 {
					t.Error("who comes late tries again")
					return storetest.Fault{}
				}
				met.Done()
				met.Wait()
				if who != winner {
					<-won
				}
				return storetest.Fault{}
			})
			plan.Store(&p)
			outcomes := map[string]error{}
			var mu sync.Mutex
			contend := func(who string, do func() error) func() {
				return func() {
					err := do()
					if who == winner {
						close(won)
					}
					mu.Lock()
					defer mu.Unlock()
					outcomes[who] = err
				}
			}
			var both sync.WaitGroup
			both.Go(contend(deleted, func() error {
				return second(e.Delete(e.ctx, "x", namespace.Preconditions{UID: due.UID, ResourceVersion: due.ResourceVersion}))
			}))
			both.Go(contend(restored, func() error {
				return second(e.Restore(e.ctx, "x", namespace.Preconditions{UID: due.UID}))
			}))
			both.Wait()
			plan.Store(nil)
			require.NoError(t, outcomes[winner])
			n := e.get("x")
			if winner == deleted {
				require.ErrorIs(t, outcomes[restored], namespace.ErrTerminating)
				require.Equal(t, phase.Terminating, n.Phase())
				require.Contains(t, n.Annotations, namespace.HoldAnnotation)
			} else {
				require.ErrorIs(t, outcomes[deleted], namespace.ErrConflict)
				require.Equal(t, phase.Active, n.Phase())
				require.NotContains(t, n.Annotations, namespace.HoldAnnotation)
			}
			require.Empty(t, e.indexed("x"))
		})
	}
}

// DELETE by many at once of a namespace with a grace begins one hold: all of them are
// answered the same one.
func TestDeletedByMany(t *testing.T) {
	e := newEnv(t)
	for i := range 50 {
		name := fmt.Sprint("n", i)
		e.graced(name, "1h")
		before := e.revision()
		answers := make([]namespace.Namespace, 8)
		var all sync.WaitGroup
		for k := range answers {
			all.Go(func() {
				var err error
				answers[k], err = e.Delete(e.ctx, name, anyVersion)
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.Equal(t, before+1, e.revision())
		for _, n := range answers {
			require.Equal(t, e.get(name), n)
		}
	}
}
