package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/stretchr/testify/require"
)

func flowCases() []testcase {
	return []testcase{
		{
			name: "every revision once in order",
			want: "with 8 writers, every watch yields each acknowledged commit exactly once, in the order of revisions",
			why:  "a counter that is incremented before the commit silently loses commits that finish late",
			run:  everyRevision,
		}, {
			name: "list then watch has no gap",
			want: "a listing and the changes after its position give the current state, even for a listing of the empty store",
			why:  "this is how every cache and every controller starts",
			run:  listThenWatch,
		}, {
			name: "a watch starts at any revision that was read",
			want: "a watch from a revision that a read has returned, also through another handle, is never refused as ahead of the store, and no first bookmark is behind such a revision",
			why:  "clients list and then watch from that position; a watch that lags behind reads would refuse it",
			run:  watchKnowsReads,
		}, {
			name: "log replay equals state",
			want: "all changes since the beginning, replayed, give the state, and each event's Prev is the state before it",
			why:  "a log and a state that are not written together drift apart, and then a restart changes the state",
			run:  replay,
		}, {
			name: "slow watch never skips",
			want: "a watch whose caller does not read during many commits yields all of them, or the first ones and then ErrGone",
			why:  "a cache keeps an object forever if its deletion is skipped",
			run:  slowNeverSkips,
		}, {
			name:  "slow watch ends with gone",
			want:  "a watch that falls behind by more than the declared history ends with ErrGone",
			why:   "without a bound one stuck client takes the memory of the service",
			needs: []capability{needHistory},
			run:   slowGone,
		}, {
			name: "slow watch delays no other client",
			want: "commits and other watches continue while the caller of one watch does not read",
			why:  "one stuck client must not stop the service",
			run:  slowDelaysNoOther,
		},
	}
}

// window bounds how far the writers of a case may be ahead of its watches, so that no watch
// leaves the retained history.
func (t *trial) window() chan struct{} { return make(chan struct{}, t.kept(64)) }

// writers commits n single puts from 8 goroutines and returns the key of each revision. The
// writers are at most a window ahead of the receiver of its tokens.
func (t *trial) writers(n int, window chan<- struct{}) (map[store.Revision]string, error) {
	var mu sync.Mutex
	acknowledged := map[store.Revision]string{}
	const writers = 8
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < n; i += writers {
				select {
				case window <- struct{}{}:
				case <-t.ctx.Done():
					errs[w] = context.Cause(t.ctx)
					return
				}
				r, err := t.store.Commit(t.ctx, store.Txn{Do: []store.Operation{store.Put(key(i), []byte(fmt.Sprint(i)))}})
				if err != nil {
					errs[w] = err
					return
				}
				mu.Lock()
				other, reused := acknowledged[r]
				acknowledged[r] = key(i)
				mu.Unlock()
				if reused {
					errs[w] = fmt.Errorf("revision %d was given to the commits of %s and of %s", r, other, key(i))
					return
				}
			}
		})
	}
	wg.Wait()
	return acknowledged, errors.Join(errs...)
}

func everyRevision(t *trial) {
	const end = "keys end here"
	commits := t.n(400)
	window := t.window()
	ctx, failed := context.WithCancelCause(t.ctx)
	defer failed(nil)
	watches := []*watcher{t.watchOf(ctx, t.store, "", t.now()), t.watchOf(ctx, t.store, "key", t.now())}
	var acknowledged map[store.Revision]string
	done := make(chan struct{})
	go func() {
		defer close(done)
		var err error
		if acknowledged, err = t.writers(commits, window); err == nil {
			_, err = t.store.Commit(t.ctx, store.Txn{Do: []store.Operation{store.Put(end, nil)}})
		}
		if err != nil {
			failed(err)
		}
	}()
	seen := map[store.Revision]string{}
	for last := store.Revision(0); ; <-window {
		var c store.Change
		for _, w := range watches {
			before := c.Position.Revision
			c = w.events(fmt.Sprintf("each of %d commits, after %d", commits, len(seen)))
			require.Len(t, c.Events, 1, "the events at revision %d", c.Position.Revision)
			require.Greater(t, c.Position.Revision, last, "the revision of change %d on a watch of %q", len(seen), w.prefix)
			if before != 0 {
				t.equal(before, c.Position.Revision, "the revision of change %d on another watch", len(seen))
			}
		}
		if c.Events[0].Key == end {
			break
		}
		last = c.Position.Revision
		seen[last] = c.Events[0].Key
	}
	<-done
	t.equal(acknowledged, seen, "the changes on the watches, against the acknowledged commits")
}

func listThenWatch(t *trial) {
	commits := t.n(200)
	window := t.window()
	done := make(chan error, 1)
	empty := t.now()
	t.put("first", "x") // after the listing of the empty store, before the watch
	require.Equal(t, "first", t.watch("", empty).events("the first commit of the store").Events[0].Key,
		"the first event after a listing of the empty store")
	go func() {
		_, err := t.writers(commits, window)
		done <- err
	}()
	for taken := 0; taken < commits; {
		page := t.list(store.Query{})
		state := values(page)
		for range min(4, commits-taken) { // let the writers continue between the listing and the watch
			<-window
			taken++
		}
		target := t.list(store.Query{})
		w := t.watch("", page.Position)
		fold(state, upTo(w.until(target.Position.Revision), target.Position.Revision))
		w.stop()
		t.equal(values(target), state, "a listing at %d and the changes after it, against the listing at %d",
			page.Position.Revision, target.Position.Revision)
	}
	require.NoError(t, <-done)
}

func watchKnowsReads(t *trial) {
	const writers, readers = 2, 8
	rounds := t.n(100)
	t.put("first", "")
	handles := []store.Store{t.store}
	if t.b.Second != nil {
		handles = append(handles, t.other(needSecond, t.b.Second))
	}
	ctx, stop := context.WithCancel(t.ctx)
	defer stop()
	var reading sync.WaitGroup
	reading.Add(readers)
	go func() { reading.Wait(); stop() }()
	t.doing("watching from revisions that were just read, under %d writers", writers)
	t.all(writers+readers, func(i int) error {
		if i < readers {
			defer reading.Done()
			for range rounds {
				if err := t.watchFromRead(handles[i%len(handles)]); err != nil {
					return err
				}
				runtime.Gosched()
			}
			return nil
		}
		for n := 0; ctx.Err() == nil; n++ {
			if _, err := t.store.Commit(t.ctx, store.Txn{Do: []store.Operation{store.Put(key(i), nil)}}); err != nil {
				return err
			}
		}
		return nil
	})
}

// watchFromRead reads the revision of the store. It then watches s from that revision, from the
// one before it, and from now.
func (t *trial) watchFromRead(s store.Store) error {
	for _, back := range []store.Revision{0, 1, -1} {
		page, err := t.store.List(t.ctx, store.Query{Limit: 1})
		if err != nil {
			return err
		}
		read := page.Position.Revision
		after := at(page.Position, max(read-back, 0))
		if back < 0 {
			after = store.Position{}
		}
		for c, err := range s.Watch(t.ctx, "quiet/", after) {
			if errors.Is(err, store.ErrGone) {
				break // the writers are too far ahead
			}
			if err != nil {
				return fmt.Errorf("a read answered at revision %d, then a watch after %v was refused: %w", read, after, err)
			}
			if c.Position.Revision < read {
				return fmt.Errorf("a read answered at revision %d, then the first bookmark of a watch was at %d", read, c.Position.Revision)
			}
			break
		}
	}
	return nil
}

// upTo returns the changes up to revision.
func upTo(changes []store.Change, revision store.Revision) []store.Change {
	for i, c := range changes {
		if c.Position.Revision > revision {
			return changes[:i]
		}
	}
	return changes
}

func replay(t *trial) {
	start := t.now()
	rounds, writers := t.kept(240)/4, 4
	t.doing("waiting for %d writers", writers)
	t.all(writers, func(w int) error {
		random := rand.New(rand.NewPCG(1, uint64(w)))
		for range rounds {
			var txn store.Txn
			for _, k := range random.Perm(8)[:1+random.IntN(3)] {
				if random.IntN(3) == 0 {
					txn.Do = append(txn.Do, store.Delete(key(k)))
				} else {
					txn.Do = append(txn.Do, store.Put(key(k), fmt.Append(nil, random.Uint32())))
				}
			}
			if _, err := t.store.Commit(t.ctx, txn); err != nil {
				return err
			}
		}
		return nil
	})
	end := t.list(store.Query{})
	state := map[string]store.Entry{}
	for _, c := range t.watch("", start).until(end.Position.Revision) {
		for _, e := range c.Events {
			before, there := state[e.Key]
			t.equal(there, e.Prev != nil, "whether %q had an entry before revision %d", e.Key, c.Position.Revision)
			if there {
				t.equal(before, *e.Prev, "Prev of the event of %q at revision %d", e.Key, c.Position.Revision)
			}
			if e.Deleted {
				delete(state, e.Key)
			} else {
				state[e.Key] = store.Entry{Key: e.Key, Value: e.Value, Revision: c.Position.Revision}
			}
		}
	}
	replayed := slices.Collect(maps.Values(state))
	sortEntries(replayed)
	t.equal(end.Entries, replayed, "the replayed changes, against the listing")
}

// behind begins a watch, reads its first bookmark, and commits n times without reading the watch.
// It returns the watch and the revisions of the commits.
func (t *trial) behind(n int) (*watcher, []store.Revision) {
	w := t.watch("", store.Position{})
	w.change("the first bookmark")
	t.doing("committing %d times while a watch is not read", n)
	var all []store.Revision
	for i := range n {
		all = append(all, t.put(key(i%10), fmt.Sprint(i)))
	}
	return w, all
}

// drain reads a watch that was not read during the commits all, and checks that it skips nothing.
// It returns the number of changes before ErrGone, or the number of all.
func (t *trial) drain(w *watcher, all []store.Revision) int {
	last := all[0] - 1
	for seen := 0; seen < len(all); {
		t.doing("reading a watch that was not read for long, after %d of %d changes", seen, len(all))
		c, err, ok := w.next()
		require.True(t, ok, "the watch ended without an error")
		if errors.Is(err, store.ErrGone) {
			return seen
		}
		require.NoError(t, err)
		if c.Bookmark() {
			require.LessOrEqual(t, c.Position.Revision, last, "the revision of a bookmark before change %d was delivered", seen)
			continue
		}
		last = all[seen]
		t.equal(last, c.Position.Revision, "the revision of change %d of a watch that was not read for long", seen)
		seen++
	}
	return len(all)
}

func slowNeverSkips(t *trial) {
	w, all := t.behind(t.n(3000))
	t.drain(w, all)
}

func slowGone(t *trial) {
	w, all := t.behind(2*t.b.History + 1)
	if t.drain(w, all) == len(all) {
		t.fatalf("the watch yielded all %d changes, although it fell behind by more than the declared history of %d", len(all), t.b.History)
	}
	old := at(t.now(), all[0])
	t.watch("", old).refused(store.ErrGone)
	_, err := t.store.List(t.ctx, store.Query{At: old})
	require.ErrorIs(t, err, store.ErrGone, "List at a revision that lies more than the declared history back")
}

func slowDelaysNoOther(t *trial) {
	slow, fast := t.watch("", store.Position{}), t.watch("", store.Position{})
	slow.change("the first bookmark")
	fast.change("the first bookmark")
	for i := range t.n(1000) {
		t.doing("committing while one watch is not read")
		r := t.put(key(i%10), fmt.Sprint(i))
		t.equal(r, fast.events("the commit").Position.Revision, "the revision of change %d on a watch that is read", i)
	}
}
