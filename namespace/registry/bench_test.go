package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// payload makes documents of about 512 bytes.
var payload = json.RawMessage(`"` + strings.Repeat("x", 300) + `"`)

func benchEnv(b *testing.B) *env {
	s, err := memory.New(nil)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	r, err := registry.New(s, &registry.Options{Types: types, WatchQueue: 1 << 30})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, r.Close()) })
	e := &env{Registry: r, t: b, ctx: context.Background(), store: s}
	e.create("x")
	return e
}

// each runs f for b.N numbers, by one or by many goroutines.
func each(b *testing.B, f func(n int64) error) {
	var n atomic.Int64
	for _, parallel := range []int{1, 32} {
		b.Run(fmt.Sprintf("writers=%d", parallel), func(b *testing.B) {
			b.ReportAllocs()
			if parallel == 1 {
				for b.Loop() {
					if err := f(n.Add(1)); err != nil {
						b.Fatal(err)
					}
				}
				return
			}
			b.SetParallelism(parallel)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := f(n.Add(1)); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

func content(n int64) registry.Object {
	return registry.Object{Meta: namespace.Meta{Name: fmt.Sprint("o", n)}, Fields: map[string]json.RawMessage{"spec": payload}}
}

// BenchmarkCreate is a create of content through the gate; "raw" commits the same
// bytes with the same conditions to the store alone, "ungated" without the gate.
func BenchmarkCreate(b *testing.B) {
	b.Run("registry", func(b *testing.B) {
		e := benchEnv(b)
		w := e.content(widgets)
		each(b, func(n int64) error {
			_, err := w.Create(e.ctx, "x", content(n))
			return err
		})
	})
	for _, gated := range []bool{true, false} {
		b.Run(map[bool]string{true: "raw", false: "ungated"}[gated], func(b *testing.B) {
			e := benchEnv(b)
			e.put(widgets, "x", content(0))
			entry, err := e.store.Get(e.ctx, "/registry/widgets.example.com/x/o0")
			require.NoError(b, err)
			gate, err := e.store.Get(e.ctx, "/registry/.gate/x")
			require.NoError(b, err)
			each(b, func(n int64) error {
				key := fmt.Sprint("/registry/widgets.example.com/x/o", n)
				txn := store.Txn{If: []store.Condition{store.Absent(key)}, Do: []store.Operation{store.Put(key, entry.Value)}}
				if gated {
					txn.If = []store.Condition{store.At(gate.Key, gate.Revision), store.Absent(key)}
				}
				_, err := e.store.Commit(e.ctx, txn)
				return err
			})
		})
	}
}

func BenchmarkGet(b *testing.B) {
	e := benchEnv(b)
	e.put(widgets, "x", content(0))
	w := e.content(widgets)
	b.Run("content", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := w.Get(e.ctx, "x", "o0"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("namespace", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := e.Get(e.ctx, "x"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkList reads a page of 500 out of 5,000 objects; "pass" as a pass lists
// it, without decoding more than metadata.
func BenchmarkList(b *testing.B) {
	e := benchEnv(b)
	for n := range int64(5000) {
		e.put(widgets, "x", content(n))
	}
	n := e.terminate("x")
	w := e.content(widgets)
	b.Run("content", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if list, err := w.List(e.ctx, "x", registry.ListOptions{Limit: 500}); err != nil || len(list.Items) != 500 {
				b.Fatal(err)
			}
		}
	})
	source := e.source()
	b.Run("pass", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if page, err := source.List(e.ctx, targetOf(n), 500, ""); err != nil || len(page.Items) != 500 {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkWatch measures a create that all watchers of the namespace see.
func BenchmarkWatch(b *testing.B) {
	for _, watchers := range []int{0, 1, 100, 1000} {
		b.Run(fmt.Sprintf("watchers=%d", watchers), func(b *testing.B) {
			e := benchEnv(b)
			w := e.content(widgets)
			var ready, running sync.WaitGroup
			ready.Add(watchers)
			for range watchers {
				running.Go(func() {
					seen := -1
					for event, err := range w.Watch(e.ctx, "x", registry.WatchOptions{}) {
						switch {
						case err != nil:
							b.Error(err)
							return
						case event.Type == registry.Added:
							seen++
						case seen < 0:
							seen = 0
							ready.Done()
						}
						if seen == b.N {
							return
						}
					}
				})
			}
			ready.Wait()
			b.ReportAllocs()
			b.ResetTimer()
			for n := range int64(b.N) {
				if _, err := w.Create(e.ctx, "x", content(n)); err != nil {
					b.Fatal(err)
				}
			}
			running.Wait()
		})
	}
}

// BenchmarkDeleteCollection deletes 10,000 objects, as a pass does.
func BenchmarkDeleteCollection(b *testing.B) {
	const objects = 10_000
	b.ReportAllocs()
	for range b.N {
		b.StopTimer()
		e := benchEnv(b)
		for n := range int64(objects) {
			e.put(widgets, "x", content(n))
		}
		n := e.terminate("x")
		source := e.source()
		b.StartTimer()
		deleted, _, err := deleter.CollectionDeleter(source).DeleteCollection(e.ctx, targetOf(n))
		require.NoError(b, err)
		require.Equal(b, objects, deleted)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/objects, "µs/object")
}

// BenchmarkLife is a namespace that is created, terminated and removed.
func BenchmarkLife(b *testing.B) {
	e := benchEnv(b)
	each(b, func(n int64) error {
		name := fmt.Sprint("n", n)
		if _, err := e.Create(e.ctx, named(name)); err != nil {
			return err
		}
		if _, err := e.Delete(e.ctx, name, anyVersion); err != nil {
			return err
		}
		_, err := e.Finalize(e.ctx, named(name))
		return err
	})
}

// BenchmarkJSON reads a page of 500 out of 5,000 objects as JSON, and one object;
// "decoded" is List or Get, and then json.Marshal.
func BenchmarkJSON(b *testing.B) {
	e := benchEnv(b)
	for n := range int64(5000) {
		o := content(n)
		o.Labels = map[string]string{"app": fmt.Sprint(n % 10)}
		e.put(widgets, "x", o)
	}
	w := e.content(widgets)
	selected := labels(b, "app=3")
	for name, f := range map[string]func() error{
		"list": func() error {
			_, err := w.ListJSON(e.ctx, "x", registry.ListOptions{Limit: 500})
			return err
		},
		"list/decoded": func() error {
			list, err := w.List(e.ctx, "x", registry.ListOptions{Limit: 500})
			if err == nil {
				_, err = json.Marshal(list)
			}
			return err
		},
		"selected": func() error {
			_, err := w.ListJSON(e.ctx, "x", registry.ListOptions{Labels: selected})
			return err
		},
		"selected/decoded": func() error {
			list, err := w.List(e.ctx, "x", registry.ListOptions{Labels: selected})
			if err == nil {
				_, err = json.Marshal(list)
			}
			return err
		},
		"get": func() error {
			_, err := w.GetJSON(e.ctx, "x", "o7")
			return err
		},
		"get/decoded": func() error {
			o, err := w.Get(e.ctx, "x", "o7")
			if err == nil {
				_, err = json.Marshal(o)
			}
			return err
		},
		"namespace": func() error {
			_, err := e.GetJSON(e.ctx, "x")
			return err
		},
		"namespace/decoded": func() error {
			n, err := e.Get(e.ctx, "x")
			if err == nil {
				_, err = json.Marshal(n)
			}
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAdmission measures concurrent creates in one namespace: without a chain, with a
// plugin that only looks, and with one that counts in the same commit, so that all writers
// replace one object. "attempts" is the number of commits for each create.
func BenchmarkAdmission(b *testing.B) {
	looking := plugin(func(context.Context, *registry.Write) error { return nil })
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

// newCrowd returns after each watcher has had its first bookmark.
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

// BenchmarkFanOut measures a create that all watchers of the namespace see and encode.
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
