package registry_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// crowd are watchers of one namespace. Each encodes every event, as a server would.
type crowd struct {
	running sync.WaitGroup
	encodes atomic.Int64
	bytes   atomic.Int64
	end     context.CancelFunc
}

// newCrowd returns when all of so many watchers follow. They end after n changes.
func newCrowd(b *testing.B, w *registry.Content, watchers int, shared bool, n int) *crowd {
	var c crowd
	ctx, cancel := context.WithCancel(b.Context())
	c.end = cancel
	encode := func(event registry.Event[registry.Object]) ([]byte, error) {
		c.encodes.Add(1)
		return event.Object.MarshalJSON()
	}
	var ready sync.WaitGroup
	ready.Add(watchers)
	for range watchers {
		c.running.Go(func() {
			seen := -1
			for event, err := range w.Watch(ctx, "x", registry.WatchOptions{Shared: shared}) {
				switch {
				case err != nil:
					return
				case event.Type == registry.Bookmark:
					if seen < 0 {
						seen = 0
						ready.Done()
					}
					continue
				}
				data, err := event.Encoded("json", encode)
				if err != nil {
					b.Error(err)
				}
				c.bytes.Add(int64(len(data)))
				if seen++; seen == n {
					return
				}
			}
		})
	}
	ready.Wait()
	return &c
}

// BenchmarkFanOut is a create that so many watchers of one namespace see and encode.
func BenchmarkFanOut(b *testing.B) {
	for _, watchers := range []int{1, 100, 5000} {
		for _, shared := range []bool{false, true} {
			b.Run(fmt.Sprintf("watchers=%d/shared=%t", watchers, shared), func(b *testing.B) {
				e := benchEnv(b)
				w := e.content(widgets)
				c := newCrowd(b, w, watchers, shared, b.N)
				defer c.end()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				b.ResetTimer()
				for n := range int64(b.N) {
					if _, err := w.Create(e.ctx, "x", content(n)); err != nil {
						b.Fatal(err)
					}
				}
				c.running.Wait()
				b.StopTimer()
				runtime.ReadMemStats(&after)
				require.EqualValues(b, b.N, c.encodes.Load(), "one encoding for each change")
				deliveries := float64(b.N) * float64(watchers)
				b.ReportMetric(deliveries/b.Elapsed().Seconds(), "events/s")
				b.ReportMetric(float64(after.Mallocs-before.Mallocs)/deliveries, "allocs/event")
				b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/deliveries, "B/event")
			})
		}
	}
}

// BenchmarkIdleWatcher is the memory of a watcher that waits.
func BenchmarkIdleWatcher(b *testing.B) {
	const watchers = 5000
	for range b.N {
		e := benchEnv(b)
		w := e.content(widgets)
		used := func() (m runtime.MemStats) {
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m
		}
		before := used()
		c := newCrowd(b, w, watchers, true, 0)
		after := used()
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/watchers, "heap-B/watcher")
		b.ReportMetric(float64(after.StackInuse-before.StackInuse)/watchers, "stack-B/watcher")
		c.end()
		c.running.Wait()
	}
}
