package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres"
	"github.com/nslifecycle/nslifecycle/store/postgres/guard"
)

var levels = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}

// insert creates one row in a guarded transaction.
func (h *host) insert(ctx context.Context, level pgx.TxIsoLevel, tenant string) error {
	return pgx.BeginTxFunc(ctx, h.pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
		if err := h.guard.GuardTx(ctx, tx, tenant); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, fmt.Sprintf("INSERT INTO %s (tenant) VALUES ($1)", h.table), tenant)
		return err
	})
}

// R6: writers insert as fast as they can while the namespace becomes Terminating. After the
// DELETE is acknowledged, a listing is final.
func TestR6_NoOrphansAtAnyIsolationLevel(t *testing.T) {
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			const rounds, writers = 12, 6
			refused, created, again := 0, 0, 0
			for round := range rounds {
				tenant := fmt.Sprintf("tenant-%d", round)
				h.create(tenant)
				var mu sync.Mutex
				var running sync.WaitGroup
				errs := make([]error, writers)
				begun := make(chan struct{}, writers)
				for w := range writers {
					running.Go(func() {
						for first := true; ; first = false {
							err := h.insert(h.ctx, level, tenant)
							mu.Lock()
							switch {
							case err == nil:
								created++
							case errors.Is(err, namespace.ErrConflict):
								again++
							case errors.Is(err, namespace.ErrTerminating):
								refused++
							default:
								errs[w] = err
							}
							mu.Unlock()
							if first {
								begun <- struct{}{}
							}
							if err != nil && !errors.Is(err, namespace.ErrConflict) {
								return
							}
						}
					})
				}
				for range 1 + round%writers {
					<-begun
				}
				require.NoError(t, h.terminate(h.ctx, tenant))
				final := h.orders(tenant)
				running.Wait()
				require.NoError(t, errors.Join(errs...))
				require.Equal(t, final, h.orders(tenant), "rows when every writer was refused, against the listing after the termination")
				_, err := h.registry.Finalize(h.ctx, namespace.Namespace{Meta: namespace.Meta{Name: tenant}})
				require.NoError(t, err)
				require.ErrorIs(t, h.insert(h.ctx, level, tenant), namespace.ErrNotFound)
			}
			require.Equal(t, rounds*writers, refused)
			require.Positive(t, created)
			t.Logf("%d rows created, %d attempts made again", created, again)
		})
	}
}

// An open transaction delays only the termination of its own namespace.
func TestOpenTransactionHoldsUpItsNamespaceOnly(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.create("held")
	h.create("other")
	tx := h.begin()
	require.NoError(t, h.guard.GuardTx(h.ctx, tx, "held"))
	done := make(chan error, 1)
	go func() { done <- h.terminate(h.ctx, "held") }()
	h.waitForLock("a termination that waits")

	longest := time.Duration(0)
	for i := range 50 {
		begun := time.Now()
		name := fmt.Sprintf("new-%d", i)
		h.create(name)
		require.NoError(t, h.insert(h.ctx, pgx.ReadCommitted, name))
		require.NoError(t, h.terminate(h.ctx, name))
		longest = max(longest, time.Since(begun))
	}
	require.NoError(t, h.insert(h.ctx, pgx.ReadCommitted, "other"))
	select {
	case err := <-done:
		require.Fail(t, "the termination did not wait", "%v", err)
	default:
	}
	t.Logf("creation, insert and termination of another namespace took %v at most", longest)
	_, err := tx.Exec(h.ctx, fmt.Sprintf("INSERT INTO %s (tenant) VALUES ('held')", h.table))
	require.NoError(t, err)
	require.NoError(t, tx.Commit(h.ctx))
	require.NoError(t, <-done)
	require.Equal(t, 1, h.orders("held"))
	require.ErrorIs(t, h.insert(h.ctx, pgx.ReadCommitted, "held"), namespace.ErrTerminating)
}

// waitForLock returns when a session waits for a lock.
func (h *host) waitForLock(what string) {
	h.tb.Helper()
	require.Eventually(h.tb, func() bool {
		var n int
		err := h.pool.QueryRow(h.ctx, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`).Scan(&n)
		return err == nil && n > 0
	}, 20*time.Second, 5*time.Millisecond, what)
}

// A termination that its caller withdraws has no effect, also later.
func TestTerminationThatWaitsCanBeWithdrawn(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.create("held")
	tx := h.begin()
	require.NoError(t, h.guard.GuardTx(h.ctx, tx, "held"))
	ctx, cancel := context.WithCancelCause(h.ctx)
	done := make(chan error, 1)
	go func() { done <- h.terminate(ctx, "held") }()
	h.waitForLock("a termination that waits")
	cause := errors.New("the caller gave up")
	cancel(cause)
	err := <-done
	require.ErrorIs(t, err, cause)
	require.NotErrorIs(t, err, namespace.ErrUnknownOutcome)
	require.NoError(t, tx.Rollback(h.ctx))
	require.NoError(t, h.insert(h.ctx, pgx.ReadCommitted, "held"))
}

// Guards that always overlap do not delay a termination forever.
func TestStreamOfGuardsDoesNotStarveTermination(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.create("busy")
	const streams = 4
	ctx, stop := context.WithCancel(h.ctx)
	defer stop()
	var running sync.WaitGroup
	next := make([]chan struct{}, streams) // each lets the next go on once it holds: some guard is always open
	for i := range next {
		next[i] = make(chan struct{}, 1)
	}
	errs := make([]error, streams)
	for i := range streams {
		running.Go(func() {
			for {
				err := pgx.BeginFunc(ctx, h.pool, func(tx pgx.Tx) error {
					if err := h.guard.GuardTx(ctx, tx, "busy"); err != nil {
						return err
					}
					select { // held until the next one holds too, or cannot
					case next[i] <- struct{}{}:
					default:
					}
					select {
					case <-next[(i+1)%streams]:
					case <-time.After(300 * time.Millisecond):
					case <-ctx.Done():
					}
					return nil
				})
				if err != nil {
					if !errors.Is(err, namespace.ErrTerminating) {
						errs[i] = err
					}
					return
				}
			}
		})
	}
	<-next[0]
	limit, cancel := context.WithTimeout(h.ctx, 30*time.Second)
	defer cancel()
	require.NoError(t, h.terminate(limit, "busy"))
	running.Wait()
	require.NoError(t, errors.Join(errs...))
}

// Four held namespaces share few connections of the pool with one whose hold ends: its
// termination does not wait for theirs.
func TestManyTerminationsThatWaitShareTheirConnections(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	const held = 10 // more than a quarter of the pool
	var txs []pgx.Tx
	done := make(chan error, held)
	for i := range held {
		name := fmt.Sprintf("held-%d", i)
		h.create(name)
		tx := h.begin()
		require.NoError(t, h.guard.GuardTx(h.ctx, tx, name))
		txs = append(txs, tx)
		go func() { done <- h.terminate(h.ctx, name) }()
	}
	h.waitForLock("terminations that wait")
	for _, tx := range txs[1:] {
		require.NoError(t, tx.Commit(h.ctx))
	}
	for range held - 1 {
		require.NoError(t, <-done)
	}
	require.NoError(t, txs[0].Commit(h.ctx))
	require.NoError(t, <-done)
}

// Two transactions hold the same two namespaces in opposite order, while both are terminated.
// However the server resolves the cycle, all transactions end.
func TestOppositeOrdersComeToAnEnd(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for round := range 5 {
		a, b := fmt.Sprintf("a-%d", round), fmt.Sprintf("b-%d", round)
		h.create(a)
		h.create(b)
		first, second := h.begin(), h.begin()
		require.NoError(t, h.guard.GuardTx(h.ctx, first, a))
		require.NoError(t, h.guard.GuardTx(h.ctx, second, b))
		done := make(chan error, 4)
		go func() { done <- h.terminate(h.ctx, a) }()
		go func() { done <- h.terminate(h.ctx, b) }()
		h.waitForLock("a termination that waits")
		finish := func(tx pgx.Tx, name string) {
			err := h.guard.GuardTx(h.ctx, tx, name)
			_ = tx.Rollback(h.ctx) // its fate is not the point
			if err != nil && !errors.Is(err, namespace.ErrTerminating) && !errors.Is(err, namespace.ErrConflict) {
				done <- err
				return
			}
			done <- nil
		}
		go finish(first, b)
		go finish(second, a)
		for range 4 {
			require.NoError(t, <-done)
		}
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	_, err := guard.New(nil, "")
	require.ErrorIs(t, err, namespace.ErrInvalid)
	h := newHost(t)
	for _, prefix := range []string{"/", "a//b", ".hidden", "a%b", "\xff", strings.Repeat("x", 300)} {
		_, err := guard.New(h.store, prefix)
		require.ErrorIs(t, err, namespace.ErrInvalid, "prefix %.10q", prefix)
	}
	tx := h.begin()
	for _, name := range []string{"", "a/b", "..", "\x00", "\xff", strings.Repeat("n", 300)} {
		require.ErrorIs(t, h.guard.GuardTx(h.ctx, tx, name), namespace.ErrBadRequest, "name %.10q", name)
	}
	require.ErrorIs(t, h.guard.GuardTx(h.ctx, nil, "acme"), namespace.ErrBadRequest)
	require.ErrorIs(t, h.guard.GuardTx(h.ctx, tx, "acme"), namespace.ErrNotFound)
	require.NoError(t, tx.Commit(h.ctx), "the transaction can go on after a refusal")

	ended, cancel := context.WithCancel(h.ctx)
	cancel()
	tx = h.begin()
	require.ErrorIs(t, h.guard.GuardTx(ended, tx, "acme"), context.Canceled)
	require.NoError(t, tx.Rollback(h.ctx))
	require.ErrorIs(t, h.guard.GuardTx(h.ctx, tx, "acme"), pgx.ErrTxClosed)
}

func TestClosedStoreRefusesToGuard(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.create("acme")
	s, err := postgres.New(h.ctx, h.pool, h.schema, nil)
	require.NoError(t, err)
	g, err := guard.New(s, "registry")
	require.NoError(t, err)
	tx := h.begin()
	require.NoError(t, g.GuardTx(h.ctx, tx, "acme"))
	require.NoError(t, s.Close())
	require.ErrorIs(t, g.GuardTx(h.ctx, tx, "acme"), store.ErrClosed)
}

// R8: DeletingTx refuses another incarnation. The removal of its own waits for the transaction,
// so that the next incarnation cannot begin before.
func TestR8_DeletingHoldsOneIncarnation(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	first := h.create("acme")
	target := deleter.Target{Namespace: "acme", UID: first.UID, DeletedAt: time.Now()}
	tx := h.begin()
	require.ErrorIs(t, h.guard.DeletingTx(h.ctx, tx, target), deleter.ErrIncarnation, "it is Active")
	require.NoError(t, h.terminate(h.ctx, "acme"))
	require.NoError(t, h.guard.DeletingTx(h.ctx, tx, target))

	done := make(chan error, 1)
	go func() {
		_, err := h.registry.Finalize(h.ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme", UID: first.UID}})
		done <- err
	}()
	h.waitForLock("a removal that waits")
	require.NoError(t, tx.Commit(h.ctx))
	require.NoError(t, <-done)

	h.create("acme")
	require.NoError(t, h.terminate(h.ctx, "acme"))
	late := h.begin()
	require.ErrorIs(t, h.guard.DeletingTx(h.ctx, late, target), deleter.ErrIncarnation)
	for _, target := range []deleter.Target{{}, {Namespace: "acme"}, {Namespace: "a/b", UID: "1", DeletedAt: time.Now()}, {Namespace: ".hidden", UID: "1", DeletedAt: time.Now()}} {
		require.ErrorIs(t, h.guard.DeletingTx(h.ctx, late, target), deleter.ErrInvalid)
	}
}
