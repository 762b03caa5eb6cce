package controller_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// slowHost returns a host whose calls each take d.
func slowHost(w *world, d time.Duration) controller.Namespaces {
	return &controllertest.Intercept{Namespaces: w.host, Before: func(context.Context, controllertest.Op, string) error {
		time.Sleep(d)
		return nil
	}}
}

// sequential is a plain pass: it deletes and lists one type after another.
func sequential(tb testing.TB, w *world, target deleter.Target) {
	for _, f := range w.fakes {
		_, _, err := f.DeleteCollection(tb.Context(), target)
		require.NoError(tb, err)
		_, err = f.List(tb.Context(), target, 500, "")
		require.NoError(tb, err)
	}
}

// fill puts objects of each type into the target.
func (w *world) fill(target deleter.Target, each int) {
	for _, f := range w.fakes {
		f.PutMany(target, "thing", each)
	}
}

// BenchmarkPass measures one pass over types whose calls take a fixed time. The metric
// sequential-ms is the duration of a plain sequential pass.
func BenchmarkPass(b *testing.B) {
	for _, c := range []struct {
		types int
		call  time.Duration
	}{{60, 5 * time.Millisecond}, {200, 20 * time.Millisecond}} {
		b.Run(fmt.Sprintf("types=%d/call=%v", c.types, c.call), func(b *testing.B) {
			w := newWorld(b, c.types, latency(c.call))
			host := slowHost(w, c.call)
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				name := fmt.Sprint("a-", i)
				target := w.create(b, name, "example.com/other")
				w.fill(target, 5)
				w.delete(b, name)
				b.StartTimer()
				result, err := pass.Run(b.Context(), host, w.deleter, kubernetes, pass.Request{Name: name})
				require.NoError(b, err)
				require.Equal(b, pass.Finalized, result.Outcome)
			}
			if testing.Short() && c.types > 60 {
				return // the sequential pass takes seconds
			}
			began := time.Now()
			sequential(b, w, deleter.Target{Namespace: "plain", UID: "plain", DeletedAt: began})
			b.ReportMetric(float64(time.Since(began).Milliseconds()), "sequential-ms")
		})
	}
}

// removals has a channel for each namespace. The namespace's removal closes the channel.
type removals struct {
	mu   sync.Mutex
	gone map[string]chan struct{}
}

func (r *removals) of(name string) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone == nil {
		r.gone = map[string]chan struct{}{}
	}
	if r.gone[name] == nil {
		r.gone[name] = make(chan struct{})
	}
	return r.gone[name]
}

func (r *removals) hooks() []controller.Hooks {
	return []controller.Hooks{{Removed: func(ref namespace.Ref) { close(r.of(ref.Name)) }}}
}

// BenchmarkRemoval measures the time from the deletion of a namespace to its removal, with
// 60 types at 5 ms per call. In some cases a finalizer holds one object for a while.
func BenchmarkRemoval(b *testing.B) {
	for _, held := range []time.Duration{0, 200 * time.Millisecond, 7 * time.Second} {
		b.Run(fmt.Sprintf("held=%v", held), func(b *testing.B) {
			if testing.Short() && held > time.Second {
				b.Skip("takes as long as the content is held")
			}
			const call = 5 * time.Millisecond
			w := newWorld(b, 60, latency(call))
			var gone removals
			run(b, slowHost(w, call), w.deleter, kubernetes, controller.Options{Hooks: gone.hooks()})
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				name := fmt.Sprint("a-", i)
				target := w.create(b, name)
				w.fill(target, 5)
				if held > 0 {
					w.fakes[30].Put(target, contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}, HeldFor: held})
				}
				b.StartTimer()
				w.delete(b, name)
				<-gone.of(name)
			}
			began := time.Now()
			sequential(b, w, deleter.Target{Namespace: "plain", UID: "plain", DeletedAt: began})
			b.ReportMetric(float64(time.Since(began).Milliseconds()), "sequential-ms")
		})
	}
}

// BenchmarkMany deletes 1,000 namespaces at once, with 60 types at 1 ms per call.
func BenchmarkMany(b *testing.B) {
	const many, call = 1000, time.Millisecond
	w := newWorld(b, 60, latency(call))
	var gone removals
	run(b, slowHost(w, call), w.deleter, kubernetes, controller.Options{Hooks: gone.hooks()})
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		all := names(fmt.Sprint("a-", i), many)
		for _, name := range all {
			w.fill(w.create(b, name), 1)
		}
		b.StartTimer()
		for _, name := range all {
			w.delete(b, name)
		}
		for _, name := range all {
			<-gone.of(name)
		}
	}
	began := time.Now()
	for i := range 10 {
		sequential(b, w, deleter.Target{Namespace: "plain", UID: fmt.Sprint(i), DeletedAt: began})
	}
	b.ReportMetric(time.Since(began).Seconds()*many/10, "sequential-s")
	b.ReportMetric(float64(many)*float64(b.N)/b.Elapsed().Seconds(), "namespaces/s")
}

// BenchmarkHealthy measures the time from the deletion of a healthy namespace to its
// removal, while one of 60 types fails permanently for other namespaces. Each call takes 5
// ms.
func BenchmarkHealthy(b *testing.B) {
	for _, failing := range []int{0, 100, 1000} {
		b.Run(fmt.Sprintf("failing=%d", failing), func(b *testing.B) {
			const call = 5 * time.Millisecond
			broken := errors.New("broken")
			w := newWorld(b, 60, func(i int) contenttest.FakeOptions {
				return contenttest.FakeOptions{Latency: call, Fault: func(_ context.Context, c contenttest.Call) error {
					if i == 33 && c.Target.Namespace[0] == 's' {
						return broken
					}
					return nil
				}}
			})
			var gone removals
			var once sync.WaitGroup
			once.Add(failing)
			hooks := gone.hooks()
			var seen sync.Map
			hooks[0].PassEnded = func(_ context.Context, ref namespace.Ref, result pass.Result, _ error, _ time.Duration) {
				if result.Outcome != pass.Failed {
					return
				}
				if _, again := seen.LoadOrStore(ref.Name, true); !again {
					once.Done()
				}
			}
			run(b, slowHost(w, call), w.deleter, kubernetes, controller.Options{Hooks: hooks})
			for _, name := range names("sick", failing) {
				w.create(b, name)
				w.delete(b, name)
			}
			once.Wait() // from now on the controller retries the failing namespaces, at first often
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				name := fmt.Sprint("healthy-", i)
				w.fill(w.create(b, name), 5)
				b.StartTimer()
				w.delete(b, name)
				<-gone.of(name)
			}
			began := time.Now()
			sequential(b, w, deleter.Target{Namespace: "plain", UID: "plain", DeletedAt: began})
			b.ReportMetric(float64(time.Since(began).Milliseconds()), "sequential-ms")
		})
	}
}

// BenchmarkFailingMinute counts the requests for a namespace in its first minute while one
// of 60 types fails. For comparison, it counts the requests of a plain loop over all types
// with the same backoff. Short runs take one second.
func BenchmarkFailingMinute(b *testing.B) {
	const call = 5 * time.Millisecond
	window := time.Minute
	if testing.Short() {
		window = time.Second
	}
	for b.Loop() {
		ctx, cancel := context.WithTimeout(b.Context(), window)
		shape := failing(errors.New("broken"), call, func(i int) bool { return i == 33 }, "a")
		w, plain := newWorld(b, 60, shape), newWorld(b, 60, shape)
		var requests atomic.Int64
		host := &controllertest.Intercept{Namespaces: w.host, Before: func(context.Context, controllertest.Op, string) error {
			requests.Add(1)
			return nil
		}}
		stop := run(b, host, w.deleter, kubernetes, controller.Options{})
		w.create(b, "a")
		w.delete(b, "a")
		target := deleter.Target{Namespace: "a", UID: "a", DeletedAt: time.Now()}
		for delay := 5 * time.Millisecond; ctx.Err() == nil; delay = min(2*delay, time.Minute) {
			for _, f := range plain.fakes {
				_, _, _ = f.DeleteCollection(ctx, target)
				_, _ = f.List(ctx, target, 500, "")
			}
			select {
			case <-time.After(delay):
			case <-ctx.Done():
			}
		}
		stop()
		cancel()
		b.ReportMetric(float64(w.calls())+float64(requests.Load()), "requests")
		b.ReportMetric(float64(plain.calls()), "sequential-requests")
	}
}

// BenchmarkWaiting measures the controller's memory for each namespace that waits for held
// content, with 60 types.
func BenchmarkWaiting(b *testing.B) {
	const many = 5000
	for b.Loop() {
		b.StopTimer()
		w := newWorld(b, 60, func(int) contenttest.FakeOptions {
			return contenttest.FakeOptions{Unsupported: []deleter.Op{deleter.OpWait}}
		})
		for _, name := range names("a", many) {
			w.fakes[30].Put(w.create(b, name), contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
			w.delete(b, name)
		}
		var passes sync.WaitGroup
		passes.Add(many)
		var seen sync.Map
		hooks := []controller.Hooks{{PassEnded: func(_ context.Context, ref namespace.Ref, _ pass.Result, _ error, _ time.Duration) {
			if _, again := seen.LoadOrStore(ref.Name, true); !again {
				passes.Done()
			}
		}}}
		b.StartTimer()
		stop := run(b, w.host, w.deleter, kubernetes, controller.Options{Hooks: hooks, MinDelay: time.Hour, MaxDelay: time.Hour})
		passes.Wait()
		with := heap()
		stop()
		b.ReportMetric(float64(with-heap())/many, "B/namespace")
		runtime.KeepAlive(w)
		runtime.KeepAlive(&seen)
	}
}

// BenchmarkForeign measures the controller's memory for each namespace that another
// controller owns.
func BenchmarkForeign(b *testing.B) {
	const many = 5000
	for b.Loop() {
		b.StopTimer()
		w := newWorld(b, 1, nil)
		for _, name := range names("a", many) {
			w.create(b, name)
			w.delete(b, name)
		}
		division := &another{asked: make(chan struct{})}
		b.StartTimer()
		stop := run(b, w.host, w.deleter, kubernetes, controller.Options{Division: division})
		for range many {
			<-division.asked
		}
		with := heap()
		stop()
		b.ReportMetric(float64(with-heap())/many, "B/namespace")
		runtime.KeepAlive(w)
	}
}

// another is a division that assigns all namespaces to another controller.
type another struct{ asked chan struct{} }

func (a *another) Owns(string) bool {
	a.asked <- struct{}{}
	return false
}

func (a *another) Changed() <-chan struct{} { return nil }

// heap returns the allocated heap bytes after a garbage collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkStart measures the start of a controller over a registry with many Active and 100
// terminating namespaces, until each terminating namespace has had a pass. It also reports
// the controller's memory.
func BenchmarkStart(b *testing.B) {
	for _, active := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("active=%d", active), func(b *testing.B) {
			s, err := memory.New(nil)
			require.NoError(b, err)
			r, err := registry.New(s, nil)
			require.NoError(b, err)
			defer func() { require.NoError(b, r.Close()); require.NoError(b, s.Close()) }()
			for _, name := range names("active", active) {
				_, err := r.Create(b.Context(), namespace.Namespace{Meta: namespace.Meta{Name: name}})
				require.NoError(b, err)
			}
			for _, name := range names("terminating", 100) {
				_, err := r.Create(b.Context(), namespace.Namespace{Meta: namespace.Meta{Name: name}})
				require.NoError(b, err)
				_, err = r.Delete(b.Context(), name, namespace.Preconditions{})
				require.NoError(b, err)
			}
			d, err := deleter.New([]deleter.Source{{Resource: resource(0), Content: deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) { return 1, nil }}.Content()}}, nil)
			require.NoError(b, err)
			var used int64
			for b.Loop() {
				b.StopTimer()
				before := heap()
				var passes sync.WaitGroup
				passes.Add(100)
				hooks := []controller.Hooks{{PassEnded: func(context.Context, namespace.Ref, pass.Result, error, time.Duration) { passes.Done() }}}
				b.StartTimer()
				stop := run(b, r, d, kubernetes, controller.Options{Hooks: hooks, MinDelay: time.Hour, MaxDelay: time.Hour})
				passes.Wait()
				b.StopTimer()
				used = heap() - before
				stop()
				b.StartTimer()
			}
			b.ReportMetric(float64(used)/1024, "controller-KiB")
		})
	}
}
