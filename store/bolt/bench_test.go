package bolt

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/groupcommit"
)

const benchValue = 512

// plain is the simplest correct group committer: one goroutine, one transaction of the engine per
// batch, a state and a log with values. It has no conditions, history, retention and watches. The
// benchmarks compare the driver with it.
type plain struct {
	db       *bbolt.DB
	requests chan plainRequest
	done     chan struct{}
}

type plainRequest struct {
	key, value []byte
	done       chan error
}

func openPlain(tb testing.TB) *plain {
	db, err := bbolt.Open(filepath.Join(tb.TempDir(), "plain.db"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	require.NoError(tb, err)
	require.NoError(tb, db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketState, bucketLog} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return nil
	}))
	p := &plain{db: db, requests: make(chan plainRequest, groupcommit.MaxRequests), done: make(chan struct{})}
	go p.run()
	tb.Cleanup(func() {
		close(p.requests)
		<-p.done
		require.NoError(tb, db.Close())
	})
	return p
}

func (p *plain) run() {
	defer close(p.done)
	revision := uint64(0)
	batch := make([]plainRequest, 0, groupcommit.MaxRequests)
	for first := range p.requests {
		batch = append(batch[:0], first)
		for more := true; more && len(batch) < groupcommit.MaxRequests; {
			select {
			case r, ok := <-p.requests:
				if more = ok; ok {
					batch = append(batch, r)
				}
			default:
				more = false
			}
		}
		err := p.db.Update(func(tx *bbolt.Tx) error {
			state, log := tx.Bucket(bucketState), tx.Bucket(bucketLog)
			for _, r := range batch {
				revision++
				if err := state.Put(r.key, r.value); err != nil {
					return err
				}
				if err := log.Put(binary.BigEndian.AppendUint64(nil, revision), r.value); err != nil {
					return err
				}
			}
			return nil
		})
		for _, r := range batch {
			r.done <- err
		}
	}
}

func (p *plain) put(key string, value []byte) error {
	r := plainRequest{key: []byte(key), value: value, done: make(chan error, 1)}
	p.requests <- r
	return <-r.done
}

// get is the cheapest possible read.
func (p *plain) get(key string) (value []byte, err error) {
	err = p.db.View(func(tx *bbolt.Tx) error {
		value = append(value, tx.Bucket(bucketState).Get([]byte(key))...)
		return nil
	})
	return value, err
}

// list reads a page of entries after a key.
func (p *plain) list(from string, limit int) (entries []store.Entry, err error) {
	err = p.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketState).Cursor()
		for k, v := c.Seek([]byte(from)); k != nil && len(entries) < limit; k, v = c.Next() {
			entries = append(entries, store.Entry{Key: string(k), Value: append([]byte(nil), v...)})
		}
		return nil
	})
	return entries, err
}

// share lets w goroutines call f for the numbers from..to-1, and returns the time.
func share(b *testing.B, w, from, to int, f func(i int) error) time.Duration {
	next := atomic.Int64{}
	next.Store(int64(from))
	var group sync.WaitGroup
	begin := time.Now()
	for range w {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < to; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	return time.Since(begin)
}

// compare runs the driver and the plain committer alternately, so that both see the same machine.
// It reports both rates and their ratio "of-plain".
func compare(b *testing.B, w int, ours, theirs func(i int) error) {
	const rounds = 8
	var our, their time.Duration
	b.ResetTimer()
	for round := range rounds {
		from, to := b.N*round/rounds, b.N*(round+1)/rounds
		if round%2 == 0 {
			their += share(b, w, from, to, theirs)
			our += share(b, w, from, to, ours)
		} else {
			our += share(b, w, from, to, ours)
			their += share(b, w, from, to, theirs)
		}
	}
	b.StopTimer()
	b.ReportMetric(0, "ns/op") // the time per operation would be the sum of both
	b.ReportMetric(float64(b.N)/our.Seconds(), "ops/s")
	b.ReportMetric(float64(b.N)/their.Seconds(), "plain-ops/s")
	b.ReportMetric(their.Seconds()/our.Seconds(), "of-plain")
}

func benchKey(i int) string { return fmt.Sprintf("/registry/widgets/ns-%03d/object-%08d", i%100, i) }

func BenchmarkCreate(b *testing.B) {
	for _, gated := range []bool{false, true} {
		for _, w := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("gated=%v/writers=%d", gated, w), func(b *testing.B) {
				s, p := openNew(b, nil), openPlain(b)
				put(b, s, "gate", "uid")
				value := make([]byte, benchValue)
				compare(b, w, func(i int) error {
					key := benchKey(i)
					txn := store.Txn{If: []store.Condition{store.Absent(key)}, Do: []store.Operation{store.Put(key, value)}}
					if gated {
						txn.If = []store.Condition{store.Exists("gate"), store.Absent(key)}
					}
					_, err := s.Commit(b.Context(), txn)
					return err
				}, func(i int) error { return p.put(benchKey(i), value) })
			})
		}
	}
}

// BenchmarkUpdate updates 10,000 entries one after another. With the short history the driver
// also drops old changes all the time.
func BenchmarkUpdate(b *testing.B) {
	const entries = 10_000
	for _, retain := range []int{1000, 100_000} {
		for _, w := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("retain=%d/writers=%d", retain, w), func(b *testing.B) {
				s, p := openNew(b, &Options{Retain: retain}), openPlain(b)
				value := make([]byte, benchValue)
				ours := func(i int) error {
					_, err := s.Commit(b.Context(), store.Txn{Do: []store.Operation{store.Put(benchKey(i%entries), value)}})
					return err
				}
				theirs := func(i int) error { return p.put(benchKey(i%entries), value) }
				share(b, groupcommit.MaxRequests, 0, entries, ours)
				share(b, groupcommit.MaxRequests, 0, entries, theirs)
				compare(b, w, ours, theirs)
			})
		}
	}
}

func BenchmarkGet(b *testing.B) {
	const entries = 10_000
	s, p := openNew(b, nil), openPlain(b)
	benchFill(b, s, p, entries)
	for _, w := range []int{1, 8} {
		b.Run(fmt.Sprintf("readers=%d", w), func(b *testing.B) {
			compare(b, w, func(i int) error {
				_, err := s.Get(b.Context(), benchKey(i%entries))
				return err
			}, func(i int) error {
				_, err := p.get(benchKey(i % entries))
				return err
			})
		})
	}
}

// BenchmarkGetBesideWriters reads while writers commit continuously. A read during the sync of a
// commit waits for the sync.
func BenchmarkGetBesideWriters(b *testing.B) {
	const entries, writers = 1000, 8
	s, p := openNew(b, nil), openPlain(b)
	benchFill(b, s, p, entries)
	var group sync.WaitGroup
	stop := make(chan struct{})
	value := make([]byte, benchValue)
	for w := range writers {
		group.Go(func() {
			for i := w; ; i += writers {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := s.Commit(b.Context(), store.Txn{Do: []store.Operation{store.Put(benchKey(i%entries), value)}}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	for i := 0; b.Loop(); i++ {
		if _, err := s.Get(b.Context(), benchKey(i%entries)); err != nil {
			b.Fatal(err)
		}
	}
	close(stop)
	group.Wait()
}

func benchFill(b *testing.B, s *Store, p *plain, entries int) {
	value := make([]byte, benchValue)
	share(b, groupcommit.MaxRequests, 0, entries, func(i int) error { return p.put(benchKey(i), value) })
	share(b, groupcommit.MaxRequests, 0, entries, func(i int) error {
		_, err := s.Commit(b.Context(), store.Txn{Do: []store.Operation{store.Put(benchKey(i), value)}})
		return err
	})
}

// BenchmarkList reads pages of 500: current ones, and past ones whose entries have all changed
// many times since. The plain committer has only current ones.
func BenchmarkList(b *testing.B) {
	const entries, page = 10_000, 500
	s, p := openNew(b, nil), openPlain(b)
	benchFill(b, s, p, entries)
	old := listAt(b, s, store.Position{}).Position
	for _, rounds := range []int{0, 1, 3} {
		for range rounds {
			benchFill(b, s, p, entries)
		}
		for _, at := range []store.Position{{}, old} {
			b.Run(fmt.Sprintf("past=%v/updates=%d", at == old, rounds), func(b *testing.B) {
				after := func(i int) string { return benchKey(i % 100) } // each key begins a namespace
				compare(b, 1, func(i int) error {
					_, err := s.List(b.Context(), store.Query{After: after(i), Limit: page, At: at})
					return err
				}, func(i int) error {
					_, err := p.list(after(i), page)
					return err
				})
			})
		}
	}
}
