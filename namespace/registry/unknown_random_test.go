package registry_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// Random operations under random faults leave nothing that breaks a rule, at any
// revision.
func TestRandomOperationsUnderFaults(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	injected := map[storetest.Kind]int{}
	for round := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, round))
			e, plan, faulty := faultyEnv(t)
			e.create("first")
			start := now(t, faulty.Unwrap())
			kinds := []storetest.Kind{storetest.Lost, storetest.Landed, storetest.Conflict, storetest.Fail}
			p := storetest.Plan(func(a storetest.Attempt) storetest.Fault {
				if n := rnd.IntN(12); n < len(kinds) {
					return storetest.Fault{Kind: kinds[n]}
				}
				return storetest.Fault{}
			})
			plan.Store(&p)
			for range 150 {
				randomOperation(e, rnd)
			}
			plan.Store(nil)
			require.NoError(t, registrytest.Audit(e.ctx, faulty.Unwrap(), "registry", start, e.revision()))
			for kind, n := range faulty.Injected() {
				injected[kind] += n
			}
		})
	}
	require.Len(t, injected, 4, "every kind of fault must have struck")
}

// randomOperation does something that keeps to the rules, as a client or as a
// pass. Refusals and failures are fine.
func randomOperation(e *env, rnd *rand.Rand) {
	ns := fmt.Sprint("n", rnd.IntN(3))
	name := fmt.Sprint("o", rnd.IntN(3))
	w := e.content(widgets)
	switch rnd.IntN(10) {
	case 0:
		_, _ = e.Create(e.ctx, named(ns, "example.com/agent"))
	case 1, 2, 3:
		held := object(name)
		if rnd.IntN(2) == 0 {
			held.Finalizers = finalizer.NewSet("example.com/f")
		}
		_, _ = w.Create(e.ctx, ns, held)
	case 4:
		_, _ = w.Update(e.ctx, ns, object(name))
	case 5:
		_, _ = w.Delete(e.ctx, ns, name, anyVersion)
	case 6:
		_, _ = e.Delete(e.ctx, ns, anyVersion)
	case 7:
		_, _ = w.DeleteCollection(e.ctx, ns, labels(e.t, ""), fields(e.t, ""))
	default:
		n, err := e.Get(e.ctx, ns)
		if err != nil || n.Phase() == phase.Active {
			return
		}
		if _, _, err := e.source().DeleteCollection(e.ctx, targetOf(n)); err != nil {
			return
		}
		if page, err := e.source().List(e.ctx, targetOf(n), 0, ""); err != nil || len(page.Items) > 0 {
			return
		}
		n.Spec.Finalizers = finalizer.Set{}
		_, _ = e.Finalize(e.ctx, n)
	}
}
