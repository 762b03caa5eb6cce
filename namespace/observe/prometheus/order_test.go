package prometheus_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/observe/prometheus"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// In any order of reports, no gauge is negative, the gauges agree, and all are zero once every
// namespace is gone.
func TestAnyOrder(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	e := export(t, agent, &prometheus.Options{Resources: 3})
	h := e.Hooks()
	ref := func() namespace.Ref {
		return namespace.Ref{Name: fmt.Sprint(random.IntN(5)), UID: fmt.Sprint(random.IntN(2))}
	}
	for range 3000 {
		r := ref()
		switch random.IntN(7) {
		case 0, 1:
			h.Queued(r)
		case 2:
			h.PassStarted(context.Background(), r)
		case 3, 4:
			res := result(r, pass.Outcome(random.IntN(11)), failing(things(random.IntN(5)), things(random.IntN(5))))
			if random.IntN(2) == 0 {
				res.Namespace.Spec.Finalizers = finalizer.Set{}
			}
			h.PassEnded(context.Background(), r, res, nil, time.Second)
		case 5:
			h.Released(r)
		case 6:
			h.Removed(r)
		}
		if random.IntN(30) == 0 {
			for _, line := range e.text(t) {
				require.NotContains(t, line, " -")
			}
		}
	}
	for name := range 5 {
		for uid := range 2 {
			h.Removed(namespace.Ref{Name: fmt.Sprint(name), UID: fmt.Sprint(uid)})
		}
	}
	for _, line := range e.values(t) {
		for _, gauge := range []string{"namespace_terminating", "namespace_controller_queue_depth", "namespace_sources_failing"} {
			require.NotContains(t, line, gauge)
		}
	}
}

// A scrape may run while controllers work.
func TestConcurrently(t *testing.T) {
	e := export(t, agent, nil)
	var all sync.WaitGroup
	for i := range 4 {
		h := e.Hooks()
		all.Go(func() {
			for j := range 500 {
				ref := namespace.Ref{Name: fmt.Sprint(i, j%50), UID: "1"}
				h.Queued(ref)
				h.PassStarted(context.Background(), ref)
				h.PassEnded(context.Background(), ref, result(ref, pass.Failed, failing(things(j))), nil, time.Second)
				h.Retried(ref, time.Second, controller.ReasonFailed)
				h.Removed(ref)
			}
		})
	}
	all.Go(func() {
		for range 20 {
			_, err := e.registry.Gather()
			require.NoError(t, err)
		}
	})
	all.Go(func() {
		for range 100 {
			e.Clear()
		}
	})
	all.Wait()
	require.Contains(t, e.values(t), `namespace_passes_total{outcome="failed"} 2000`)
}
