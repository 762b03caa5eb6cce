package flow_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/flow"
)

// memory returns a pool of 100 with a share of 50 for each client.
func memory(wait time.Duration) *flow.Pool {
	return flow.New(flow.Options{Amount: 100, Share: 50, Queue: math.MaxInt, Wait: wait})
}

func lease(p *flow.Pool, client string) *flow.Lease {
	l := p.Lease(client)
	return &l
}

// requireUnused fails the test if leases still hold capacity of p. The share of p must be at
// least half of amount.
func requireUnused(t testing.TB, p *flow.Pool, amount int64) {
	t.Helper()
	a, b := p.Lease("x"), p.Lease("y")
	require.NoError(t, a.Grow(t.Context(), amount/2), "all was returned")
	require.NoError(t, b.Grow(t.Context(), amount-amount/2), "all was returned")
	a.Release()
	b.Release()
}

func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := memory(time.Second)
		a := lease(p, "a")
		require.ErrorIs(t, a.Grow(t.Context(), 51), flow.ErrTooHeavy)
		require.NoError(t, a.Grow(t.Context(), 30))
		require.NoError(t, a.Grow(t.Context(), 20), "already held")

		again := lease(p, "a")
		start := time.Now()
		require.ErrorIs(t, again.Grow(t.Context(), 21), flow.ErrTooMany, "more than the client's share")
		require.Equal(t, time.Second, time.Since(start), "it waited")
		require.NoError(t, again.Grow(t.Context(), 20))
		start = time.Now()
		require.ErrorIs(t, again.Grow(t.Context(), 21), flow.ErrTooMany)
		require.Zero(t, time.Since(start), "a lease that holds something does not wait")

		other, third := lease(p, "b"), lease(p, "c")
		require.NoError(t, other.Grow(t.Context(), 50))
		require.ErrorIs(t, third.Grow(t.Context(), 1), flow.ErrTooMany, "nothing is free")
		shrunk := make(chan struct{})
		time.AfterFunc(time.Millisecond, func() {
			a.Shrink(10)
			close(shrunk)
		})
		require.NoError(t, third.Grow(t.Context(), 20), "it waited for returned capacity")
		<-shrunk
		for _, l := range []*flow.Lease{a, again, other, third} {
			l.Release()
		}
		requireUnused(t, p, 100)
	})
}

// TestGrowingOvertakesTheQueue checks that a lease that holds capacity grows ahead of waiting
// claims. Otherwise requests in progress could not finish and return their capacity.
func TestGrowingOvertakesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := memory(time.Hour)
		begun, other := lease(p, "a"), lease(p, "b")
		require.NoError(t, begun.Grow(t.Context(), 30))
		require.NoError(t, other.Grow(t.Context(), 50))
		why := errors.New("the client has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		heavy, light, same := lease(p, "c"), lease(p, "d"), lease(p, "a")
		results := make(chan error, 3)
		for l, amount := range map[*flow.Lease]int64{heavy: 30} {
			go func() { results <- l.Grow(ctx, amount) }()
		}
		synctest.Wait()
		go func() { results <- light.Grow(t.Context(), 10) }()
		synctest.Wait()
		go func() { results <- same.Grow(t.Context(), 40) }()
		synctest.Wait()
		require.NoError(t, begun.Grow(t.Context(), 35))
		require.Empty(t, results, "all wait: none overtakes the first")
		cancel(why)
		require.ErrorIs(t, <-results, why)
		require.NoError(t, <-results, "it waited for the first only")
		begun.Release()
		require.NoError(t, <-results)
		for _, l := range []*flow.Lease{other, heavy, light, same} {
			l.Release()
		}
		requireUnused(t, p, 100)
	})
}

// queued makes claims for one slot each, and records the order in which they are granted.
type queued struct {
	mu    sync.Mutex
	order []string
	slots []*flow.Lease
	errs  map[string]int
}

func (q *queued) ask(t testing.TB, p *flow.Pool, clients ...string) {
	for _, client := range clients {
		go func() {
			l := lease(p, client)
			err := l.Grow(t.Context(), 1)
			q.mu.Lock()
			defer q.mu.Unlock()
			if err != nil {
				if q.errs == nil {
					q.errs = map[string]int{}
				}
				q.errs[client]++
				return
			}
			q.order, q.slots = append(q.order, client), append(q.slots, l)
		}()
		synctest.Wait()
	}
}

// next releases the n oldest slots.
func (q *queued) next(n int) {
	for range n {
		q.mu.Lock()
		l := q.slots[0]
		q.slots = q.slots[1:]
		q.mu.Unlock()
		l.Release()
		synctest.Wait()
	}
}

func TestFreeSlotsGoToClientsThatHoldLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := flow.New(flow.Options{Amount: 2, Share: 2, Queue: 10, Wait: time.Hour})
		var q queued
		q.ask(t, p, "flood", "flood", "flood", "flood", "flood", "flood", "a", "b", "b")
		q.next(9)
		require.Empty(t, cmp.Diff([]string{"flood", "flood", "a", "flood", "b", "flood", "b", "flood", "flood"}, q.order))
		requireUnused(t, p, 2)
	})
}

func TestNoClientTakesAllSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := flow.New(flow.Options{Amount: 4, Share: 2, Queue: 1, Wait: time.Minute})
		var q queued
		q.ask(t, p, "flood", "flood", "flood")
		start := time.Now()
		q.ask(t, p, "a")
		require.Zero(t, time.Since(start))
		require.Equal(t, []string{"flood", "flood", "a"}, q.order, "a slot is free for another client, though the queue is full")
		q.next(1)
		require.Len(t, q.order, 4)
		q.ask(t, p, "flood")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, q.errs["flood"])
		q.next(3)
		requireUnused(t, p, 4)
	})
}

func TestAFullQueueEvictsTheFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := flow.New(flow.Options{Amount: 1, Share: 1, Queue: 4, Wait: time.Hour})
		var q queued
		q.ask(t, p, "flood", "flood", "flood", "flood", "flood", "flood")
		require.Equal(t, map[string]int{"flood": 1}, q.errs, "one is served, four wait")
		q.ask(t, p, "a", "b", "c")
		require.Equal(t, map[string]int{"flood": 4}, q.errs)
		q.ask(t, p, "d")
		require.Equal(t, map[string]int{"flood": 4, "d": 1}, q.errs, "no client has more than one waiting")
		q.next(5)
		require.Empty(t, cmp.Diff([]string{"flood", "flood", "a", "b", "c"}, q.order))
	})
}

func TestWithoutAQueueNothingWaits(t *testing.T) {
	p := flow.New(flow.Options{Amount: 3, Share: 2})
	enter := func(client string) (*flow.Lease, error) {
		l := lease(p, client)
		return l, l.Grow(t.Context(), 1)
	}
	a, err := enter("a")
	require.NoError(t, err)
	_, err = enter("a")
	require.NoError(t, err)
	_, err = enter("a")
	require.ErrorIs(t, err, flow.ErrTooMany)
	_, err = enter("b")
	require.NoError(t, err)
	_, err = enter("c")
	require.ErrorIs(t, err, flow.ErrTooMany)
	a.Release()
	_, err = enter("c")
	require.NoError(t, err)
}

func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := flow.New(flow.Options{Amount: 2, Share: 1, Queue: 2, Wait: time.Second})
		held := lease(p, "a")
		require.NoError(t, held.Grow(t.Context(), 1))
		start := time.Now()
		again := lease(p, "a")
		require.ErrorIs(t, again.Grow(t.Context(), 1), flow.ErrTooMany)
		require.Equal(t, time.Second, time.Since(start))

		why := errors.New("the client has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(why) })
		require.ErrorIs(t, again.Grow(ctx, 1), why)
		held.Release()
		require.ErrorIs(t, again.Grow(ctx, 1), why)
		requireUnused(t, p, 2)
	})
}

// TestUnderLoad checks with concurrent clients that leases never exceed the capacity of the pool
// or the share of a client, and that all capacity is returned.
func TestUnderLoad(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	p := flow.New(flow.Options{Amount: 100, Share: 50, Queue: 4, Wait: 300 * time.Microsecond})
	var total atomic.Int64
	var clients [3]atomic.Int64
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			for range 200 {
				client := random.IntN(len(clients))
				l := lease(p, fmt.Sprint(client))
				var mine int64
				for range 3 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(500))*time.Microsecond)
					if want := mine + random.Int64N(30); l.Grow(ctx, want) == nil && want > mine {
						if total.Add(want-mine) > 100 || clients[client].Add(want-mine) > 50 {
							t.Error("more is held than there is")
						}
						mine = want
					}
					cancel()
				}
				total.Add(-mine)
				clients[client].Add(-mine)
				l.Release()
			}
		})
	}
	running.Wait()
	requireUnused(t, p, 100)
}

func TestClient(t *testing.T) {
	for want, from := range map[string][2]string{
		"user:alice":             {"alice", "10.0.0.1:80"},
		"addr:10.0.0.1":          {"", "10.0.0.1:1234"},
		"addr:10.0.0.2":          {"", "[::ffff:10.0.0.2]:1234"},
		"addr:2001:db8:1:2::/64": {"", "[2001:db8:1:2:3:4:5:6]:1"},
		"addr:fe80::/64":         {"", "[fe80::1%eth0]:1"},
		"addr:@":                 {"", "@"},
		"addr:":                  {"", ""},
	} {
		require.Equal(t, want, flow.Client(from[0], from[1]))
	}
}

func BenchmarkAcquire(b *testing.B) {
	p := flow.New(flow.Options{Amount: 400, Share: 200, Queue: 400, Wait: time.Second})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l := p.Lease("alice")
			if err := l.Grow(b.Context(), 1); err != nil {
				b.Fatal(err)
			}
			l.Release()
		}
	})
}
