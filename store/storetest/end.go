package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/stretchr/testify/require"
)

func endCases() []testcase {
	return []testcase{
		{
			name: "a cancelled watch ends with the cause",
			want: "a watch ends promptly with the cause of its context, whether it waits or is read",
			why:  "a controller must stop when its context ends",
			run:  watchCancelled,
		}, {
			name: "ended watches leave nothing running",
			want: "no goroutine remains of watches that were cancelled or broken out of",
			why:  "a service with a watch per request would run out of memory",
			run:  watchLeaks,
		}, {
			name: "close ends watches",
			want: "Close ends every watch with ErrClosed, waiting or not read, and does not wait for callers that do not read",
			why:  "a service must be able to stop while its clients watch",
			run:  closeEndsWatches,
		}, {
			name: "closed store refuses calls",
			want: "after Close every call fails with ErrClosed, and a second Close returns nil",
			why:  "a write into a closed store must not look accepted",
			run:  closedRefuses,
		}, {
			name: "close is honest under commits",
			want: "a Commit concurrent with Close succeeds, is refused with ErrClosed, or has an unknown outcome; none hangs",
			why:  "services are stopped under load",
			run:  closeUnderLoad,
		},
	}
}

func watchCancelled(t *trial) {
	start := t.now()
	cause := errors.New("the caller is done")
	for _, when := range []string{"before its first change", "while it waits", "while changes are there to be read"} {
		ctx, cancel := context.WithCancelCause(t.ctx)
		w := t.watchOf(ctx, t.store, "", start)
		switch when {
		case "before its first change":
			cancel(cause)
			w.refused(cause)
			continue
		case "while it waits":
			w.until(t.now().Revision)
			go cancel(cause)
		default:
			for i := range 4 {
				t.put("k", fmt.Sprint(i))
			}
			w.change("one of several changes")
			cancel(cause)
		}
		t.doing("waiting for a watch to end that was cancelled %s", when)
		w.ends(cause)
	}
}

// label marks the goroutines that watches start. A goroutine inherits the labels of its creator.
const label = "storetest-watch"

// labelled counts the goroutines that carry label with this value.
func (t *trial) labelled(value string) int {
	var profile bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&profile, 1))
	total, n := 0, 0
	for line := range strings.Lines(profile.String()) {
		// A line "8 @ addresses" has the number of goroutines with the stack and labels that
		// follow.
		if count, _, ok := strings.Cut(line, " @ "); ok {
			n, _ = strconv.Atoi(count)
		}
		if strings.HasPrefix(line, "# labels:") && strings.Contains(line, strconv.Quote(value)) {
			total += n
		}
	}
	return total
}

func watchLeaks(t *trial) {
	t.put("k", "1")
	w := t.watch("", store.Position{}) // a driver may start goroutines once for all watches; it starts them now
	w.change("the first bookmark")
	w.stop()

	const watches = 16
	value := fmt.Sprintf("trial-%p", t)
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	var begun, ended sync.WaitGroup
	begun.Add(watches)
	pprof.Do(t.ctx, pprof.Labels(label, value), func(context.Context) {
		for i := range watches {
			ended.Go(func() {
				var once sync.Once
				defer once.Do(begun.Done)
				for range t.store.Watch(ctx, "", store.Position{}) {
					once.Do(begun.Done)
					if i%2 == 0 {
						break
					}
				}
			})
		}
	})
	t.doing("waiting for %d watches to begin", watches)
	begun.Wait()
	require.GreaterOrEqual(t, t.labelled(value), watches/2, "goroutines that watch")
	cancel()
	t.doing("waiting for %d watches to end that were cancelled or broken out of", watches)
	ended.Wait()
	poll := time.NewTicker(50 * time.Millisecond) // the end of a goroutine can only be polled
	defer poll.Stop()
	for {
		left := t.labelled(value)
		if left == 0 {
			return
		}
		t.doing("waiting for %d goroutines to end that were started for watches which have ended", left)
		select {
		case <-poll.C:
		case <-t.ctx.Done():
			t.fatalf("%d goroutines remain of watches that have ended", left)
		}
	}
}

func closeEndsWatches(t *trial) {
	t.put("k", "1")
	unread := t.watch("", store.Position{})
	unread.change("the first bookmark")
	const watches = 8
	var begun sync.WaitGroup
	begun.Add(watches)
	ends := make(chan error, watches)
	for range watches {
		go func() {
			var once sync.Once
			var last error
			for _, err := range t.store.Watch(t.ctx, "", store.Position{}) {
				once.Do(begun.Done)
				last = err
			}
			once.Do(begun.Done)
			ends <- last
		}()
	}
	t.doing("waiting for %d watches to begin", watches)
	begun.Wait()
	t.put("k", "2")
	t.doing("closing the store while watches wait and one is not read")
	require.NoError(t, t.store.Close(), "Close")
	for range watches {
		t.doing("waiting for a waiting watch to end after Close")
		select {
		case err := <-ends:
			require.ErrorIs(t, err, store.ErrClosed, "a watch that waited when the store was closed")
		case <-t.ctx.Done():
			t.fatalf("a watch did not end after Close")
		}
	}
	unread.ends(store.ErrClosed)
}

func closedRefuses(t *trial) {
	t.put("k", "1")
	t.doing("closing the store")
	require.NoError(t, t.store.Close(), "Close")
	_, err := t.store.Get(t.ctx, "k")
	require.ErrorIs(t, err, store.ErrClosed, "Get")
	_, err = t.store.List(t.ctx, store.Query{})
	require.ErrorIs(t, err, store.ErrClosed, "List")
	_, err = t.store.Commit(t.ctx, store.Txn{Do: []store.Operation{store.Put("k", nil)}})
	require.ErrorIs(t, err, store.ErrClosed, "Commit")
	_, err = t.store.Commit(t.ctx, store.Txn{})
	require.ErrorIs(t, err, store.ErrClosed, "Commit of a checked read")
	t.watch("", store.Position{}).refused(store.ErrClosed)
	if t.b.Compacts {
		require.ErrorIs(t, t.store.(store.Compactor).Compact(t.ctx, 1), store.ErrClosed, "Compact")
	}
	if t.b.Counts {
		_, err := t.store.(store.Counter).Count(t.ctx, store.Query{})
		require.ErrorIs(t, err, store.ErrClosed, "Count")
	}
	require.NoError(t, t.store.Close(), "a second Close")
}

func closeUnderLoad(t *trial) {
	const writers = 8
	var busy sync.WaitGroup
	busy.Add(writers)
	closed := make(chan error, 1)
	go func() {
		busy.Wait()
		closed <- t.store.Close()
	}()
	t.doing("closing the store under %d writers", writers)
	t.all(writers, func(w int) error {
		for i := 0; ; i++ {
			_, err := t.store.Commit(t.ctx, store.Txn{Do: []store.Operation{store.Put(fmt.Sprint(w, i), nil)}})
			if i == 0 {
				busy.Done()
			}
			switch {
			case errors.Is(err, store.ErrClosed):
				return nil
			case err != nil && !errors.Is(err, store.ErrUnknownOutcome):
				return fmt.Errorf("a commit that Close met: %w", err)
			}
		}
	})
	require.NoError(t, <-closed, "Close")
}
