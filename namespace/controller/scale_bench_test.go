package controller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/bolt"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// scaleTypes are the types of content in these benchmarks.
var scaleTypes = []registry.Type{
	{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true},
	{Version: "v1", Resource: "secrets", Kind: "Secret", Namespaced: true},
	{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true},
}

// scaleWriters is the number of goroutines that create and delete. A file store groups the
// commits of concurrent requests.
const scaleWriters = 64

var scaleStores = []struct {
	name string
	open func(*testing.B) (store.Store, error)
}{
	{"memory", func(*testing.B) (store.Store, error) { return memory.New(nil) }},
	{"bolt", func(b *testing.B) (store.Store, error) { return bolt.Open(filepath.Join(b.TempDir(), "scale.db"), nil) }},
}

// scaleRegistry returns a registry over an open store.
func scaleRegistry(b *testing.B, open func(*testing.B) (store.Store, error)) *registry.Registry {
	s, err := open(b)
	require.NoError(b, err)
	r, err := registry.New(s, &registry.Options{Types: scaleTypes})
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, r.Close())
		require.NoError(b, s.Close())
	})
	return r
}

// each calls f for 0 to n-1 from up to scaleWriters goroutines.
func each(b *testing.B, n int, f func(i int) error) {
	b.Helper()
	var group errgroup.Group
	group.SetLimit(scaleWriters)
	for i := range n {
		group.Go(func() error { return f(i) })
	}
	require.NoError(b, group.Wait())
}

// createNamespaces creates n namespaces, named prefix-number, each with the given number of
// objects of each type.
func createNamespaces(b *testing.B, r *registry.Registry, prefix string, n, objects int) {
	b.Helper()
	each(b, n, func(i int) error {
		name := fmt.Sprintf("%s-%d", prefix, i)
		if _, err := r.Create(b.Context(), namespace.Namespace{Meta: namespace.Meta{Name: name}}); err != nil {
			return err
		}
		return createObjects(b.Context(), r, name, 0, objects)
	})
}

// createObjects creates the objects from number first to last-1 of each type.
func createObjects(ctx context.Context, r *registry.Registry, ns string, first, last int) error {
	for _, t := range scaleTypes {
		content, err := r.Content(t.Name())
		if err != nil {
			return err
		}
		for i := first; i < last; i++ {
			o := registry.Object{
				Meta:   namespace.Meta{Name: fmt.Sprintf("object-%d", i)},
				Fields: map[string]json.RawMessage{"data": json.RawMessage(`{"key":"value"}`)},
			}
			if _, err := content.Create(ctx, ns, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// runScale runs a controller with hooks until stop is called.
func runScale(b *testing.B, r *registry.Registry, hooks controller.Hooks) (stop func()) {
	b.Helper()
	d, err := r.Deleter(nil)
	require.NoError(b, err)
	c, err := controller.New(r, d, namespace.Party{Finalizer: finalizer.Kubernetes}, &controller.Options{Hooks: []controller.Hooks{hooks}})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(b, <-ended)
	}
}

// countdown returns a Removed hook and the channel that it closes at the nth removal.
func countdown(n int) (hook func(namespace.Ref), reached <-chan struct{}) {
	done := make(chan struct{})
	var removed atomic.Int64
	return func(namespace.Ref) {
		if removed.Add(1) == int64(n) {
			close(done)
		}
	}, done
}

// peakHeap samples the heap until stop. stop returns the maximum growth in bytes.
func peakHeap() (stop func() uint64) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	base, peak := heap(), uint64(0)
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			peak = max(peak, heap())
			select {
			case <-tick.C:
			case <-end:
				peak = max(peak, heap())
				return
			}
		}
	})
	return func() uint64 {
		close(end)
		wg.Wait()
		return peak - min(base, peak)
	}
}

// plainNamespaces returns the namespaces per second that a plain loop removes. For each
// namespace, the loop calls Delete and then runs a pass.
func plainNamespaces(b *testing.B, r *registry.Registry) float64 {
	b.Helper()
	const n = 200
	createNamespaces(b, r, "plain", n, 1)
	d, err := r.Deleter(&registry.DeleterOptions{Options: deleter.Options{Parallelism: 1}})
	require.NoError(b, err)
	start := time.Now()
	for i := range n {
		name := fmt.Sprintf("plain-%d", i)
		_, err := r.Delete(b.Context(), name, namespace.Preconditions{})
		require.NoError(b, err)
		result, err := pass.Run(b.Context(), r, d, namespace.Party{Finalizer: finalizer.Kubernetes}, pass.Request{Name: name})
		require.NoError(b, err)
		require.Equal(b, pass.Removed, result.Outcome)
	}
	return n / time.Since(start).Seconds()
}

// plainObjects returns the objects per second that a plain loop deletes. The loop lists one
// type after another and deletes one object after another.
func plainObjects(b *testing.B, r *registry.Registry) float64 {
	b.Helper()
	const n = 300
	createNamespaces(b, r, "plain", 1, n)
	start := time.Now()
	for _, t := range scaleTypes {
		content, err := r.Content(t.Name())
		require.NoError(b, err)
		list, err := content.List(b.Context(), "plain-0", registry.ListOptions{})
		require.NoError(b, err)
		require.Len(b, list.Items, n)
		for _, o := range list.Items {
			_, err := content.Delete(b.Context(), "plain-0", o.Name, namespace.Preconditions{})
			require.NoError(b, err)
		}
	}
	return float64(n*len(scaleTypes)) / time.Since(start).Seconds()
}

// BenchmarkDeleteManyNamespaces deletes 10,000 namespaces at once, each with one object of
// each of three types, and waits for the removal of all.
func BenchmarkDeleteManyNamespaces(b *testing.B) {
	n := 10_000
	if testing.Short() {
		n = 200
	}
	for _, s := range scaleStores {
		b.Run(fmt.Sprintf("%s/namespaces=%d", s.name, n), func(b *testing.B) {
			var removed time.Duration
			var peak uint64
			for b.Loop() {
				b.StopTimer()
				r := scaleRegistry(b, s.open)
				createNamespaces(b, r, "many", n, 1)
				hook, done := countdown(n)
				stop := runScale(b, r, controller.Hooks{Removed: hook})
				stopPeak := peakHeap()
				b.StartTimer()
				start := time.Now()
				each(b, n, func(i int) error {
					_, err := r.Delete(b.Context(), fmt.Sprintf("many-%d", i), namespace.Preconditions{})
					return err
				})
				<-done
				removed += time.Since(start)
				peak = max(peak, stopPeak())
				stop()
				b.ReportMetric(plainNamespaces(b, r), "sequential-namespaces/s")
			}
			b.ReportMetric(float64(b.N*n)/removed.Seconds(), "namespaces/s")
			b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
		})
	}
}

// BenchmarkDeleteHugeNamespace deletes one namespace with 100,000 objects.
func BenchmarkDeleteHugeNamespace(b *testing.B) {
	n := 100_000
	if testing.Short() {
		n = 3_000
	}
	per := n / len(scaleTypes)
	for _, s := range scaleStores {
		b.Run(fmt.Sprintf("%s/objects=%d", s.name, per*len(scaleTypes)), func(b *testing.B) {
			var took time.Duration
			var peak uint64
			var passes, longest atomic.Int64
			for b.Loop() {
				b.StopTimer()
				r := scaleRegistry(b, s.open)
				createNamespaces(b, r, "huge", 1, 0)
				const chunk = 100
				each(b, per/chunk+1, func(i int) error {
					return createObjects(b.Context(), r, "huge-0", i*chunk, min((i+1)*chunk, per))
				})
				hook, done := countdown(1)
				stop := runScale(b, r, controller.Hooks{
					Removed: hook,
					PassEnded: func(_ context.Context, _ namespace.Ref, _ pass.Result, _ error, took time.Duration) {
						passes.Add(1)
						longest.Store(max(longest.Load(), int64(took)))
					},
				})
				stopPeak := peakHeap()
				b.StartTimer()
				start := time.Now()
				_, err := r.Delete(b.Context(), "huge-0", namespace.Preconditions{})
				require.NoError(b, err)
				<-done
				took += time.Since(start)
				peak = max(peak, stopPeak())
				stop()
				b.ReportMetric(plainObjects(b, r), "sequential-objects/s")
			}
			b.ReportMetric(float64(b.N*per*len(scaleTypes))/took.Seconds(), "objects/s")
			b.ReportMetric(float64(passes.Load())/float64(b.N), "passes")
			b.ReportMetric(float64(longest.Load())/1e6, "longest-pass-ms")
			b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
		})
	}
}
