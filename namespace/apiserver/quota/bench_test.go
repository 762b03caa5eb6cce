package quota_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/bolt"
)

// BenchmarkCreate creates objects without the plug-in, with the plug-in but no quota, and with a
// quota.
func BenchmarkCreate(b *testing.B) {
	drivers := []struct {
		name string
		open func(b *testing.B) store.Store
	}{
		{"memory", func(b *testing.B) store.Store { return newMemory(b) }},
		{"bolt", func(b *testing.B) store.Store {
			s, err := bolt.Open(filepath.Join(b.TempDir(), "bench.db"), nil)
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, s.Close()) })
			return s
		}},
	}
	for _, driver := range drivers {
		for _, c := range []struct {
			name           string
			plugin, quotas bool
		}{{"bare", false, false}, {"none", true, false}, {"quota", true, true}} {
			for _, writers := range []int{1, 8, 64} {
				b.Run(fmt.Sprintf("%s/%s/%d", driver.name, c.name, writers), func(b *testing.B) {
					s := driver.open(b)
					e := newEnvOver(b, s)
					if c.quotas {
						e.limit("a", "count/widgets.example.com", "1G", "example.com/size", "1T")
					}
					if !c.plugin {
						e = openOver(b, s, false)
					}
					benchmarkCreates(b, e, writers)
				})
			}
		}
	}
}

func benchmarkCreates(b *testing.B, e *env, writers int) {
	var n atomic.Int64
	content := e.content(widgets)
	b.SetParallelism(writers) // with -cpu 1
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := content.Create(e.ctx, space, widget(fmt.Sprint("w", n.Add(1)), `{"size":"1Mi"}`)); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
}

// BenchmarkUpdate changes a field without sums, which costs no read.
func BenchmarkUpdate(b *testing.B) {
	e := newEnv(b)
	e.limit("a", "count/widgets.example.com", "1G", "example.com/size", "1T")
	require.NoError(b, e.create(widgets, widget("w", `{"size":1}`)))
	content := e.content(widgets)
	for i := 0; b.Loop(); i++ {
		o := widget("w", `{"size":1}`)
		o.Labels = map[string]string{"n": fmt.Sprint(i)}
		_, err := content.Update(e.ctx, space, o)
		require.NoError(b, err)
	}
}
