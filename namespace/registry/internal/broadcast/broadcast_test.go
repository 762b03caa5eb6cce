package broadcast_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/broadcast"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// counting counts the watches that are open.
type counting struct {
	store.Store
	open  atomic.Int64
	fault atomic.Pointer[error] // ends every watch at its next change
}

func (c *counting) Watch(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		c.open.Add(1)
		defer c.open.Add(-1)
		for change, err := range c.Store.Watch(ctx, prefix, after) {
			if fault := c.fault.Load(); fault != nil && len(change.Events) > 0 {
				yield(store.Change{}, *fault)
				return
			}
			if !yield(change, err) {
				return
			}
		}
	}
}

func newStore(t testing.TB) *counting {
	s, err := memory.New(nil)
	require.NoError(t, err)
	return &counting{Store: s}
}

func text(e store.Entry) (string, error) { return string(e.Value), nil }

// newShared returns shared streams with a limit of pending events.
func newShared(s store.Store, events int) *broadcast.Shared[string] {
	return broadcast.New(s, text, broadcast.Limits{Events: events, Bytes: 1 << 30})
}

func put(t testing.TB, s store.Store, key, value string) store.Revision {
	revision, err := s.Commit(context.Background(), store.Txn{Do: []store.Operation{store.Put(key, []byte(value))}})
	require.NoError(t, err)
	return revision
}

// collector follows a prefix until an error, and logs the changes.
type collector struct {
	mu        sync.Mutex
	revisions []store.Revision
	bookmarks int
	err       error
}

func (c *collector) run(ctx context.Context, s *broadcast.Shared[string], prefix string, after store.Position) {
	for change, err := range s.Watch(ctx, prefix, after) {
		c.mu.Lock()
		switch {
		case err != nil:
			c.err = err
		case len(change.Events) == 0:
			c.bookmarks++
		default:
			c.revisions = append(c.revisions, change.Position.Revision)
		}
		c.mu.Unlock()
	}
}

func (c *collector) seen() []store.Revision {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]store.Revision(nil), c.revisions...)
}

// A hundred watchers make one steady store watch, which ends with the last.
func TestWatchersShareOneStoreWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		defer s.Close()
		shared := newShared(s, 100)
		ctx, cancel := context.WithCancel(t.Context())
		var watchers sync.WaitGroup
		collectors := make([]collector, 100)
		for i := range collectors {
			watchers.Go(func() { collectors[i].run(ctx, shared, "a/", store.Position{}) })
		}
		synctest.Wait()
		require.EqualValues(t, 1, s.open.Load())
		revision := put(t, s, "a/x", "1")
		put(t, s, "b/x", "1")
		synctest.Wait()
		for i := range collectors {
			require.Equal(t, []store.Revision{revision}, collectors[i].seen())
		}
		watchers.Go(func() { new(collector).run(ctx, shared, "b/", store.Position{}) })
		synctest.Wait()
		require.EqualValues(t, 2, s.open.Load(), "another prefix is another watch")
		cancel()
		watchers.Wait()
		require.EqualValues(t, 0, s.open.Load(), "the shared watch ends with its last watcher")
		for i := range collectors {
			require.ErrorIs(t, collectors[i].err, context.Canceled)
		}
	})
}

// A watcher sees each later revision of its prefix once, in order, regardless of when it
// begins and where it resumes.
func TestNothingIsLostOrRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 0))
		s := newStore(t)
		defer s.Close()
		shared := newShared(s, 100_000)
		const commits, watchers = 4000, 60
		start := put(t, s, "a/first", "")

		var all []store.Revision
		var last atomic.Int64
		last.Store(int64(start))
		halfway, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for i := range commits {
				if i%5 == 4 {
					put(t, s, "b/x", "")
					continue
				}
				r := put(t, s, fmt.Sprintf("a/%d", i%7), fmt.Sprint(i))
				all = append(all, r)
				last.Store(int64(r))
				if i == commits/10 {
					close(halfway)
				}
			}
		}()
		<-halfway
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		after := make([]store.Revision, watchers)
		collectors := make([]collector, watchers)
		var running sync.WaitGroup
		for i := range watchers {
			after[i] = start + store.Revision(rnd.Int64N(last.Load()-int64(start)+1))
			running.Go(func() { collectors[i].run(ctx, shared, "a/", store.Position{Revision: after[i]}) })
		}
		<-done
		synctest.Wait() // until all goroutines are idle
		require.EqualValues(t, 1, s.open.Load())
		cancel()
		running.Wait()
		for i := range collectors {
			var want []store.Revision
			for _, r := range all {
				if r > after[i] {
					want = append(want, r)
				}
			}
			require.Empty(t, cmp.Diff(want, collectors[i].seen()), "watcher %d after %d", i, after[i])
		}
	})
}

// A watcher that is too slow ends with an error and does not block others.
func TestSlowWatcherIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		defer s.Close()
		shared := newShared(s, 10)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var fast collector
		go fast.run(ctx, shared, "a/", store.Position{})
		resume := make(chan struct{})
		slow := make(chan error, 1)
		go func() {
			for change, err := range shared.Watch(ctx, "a/", store.Position{}) {
				if err != nil {
					slow <- err
					return
				}
				if len(change.Events) > 0 {
					<-resume
				}
			}
		}()
		synctest.Wait()
		for i := range 30 {
			put(t, s, "a/x", fmt.Sprint(i))
			synctest.Wait()
		}
		require.Len(t, fast.seen(), 30)
		close(resume)
		require.ErrorIs(t, <-slow, store.ErrGone)
	})
}

// The pending changes of a watcher that does not read are bounded in bytes, too.
func TestSlowWatcherHoldsFewBytes(t *testing.T) {
	const value, most = 1 << 20, 8 << 20
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		defer s.Close()
		shared := broadcast.New(s, text, broadcast.Limits{Events: 10_000, Bytes: most})
		var held int // bytes of the changes that the watcher got after it had not read
		var failure error
		look, joined := make(chan struct{}), false
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var running sync.WaitGroup
		running.Go(func() {
			for change, err := range shared.Watch(ctx, "a/", store.Position{}) {
				if failure = err; err != nil {
					return
				}
				for i := range change.Events {
					held += len(change.Events[i].Value)
				}
				if len(change.Events) > 0 && !joined {
					joined = true
					<-look
				}
			}
		})
		synctest.Wait()
		put(t, s, "a/x", "the watcher has joined")
		large := strings.Repeat("v", value)
		for i := range 100 {
			put(t, s, fmt.Sprint("a/", i), large)
			synctest.Wait()
		}
		close(look)
		synctest.Wait()
		cancel()
		running.Wait()
		require.ErrorIs(t, failure, store.ErrGone)
		require.LessOrEqual(t, held, most, "bytes that were held for a watcher that did not read")
	})
}

// A stream that fails while another watcher joins fails it too or is not joined: none
// waits at a stream that has ended.
func TestStreamFailsWhileJoined(t *testing.T) {
	broken := errors.New("broken")
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t)
			shared := newShared(s, 10)
			var watchers [4]collector
			var running sync.WaitGroup
			running.Go(func() { watchers[0].run(t.Context(), shared, "a/", store.Position{}) })
			synctest.Wait()
			s.fault.Store(&broken)
			running.Go(func() { put(t, s, "a/x", "the stream fails") })
			for i := range watchers[1:] {
				running.Go(func() { watchers[i+1].run(t.Context(), shared, "a/", store.Position{}) })
			}
			synctest.Wait()
			s.fault.Store(nil)
			last := put(t, s, "a/x", "later")
			synctest.Wait()
			var silent []int
			for i := range watchers {
				w := &watchers[i]
				w.mu.Lock()
				if w.err == nil && !slices.Contains(w.revisions, last) {
					silent = append(silent, i)
				}
				w.mu.Unlock()
			}
			shared.Close()
			running.Wait()
			require.NoError(t, s.Close())
			require.Empty(t, silent, "watchers that neither failed nor received the last commit")
		})
	}
}

// One commit that is larger than the queue gets through.
func TestLargeChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		defer s.Close()
		shared := newShared(s, 10)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var c collector
		go c.run(ctx, shared, "a/", store.Position{})
		synctest.Wait()
		var txn store.Txn
		for i := range 50 {
			txn.Do = append(txn.Do, store.Put(fmt.Sprintf("a/%d", i), nil))
		}
		_, err := s.Commit(ctx, txn)
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, c.seen(), 1)
	})
}

// Bookmarks before and after a large change do not end the watch of a watcher that does not
// read meanwhile.
func TestLargeChangeBetweenBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		defer s.Close()
		shared := newShared(s, 10)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var delivered int
		var failure error
		look := make(chan struct{})
		var running sync.WaitGroup
		running.Go(func() {
			for change, err := range shared.Watch(ctx, "a/", store.Position{}) {
				if failure = err; err != nil {
					return
				}
				if delivered += len(change.Events); delivered == 1 {
					<-look
				}
			}
		})
		synctest.Wait()
		put(t, s, "a/x", "the watcher has joined")
		put(t, s, "b/x", "a bookmark is due")
		time.Sleep(time.Minute)
		synctest.Wait()
		var txn store.Txn
		for i := range 50 {
			txn.Do = append(txn.Do, store.Put(fmt.Sprintf("a/%d", i), nil))
		}
		_, err := s.Commit(ctx, txn)
		require.NoError(t, err)
		put(t, s, "b/x", "another bookmark is due")
		time.Sleep(time.Minute)
		synctest.Wait()
		close(look)
		synctest.Wait()
		require.NoError(t, failure)
		require.Equal(t, 51, delivered)
		cancel()
		running.Wait()
	})
}

// Quiet watchers advance, and bookmarks do not fill the queue of a watcher that does not
// read.
func TestBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		defer s.Close()
		shared := newShared(s, 10)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var quick, slow store.Position
		var failure error
		look := make(chan struct{})
		go func() {
			for change, err := range shared.Watch(ctx, "quiet/", store.Position{}) {
				if err == nil {
					quick = change.Position
				}
			}
		}()
		go func() {
			n := 0
			for change, err := range shared.Watch(ctx, "quiet/", store.Position{}) {
				if err != nil {
					failure = err
					return
				}
				slow = change.Position
				if n++; n == 2 { // it has joined the shared stream
					<-look
				}
			}
		}()
		var last store.Revision
		for range 30 {
			last = put(t, s, "busy/x", "")
			time.Sleep(time.Minute) // virtual
		}
		synctest.Wait()
		require.Equal(t, last, quick.Revision)
		require.Less(t, slow.Revision, last)
		close(look)
		synctest.Wait()
		require.NoError(t, failure)
		require.Equal(t, last, slow.Revision)
	})
}

// Each event is decoded once for all watchers.
func TestDecodeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		defer s.Close()
		var decoded atomic.Int64
		shared := broadcast.New(s, func(e store.Entry) (string, error) {
			decoded.Add(1)
			return string(e.Value), nil
		}, broadcast.Limits{Events: 10, Bytes: 1 << 20})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		values := make(chan string, 100)
		for range 10 {
			go func() {
				for change, err := range shared.Watch(ctx, "a/", store.Position{}) {
					if err != nil {
						return
					}
					for i := range change.Events {
						now, _ := change.Events[i].Now()
						before, _ := change.Events[i].Before()
						values <- before + now
					}
				}
			}()
		}
		synctest.Wait()
		put(t, s, "a/x", "1")
		put(t, s, "a/x", "2")
		_, err := s.Commit(ctx, store.Txn{Do: []store.Operation{store.Delete("a/x")}})
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, values, 30)
		counts := map[string]int{}
		for range 30 {
			counts[<-values]++
		}
		require.Equal(t, map[string]int{"1": 10, "12": 10, "2": 10}, counts)
		require.EqualValues(t, 4, decoded.Load(), "1 and 2 as new values, 1 and 2 as earlier ones")
	})
}

func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		shared := newShared(s, 10)
		var c, d collector
		var running sync.WaitGroup
		running.Go(func() { c.run(t.Context(), shared, "a/", store.Position{}) })
		running.Go(func() { d.run(t.Context(), shared, "a/", store.Position{}) })
		synctest.Wait()
		broken := errors.New("broken")
		s.fault.Store(&broken)
		put(t, s, "a/x", "")
		running.Wait()
		require.ErrorIs(t, c.err, broken)
		require.ErrorIs(t, d.err, broken)
		s.fault.Store(nil)
		require.EqualValues(t, 0, s.open.Load())

		var after collector // starts a new stream
		running.Go(func() { after.run(t.Context(), shared, "a/", store.Position{}) })
		var future collector
		future.run(t.Context(), shared, "a/", store.Position{Revision: 1000})
		require.ErrorIs(t, future.err, store.ErrFuture)
		synctest.Wait()
		shared.Close()
		running.Wait()
		require.ErrorIs(t, after.err, broadcast.ErrClosed)
		require.EqualValues(t, 0, s.open.Load())
		var late collector
		late.run(t.Context(), shared, "a/", store.Position{})
		require.ErrorIs(t, late.err, broadcast.ErrClosed)
		shared.Close()
		require.NoError(t, s.Close())
	})
}

// Watchers that come and go at once leave nothing behind.
func TestChurn(t *testing.T) {
	s := newStore(t)
	defer s.Close()
	shared := newShared(s, 1<<30)
	stop := make(chan struct{})
	var writer, watchers sync.WaitGroup
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				put(t, s, "a/x", fmt.Sprint(i))
			}
		}
	})
	for range 8 {
		watchers.Go(func() {
			for n := range 50 {
				var last store.Revision
				for change, err := range shared.Watch(t.Context(), "a/", store.Position{}) {
					if err != nil {
						t.Error(err)
						break
					}
					if change.Position.Revision < last {
						t.Errorf("revision %d after %d", change.Position.Revision, last)
					}
					if last = change.Position.Revision; len(change.Events) > 0 {
						if n--; n < 0 {
							break
						}
					}
				}
			}
		})
	}
	watchers.Wait()
	close(stop)
	writer.Wait()
	require.EqualValues(t, 0, s.open.Load())
}

func BenchmarkFanOut(b *testing.B) {
	for _, watchers := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(watchers), func(b *testing.B) {
			s := newStore(b)
			defer s.Close()
			shared := newShared(s, 1<<20)
			defer shared.Close()
			var joined, running sync.WaitGroup
			joined.Add(watchers)
			for range watchers {
				running.Go(func() {
					n := -1
					for change, err := range shared.Watch(b.Context(), "a/", store.Position{}) {
						if err != nil {
							return
						}
						if n < 0 {
							joined.Done()
							n = 0
						}
						if n += len(change.Events); n == b.N {
							return
						}
					}
				})
			}
			joined.Wait()
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				put(b, s, "a/x", "")
			}
			running.Wait()
		})
	}
}
