package etcd

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// BenchmarkScale measures a registry with 100,000 namespaces. It needs a server of its own, and
// about half a minute to fill it.
func BenchmarkScale(b *testing.B) {
	n, terminating := 100_000, 100
	if testing.Short() {
		n, terminating = 2_000, 10
	}
	server := ownServer(b, "--quota-backend-bytes", fmt.Sprint(4<<30), "--snapshot-count", "10000")
	s := openAt(b, newPrefix(), nil, server.URL)
	r := newRegistry(b, s)
	start := now(b, s)
	filling := share(b, 64, 0, n, func(i int) error {
		_, err := r.Create(b.Context(), namespace.Namespace{Meta: namespace.Meta{Name: fmt.Sprintf("ns-%06d", i)}})
		return err
	})
	b.Logf("%d namespaces created by 64 clients in %.1f s, %.0f/s", n, filling.Seconds(), float64(n)/filling.Seconds())

	b.Run("ListAll/pages=500", func(b *testing.B) { benchListAll(b, r, n) })
	raw := rawClient(b, server.URL)
	for _, behind := range []int{n / 100, n / 10, n} {
		b.Run(fmt.Sprintf("WatchResume/behind=%d", behind), func(b *testing.B) {
			benchResume(b, s, raw, start.Revision+store.Revision(n-behind), behind)
		})
	}
	b.Run("WatchResume/quiet", func(b *testing.B) { benchQuiet(b, s, start) })
	b.Run(fmt.Sprintf("ControllerStart/terminating=%d", terminating), func(b *testing.B) { benchStart(b, r, terminating) })
}

// heapGrowth returns a function that reports how much the heap has grown since, after a
// collection.
func heapGrowth(b *testing.B) func() {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	return func() {
		b.StopTimer()
		after := heap()
		b.ReportMetric(float64(after-min(before, after))/(1<<20), "kept-MiB")
		b.StartTimer()
	}
}

func benchListAll(b *testing.B, r *registry.Registry, n int) {
	kept := heapGrowth(b)
	for b.Loop() {
		var o registry.ListOptions
		seen := 0
		for o.Limit = 500; ; {
			list, err := r.List(b.Context(), o)
			require.NoError(b, err)
			seen += len(list.Items)
			if o.Continue = list.Continue; o.Continue == "" {
				break
			}
		}
		require.Equal(b, n, seen)
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "namespaces/s")
	kept()
}

// benchResume watches all keys from a revision until the watch has caught up, with the store and
// with the plain client.
func benchResume(b *testing.B, s *Store, raw *clientv3.Client, after store.Revision, behind int) {
	const prefix = "/registry/namespaces/"
	var our, their time.Duration
	kept := heapGrowth(b)
	for b.Loop() {
		begin := time.Now()
		seen := 0
		for c, err := range s.Watch(b.Context(), prefix, store.Position{Revision: after}) {
			require.NoError(b, err)
			if seen += len(c.Events); c.Bookmark() {
				break
			}
		}
		require.Equal(b, behind, seen)
		our += time.Since(begin)

		begin = time.Now()
		ctx, cancel := context.WithCancel(b.Context())
		seen = 0
		for answer := range raw.Watch(ctx, string(s.keys.of(prefix)), clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithRev(int64(after)+1)) {
			require.NoError(b, answer.Err())
			if seen += len(answer.Events); seen == behind {
				break
			}
		}
		cancel()
		their += time.Since(begin)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(our.Seconds()*1000/float64(b.N), "ms")
	b.ReportMetric(their.Seconds()/our.Seconds(), "of-raw")
	kept()
}

// benchQuiet watches keys without a change since start.
func benchQuiet(b *testing.B, s *Store, start store.Position) {
	for b.Loop() {
		for c, err := range s.Watch(b.Context(), "/registry/.terminating/", start) {
			require.NoError(b, err)
			require.True(b, c.Bookmark())
			break
		}
	}
}

// benchStart starts a controller that finds terminating namespaces, and waits until they are
// removed.
func benchStart(b *testing.B, r *registry.Registry, terminating int) {
	d, err := r.Deleter(nil)
	require.NoError(b, err)
	next := 0
	for b.Loop() {
		b.StopTimer()
		share(b, 16, next, next+terminating, func(i int) error {
			ns := namespace.Namespace{Meta: namespace.Meta{Name: fmt.Sprintf("dying-%06d", i)}}
			if _, err := r.Create(b.Context(), ns); err != nil {
				return err
			}
			_, err := r.Delete(b.Context(), ns.Name, namespace.Preconditions{})
			return err
		})
		next += terminating
		var removed atomic.Int64
		done := make(chan struct{})
		hooks := controller.Hooks{Removed: func(namespace.Ref) {
			if removed.Add(1) == int64(terminating) {
				close(done)
			}
		}}
		kept := heapGrowth(b)
		b.StartTimer()
		begin := time.Now()
		c, err := controller.New(r, d, namespace.Party{Finalizer: finalizer.Kubernetes}, &controller.Options{Hooks: []controller.Hooks{hooks}})
		require.NoError(b, err)
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		<-done
		b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms-to-removal")
		kept()
		cancel()
		require.NoError(b, <-ended)
	}
}
