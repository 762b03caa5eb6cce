package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/stretchr/testify/require"
)

func countCases() []testcase {
	return []testcase{
		{
			name:  "a count is the length of the listing",
			want:  "Count returns the number of entries that List has, for any prefix, start, limit and retained position, and sees all acknowledged commits",
			why:   "clients show this number of remaining objects without counting again",
			needs: []capability{needCounts},
			run:   countIsLength,
		}, {
			name:  "a count is refused where a listing is",
			want:  "Count fails as List does: ErrInvalid, ErrFuture, ErrGone, and with the cause of an ended context",
			why:   "a count of another snapshot is worse than no count",
			needs: []capability{needCounts},
			run:   countRefused,
		},
	}
}

// count checks that the count of q is the length of its listing.
func (t *trial) count(q store.Query) {
	want := t.list(q)
	got, err := t.store.(store.Counter).Count(t.ctx, q)
	require.NoError(t, err, "Count %+v", q)
	t.equal(len(want.Entries), got, "Count %+v, of which List has %q", q, keys(want))
}

func countIsLength(t *trial) {
	ask := func(at store.Position) {
		for _, prefix := range []string{"", "c", "c/", "c/1", "c0", "d", "\xff"} {
			for _, after := range []string{"", "b", "c/", "c/1", "c/15", "d"} {
				for _, limit := range []int{0, 1, 3, 1000} {
					t.count(store.Query{Prefix: prefix, After: after, Limit: limit, At: at})
				}
			}
		}
	}
	ask(store.Position{})
	var some []store.Position
	for i := range 12 {
		t.put(fmt.Sprintf("c/%d", i%9+i/4), fmt.Sprint(i))
		if i%3 == 2 {
			t.delete(fmt.Sprintf("c/%d", i%9))
			t.commit(store.Txn{Do: []store.Operation{store.Put("c", nil), store.Put(fmt.Sprintf("c0%d", i), nil), store.Delete("c/1")}})
			some = append(some, t.now())
		}
	}
	ask(store.Position{})
	for _, at := range some {
		for _, q := range []store.Query{{}, {Prefix: "c/"}, {Prefix: "c/", After: "c/2"}, {Prefix: "c/", Limit: 2}} {
			q.At = at
			t.count(q)
			q.At.Epoch = ""
			t.count(q)
		}
	}
}

func countRefused(t *trial) {
	counter := t.store.(store.Counter)
	old := t.put("k", "1")
	r := t.put("k", "2")
	refused := func(kind error, q store.Query) error {
		n, err := counter.Count(t.ctx, q)
		require.ErrorIs(t, err, kind, "Count %+v answered %d", q, n)
		return err
	}
	refused(store.ErrInvalid, store.Query{Limit: -1})
	refused(store.ErrInvalid, store.Query{At: store.Position{Revision: -1}})
	refused(store.ErrGone, store.Query{At: store.Position{Epoch: "another history", Revision: r}})
	for _, prefix := range []string{"", "k"} {
		t.futureError(refused(store.ErrFuture, store.Query{Prefix: prefix, At: store.Position{Revision: r + 7}}), r, r+7)
	}
	refused(store.ErrFuture, store.Query{Prefix: "a", After: "b", At: store.Position{Revision: r + 7}})
	if t.b.Compacts {
		t.compact(r)
		refused(store.ErrGone, store.Query{At: store.Position{Revision: old}})
		t.count(store.Query{At: store.Position{Revision: r}})
	}
	ctx, cancel := context.WithCancelCause(t.ctx)
	cause := errors.New("the caller is done")
	cancel(cause)
	_, err := counter.Count(ctx, store.Query{})
	require.ErrorIs(t, err, cause, "Count with a context that has ended")
}
