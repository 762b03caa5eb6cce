package prometheus_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// Hooks for a known namespace do not allocate.
func TestHooksAllocateNothing(t *testing.T) {
	e := export(t, agent, nil)
	h, ref := e.Hooks(), namespace.Ref{Name: "a", UID: "1"}
	waiting := result(ref, pass.Waiting, deleter.Report{Results: []deleter.Result{{Resource: things(1), Deleted: 1}}})
	failed := result(ref, pass.Failed, failing(things(1), things(2)))
	round := func(r pass.Result) func() {
		return func() {
			h.Queued(ref)
			h.PassStarted(context.Background(), ref)
			h.PassEnded(context.Background(), ref, r, nil, time.Second)
			h.Retried(ref, time.Second, controller.ReasonRemaining)
		}
	}
	require.Zero(t, testing.AllocsPerRun(100, round(waiting)))
	require.Zero(t, testing.AllocsPerRun(100, round(failed)))
}

// BenchmarkHooks measures the hooks of one pass. The peer uses only a counter and a histogram
// of the client.
func BenchmarkHooks(b *testing.B) {
	for _, types := range []int{1, 60} {
		e := export(b, agent, nil)
		h, ref := e.Hooks(), namespace.Ref{Name: "a", UID: "1"}
		var report deleter.Report
		for i := range types {
			report.Results = append(report.Results, deleter.Result{Resource: things(i), Deleted: 1})
		}
		r := result(ref, pass.Waiting, report)
		b.Run(fmt.Sprint("types=", types), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.Queued(ref)
				h.PassStarted(context.Background(), ref)
				h.PassEnded(context.Background(), ref, r, nil, time.Second)
				h.Retried(ref, time.Second, controller.ReasonRemaining)
			}
		})
	}
	counter := client.NewCounterVec(client.CounterOpts{Name: "c"}, []string{"outcome"})
	histogram := client.NewHistogram(client.HistogramOpts{Name: "h", Buckets: client.ExponentialBuckets(0.005, 2, 15)})
	b.Run("peer", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			counter.WithLabelValues("waiting").Inc()
			histogram.Observe(1)
		}
	})
}

// BenchmarkCollect measures a scrape, and the memory of each terminating namespace.
func BenchmarkCollect(b *testing.B) {
	for _, many := range []int{100, 100_000} {
		b.Run(fmt.Sprint("namespaces=", many), func(b *testing.B) {
			refs := make([]namespace.Ref, many)
			for i := range refs {
				refs[i] = namespace.Ref{Name: fmt.Sprint("tenant-", i), UID: "1"}
			}
			before := heap()
			e := export(b, agent, nil)
			h := e.Hooks()
			for _, ref := range refs {
				h.Queued(ref)
			}
			bytes := float64(heap()-before) / float64(many)
			b.ReportAllocs()
			for b.Loop() {
				_, err := e.registry.Gather()
				require.NoError(b, err)
			}
			b.ReportMetric(bytes, "B/namespace")
			runtime.KeepAlive(refs)
		})
	}
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
