package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nslifecycle/nslifecycle/store"
)

// benchValue is the size of a value in the benchmarks: a small object as JSON.
const benchValue = 512

// Bench measures the most frequent operations of the library, so that drivers can be compared.
// Every benchmark has its own store from open.
func Bench(b *testing.B, open Open) {
	for _, bench := range []struct {
		name string
		run  func(*testing.B, store.Store)
	}{
		{"Get", benchGet},
		{"List/page=100", func(b *testing.B, s store.Store) { benchList(b, s, 100) }},
		{"List/page=500", func(b *testing.B, s store.Store) { benchList(b, s, 500) }},
		{"Create/gated=false/writers=1", func(b *testing.B, s store.Store) { benchCreate(b, s, false, 1) }},
		{"Create/gated=false/writers=64", func(b *testing.B, s store.Store) { benchCreate(b, s, false, 64) }},
		{"Create/gated=true/writers=1", func(b *testing.B, s store.Store) { benchCreate(b, s, true, 1) }},
		{"Create/gated=true/writers=64", func(b *testing.B, s store.Store) { benchCreate(b, s, true, 64) }},
		{"Update/writers=1", func(b *testing.B, s store.Store) { benchUpdate(b, s, 1) }},
		{"Update/writers=64", func(b *testing.B, s store.Store) { benchUpdate(b, s, 64) }},
		{"CommitToEvent", benchEvent},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := open(b).Store
			b.Cleanup(func() {
				if err := s.Close(); err != nil {
					b.Errorf("Close: %v", err)
				}
			})
			b.ReportAllocs()
			bench.run(b, s)
		})
	}
}

// benchKeys is the number of entries for the read benchmarks.
const benchKeys = 2000

func benchFill(b *testing.B, s store.Store) {
	for i := 0; i < benchKeys; i += 100 {
		var txn store.Txn
		for j := i; j < i+100; j++ {
			txn.Do = append(txn.Do, store.Put("content/"+key(j), make([]byte, benchValue)))
		}
		benchCommit(b, s, txn)
	}
}

func benchCommit(b *testing.B, s store.Store, txn store.Txn) store.Revision {
	r, err := s.Commit(b.Context(), txn)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func benchGet(b *testing.B, s store.Store) {
	benchFill(b, s)
	i := 0
	for b.Loop() {
		if _, err := s.Get(b.Context(), "content/"+key(i%benchKeys)); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func benchList(b *testing.B, s store.Store, page int) {
	benchFill(b, s)
	q := store.Query{Prefix: "content/", Limit: page}
	for b.Loop() {
		p, err := s.List(b.Context(), q)
		if err != nil || len(p.Entries) != page {
			b.Fatal(len(p.Entries), err)
		}
		q.After = p.Entries[page-1].Key
		if !p.More {
			q.After = ""
		}
	}
	b.ReportMetric(float64(page)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}

// benchWriters shares b.N calls of write among writers goroutines.
func benchWriters(b *testing.B, writers int, write func(ctx context.Context, writer, i int) error) {
	var next atomic.Int64
	var failed sync.Map
	var running sync.WaitGroup
	b.ResetTimer()
	for w := range writers {
		running.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := write(b.Context(), w, int(i)); err != nil {
					failed.Store(w, err)
					return
				}
			}
		})
	}
	running.Wait()
	b.StopTimer()
	failed.Range(func(_, err any) bool {
		b.Error(err)
		return true
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

func benchCreate(b *testing.B, s store.Store, gated bool, writers int) {
	benchCommit(b, s, store.Txn{Do: []store.Operation{store.Put("gate", []byte("uid"))}})
	value := make([]byte, benchValue)
	benchWriters(b, writers, func(ctx context.Context, _, i int) error {
		k := "content/" + key(i)
		txn := store.Txn{If: []store.Condition{store.Absent(k)}, Do: []store.Operation{store.Put(k, value)}}
		if gated {
			txn.If = []store.Condition{store.Exists("gate"), store.Absent(k)}
		}
		_, err := s.Commit(ctx, txn)
		return err
	})
}

func benchUpdate(b *testing.B, s store.Store, writers int) {
	value := make([]byte, benchValue)
	last := make([]store.Revision, writers)
	for w := range last {
		last[w] = benchCommit(b, s, store.Txn{Do: []store.Operation{store.Put(key(w), value)}})
	}
	benchWriters(b, writers, func(ctx context.Context, w, _ int) error {
		r, err := s.Commit(ctx, store.Txn{
			If: []store.Condition{store.At(key(w), last[w])},
			Do: []store.Operation{store.Put(key(w), value)},
		})
		last[w] = r
		return err
	})
}

// benchEvent measures the time from the start of a commit until a watch has its event.
func benchEvent(b *testing.B, s store.Store) {
	ctx, stop := context.WithCancel(b.Context())
	changes := make(chan error)
	begun := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		var once sync.Once
		for c, err := range s.Watch(ctx, "content/", store.Position{}) {
			once.Do(func() { close(begun) })
			if err == nil && c.Bookmark() {
				continue
			}
			select {
			case changes <- err:
			case <-ctx.Done():
			}
		}
	})
	b.Cleanup(func() { // before the store is closed
		stop()
		running.Wait()
	})
	<-begun
	value := make([]byte, benchValue)
	i := 0
	for b.Loop() {
		i++
		benchCommit(b, s, store.Txn{Do: []store.Operation{store.Put(fmt.Sprint("content/", i%1000), value)}})
		if err := <-changes; err != nil {
			b.Fatal(err)
		}
	}
}
