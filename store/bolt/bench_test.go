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
)

const benchValue = 512

// plain is the plainest group committer that is right: one goroutine, one
// transaction of the engine per batch, a state and a log. It checks no conditions,
// keeps no history, drops nothing and has no watches. The driver is measured
// against it.
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
	p := &plain{db: db, requests: make(chan plainRequest, batchRequests), done: make(chan struct{})}
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
	for first := range p.requests {
		batch := append(make([]plainRequest, 0, batchRequests), first)
	drain:
		for len(batch) < batchRequests {
			select {
			case r, ok := <-p.requests:
				if !ok {
					break drain
				}
				batch = append(batch, r)
			default:
				break drain
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

// writers has w goroutines call write for b.N operations in all, and returns the
// time.
func writers(b *testing.B, w int, write func(i int) error) time.Duration {
	var next atomic.Int64
	var group sync.WaitGroup
	begin := time.Now()
	for range w {
		group.Go(func() {
			for i := int(next.Add(1)); i <= b.N; i = int(next.Add(1)) {
				if err := write(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	return time.Since(begin)
}

func openBench(b *testing.B) *Store {
	s, err := Open(filepath.Join(b.TempDir(), "bench.db"), nil)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	return s
}

func benchKey(i int) string { return fmt.Sprintf("/registry/widgets/ns-%03d/object-%08d", i%100, i) }

// BenchmarkCreate measures creates beside the plain committer. "of-plain" is the
// driver's rate over the plain committer's: 0.7 is the goal.
func BenchmarkCreate(b *testing.B) {
	for _, w := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("writers=%d", w), func(b *testing.B) {
			s := openBench(b)
			compare(b, w, func(i int, value []byte) error {
				key := benchKey(i)
				_, err := s.Commit(b.Context(), store.Txn{If: []store.Condition{store.Absent(key)}, Do: []store.Operation{store.Put(key, value)}})
				return err
			})
		})
	}
}

// compare measures write and the plain committer in turns, so that both see the
// same disk.
func compare(b *testing.B, w int, write func(i int, value []byte) error) {
	p := openPlain(b)
	value := make([]byte, benchValue)
	const turns = 8
	n, whole := b.N, 0
	var plainTime, ourTime time.Duration
	b.ResetTimer()
	for turn := range turns {
		b.N = n*(turn+1)/turns - n*turn/turns
		plainTime += writers(b, w, func(i int) error { return p.put(benchKey(whole+i), value) })
		ourTime += writers(b, w, func(i int) error { return write(whole+i, value) })
		whole += b.N
	}
	b.N = n
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(n)/ourTime.Seconds(), "ops/s")
	b.ReportMetric(float64(n)/plainTime.Seconds(), "plain-ops/s")
	b.ReportMetric(plainTime.Seconds()/ourTime.Seconds(), "of-plain")
}
