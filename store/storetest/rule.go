package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/stretchr/testify/require"
)

func ruleCases() []testcase {
	return []testcase{
		{
			name: "no orphan",
			want: "when creators race the deletion of a gate, nothing is created under Exists(gate) after the deletion is acknowledged",
			why:  "rule R6: a listing after termination is final; later content outlives its namespace",
			run:  noOrphan,
		}, {
			name: "status update does not conflict with gated creates",
			want: "creates under Exists(gate) and Absent(their own key) never conflict with writes of other keys",
			why:  "the status of a busy namespace changes all the time; creates must not fail or wait for it",
			run:  statusUpdate,
		}, {
			name: "old incarnation refused",
			want: "a deletion under At(fence, the revision of the first life) is refused in the second, although the fence has the same value",
			why:  "rule R8: a late pass must not delete the content of the next namespace of that name",
			run:  oldIncarnation,
		},
	}
}

// create returns a create that requires a gate to exist. (Package registry requires the gate's
// revision too, since a gate of the next incarnation may exist.)
func create(gate, key string) store.Txn {
	return store.Txn{
		If: []store.Condition{store.Exists(gate), store.Absent(key)},
		Do: []store.Operation{store.Put(key, []byte("content"))},
	}
}

// createUntilRefused creates content until the gate refuses it, and returns the acknowledged
// keys. It sends on created after each create.
func (t *trial) createUntilRefused(gate, prefix string, created chan<- struct{}) ([]string, error) {
	var mine []string
	for i := 0; ; i++ {
		key := fmt.Sprintf("%s/%06d", prefix, i)
		_, err := t.store.Commit(t.ctx, create(gate, key))
		var conflict *store.ConflictError
		switch {
		case errors.As(err, &conflict) && conflict.Condition == store.Exists(gate) && conflict.Current == nil:
			return mine, nil
		case err != nil:
			return mine, fmt.Errorf("create of %q: %w", key, err)
		}
		mine = append(mine, key)
		select {
		case created <- struct{}{}:
		default:
		}
	}
}

func noOrphan(t *trial) {
	const creators = 8
	for round := range t.n(16) {
		gate, content := fmt.Sprintf("gate/%d", round), fmt.Sprintf("content/%d/", round)
		t.put(gate, "uid")
		created := make(chan struct{}, 4*creators)
		acknowledged := make([][]string, creators)
		errs := make([]error, creators)
		var running sync.WaitGroup
		for i := range creators {
			running.Go(func() {
				acknowledged[i], errs[i] = t.createUntilRefused(gate, fmt.Sprint(content, i), created)
			})
		}
		for range creators {
			t.doing("waiting for creators to create, round %d", round)
			select {
			case <-created:
			case <-t.ctx.Done():
				running.Wait()
				t.fatalf("creators do not create: %v", errors.Join(errs...))
			}
		}
		t.commit(store.Txn{
			If: []store.Condition{store.Exists(gate)},
			Do: []store.Operation{store.Delete(gate), store.Put("terminating/"+fmt.Sprint(round), []byte("uid"))},
		})
		final := values(t.list(store.Query{Prefix: content}))
		t.doing("waiting for creators to be refused, round %d", round)
		running.Wait()
		require.NoError(t, errors.Join(errs...))
		t.equal(final, values(t.list(store.Query{Prefix: content})), "the content when all creators were refused, against the listing after termination")
		count := 0
		for _, keys := range acknowledged {
			for _, key := range keys {
				if _, there := final[key]; !there {
					t.fatalf("%q was acknowledged, but is not in the listing after termination", key)
				}
				count++
			}
		}
		t.equal(count, len(final), "the number of entries, against the number of acknowledged creates")
	}
}

func statusUpdate(t *trial) {
	creates := t.n(200)
	t.put("gate", "uid")
	t.put("status", "0")
	ctx, stop := context.WithCancel(t.ctx)
	defer stop()
	t.doing("creating %d entries while the status changes", creates)
	t.all(2, func(i int) error {
		if i == 0 {
			defer stop()
			for n := range creates {
				if _, err := t.store.Commit(t.ctx, create("gate", key(n))); err != nil {
					return fmt.Errorf("create %d under a gate that no other client writes: %w", n, err)
				}
			}
			return nil
		}
		for n := 0; ctx.Err() == nil; n++ {
			e, err := t.store.Get(t.ctx, "status")
			if err != nil {
				return err
			}
			if _, err = t.store.Commit(t.ctx, store.Txn{
				If: []store.Condition{store.At("status", e.Revision)},
				Do: []store.Operation{store.Put("status", []byte(fmt.Sprint(n)))},
			}); err != nil {
				return fmt.Errorf("status update %d by the only writer of that key: %w", n, err)
			}
		}
		return nil
	})
}

func oldIncarnation(t *trial) {
	terminate := func() store.Revision {
		t.commit(store.Txn{
			If: []store.Condition{store.Absent("gate"), store.Absent("fence")},
			Do: []store.Operation{store.Put("gate", []byte("uid"))},
		})
		t.commit(create("gate", "content"))
		return t.commit(store.Txn{
			If: []store.Condition{store.Exists("gate")},
			Do: []store.Operation{store.Delete("gate"), store.Put("fence", []byte("uid"))},
		})
	}
	first := terminate()
	sweep := store.Txn{
		If: []store.Condition{store.At("fence", first)},
		Do: []store.Operation{store.Delete("content"), store.Delete("more content")},
	}
	t.commit(sweep)
	t.absent("content")
	t.delete("fence")
	t.conflict(sweep, store.At("fence", first), nil)

	second := terminate()
	there := entry("fence", "uid", second)
	t.unchanged("a deletion by the pass of the first life", func() {
		t.conflict(sweep, store.At("fence", first), &there)
	})
	require.Equal(t, "content", string(t.get("content").Value))
}
