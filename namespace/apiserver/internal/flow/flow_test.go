package flow_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/flow"
)

func acquire(t testing.TB, l *flow.Limiter, client string) flow.Slot {
	t.Helper()
	s, err := l.Acquire(t.Context(), client)
	require.NoError(t, err)
	return s
}

func requireUsage(t testing.TB, l *flow.Limiter, served, waiting, clients int) {
	t.Helper()
	s, w, c := l.Usage()
	require.Equal(t, [3]int{served, waiting, clients}, [3]int{s, w, c}, "served, waiting, clients")
}

// queued are requests that wait, and the order in which they were served.
type queued struct {
	mu    sync.Mutex
	order []string
	slots []flow.Slot
	errs  map[string][]error
}

func (q *queued) ask(t testing.TB, l *flow.Limiter, client string) {
	go func() {
		s, err := l.Acquire(t.Context(), client)
		q.mu.Lock()
		defer q.mu.Unlock()
		if err != nil {
			if q.errs == nil {
				q.errs = map[string][]error{}
			}
			q.errs[client] = append(q.errs[client], err)
			return
		}
		q.order = append(q.order, client)
		q.slots = append(q.slots, s)
	}()
	synctest.Wait()
}

// next releases the slot that was given first.
func (q *queued) next() {
	q.mu.Lock()
	s := q.slots[0]
	q.slots = q.slots[1:]
	q.mu.Unlock()
	s.Release()
	synctest.Wait()
}

func TestClientsHaveTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := flow.New(flow.Options{Slots: 2, Share: 10, Queue: 10, Wait: time.Hour})
		var q queued
		for range 8 {
			q.ask(t, l, "flood")
		}
		q.ask(t, l, "a")
		q.ask(t, l, "b")
		q.ask(t, l, "b")
		requireUsage(t, l, 2, 9, 3)
		for range 9 {
			q.next()
		}
		require.Empty(t, cmp.Diff([]string{"flood", "flood", "flood", "a", "b", "flood", "b", "flood", "flood", "flood", "flood"}, q.order))
		q.next()
		q.next()
		requireUsage(t, l, 0, 0, 0)
	})
}

func TestNoClientTakesAllSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := flow.New(flow.Options{Slots: 4, Wait: time.Minute})
		var q queued
		for range 4 {
			q.ask(t, l, "flood")
		}
		requireUsage(t, l, 2, 2, 1)
		start := time.Now()
		acquire(t, l, "a").Release()
		require.Zero(t, time.Since(start), "a slot is free for a newcomer")
		requireUsage(t, l, 2, 2, 1)
		q.next()
		require.Len(t, q.order, 3)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []error{flow.ErrTooMany}, q.errs["flood"])
		q.next()
		q.next()
		requireUsage(t, l, 0, 0, 0)
	})
}

func TestANewcomerTakesThePlaceOfAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := flow.New(flow.Options{Slots: 1, Share: 4, Queue: 4, Wait: time.Hour})
		var q queued
		for range 6 {
			q.ask(t, l, "flood")
		}
		require.Len(t, q.errs["flood"], 1, "one is served, four wait")
		q.ask(t, l, "a")
		q.ask(t, l, "b")
		require.Len(t, q.errs["flood"], 3)
		require.Empty(t, q.errs["a"])
		q.ask(t, l, "c")
		require.Len(t, q.errs["c"], 0, "two of the flood wait still")
		require.Len(t, q.errs["flood"], 4)
		q.ask(t, l, "d")
		require.Len(t, q.errs["d"], 1, "nobody has more than one waiting")
		for range 5 {
			q.next()
		}
		require.Empty(t, cmp.Diff([]string{"flood", "flood", "a", "b", "c"}, q.order))
		requireUsage(t, l, 0, 0, 0)
	})
}

func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := flow.New(flow.Options{Slots: 1, Wait: time.Second})
		held := acquire(t, l, "a")
		start := time.Now()
		_, err := l.Acquire(t.Context(), "b")
		require.ErrorIs(t, err, flow.ErrTooMany)
		require.Equal(t, time.Second, time.Since(start))

		why := errors.New("the client has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(why) })
		_, err = l.Acquire(ctx, "b")
		require.ErrorIs(t, err, why)
		requireUsage(t, l, 1, 0, 1)
		_, err = l.Acquire(ctx, "b")
		require.ErrorIs(t, err, why)
		held.Release()
		_, err = l.Acquire(ctx, "b")
		require.ErrorIs(t, err, why)
		requireUsage(t, l, 0, 0, 0)
	})
}

// Whatever the interleaving: never more served than there are slots, no client
// above its share, and in the end nothing left behind.
func TestUnderLoad(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	const slots, share = 5, 3
	l := flow.New(flow.Options{Slots: slots, Share: share, Queue: 6, Wait: time.Millisecond})
	var mu sync.Mutex
	served := map[string]int{}
	count := func(client string, by int) {
		mu.Lock()
		defer mu.Unlock()
		served[client] += by
		served[""] += by
		if served[client] > share || served[""] > slots {
			t.Errorf("%d of %s, %d in all", served[client], client, served[""])
		}
	}
	var running sync.WaitGroup
	for i := range 16 {
		running.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			for range 300 {
				client := fmt.Sprint("c", random.IntN(4))
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(2000))*time.Microsecond)
				if s, err := l.Acquire(ctx, client); err == nil {
					count(client, 1)
					if random.IntN(4) == 0 {
						time.Sleep(time.Duration(random.IntN(300)) * time.Microsecond)
					}
					count(client, -1)
					s.Release()
				}
				cancel()
			}
		})
	}
	running.Wait()
	requireUsage(t, l, 0, 0, 0)
}

func TestCounter(t *testing.T) {
	c := flow.NewCounter(3, 2)
	require.NoError(t, c.Enter("a"))
	require.NoError(t, c.Enter("a"))
	require.ErrorIs(t, c.Enter("a"), flow.ErrTooMany)
	require.NoError(t, c.Enter("b"))
	require.ErrorIs(t, c.Enter("c"), flow.ErrTooMany)
	require.Equal(t, 3, c.Open())
	c.Leave("a")
	require.NoError(t, c.Enter("c"))
	for _, client := range []string{"a", "b", "c"} {
		c.Leave(client)
	}
	require.Zero(t, c.Open())
	require.NoError(t, c.Enter("a"))
	require.NoError(t, c.Enter("a"))
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

func TestBadInput(t *testing.T) {
	l := flow.New(flow.Options{Slots: -1, Share: -1, Queue: -1, Wait: -1})
	acquire(t, l, "").Release()
	requireUsage(t, l, 0, 0, 0)
}

func BenchmarkAcquire(b *testing.B) {
	l := flow.New(flow.Options{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s, err := l.Acquire(b.Context(), "alice")
			if err != nil {
				b.Fatal(err)
			}
			s.Release()
		}
	})
}
