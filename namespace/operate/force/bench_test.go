package force_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/operate/force"
)

// BenchmarkDropAndSweep measures a Drop and a Sweep, with the inventory in the log.
func BenchmarkDropAndSweep(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("%d objects", n), func(b *testing.B) {
			w := newWorld(b, newStore(b))
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				ns := w.stuck("x", n)
				b.StartTimer()
				result, err := force.Drop(b.Context(), w.registry, w.content, w.log, request(ns))
				require.NoError(b, err)
				swept, err := force.Sweep(b.Context(), w.registry, w.registry, w.log, force.SweepRequest{
					Name: "x", ID: result.ID, By: "b", Reason: "r", Release: []finalizer.Name{dead},
				})
				require.NoError(b, err)
				require.Equal(b, n, swept.Gone)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/object")
		})
	}
}
