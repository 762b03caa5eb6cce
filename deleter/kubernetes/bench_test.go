package kubernetes_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes/internal/simulated"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// run starts a controller over the cluster and returns a function that stops it.
func (s *simulation) run(tb testing.TB, opts controller.Options) (stop func()) {
	tb.Helper()
	c, err := controller.New(s.cluster.Namespaces(), s.cluster.Deleter(), owner, &opts)
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(tb.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(tb, <-ended)
	})
	tb.Cleanup(stop)
	return stop
}

// removals reports removals of namespaces, and passes.
type maxRemoveAttempts struct {
	mu     sync.Mutex
	gone   map[string]chan struct{}
	passed map[string]chan struct{}
}

func of(all *map[string]chan struct{}, name string) chan struct{} {
	if *all == nil {
		*all = map[string]chan struct{}{}
	}
	if (*all)[name] == nil {
		(*all)[name] = make(chan struct{})
	}
	return (*all)[name]
}

func (r *maxRemoveAttempts) await(name string) {
	r.mu.Lock()
	c := of(&r.gone, name)
	r.mu.Unlock()
	<-c
}

func (r *maxRemoveAttempts) awaitPass(name string) {
	r.mu.Lock()
	c := of(&r.passed, name)
	r.mu.Unlock()
	<-c
}

func (r *maxRemoveAttempts) hooks() controller.Hooks {
	return controller.Hooks{
		Removed: func(ref namespace.Ref) {
			r.mu.Lock()
			defer r.mu.Unlock()
			close(of(&r.gone, ref.Name))
		},
		PassEnded: func(_ context.Context, ref namespace.Ref, result pass.Result, _ error, _ time.Duration) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if c := of(&r.passed, ref.Name); !closed(c) {
				close(c)
			}
		},
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// BenchmarkPass measures the first pass over an incarnation, by a cluster with a discovery at
// hand, and a pass in the manner of the stock controller.
func BenchmarkPass(b *testing.B) {
	for _, types := range []int{60, 200} {
		for _, each := range []int{0, 5} {
			for _, latency := range []time.Duration{0, 1, 5, 20} {
				latency *= time.Millisecond
				name := fmt.Sprintf("types=%d/objects=%d/call=%v", types, each, latency)
				b.Run(name+"/way=here", func(b *testing.B) {
					s := simulate(b, types, simulated.Options{Latency: latency}, kubernetes.Options{})
					benchmarkPass(b, s, each, 1, func(name string) {
						result, _, err := s.pass(b, name, deleter.Report{})
						require.NoError(b, err)
						require.Equal(b, pass.Removed, result.Outcome)
					})
				})
				b.Run(name+"/way=stock", func(b *testing.B) {
					if testing.Short() && time.Duration(types)*latency > 300*time.Millisecond {
						b.Skip("takes seconds")
					}
					s := simulate(b, types, simulated.Options{Latency: latency}, kubernetes.Options{})
					benchmarkPass(b, s, each, 0, func(name string) { stockPass(b, s.api, name) })
				})
			}
		}
	}
}

func benchmarkPass(b *testing.B, s *simulation, each, before int, one func(name string)) {
	b.ReportAllocs()
	requests, n := 0, 0
	prepare := func() string {
		n++
		name := fmt.Sprint("n-", n)
		s.create(b, name, each)
		s.delete(b, name)
		return name
	}
	for range before {
		one(prepare())
	}
	for b.Loop() {
		b.StopTimer()
		name := prepare()
		earlier := s.api.Requests()
		b.StartTimer()
		one(name)
		requests += s.api.Requests() - earlier
	}
	b.ReportMetric(float64(requests)/float64(b.N), "requests/op")
}

// BenchmarkDeletion measures from DELETE to removal, with 60 types and 5 ms per request, for an
// API server that needs no wait and for one that does.
func BenchmarkDeletion(b *testing.B) {
	const latency = 5 * time.Millisecond
	for _, c := range []struct {
		name    string
		opts    kubernetes.Options
		held    time.Duration
		seconds bool
	}{
		{name: "wait=none/held=0s", opts: kubernetes.Options{Wait: -1}},
		{name: "wait=none/held=200ms", opts: kubernetes.Options{Wait: -1}, held: 200 * time.Millisecond},
		{name: "wait=none/held=7s", opts: kubernetes.Options{Wait: -1}, held: 7 * time.Second, seconds: true},
		{name: "wait=default/held=0s", seconds: true},
		{name: "wait=quiet-twice/held=0s", opts: kubernetes.Options{QuietTwice: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			if testing.Short() && c.seconds {
				b.Skip("takes seconds")
			}
			s := simulate(b, 60, simulated.Options{Latency: latency, GitVersion: "v1.36.0"}, c.opts)
			var gone maxRemoveAttempts
			stop := s.run(b, controller.Options{Hooks: []controller.Hooks{gone.hooks()}})
			requests := 0
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				name := fmt.Sprint("n-", i)
				s.create(b, name, 5)
				if c.held > 0 {
					s.api.Put(name, 30, simulated.Object{Name: "held", Finalizers: []string{"example.com/f"}, Held: c.held})
				}
				before := s.api.Requests()
				b.StartTimer()
				s.delete(b, name)
				gone.await(name)
				requests += s.api.Requests() - before
			}
			b.ReportMetric(float64(requests)/float64(b.N), "requests/op")
			stop()
			s.reportStock(b)
		})
	}
}

// reportStock reports one pass in the manner of the stock controller on the same server, for
// comparison. The benchmark does not time it.
func (s *simulation) reportStock(b *testing.B) {
	s.create(b, "stock", 5)
	s.delete(b, "stock")
	began := time.Now()
	stockPass(b, s.api, "stock")
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "stock-pass-ms")
}

// BenchmarkNamespaces measures the deletion of 1,000 namespaces at once, with 60 types, 1 ms per
// request and one object of each type.
func BenchmarkNamespaces(b *testing.B) {
	const many = 1000
	s := simulate(b, 60, simulated.Options{Latency: time.Millisecond}, kubernetes.Options{})
	var gone maxRemoveAttempts
	stop := s.run(b, controller.Options{Hooks: []controller.Hooks{gone.hooks()}})
	b.ReportAllocs()
	requests, round := 0, 0
	for b.Loop() {
		b.StopTimer()
		round++
		name := func(i int) string { return fmt.Sprintf("n-%d-%d", round, i) }
		s.together(many, func(i int) { s.create(b, name(i), 1) })
		before := s.api.Requests()
		b.StartTimer()
		s.together(many, func(i int) { s.delete(b, name(i)) })
		for i := range many {
			gone.await(name(i))
		}
		requests += s.api.Requests() - before
	}
	b.ReportMetric(float64(requests)/float64(b.N)/many, "requests/namespace")
	stop()
	s.reportStock(b)
}

// together calls one for each of many, fifty at a time.
func (s *simulation) together(many int, one func(i int)) {
	var group sync.WaitGroup
	next := make(chan int)
	for range 50 {
		group.Go(func() {
			for i := range next {
				one(i)
			}
		})
	}
	for i := range many {
		next <- i
	}
	close(next)
	group.Wait()
}

// BenchmarkHealthy measures from DELETE to removal of a healthy namespace while one type fails
// permanently in other namespaces, with 60 types and 5 ms per request.
func BenchmarkHealthy(b *testing.B) {
	for _, sick := range []int{0, 100, 1000} {
		b.Run(fmt.Sprintf("failing=%d", sick), func(b *testing.B) {
			s := simulate(b, 60, failing(5*time.Millisecond), kubernetes.Options{})
			var gone maxRemoveAttempts
			stop := s.run(b, controller.Options{Hooks: []controller.Hooks{gone.hooks()}})
			name := func(i int) string { return fmt.Sprint("sick-", i) }
			s.together(sick, func(i int) {
				s.create(b, name(i), 1)
				s.delete(b, name(i))
			})
			for i := range sick {
				gone.awaitPass(name(i)) // from here on it is retried, at first often
			}
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				healthy := fmt.Sprint("healthy-", i)
				s.create(b, healthy, 5)
				b.StartTimer()
				s.delete(b, healthy)
				gone.await(healthy)
			}
			stop()
			s.reportStock(b)
		})
	}
}
