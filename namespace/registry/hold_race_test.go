package registry_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Restorations, and deletions of exactly what was found to be due, at the same time: one
// of them wins, everybody else is told so, and what is stored is what the winner said
// (R8, R11).
func TestR11_RestoreAgainstTheDueDeletion(t *testing.T) {
	e := newEnv(t)
	winners := map[string]int{}
	for i := range 300 {
		name := fmt.Sprint("n", i)
		e.graced(name, "1h")
		due := e.hold(name, -time.Second)
		only := namespace.Preconditions{UID: due.UID, ResourceVersion: due.ResourceVersion}
		var mu sync.Mutex
		var won []string
		var lost []error
		contend := func(what string, do func() error) func() {
			return func() {
				err := do()
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					lost = append(lost, err)
					return
				}
				won = append(won, what)
			}
		}
		deletion := func() error { return second(e.Delete(e.ctx, name, only)) }
		restoration := func() error { return second(e.Restore(e.ctx, name, namespace.Preconditions{UID: due.UID})) }
		var all sync.WaitGroup
		both := []func(){contend("deleted", deletion), contend("restored", restoration)}
		for k := range 4 { // who is started last often comes first
			all.Go(both[(i+k)%2])
		}
		all.Wait()
		require.Len(t, won, 1, "%v, %v", won, lost)
		for _, err := range lost {
			require.ErrorIs(t, err, namespace.ErrConflict)
		}
		winners[won[0]]++
		n := e.get(name)
		require.Equal(t, won[0] == "deleted", n.Phase() == phase.Terminating)
		require.Equal(t, won[0] == "restored", n.Annotations[namespace.HoldAnnotation] == "")
		require.Empty(t, e.indexed(name))
	}
	t.Log(winners)
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
