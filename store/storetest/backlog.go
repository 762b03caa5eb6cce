package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/stretchr/testify/require"
)

func backlogCases() []testcase {
	return []testcase{
		{
			name:  "a backlog larger than any chunk",
			want:  "watches that catch up over thousands of commits yield each of them completely and in order; a watch of a quiet prefix yields its few commits and a bookmark",
			why:   "drivers read the log in chunks; a chunk that ends within a transaction, or that has nothing for the watch, must not lose later changes",
			needs: []capability{needDeep},
			run:   backlog,
		}, {
			name: "no bookmark ahead of a catch-up that ends",
			want: "a watch whose context ends while it catches up yields no bookmark at or after a change that it has not delivered",
			why:  "the caller resumes at that bookmark and never sees the changes in between",
			run:  catchUpEnds,
		},
	}
}

func backlog(t *trial) {
	const writers, perTransaction = 32, 7
	commits := 20_000
	if t.b.Slow {
		commits = 5_000
	}
	t.store = t.other(needDeep, t.b.Deep)
	start := t.now()
	var mu sync.Mutex
	all, quiet, part := map[store.Revision]int{}, map[store.Revision]int{}, map[store.Revision]int{}
	t.doing("making %d commits with %d writers", commits, writers)
	t.all(writers, func(w int) error {
		for i := w; i < commits; i += writers {
			var txn store.Txn
			switch {
			case i%997 == 7:
				txn.Do = []store.Operation{store.Put("quiet/"+key(i), nil)}
			case i%5 == 3:
				for n := range perTransaction {
					txn.Do = append(txn.Do, store.Put(fmt.Sprintf("part%d/%s", n%2, key(i*perTransaction+n)), nil))
				}
			default:
				txn.Do = []store.Operation{store.Put("busy/"+key(i%100), nil)}
			}
			r, err := t.store.Commit(t.ctx, txn)
			if err != nil {
				return err
			}
			mu.Lock()
			all[r] = len(txn.Do)
			switch {
			case i%997 == 7:
				quiet[r] = 1
			case i%5 == 3:
				part[r] = perTransaction / 2
			}
			mu.Unlock()
		}
		return nil
	})
	end := t.now().Revision
	for _, c := range []struct {
		prefix string
		want   map[store.Revision]int
	}{{"", all}, {"quiet/", quiet}, {"part1/", part}} {
		w := t.watch(c.prefix, start)
		last, delivered := start.Revision, 0
		for reached := false; !reached; {
			change := w.change(fmt.Sprintf("a backlog of %d commits, after %d of %d of the prefix", commits, delivered, len(c.want)))
			r := change.Position.Revision
			if change.Bookmark() {
				reached = r >= end
				continue
			}
			require.Greater(t, r, last, "the revision of change %d of a watch of %q", delivered, c.prefix)
			require.Len(t, change.Events, c.want[r], "the events at revision %d of a watch of %q in catch-up", r, c.prefix)
			last = r
			delivered++
		}
		require.Equal(t, len(c.want), delivered, "the changes of a watch of %q, up to the bookmark after a backlog", c.prefix)
		w.stop()
	}
}

func catchUpEnds(t *trial) {
	start := t.now()
	var all []store.Revision
	for i := range t.kept(800) {
		all = append(all, t.put("k", fmt.Sprint(i)))
	}
	cause := errors.New("the caller is done")
	n := len(all)
	for i, read := range []int{0, 1, 2, n / 4, n / 2, n - 2, n - 1, 0, 0, 0} {
		ctx, cancel := context.WithCancelCause(t.ctx)
		w := t.watchOf(ctx, t.store, "", start)
		delivered := 0
		take := func() bool {
			t.doing("reading a watch whose context ends after %d of %d changes, after %d", read, n, delivered)
			c, err, ok := w.next()
			if !ok || err != nil {
				require.ErrorIs(t, err, cause, "the end of a watch")
				return false
			}
			if !c.Bookmark() {
				delivered++
				return true
			}
			if delivered < n && c.Position.Revision >= all[delivered] {
				t.fatalf("a bookmark at revision %d came from a watch whose context ended when it had delivered %d of %d changes: the next is at %d",
					c.Position.Revision, delivered, n, all[delivered])
			}
			return true
		}
		for delivered < read && take() {
		}
		if i >= 7 {
			go cancel(cause) // at any moment
		} else {
			cancel(cause)
		}
		for take() {
		}
		w.stop()
	}
}
