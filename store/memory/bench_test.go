package memory_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

func open(tb testing.TB, options *memory.Options) *memory.Store {
	tb.Helper()
	s, err := memory.New(options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func commit(tb testing.TB, s store.Store, do ...store.Operation) store.Revision {
	tb.Helper()
	r, err := s.Commit(context.Background(), store.Txn{Do: do})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// plainMap is the lower bound for a gated create: a Go map under a mutex.
type plainMap struct {
	mu      sync.Mutex
	entries map[string][]byte
}

func (m *plainMap) create(gate, key string, value []byte) bool {
	value = append([]byte(nil), value...)
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.entries[gate]; !ok {
		return false
	}
	if _, ok := m.entries[key]; ok {
		return false
	}
	m.entries[key] = value
	return true
}

const namespaces = 1000

func gateOf(namespace int) string { return fmt.Sprintf("/registry/.gate/project-%03d", namespace) }

// BenchmarkGatedCreate creates content of 512 bytes in namespaces with gates, as the registry does
// (R6), and the same on a plain map.
func BenchmarkGatedCreate(b *testing.B) {
	value := make([]byte, 512)
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprintf("driver=map/goroutines=%d", goroutines), func(b *testing.B) {
			m := plainMap{entries: map[string][]byte{}}
			for i := range namespaces {
				m.entries[gateOf(i)] = nil
			}
			createInParallel(b, goroutines, func(gate, key string) bool { return m.create(gate, key, value) })
		})
		b.Run(fmt.Sprintf("driver=memory/goroutines=%d", goroutines), func(b *testing.B) {
			s := open(b, nil)
			for i := range namespaces {
				commit(b, s, store.Put(gateOf(i), nil))
			}
			createInParallel(b, goroutines, func(gate, key string) bool {
				_, err := s.Commit(context.Background(), store.Txn{
					If: []store.Condition{store.Exists(gate), store.Absent(key)},
					Do: []store.Operation{store.Put(key, value)},
				})
				return err == nil
			})
		})
	}
}

// createInParallel calls create for one namespace after another. The loop itself makes two of the
// reported allocations, the key and its number.
func createInParallel(b *testing.B, goroutines int, create func(gate, key string) bool) {
	gates := make([]string, namespaces)
	prefixes := make([]string, namespaces)
	for i := range namespaces {
		gates[i] = gateOf(i)
		prefixes[i] = fmt.Sprintf("/registry/configmaps/project-%03d/settings-", i)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range goroutines {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				n := i * 7919 % namespaces
				if !create(gates[n], prefixes[n]+strconv.FormatInt(i, 10)) {
					b.Error("refused")
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
}

// BenchmarkListPage reads a page of 100 out of increasing numbers of keys, now and at the first
// revision after every key was rewritten.
func BenchmarkListPage(b *testing.B) {
	for _, size := range []int{1_000, 10_000, 100_000} {
		s := open(b, &memory.Options{Retain: 4 * size})
		for i := range size {
			commit(b, s, store.Put(fmt.Sprintf("a/%09d", i), nil))
		}
		then, err := s.List(context.Background(), store.Query{Limit: 1})
		if err != nil {
			b.Fatal(err)
		}
		for i := range 2 * size {
			commit(b, s, store.Put(fmt.Sprintf("a/%09d", i%size), nil))
		}
		for _, at := range []struct {
			name string
			at   store.Position
		}{{"now", store.Position{}}, {"then", then.Position}} {
			b.Run(fmt.Sprintf("at=%s/keys=%d", at.name, size), func(b *testing.B) {
				b.ReportAllocs()
				for i := range b.N {
					q := store.Query{Prefix: "a/", After: fmt.Sprintf("a/%09d", i*7919%size), Limit: 100, At: at.at}
					if _, err := s.List(context.Background(), q); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkCommitBesideWatches updates one key while others are watched. Watches of other keys
// should cost nothing.
func BenchmarkCommitBesideWatches(b *testing.B) {
	for _, watches := range []int{0, 1, 100, 10_000} {
		b.Run(fmt.Sprintf("uninterested=%d", watches), func(b *testing.B) {
			s := open(b, nil)
			var ready, done sync.WaitGroup
			for i := range watches {
				ready.Add(1)
				done.Go(func() {
					for c, err := range s.Watch(context.Background(), fmt.Sprintf("other/%09d/", i), store.Position{}) {
						if err == nil && c.Position.Revision == 0 {
							ready.Done()
						}
					}
				})
			}
			ready.Wait()
			value := make([]byte, 512)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				commit(b, s, store.Put("key", value))
			}
			b.StopTimer()
			_ = s.Close()
			done.Wait()
		})
	}
}
