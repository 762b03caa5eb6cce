package storetest

import (
	"fmt"
	"sync"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/stretchr/testify/require"
)

func durableCases() []testcase {
	return []testcase{
		{
			name:  "acknowledged survives a crash",
			want:  "after a crash under load, every acknowledged commit is there, and no transaction is there in part",
			why:   "clients rely on acknowledged writes; half of a transaction breaks every rule at once",
			needs: []capability{needReopen},
			run:   survives,
		}, {
			name:  "history survives a crash",
			want:  "after a crash, watches resume at retained positions from before the crash, in the same epoch, and yield all later changes",
			why:   "a restart of the store must not make every client list again, and must not lose one change",
			needs: []capability{needReopen},
			run:   historySurvives,
		}, {
			name:  "revision never reused after a crash",
			want:  "commits after a crash have greater revisions than every commit before it, even if the last entries were deleted or compacted",
			why:   "a store that continues from the greatest revision of its entries uses the revision of a deletion twice",
			needs: []capability{needReopen},
			run:   neverReused,
		}, {
			name:  "epoch change is gone",
			want:  "after a restore from a backup the entries exist, and every earlier position is gone for listings and watches",
			why:   "the restored store gives the same revisions to other commits; a client that resumed there would miss them silently",
			needs: []capability{needNewEpoch},
			run:   epochChange,
		}, {
			name:  "bare revisions of another epoch are gone",
			want:  "after a restore from a backup, earlier revisions are ErrGone as positions without an epoch too, and new commits have greater revisions",
			why:   "resourceVersions on the wire carry no epoch; the one of a lost commit must not match another commit",
			needs: []capability{needNewEpoch},
			run:   bareEpochChange,
		},
	}
}

// reopen crashes the store and continues with the reopened one.
func (t *trial) reopen() {
	t.store = t.other(needReopen, t.b.Reopen)
}

func survives(t *trial) {
	const writers = 4
	rounds := 3
	acknowledged := map[string]store.Revision{}
	var mu sync.Mutex
	for round := range rounds {
		commits := t.n(80)
		t.doing("waiting for %d writers", writers)
		t.all(writers, func(w int) error {
			for i := range commits {
				a := fmt.Sprintf("%d/%d/%d", round, w, i)
				r, err := t.store.Commit(t.ctx, store.Txn{Do: []store.Operation{store.Put(a+"/1", []byte(a)), store.Put(a+"/2", []byte(a))}})
				if err != nil {
					return err
				}
				mu.Lock()
				acknowledged[a] = r
				mu.Unlock()
			}
			return nil
		})
		last := t.now()
		t.reopen()
		t.equal(last, t.now(), "the position after the crash")
		var want []store.Entry
		for a, r := range acknowledged {
			want = append(want, entry(a+"/1", a, r), entry(a+"/2", a, r))
		}
		sortEntries(want)
		t.equal(want, t.list(store.Query{}).Entries, "the entries after crash %d", round)
	}
}

func historySurvives(t *trial) {
	positions := []store.Position{t.now()}
	for i := range t.kept(20) {
		positions = append(positions, at(positions[0], t.put(fmt.Sprint(i%3), fmt.Sprint(i))))
		if i%4 == 3 {
			positions = append(positions, at(positions[0], t.delete(fmt.Sprint(i%3))))
		}
	}
	last := positions[len(positions)-1].Revision
	whole := t.watch("", positions[0]).until(last)
	t.reopen()
	next := t.put("after the crash", "x")
	for i, p := range positions {
		seen := t.watch("", p).until(next)
		t.equal(whole[i:], seen[:len(seen)-1], "the changes after position %d of %d, up to the crash", i, len(positions))
		t.equal(next, seen[len(seen)-1].Position.Revision, "the change after the crash")
	}
}

func neverReused(t *trial) {
	last := t.put("a", "1")
	for _, what := range []string{"an ordinary commit", "a deletion of the only key", "compaction to the last revision", "no commit at all"} {
		switch what {
		case "an ordinary commit":
			last = t.put("b", "1")
		case "a deletion of the only key":
			last = t.commit(store.Txn{Do: []store.Operation{store.Delete("a"), store.Delete("b")}})
		case "compaction to the last revision":
			if !t.b.Compacts {
				continue
			}
			t.put("a", "2")
			last = t.delete("a")
			t.compact(last)
		}
		t.reopen()
		t.equal(last, t.now().Revision, "the revision of the store after %s and a crash", what)
		next := t.put("c", what)
		require.Greater(t, next, last, "the revision of the first commit after %s and a crash", what)
		t.holds("c", what, next)
		last = t.delete("c")
	}
}

func epochChange(t *trial) {
	old := []store.Position{t.now(), at(t.now(), t.put("a", "1")), at(t.now(), t.put("b", "1"))}
	before := values(t.list(store.Query{}))
	t.store = t.other(needNewEpoch, t.b.NewEpoch)
	now := t.now()
	require.NotEqual(t, old[0].Epoch, now.Epoch, "the epoch after a restore")
	require.NotEmpty(t, now.Epoch)
	t.equal(before, values(t.list(store.Query{})), "the entries after a restore")
	t.put("c", "1")
	for _, p := range append(old, at(old[0], now.Revision), at(old[0], now.Revision+1000)) {
		_, err := t.store.List(t.ctx, store.Query{At: p})
		require.ErrorIs(t, err, store.ErrGone, "List at the position %v of before the restore", p)
		t.watch("", p).refused(store.ErrGone)
	}
	w := t.watch("", now)
	t.equal("c", w.events("the first commit after the restore").Events[0].Key, "the first change after the restore")
}

func bareEpochChange(t *trial) {
	var old []store.Revision
	for i := range 5 {
		old = append(old, t.put("k", fmt.Sprint(i)))
	}
	last := old[len(old)-1]
	t.store = t.other(needNewEpoch, t.b.NewEpoch)
	for _, r := range old {
		p, err := t.store.List(t.ctx, store.Query{At: store.Position{Revision: r}})
		require.ErrorIs(t, err, store.ErrGone, "List at revision %d of before the restore answered %v", r, p)
		t.watch("", store.Position{Revision: r}).refused(store.ErrGone)
	}
	require.Greater(t, t.put("k", "after"), last, "the revision of the first commit after a restore")
	_, err := t.store.Commit(t.ctx, store.Txn{If: []store.Condition{store.At("k", last)}})
	require.ErrorIs(t, err, store.ErrConflict, "At(a revision of before the restore)")
}
