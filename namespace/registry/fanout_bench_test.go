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
	watchers   int
	running    sync.WaitGroup
	end        context.CancelFunc
	encodes    atomic.Int64
	deliveries atomic.Int64
	awaited    atomic.Int64  // of deliveries
	arrived    chan struct{} // gets a token when there are as many
}

// newCrowd returns when all of so many watchers have had their first bookmark.
func newCrowd(b *testing.B, w *registry.Content, watchers int, shared bool) *crowd {
	c := &crowd{watchers: watchers, arrived: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(b.Context())
	c.end = func() {
		cancel()
		c.running.Wait()
	}
	var ready sync.WaitGroup
	ready.Add(watchers)
	for range watchers {
		c.running.Go(func() {
			first := true
			for event, err := range w.Watch(ctx, "x", registry.WatchOptions{Shared: shared}) {
				if err != nil {
					return
				}
				if event.Type != registry.Bookmark {
					c.take(b, event)
				} else if first {
					first = false
					ready.Done()
				}
			}
		})
	}
	ready.Wait()
	return c
}

func (c *crowd) take(b *testing.B, event registry.Event[registry.Object]) {
	_, err := event.Encoded("json", func(event registry.Event[registry.Object]) ([]byte, error) {
		c.encodes.Add(1)
		return event.Object.MarshalJSON()
	})
	if err != nil {
		b.Error(err)
	}
	if c.deliveries.Add(1) == c.awaited.Load() {
		c.arrived <- struct{}{}
	}
}

// after makes changes, and returns when every watcher has had them all.
func (c *crowd) after(changes int, change func(n int)) {
	c.awaited.Store(c.deliveries.Load() + int64(changes)*int64(c.watchers))
	for n := range changes {
		change(n)
	}
	<-c.arrived
}

// BenchmarkFanOut is a create that so many watchers of one namespace see and encode.
func BenchmarkFanOut(b *testing.B) {
	for _, watchers := range []int{1, 100, 5000} {
		for _, shared := range []bool{false, true} {
			b.Run(fmt.Sprintf("watchers=%d/shared=%t", watchers, shared), func(b *testing.B) {
				e := benchEnv(b)
				w := e.content(widgets)
				c := newCrowd(b, w, watchers, shared)
				defer c.end()
				var n int64
				create := func(int) {
					n++
					if _, err := w.Create(e.ctx, "x", content(n)); err != nil {
						b.Fatal(err)
					}
				}
				for encodes := int64(0); encodes != 1; { // until all follow, and none catches up
					before := c.encodes.Load()
					c.after(1, create)
					encodes = c.encodes.Load() - before
				}
				encodes := c.encodes.Load()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				b.ResetTimer()
				c.after(b.N, create)
				b.StopTimer()
				runtime.ReadMemStats(&after)
				require.EqualValues(b, b.N, c.encodes.Load()-encodes, "one encoding for each change")
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
		c := newCrowd(b, w, watchers, true)
		after := used()
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/watchers, "heap-B/watcher")
		b.ReportMetric(float64(after.StackInuse-before.StackInuse)/watchers, "stack-B/watcher")
		c.end()
	}
}
