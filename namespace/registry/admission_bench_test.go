package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// BenchmarkAdmission is a create in one namespace by so many writers: without a
// chain, with a link that only looks, and with one that counts in the same commit,
// so that all writers want to replace one object. "attempts" is commits for each
// create that was made.
func BenchmarkAdmission(b *testing.B) {
	looking := link(func(context.Context, *registry.Write) error { return nil })
	for _, chain := range []struct {
		name  string
		links []registry.Admission
	}{{"none", nil}, {"looking", []registry.Admission{looking}}, {"counting", []registry.Admission{counting}}} {
		for _, writers := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("chain=%s/writers=%d", chain.name, writers), func(b *testing.B) {
				m, err := memory.New(nil)
				require.NoError(b, err)
				b.Cleanup(func() { require.NoError(b, m.Close()) })
				s := &countedStore{Store: m}
				e := admittedEnv(b, s, chain.links...)
				e.create("x")
				e.put(counters, "x", counter("used", math.MaxInt))
				w := e.content(widgets)
				var n atomic.Int64
				var running sync.WaitGroup
				s.commits.Store(0)
				b.ReportAllocs()
				b.ResetTimer()
				for range writers {
					running.Go(func() {
						for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
							o := registry.Object{Fields: map[string]json.RawMessage{"spec": payload}}
							o.Name = fmt.Sprint("o", i)
							if _, err := w.Create(e.ctx, "x", o); err != nil {
								b.Error(err)
							}
						}
					})
				}
				running.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
				b.ReportMetric(float64(s.commits.Load())/float64(b.N), "attempts")
			})
		}
	}
}

type countedStore struct {
	store.Store
	commits atomic.Int64
}

func (s *countedStore) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	s.commits.Add(1)
	return s.Store.Commit(ctx, txn)
}
