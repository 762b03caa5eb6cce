package deleter_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
)

// BenchmarkPass compares one pass over one object of each type, with its discovery, to a
// sequential one: type after type, delete, then list.
func BenchmarkPass(b *testing.B) {
	for _, tt := range []struct {
		types   int
		latency time.Duration
	}{{60, 5 * time.Millisecond}, {200, 20 * time.Millisecond}, {60, 0}} {
		ways := map[string]func(b *testing.B, sources []deleter.Source, target deleter.Target){
			"composed":   composedPass,
			"sequential": sequentialPass,
		}
		for _, way := range []string{"composed", "sequential"} {
			b.Run(fmt.Sprintf("types=%d/latency=%v/%s", tt.types, tt.latency, way), func(b *testing.B) {
				sources, fakes := simulated(tt.types, tt.latency)
				calls := 0
				i := 0
				for b.Loop() {
					b.StopTimer()
					target := targetOf(fmt.Sprint("n", i))
					i++
					for _, f := range fakes {
						f.Put(target, contenttest.Object{Name: "x"})
						f.ResetCalls()
					}
					b.StartTimer()
					time.Sleep(tt.latency) // discovery
					ways[way](b, sources, target)
				}
				for _, f := range fakes {
					calls += f.Calls()
				}
				b.ReportMetric(float64(calls), "calls/op")
			})
		}
	}
}

func composedPass(b *testing.B, sources []deleter.Source, target deleter.Target) {
	d, err := deleter.New(sources, nil)
	require.NoError(b, err)
	report, err := d.Delete(b.Context(), target, deleter.Report{})
	require.NoError(b, err)
	require.True(b, report.Empty())
}

func sequentialPass(b *testing.B, sources []deleter.Source, target deleter.Target) {
	for _, s := range sources {
		_, _, err := s.Content.(deleter.CollectionDeleter).DeleteCollection(b.Context(), target)
		require.NoError(b, err)
		page, err := s.Content.List(b.Context(), target, 0, "")
		require.NoError(b, err)
		require.Empty(b, page.Items)
	}
}

// BenchmarkHuge empties a namespace of 100,000 objects, pass by pass.
func BenchmarkHuge(b *testing.B) {
	for name, wrap := range map[string]func(*contenttest.Fake) deleter.Content{
		"collections": func(f *contenttest.Fake) deleter.Content { return f },
		"one-by-one":  func(f *contenttest.Fake) deleter.Content { return plain{f} },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				f := contenttest.NewFake(&contenttest.FakeOptions{Batch: 1000})
				f.PutMany(target(), "x", 100_000)
				d, err := deleter.New([]deleter.Source{source("things", wrap(f))}, nil)
				require.NoError(b, err)
				b.StartTimer()
				var report deleter.Report
				passes := 0
				for passes == 0 || !report.Empty() {
					report, err = d.Delete(b.Context(), target(), report)
					require.NoError(b, err)
					passes++
				}
				b.ReportMetric(float64(passes), "passes/op")
			}
		})
	}
}

// BenchmarkNamespaces measures the deleter alone: passes over content that answers at once.
func BenchmarkNamespaces(b *testing.B) {
	sources, _ := simulated(60, 0)
	d, err := deleter.New(sources, nil)
	require.NoError(b, err)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			report, err := d.Delete(context.Background(), targetOf("other"), deleter.Report{})
			if err != nil || !report.Empty() {
				b.Fail()
			}
		}
	})
}
