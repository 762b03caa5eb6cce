package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres"
)

func TestBadInput(t *testing.T) {
	t.Parallel()
	s, _ := openNew(t, nil)
	tx, err := newPool(t, server(t).DSN("postgres")).Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	long := string(bytes.Repeat([]byte("k"), 2049))
	get := func(_ store.Entry, err error) error { return err }
	for i, tt := range []struct {
		err, want error
	}{
		{s.HoldTx(t.Context(), nil, "k"), store.ErrInvalid},
		{s.HoldTx(t.Context(), tx, ""), store.ErrInvalid},
		{s.HoldTx(t.Context(), tx, long), store.ErrTooLarge},
		{s.HoldTx(t.Context(), tx, "absent"), store.ErrNotFound},
		{get(s.GetTx(t.Context(), nil, "k")), store.ErrInvalid},
		{get(s.GetTx(t.Context(), tx, "")), store.ErrInvalid},
		{get(s.GetTx(t.Context(), tx, long)), store.ErrTooLarge},
		{get(s.GetTx(t.Context(), tx, "absent")), store.ErrNotFound},
		{s.Compact(t.Context(), -1), store.ErrInvalid},
		{s.Compact(t.Context(), 1), store.ErrFuture},
	} {
		require.ErrorIs(t, tt.err, tt.want, "case %d", i)
	}
	require.NoError(t, tx.Commit(t.Context()), "refusals leave the transaction as it was")
	p, err := s.List(t.Context(), store.Query{})
	require.NoError(t, err)
	require.Equal(t, store.Revision(0), p.Position.Revision)
}

// A held entry can be updated, but not deleted. The hold ends with its transaction.
func TestHoldTx(t *testing.T) {
	t.Parallel()
	s, _ := openNew(t, nil)
	r := put(t, s, "k", "1")
	tx, err := newPool(t, server(t).DSN("postgres")).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	require.NoError(t, s.HoldTx(t.Context(), tx, "k"))
	require.NoError(t, s.HoldTx(t.Context(), tx, "k"), "again")
	put(t, s, "k", "2")
	e, err := s.GetTx(t.Context(), tx, "k")
	require.NoError(t, err)
	require.Equal(t, "2", string(e.Value))

	// A deletion whose condition fails need not wait.
	_, err = s.Commit(t.Context(), store.Txn{If: []store.Condition{store.At("k", r)}, Do: []store.Operation{store.Delete("k")}})
	require.ErrorIs(t, err, store.ErrConflict)
	done := make(chan error, 1)
	go func() {
		_, err := s.Commit(context.Background(), store.Txn{
			If: []store.Condition{store.At("k", e.Revision)}, Do: []store.Operation{store.Delete("k"), store.Put("gone", nil)},
		})
		done <- err
	}()
	for i := range 10 {
		put(t, s, "other", fmt.Sprint(i))
	}
	_, err = s.Get(t.Context(), "gone")
	require.ErrorIs(t, err, store.ErrNotFound)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-done)
	_, err = s.Get(t.Context(), "k")
	require.ErrorIs(t, err, store.ErrNotFound)
}

// The conditions of a blocked transaction are evaluated after the wait.
func TestWaitingDeletionIsDecidedAfterTheWait(t *testing.T) {
	t.Parallel()
	s, _ := openNew(t, nil)
	r := put(t, s, "k", "1")
	tx, err := newPool(t, server(t).DSN("postgres")).Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	require.NoError(t, s.HoldTx(t.Context(), tx, "k"))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = s.Commit(ctx, store.Txn{If: []store.Condition{store.At("k", r)}, Do: []store.Operation{store.Delete("k")}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, store.ErrUnknownOutcome)
	done := make(chan error, 1)
	go func() {
		_, err := s.Commit(context.Background(), store.Txn{If: []store.Condition{store.At("k", r)}, Do: []store.Operation{store.Delete("k")}})
		done <- err
	}()
	put(t, s, "k", "2") // before or while the other waits: either way it must lose
	require.NoError(t, tx.Commit(t.Context()))
	require.ErrorIs(t, <-done, store.ErrConflict)
}

// The log does not outgrow the retention, and dropping records loses no entry.
func TestRetention(t *testing.T) {
	t.Parallel()
	s, schema := openNew(t, &postgres.Options{Retain: 64})
	pool := newPool(t, server(t).DSN("postgres"))
	for i := range 500 {
		put(t, s, fmt.Sprint("k", i%7), fmt.Sprint(i))
	}
	require.Eventually(t, func() bool {
		var rows int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".log").Scan(&rows))
		return rows <= 64+8+1
	}, 20*time.Second, 5*time.Millisecond, "old records are dropped")
	now, err := s.List(t.Context(), store.Query{})
	require.NoError(t, err)
	require.Len(t, now.Entries, 7)
	at := store.Position{Revision: now.Position.Revision - 60}
	_, err = s.List(t.Context(), store.Query{At: at})
	require.NoError(t, err, "retained revisions can be listed")
	at.Revision = now.Position.Revision - 80
	_, err = s.List(t.Context(), store.Query{At: at})
	require.ErrorIs(t, err, store.ErrGone)
}

// A watch that reads the log yields a commit larger than a chunk as one change.
func TestReplayOfLargeCommits(t *testing.T) {
	t.Parallel()
	s, _ := openNew(t, nil)
	start := store.Position{Epoch: epochOf(t, s)}
	sizes := []int{1, 1500, 1, 1024, 3, 8192, 1}
	for i, n := range sizes {
		var txn store.Txn
		for k := range n {
			txn.Do = append(txn.Do, store.Put(fmt.Sprintf("%d/%d", i, k), nil))
		}
		_, err := s.Commit(t.Context(), txn)
		require.NoError(t, err)
	}
	large := bytes.Repeat([]byte("x"), 3<<20) // two of them exceed a chunk
	for i := range 3 {
		put(t, s, fmt.Sprint("large", i), string(large))
	}
	commit(t, s, store.Put("large0", large), store.Put("large1", large))
	sizes = append(sizes, 1, 1, 1, 2)
	for _, prefix := range []string{"", "5/", "large"} {
		var got []int
		for c, err := range s.Watch(t.Context(), prefix, start) {
			require.NoError(t, err)
			if c.Bookmark() && c.Position.Revision >= store.Revision(len(sizes)) {
				break
			}
			got = append(got, len(c.Events))
		}
		want := map[string][]int{"": sizes, "5/": {8192}, "large": {1, 1, 1, 2}}[prefix]
		require.Equal(t, want, got, "prefix %q", prefix)
	}
}

// The largest limit means no limit.
func TestLargestLimit(t *testing.T) {
	t.Parallel()
	s, _ := openNew(t, nil)
	put(t, s, "a", "1")
	first := put(t, s, "b", "1")
	put(t, s, "b", "2")
	for _, at := range []store.Position{{}, {Revision: first}} {
		p, err := s.List(t.Context(), store.Query{Limit: math.MaxInt, At: at})
		require.NoError(t, err)
		require.Len(t, p.Entries, 2)
		require.False(t, p.More)
	}
}

// A deletion succeeds although some transaction always holds the entry.
func TestDeletionBetweenHoldsThatOverlap(t *testing.T) {
	t.Parallel()
	schema := newSchema()
	dsn := server(t).DSN("postgres")
	s := openAt(t, dsn, schema, postgres.Hurried(postgres.Options{}, 0, 0, 20*time.Millisecond, 0))
	pool := newPool(t, dsn+"&pool_max_conns=8")
	put(t, s, "gate", "u")
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	var hosts sync.WaitGroup
	held := make(chan struct{}, 1)
	for range 6 {
		hosts.Go(func() {
			for ctx.Err() == nil {
				err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					if err := s.HoldTx(ctx, tx, "gate"); err != nil {
						return err
					}
					select {
					case held <- struct{}{}:
					default:
					}
					_, err := tx.Exec(ctx, "SELECT pg_sleep(0.08 + random() * 0.08)") // the host's work
					return err
				})
				if errors.Is(err, store.ErrNotFound) {
					return
				}
			}
		})
	}
	<-held
	_, err := s.Commit(ctx, store.Txn{Do: []store.Operation{store.Delete("gate")}})
	require.NoError(t, err)
	hosts.Wait()
	require.NoError(t, ctx.Err(), "every host has seen it gone")
}
