package hold_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/hold"
	"github.com/nslifecycle/nslifecycle/phase"
)

// many are as many namespaces on hold, without a store.
type many struct {
	count   int
	until   time.Time
	listed  chan struct{}
	deleted chan struct{}
	left    atomic.Int64
}

func newMany(count int, until time.Time) *many {
	m := &many{count: count, until: until, listed: make(chan struct{}), deleted: make(chan struct{})}
	m.left.Store(int64(count))
	return m
}

func (m *many) Get(_ context.Context, name string) (namespace.Namespace, error) {
	return declare.WithHold(namespace.Namespace{Meta: namespace.Meta{Name: name, UID: "uid-" + name, ResourceVersion: "1"}}, declare.Hold{Until: m.until})
}

func (m *many) Delete(_ context.Context, name string, _ namespace.Preconditions) (namespace.Namespace, error) {
	if m.left.Add(-1) == 0 {
		close(m.deleted)
	}
	n := namespace.Namespace{Meta: namespace.Meta{Name: name, DeletionTimestamp: phase.At(time.Now())}}
	return n, nil
}

func (m *many) Holds(ctx context.Context, _ string) iter.Seq2[namespace.Event, error] {
	return func(yield func(namespace.Event, error) bool) {
		for i := range m.count {
			name := fmt.Sprintf("namespace-%07d", i)
			if !yield(namespace.Event{Type: namespace.EventPresent, Name: name, UID: "uid-" + name, Until: m.until}, nil) {
				return
			}
		}
		if yield(namespace.Event{Type: namespace.EventSynced, Token: "t"}, nil) {
			close(m.listed)
			<-ctx.Done()
			yield(namespace.Event{}, context.Cause(ctx))
		}
	}
}

// run runs until done is closed.
func (m *many) run(b *testing.B, done <-chan struct{}, then func()) {
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- hold.Run(ctx, m, &hold.Options{MinDelay: time.Hour, MaxDelay: time.Hour}) }()
	<-done
	then()
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkWaiting measures a hold that has not ended.
func BenchmarkWaiting(b *testing.B) {
	m := newMany(b.N, time.Now().Add(24*time.Hour))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m.run(b, m.listed, func() {
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&after)
	})
	b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/float64(b.N), "heap-B/hold")
	runtime.KeepAlive(m)
}

// BenchmarkDue measures a hold that has ended, without the store.
func BenchmarkDue(b *testing.B) {
	b.ReportAllocs()
	m := newMany(b.N, time.Now().Add(-time.Hour))
	m.run(b, m.deleted, b.StopTimer)
}
