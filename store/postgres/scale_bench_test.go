package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
)

const (
	scaleNamespaces  = 100_000
	scaleTerminating = 100
)

// fillNamespaces creates namespaces as a registry would, many in one commit.
func fillNamespaces(b *testing.B, s store.Store, n int) {
	ctx := context.Background()
	r, err := registry.New(s, nil)
	require.NoError(b, err)
	defer func() { require.NoError(b, r.Close()) }()
	_, err = r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "tenant"}})
	require.NoError(b, err)
	gate, _, err := registry.GateKeys("", "tenant")
	require.NoError(b, err)
	one, err := r.GetJSON(ctx, "tenant")
	require.NoError(b, err)
	uid, err := s.Get(ctx, gate)
	require.NoError(b, err)
	for i := 0; i < n; {
		var txn store.Txn
		for range min(1000, n-i) {
			name := fmt.Sprintf("tenant%06d", i)
			value, err := registrytest.Value([]byte(strings.ReplaceAll(string(one), `"tenant"`, fmt.Sprintf("%q", name))))
			require.NoError(b, err)
			txn.Do = append(txn.Do, store.Put("/registry/namespaces/"+name, value), store.Put("/registry/.gate/"+name, uid.Value))
			i++
		}
		_, err := s.Commit(ctx, txn)
		require.NoError(b, err)
	}
}

// BenchmarkScale measures the costs of 100,000 namespaces (1,000 with -short).
func BenchmarkScale(b *testing.B) {
	n := scaleNamespaces
	if testing.Short() {
		n = 1000
	}
	s := openAt(b, server(b).DSN("postgres"), newSchema(), nil)
	begin := store.Position{Epoch: mustEpoch(b, s)}
	fillNamespaces(b, s, n)
	r, err := registry.New(s, nil)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, r.Close()) })
	ctx := context.Background()

	b.Run("ListAll/page=500", func(b *testing.B) {
		for b.Loop() {
			require.Equal(b, n+1, listAll(b, s, "/registry/namespaces/", 500))
		}
		b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
	})
	b.Run("WatchResume", func(b *testing.B) {
		for b.Loop() {
			seen := 0
			for c, err := range s.Watch(ctx, "/registry/namespaces/", begin) {
				require.NoError(b, err)
				if seen += len(c.Events); seen > n {
					break
				}
			}
		}
		b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
	b.Run(fmt.Sprintf("ControllerStart/terminating=%d", scaleTerminating), func(b *testing.B) { benchController(b, r) })
}

func mustEpoch(tb testing.TB, s store.Store) string {
	p, err := s.List(context.Background(), store.Query{Limit: 1})
	require.NoError(tb, err)
	return p.Position.Epoch
}

func listAll(b *testing.B, s store.Store, prefix string, limit int) (n int) {
	q := store.Query{Prefix: prefix, Limit: limit}
	for {
		p, err := s.List(context.Background(), q)
		require.NoError(b, err)
		if n += len(p.Entries); !p.More {
			return n
		}
		q.At, q.After = p.Position, p.Entries[len(p.Entries)-1].Key
	}
}

// benchController measures the time from the start of a controller until it has called the
// deleter for every terminating namespace, and its memory at that time.
func benchController(b *testing.B, r *registry.Registry) {
	ctx := context.Background()
	for i := range scaleTerminating {
		_, err := r.Delete(ctx, fmt.Sprintf("tenant%06d", i), namespace.Preconditions{})
		if err != nil && !errors.Is(err, namespace.ErrNotFound) {
			b.Fatal(err)
		}
	}
	var grown float64
	for b.Loop() {
		asked := make(chan string, scaleTerminating)
		hold := deleter.Funcs{Delete: func(ctx context.Context, t deleter.Target) (int, error) {
			select {
			case asked <- t.Namespace:
			default:
			}
			return 1, nil // it never ends here
		}}.Content()
		d, err := deleter.New([]deleter.Source{{Resource: namespace.ResourceType{Name: "things"}, Content: hold}}, nil)
		require.NoError(b, err)
		c, err := controller.New(r, d, namespace.Party{Finalizer: finalizer.Kubernetes}, &controller.Options{MinDelay: time.Minute, MaxDelay: time.Minute})
		require.NoError(b, err)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- c.Run(running) }()
		for seen := map[string]bool{}; len(seen) < scaleTerminating; {
			seen[<-asked] = true
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		grown = max(grown, float64(after.HeapAlloc)-float64(before.HeapAlloc))
		stop()
		<-ended
	}
	b.ReportMetric(grown/1024, "KiB-heap")
}
