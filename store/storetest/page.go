package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/stretchr/testify/require"
)

func pageCases() []testcase {
	return []testcase{
		{
			name: "pages add up",
			want: "pages of any size, put together, are the whole listing; More is true exactly when entries follow; all carry one position",
			why:  "an entry lost between two pages is content that survives its namespace",
			run:  pagesAddUp,
		}, {
			name: "pages are one snapshot",
			want: "every page shows the snapshot of the first, however much is written meanwhile, or fails with ErrGone",
			why:  "a silent mix of two states shows objects that never existed together, or misses one that was moved",
			run:  pagesOneSnapshot,
		}, {
			name: "pages keep concurrently deleted entries",
			want: "further pages of a listing show the keys of its snapshot that were deleted since, and none that were created since",
			why:  "if a listing loses entries between pages, its reader deletes their copies",
			run:  pagesKeepDeleted,
		}, {
			name: "pages of an index under churn",
			want: "a listing of keys that are created and deleted all the time has, over several pages, exactly the keys of one moment, or fails with ErrGone",
			why:  "the controller finds its work in such an index; an entry that moves between two pages is never worked on",
			run:  pagesUnderChurn,
		}, {
			name: "a page is one snapshot under writers",
			want: "a single listing never shows half of a transaction that is written meanwhile",
			why:  "the rules hold between keys: a gate without its namespace must not be seen",
			run:  pageUnderWriters,
		}, {
			name: "old positions read as they were",
			want: "a listing at each retained position is the state at that position, also the first",
			why:  "a listing and a watch from its position must fit together",
			run:  oldPositions,
		}, {
			name:  "page gone after compaction",
			want:  "a listing at a compacted position fails with ErrGone; at the compacted revision itself and now it answers",
			why:   "a listing that silently continues with another snapshot is worse than one that fails",
			needs: []capability{needCompacts},
			run:   pageGone,
		}, {
			name: "future position refused",
			want: "listing, watching and compacting at a future revision fail with ErrFuture, as a FutureError with both revisions",
			why:  "a position of another store, or of a store that lost commits, may never come",
			run:  future,
		}, {
			name:  "compaction keeps the state",
			want:  "compaction drops history and nothing else; compacting to an older revision does nothing",
			why:   "it may run at any moment",
			needs: []capability{needCompacts},
			run:   compactionKeeps,
		}, {
			name: "positions of another epoch are gone",
			want: "listing and watching at a position of another epoch fail with ErrGone; positions of this store have an epoch; an empty one is not checked",
			why:  "the same revision is another state in another history",
			run:  foreignEpoch,
		},
	}
}

// pages reads a listing page by page and calls between before each further page.
func (t *trial) pages(q store.Query, between func()) (all []store.Page, err error) {
	for {
		p, err := t.store.List(t.ctx, q)
		if err != nil {
			return all, err
		}
		all = append(all, p)
		if !p.More || len(p.Entries) == 0 {
			return all, nil
		}
		q.At, q.After = p.Position, p.Entries[len(p.Entries)-1].Key
		between()
	}
}

func pagesAddUp(t *trial) {
	const count = 10
	for i := range count {
		t.put(fmt.Sprintf("p/%d", i), "v")
	}
	t.put("o", "before")
	last := t.put("q", "after")
	whole := t.list(store.Query{Prefix: "p/"})
	require.Len(t, whole.Entries, count)
	require.False(t, whole.More, "More of a listing without a limit")
	for limit := 1; limit <= count+1; limit++ {
		pages, err := t.pages(store.Query{Prefix: "p/", Limit: limit}, func() {})
		require.NoError(t, err)
		require.Len(t, pages, (count+limit-1)/limit, "the number of pages of %d", limit)
		var got []store.Entry
		for i, p := range pages {
			got = append(got, p.Entries...)
			t.equal(i < len(pages)-1, p.More, "More of page %d of %d entries each", i, limit)
			t.equal(last, p.Position.Revision, "the revision of page %d", i)
			t.equal(whole.Position, p.Position, "the position of page %d", i)
		}
		t.equal(whole.Entries, got, "the pages of %d put together", limit)
	}
}

// rewrite puts value at n keys below p/, in one transaction.
func rewrite(n int, value string) store.Txn {
	var txn store.Txn
	for i := range n {
		txn.Do = append(txn.Do, store.Put("p/"+key(i), []byte(value)))
	}
	return txn
}

// oneGeneration returns an error unless the n keys of rewrite have one value.
func oneGeneration(n int, pages ...store.Page) error {
	seen := map[string]int{}
	total := 0
	for _, p := range pages {
		for _, e := range p.Entries {
			seen[string(e.Value)]++
			total++
		}
	}
	if len(seen) != 1 || total != n {
		return fmt.Errorf("the listing shows %d of %d keys, by generation: %v", total, n, seen)
	}
	return nil
}

func pagesOneSnapshot(t *trial) {
	const count = 20
	generation := 0
	write := func() {
		generation++
		txn := rewrite(count, fmt.Sprint(generation))
		other := store.Put("p/key0000005", nil) // sorts between the keys that stay
		if generation%2 == 1 {
			other = store.Delete(other.Key)
		}
		txn.Do = append(txn.Do, other)
		t.commit(txn)
	}
	for round := range t.n(16) {
		write()
		if generation%2 == 0 {
			write() // odd generations do not have the other key
		}
		pages, err := t.pages(store.Query{Prefix: "p/", Limit: 3 + round%3}, write)
		if errors.Is(err, store.ErrGone) {
			continue // allowed, but not interesting
		}
		require.NoError(t, err)
		require.NoError(t, oneGeneration(count, pages...))
		t.equal(pages[0].Position, pages[len(pages)-1].Position, "the position of the last page")
	}
}

func pagesKeepDeleted(t *trial) {
	const count = 12
	t.commit(rewrite(count, "1"))
	want := t.list(store.Query{Prefix: "p/"})
	next := count - 1 // delete from the end, ahead of the pages
	pages, err := t.pages(store.Query{Prefix: "p/", Limit: 3}, func() {
		t.delete("p/" + key(next))
		t.delete("p/" + key(next-1))
		t.put("p/"+key(next)+"/new", "2")
		next -= 2
	})
	require.NoError(t, err)
	var got []store.Entry
	for _, p := range pages {
		got = append(got, p.Entries...)
	}
	t.equal(want.Entries, got, "the pages of a listing whose later keys were deleted meanwhile")
}

func pagesUnderChurn(t *trial) {
	const movers, slots, each = 5, 24, 8 // each mover moves 8 entries among 24 keys
	slot := func(mover, i int) string { return fmt.Sprintf("index/%03d", i%slots*movers+mover) }
	for mover := range movers {
		var txn store.Txn
		for i := range each {
			txn.Do = append(txn.Do, store.Put(slot(mover, i), nil))
		}
		t.commit(txn)
	}
	move := func(mover, i int) error {
		_, err := t.store.Commit(t.ctx, store.Txn{Do: []store.Operation{store.Delete(slot(mover, i)), store.Put(slot(mover, i+each), nil)}})
		return err
	}
	ctx, stop := context.WithCancel(t.ctx)
	defer stop()
	t.doing("listing an index page by page while %d clients move its entries", movers)
	t.all(movers, func(mover int) error {
		if mover > 0 {
			for i := 0; ctx.Err() == nil; i++ {
				if err := move(mover, i); err != nil {
					return err
				}
			}
			return nil
		}
		defer stop()
		var moved error
		moves := 0
		for range t.n(100) {
			// The reader is a mover too, so that entries move between its pages in every schedule.
			pages, err := t.pages(store.Query{Prefix: "index/", Limit: 5}, func() {
				moved = errors.Join(moved, move(mover, moves))
				moves++
			})
			switch {
			case moved != nil:
				return moved
			case errors.Is(err, store.ErrGone):
				continue
			case err != nil:
				return err
			}
			seen := map[string]bool{}
			for _, p := range pages {
				for _, e := range p.Entries {
					seen[e.Key] = true
				}
			}
			if len(seen) != movers*each {
				return fmt.Errorf("the pages of an index show %d of %d entries", len(seen), movers*each)
			}
		}
		return nil
	})
}

func pageUnderWriters(t *trial) {
	const count, writers = 16, 4
	t.commit(rewrite(count, "0"))
	ctx, stop := context.WithCancel(t.ctx)
	defer stop()
	t.doing("listing while %d writers rewrite all keys", writers)
	t.all(writers+1, func(i int) error {
		if i == writers {
			defer stop()
			seen := map[store.Revision]bool{}
			for len(seen) < t.n(200) {
				p, err := t.store.List(t.ctx, store.Query{Prefix: "p/"})
				if err != nil {
					return err
				}
				if err := oneGeneration(count, p); err != nil {
					return err
				}
				seen[p.Position.Revision] = true
			}
			return nil
		}
		for n := 0; ctx.Err() == nil; n++ {
			if _, err := t.store.Commit(t.ctx, rewrite(count, fmt.Sprintf("%d of writer %d", n, i))); err != nil {
				return err
			}
		}
		return nil
	})
}

func oldPositions(t *trial) {
	pages := []store.Page{t.list(store.Query{})}
	for i := range t.kept(40) {
		switch i % 4 {
		case 0, 1:
			t.put(fmt.Sprintf("k%d", i%7), fmt.Sprint(i))
		case 2:
			t.delete(fmt.Sprintf("k%d", (i-1)%7))
		case 3:
			t.commit(store.Txn{Do: []store.Operation{store.Put("a", []byte(fmt.Sprint(i))), store.Put(key(i), nil), store.Delete("k0")}})
		}
		pages = append(pages, t.list(store.Query{}))
	}
	for i, p := range pages {
		t.equal(p, t.list(store.Query{At: p.Position}), "the listing at position %d of %d", i, len(pages))
		if p.Position.Revision > 0 {
			at := store.Position{Revision: p.Position.Revision}
			t.equal(p, t.list(store.Query{At: at}), "the listing at position %d without its epoch", i)
		}
	}
}

func (t *trial) compact(r store.Revision) {
	t.doing("compacting to revision %d", r)
	require.NoError(t, t.store.(store.Compactor).Compact(t.ctx, r), "Compact(%d)", r)
}

func pageGone(t *trial) {
	t.commit(rewrite(10, "1"))
	t.put("x", "1")
	first := t.list(store.Query{Limit: 4})
	kept := t.commit(rewrite(10, "2"))
	second := t.list(store.Query{Limit: 4})
	t.put("x", "3")
	t.compact(kept)

	next := store.Query{Limit: 4, At: first.Position, After: first.Entries[3].Key}
	p, err := t.store.List(t.ctx, next)
	require.ErrorIs(t, err, store.ErrGone, "the next page of a compacted snapshot showed %q", keys(p))
	next.At.Epoch = ""
	p, err = t.store.List(t.ctx, next)
	require.ErrorIs(t, err, store.ErrGone, "the next page of a compacted snapshot showed %q", keys(p))
	t.equal(second, t.list(store.Query{Limit: 4, At: second.Position}), "the listing at the compacted revision itself")
	require.NoError(t, oneGeneration(10, t.list(store.Query{Prefix: "p/"})))
}

func future(t *trial) {
	for _, ahead := range []store.Revision{1, 1000} {
		r := t.put("k", "1")
		for _, epoch := range []string{"", t.now().Epoch} {
			at := store.Position{Epoch: epoch, Revision: r + ahead}
			p, err := t.store.List(t.ctx, store.Query{At: at})
			require.ErrorIs(t, err, store.ErrFuture, "List at %v, the store is at %d; it answered %v", at, r, p)
			t.futureError(err, r, r+ahead)
			t.watch("", at).refused(store.ErrFuture)
			for _, err := range t.store.Watch(t.ctx, "", at) {
				t.futureError(err, r, r+ahead)
			}
		}
		if t.b.Compacts {
			err := t.store.(store.Compactor).Compact(t.ctx, r+ahead)
			require.ErrorIs(t, err, store.ErrFuture, "Compact")
			t.futureError(err, r, r+ahead)
		}
	}
}

// futureError checks the revisions of a FutureError.
func (t *trial) futureError(err error, current, asked store.Revision) {
	var future *store.FutureError
	require.ErrorAs(t, err, &future, "ErrFuture is a FutureError")
	t.equal(store.FutureError{Asked: asked, Current: current}, *future, "the revisions of the FutureError")
}

func compactionKeeps(t *trial) {
	old := t.put("old", "1")
	t.put("rewritten", "1")
	t.put("deleted", "1")
	t.delete("deleted")
	kept := t.put("rewritten", "2")
	later := t.put("later", "1")
	before := t.list(store.Query{})
	for _, r := range []store.Revision{old, kept, later, old, kept, later, later} {
		t.compact(r)
		t.equal(before, t.list(store.Query{}), "the listing after Compact(%d)", r)
		t.holds("old", "1", old)
		t.absent("deleted")
		t.equal(before, t.list(store.Query{At: store.Position{Revision: later}}), "the listing at the last revision after Compact(%d)", r)
	}
	_, err := t.store.List(t.ctx, store.Query{At: store.Position{Revision: kept}})
	require.ErrorIs(t, err, store.ErrGone, "compacting to an older revision again must not bring history back")
	next := t.commit(store.Txn{
		If: []store.Condition{store.At("old", old), store.At("rewritten", kept), store.Absent("deleted")},
		Do: []store.Operation{store.Put("old", []byte("2"))},
	})
	require.Greater(t, next, later, "the revision of a commit after compaction")
}

func foreignEpoch(t *trial) {
	r := t.put("k", "1")
	here := t.now()
	require.NotEmpty(t, here.Epoch, "the epoch of this store")
	for _, epoch := range []string{"another history", here.Epoch + "x", strings.ToUpper(here.Epoch) + " "} {
		for _, revision := range []store.Revision{0, r, r + 1000} {
			at := store.Position{Epoch: epoch, Revision: revision}
			p, err := t.store.List(t.ctx, store.Query{At: at})
			require.ErrorIs(t, err, store.ErrGone, "List at a position of another epoch answered %v", p)
			t.watch("", at).refused(store.ErrGone)
		}
	}
	here.Epoch = ""
	t.equal([]store.Entry{entry("k", "1", r)}, t.list(store.Query{At: here}).Entries, "the listing at a position without an epoch")
	w := t.watch("", here)
	next := t.put("k", "2")
	t.equal(next, w.events("the next commit").Position.Revision, "the change after a position without an epoch")
}
