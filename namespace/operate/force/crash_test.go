package force_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/operate/force"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

var errCrashed = errors.New("crashed")

// crash is a store of a process that ends at a commit: before it, or after it but before
// the answer. From then on nothing succeeds.
type crash struct {
	at      int64 // the commit, counted from when it is armed
	landed  bool
	armed   atomic.Bool
	commits atomic.Int64
	over    atomic.Bool
}

func (c *crash) plan(a storetest.Attempt) storetest.Fault {
	switch {
	case !c.armed.Load():
		return storetest.Fault{}
	case c.over.Load():
		return storetest.Fault{Kind: storetest.Fail, Err: errCrashed}
	case a.Method != "commit" || c.commits.Add(1)-1 != c.at:
		return storetest.Fault{}
	}
	c.over.Store(true)
	if c.landed {
		return storetest.Fault{Kind: storetest.Landed}
	}
	return storetest.Fault{Kind: storetest.Fail, Err: errCrashed}
}

// crashes calls do with worlds that crash at every commit in turn, and reports how many
// there were.
func crashes(t *testing.T, do func(t *testing.T, before, after *world, c *crash) (crashed bool)) {
	for _, landed := range []bool{false, true} {
		for at := int64(0); ; at++ {
			crashed := false
			t.Run(fmt.Sprintf("commit %d, landed %v", at, landed), func(t *testing.T) {
				inner := newStore(t)
				c := &crash{at: at, landed: landed}
				s, err := storetest.Inject(inner, c.plan)
				require.NoError(t, err)
				crashed = do(t, newWorld(t, s), newWorld(t, inner), c)
				holdsHistory(t, inner)
			})
			if t.Failed() || !crashed {
				require.Greater(t, at, int64(2), "it takes several commits")
				break
			}
		}
	}
}

// holdsHistory looks at every commit that was made: finalizers went and objects went
// only after the record that says so, which was complete by then.
func holdsHistory(t *testing.T, s store.Store) {
	t.Helper()
	inventories, forcing, sweeping := 0, false, false
	page, err := s.List(t.Context(), store.Query{})
	require.NoError(t, err)
	for change, err := range s.Watch(t.Context(), "/registry/", store.Position{Epoch: page.Position.Epoch}) {
		require.NoError(t, err)
		for _, e := range change.Events {
			value := string(e.Value)
			switch {
			case strings.HasPrefix(e.Key, "/registry/.inventory/"):
				inventories++
			case strings.HasPrefix(e.Key, "/registry/.audit/"):
				forcing = forcing || strings.Contains(value, `"forcing"`)
				sweeping = sweeping || strings.Contains(value, `"sweeping"`)
				if forcing {
					require.Positive(t, inventories, "a record precedes its inventory")
				}
			case e.Key == "/registry/namespaces/x" && e.Prev != nil && (e.Deleted || strings.Count(value, string(dead)) == 0):
				require.True(t, forcing, "finalizers went before that was on record")
			case strings.HasPrefix(e.Key, "/registry/widgets.example.com/x/") && e.Deleted:
				require.True(t, sweeping, "an object went before that was on record")
			}
		}
		if change.Position.Revision >= page.Position.Revision {
			return
		}
	}
}

// A process may end at any moment of a Drop: another one finishes it, by the same call.
func TestDropSurvivesCrashes(t *testing.T) {
	crashes(t, func(t *testing.T, before, after *world, c *crash) bool {
		ns := after.stuck("x", 3)
		c.armed.Store(true)
		_, err := force.Drop(t.Context(), before.registry, before.content, before.log, request(ns))
		crashed := c.over.Load()
		if !crashed {
			require.NoError(t, err)
		}
		result, err := after.drop(request(ns))
		require.NoError(t, err)
		require.True(t, result.Removed)
		require.Equal(t, ns.Spec.Finalizers.Names(), result.Dropped)
		require.Len(t, result.Inventory.Objects, 3)
		require.True(t, after.gone("x", ns.UID))
		finished(t, after, result.ID)
		_, err = after.sweep(force.SweepRequest{Name: "x", ID: result.ID, By: "b", Reason: "r", Release: request(ns).Finalizers})
		require.NoError(t, err)
		return crashed
	})
}

// finished reports the record of a Drop as ended once, by a Forced.
func finished(t *testing.T, w *world, id string) {
	t.Helper()
	records, err := w.log.List(t.Context(), "x")
	require.NoError(t, err)
	ends := 0
	for _, r := range records {
		if r.Follows == id && r.Action == audit.Forced {
			ends++
		}
	}
	require.Equal(t, 1, ends)
	last := records[len(records)-1]
	require.Equal(t, audit.Forced, last.Action)
	require.Equal(t, id, last.Follows)
}

// A process may end at any moment of a Sweep: another one finishes it.
func TestSweepSurvivesCrashes(t *testing.T) {
	crashes(t, func(t *testing.T, before, after *world, c *crash) bool {
		_, req := after.forced("x", 3)
		after.create("y", 2)
		c.armed.Store(true)
		_, err := force.Sweep(t.Context(), before.registry, before.registry, before.log, req)
		crashed := c.over.Load()
		if !crashed {
			require.NoError(t, err)
		}
		result, err := after.sweep(req)
		require.NoError(t, err)
		require.Equal(t, force.SweepProgress{Objects: 3, Gone: 3}, result.SweepProgress)
		require.Empty(t, after.names("x"))
		require.Len(t, after.names("y"), 2)
		actions := after.actions("x")
		require.Equal(t, "swept 0", actions[len(actions)-1])
		require.NoError(t, registrytest.Check(t.Context(), after.store, "registry"), "nothing is left of it")
		return crashed
	})
}

// Under any mix of lost, landed and refused writes a Drop that reports success was one,
// and one that does not can be called again.
func TestDropUnderFaults(t *testing.T) {
	for seed := range uint64(60) {
		inner := newStore(t)
		plan, err := storetest.Seeded(seed, storetest.Rates{Conflict: 0.2, Lost: 0.2, Landed: 0.2, Fail: 0.1})
		require.NoError(t, err)
		s, err := storetest.Inject(inner, plan)
		require.NoError(t, err)
		after := newWorld(t, inner)
		ns := after.stuck("x", 3)
		before := newWorld(t, s)
		for range 50 {
			var result force.Result
			result, err = force.Drop(t.Context(), before.registry, before.content, before.log, request(ns))
			if err == nil {
				require.True(t, result.Removed, "seed %d", seed)
				break
			}
		}
		require.NoError(t, err, "seed %d", seed)
		require.True(t, after.gone("x", ns.UID), "seed %d", seed)
		holdsHistory(t, inner)
	}
}
