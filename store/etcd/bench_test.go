package etcd

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/nslifecycle/nslifecycle/store"
)

const benchValue = 512

// bench has a store, and a plain client of the same server for comparison.
type bench struct {
	*Store
	raw    *clientv3.Client
	prefix string
}

func newBench(b *testing.B) bench {
	url := theServer(b).URL
	return bench{openNew(b, nil), rawClient(b, url), newPrefix() + "/"}
}

// share lets clients call f for the numbers from..to-1, and returns the time.
func share(b *testing.B, clients, from, to int, f func(i int) error) time.Duration {
	var next atomic.Int64
	next.Store(int64(from))
	var all sync.WaitGroup
	begin := time.Now()
	for range clients {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < to; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return time.Since(begin)
}

// alternate runs ours and theirs alternately, so that both see the same machine. It reports both
// rates and their ratio.
func alternate(b *testing.B, clients int, ratio string, ours, theirs func(i int) error) {
	const rounds = 10
	var our, their time.Duration
	b.ResetTimer()
	for round := range rounds {
		from, to := b.N*round/rounds, b.N*(round+1)/rounds
		if round%2 == 0 {
			their += share(b, clients, from, to, theirs)
			our += share(b, clients, from, to, ours)
		} else {
			our += share(b, clients, from, to, ours)
			their += share(b, clients, from, to, theirs)
		}
	}
	b.StopTimer()
	b.ReportMetric(0, "ns/op") // the time per operation would be the sum of both
	b.ReportMetric(float64(b.N)/our.Seconds(), "ops/s")
	b.ReportMetric(float64(b.N)/their.Seconds(), "other-ops/s")
	b.ReportMetric(their.Seconds()/our.Seconds(), ratio)
}

// both runs f with one client and with many.
func both(b *testing.B, f func(b *testing.B, clients int)) {
	for _, clients := range []int{1, 64} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) { f(b, clients) })
	}
}

// BenchmarkCreate puts keys on condition that they are absent.
func BenchmarkCreate(b *testing.B) {
	both(b, func(b *testing.B, clients int) {
		s, value := newBench(b), make([]byte, benchValue)
		alternate(b, clients, "of-raw", func(i int) error {
			_, err := s.Commit(b.Context(), createTxn(i, value))
			return err
		}, func(i int) error {
			key := s.prefix + benchKey(i)
			answer, err := s.raw.Txn(b.Context()).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
				Then(clientv3.OpPut(key, string(value))).Else(clientv3.OpGet(key)).Commit()
			if err == nil && !answer.Succeeded {
				err = fmt.Errorf("%s is there", key)
			}
			return err
		})
	})
}

func benchKey(i int) string { return fmt.Sprintf("registry/widgets/ns-%03d/object-%08d", i%100, i) }

func createTxn(i int, value []byte) store.Txn {
	key := benchKey(i)
	return store.Txn{If: []store.Condition{store.Absent(key)}, Do: []store.Operation{store.Put(key, value)}}
}

// BenchmarkUpdate puts keys on condition that they are at a revision.
func BenchmarkUpdate(b *testing.B) {
	both(b, func(b *testing.B, clients int) {
		s, value := newBench(b), make([]byte, benchValue)
		const keys = 1024 // more than clients, so that two clients never update one key at once
		var mine, theirs [keys]store.Revision
		for i := range keys {
			mine[i] = put(b, s, benchKey(i), "")
			answer, err := s.raw.Put(b.Context(), s.prefix+benchKey(i), "")
			require.NoError(b, err)
			theirs[i] = store.Revision(answer.Header.Revision)
		}
		alternate(b, clients, "of-raw", func(i int) error {
			key := benchKey(i % keys)
			r, err := s.Commit(b.Context(), store.Txn{
				If: []store.Condition{store.At(key, mine[i%keys])}, Do: []store.Operation{store.Put(key, value)},
			})
			mine[i%keys] = r
			return err
		}, func(i int) error {
			key := s.prefix + benchKey(i%keys)
			answer, err := s.raw.Txn(b.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", int64(theirs[i%keys]))).
				Then(clientv3.OpPut(key, string(value))).Else(clientv3.OpGet(key)).Commit()
			if err != nil {
				return err
			}
			theirs[i%keys] = store.Revision(answer.Header.Revision)
			return nil
		})
	})
}

// BenchmarkGated compares a create under a gate with one without.
func BenchmarkGated(b *testing.B) {
	both(b, func(b *testing.B, clients int) {
		s, value := newBench(b), make([]byte, benchValue)
		put(b, s, "gate", "uid")
		alternate(b, clients, "of-ungated", func(i int) error {
			txn := createTxn(2*i, value)
			txn.If = append([]store.Condition{store.Exists("gate")}, txn.If...)
			_, err := s.Commit(b.Context(), txn)
			return err
		}, func(i int) error {
			_, err := s.Commit(b.Context(), createTxn(2*i+1, value))
			return err
		})
	})
}

func BenchmarkGet(b *testing.B) {
	both(b, func(b *testing.B, clients int) {
		s := newBench(b)
		const entries = 1000
		fill(b, s, "k/", entries, benchValue)
		alternate(b, clients, "of-raw", func(i int) error {
			_, err := s.Get(b.Context(), fmt.Sprintf("k/%08d", i%entries))
			return err
		}, func(i int) error {
			_, err := s.raw.Get(b.Context(), string(s.keys.of(fmt.Sprintf("k/%08d", i%entries))))
			return err
		})
	})
}

func BenchmarkList(b *testing.B) {
	s := newBench(b)
	const entries, page = 5000, 500
	fill(b, s, "k/", entries, benchValue)
	after := func(i int) string { return fmt.Sprintf("k/%08d", i%(entries-page-1)) }
	alternate(b, 1, "of-raw", func(i int) error {
		_, err := s.List(b.Context(), store.Query{Prefix: "k/", After: after(i), Limit: page})
		return err
	}, func(i int) error {
		_, err := s.raw.Get(b.Context(), string(s.keys.of(after(i)))+"\x00", clientv3.WithLimit(page),
			clientv3.WithRange(clientv3.GetPrefixRangeEnd(string(s.keys.of("k/")))))
		return err
	})
}

// BenchmarkCommitToEvent compares the time from the start of a commit until a watch has its event
// with the time of a commit.
func BenchmarkCommitToEvent(b *testing.B) {
	s, value := newBench(b), make([]byte, benchValue)
	ctx, stop := context.WithCancel(b.Context())
	events := make(chan store.Revision)
	begun := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		defer close(events)
		for c, err := range s.Watch(ctx, "k/", store.Position{}) {
			if err == nil && c.Bookmark() {
				select {
				case <-begun:
				default:
					close(begun)
				}
				continue
			}
			select {
			case events <- c.Position.Revision:
			case <-ctx.Done():
			}
		}
	})
	b.Cleanup(func() {
		stop()
		watching.Wait()
	})
	<-begun
	commit := func(key string) (store.Revision, error) {
		return s.Commit(b.Context(), store.Txn{Do: []store.Operation{store.Put(key, value)}})
	}
	alternate(b, 1, "of-commit", func(i int) error {
		r, err := commit(fmt.Sprintf("k/%d", i%1000))
		if got := <-events; err == nil && got != r {
			err = fmt.Errorf("revision %d came, not %d", got, r)
		}
		return err
	}, func(i int) error {
		_, err := commit(fmt.Sprintf("other/%d", i%1000))
		return err
	})
}
