package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres"
	"github.com/nslifecycle/nslifecycle/store/postgres/pgtest"
)

// underFault runs clients on two stores during fault, and checks their history.
func underFault(t *testing.T, dsn string, options *postgres.Options, fault func(h *history)) *history {
	t.Helper()
	schema := newSchema()
	a, b := openAt(t, dsn, schema, options), openAt(t, dsn, schema, options)
	start, err := a.List(t.Context(), store.Query{})
	require.NoError(t, err)
	h := &history{tb: t}
	f := follow(b, start.Position)
	defer f.stop()
	stop := make(chan struct{})
	running := h.clients(4, stop, a, b)
	func() {
		defer running.Wait()
		defer close(stop)
		h.progress(60)
		fault(h)
		h.progress(60)
	}()
	h.verify(a, start, f)
	return h
}

func TestFaultServerRestarted(t *testing.T) {
	t.Parallel()
	server := ownServer(t, nil)
	underFault(t, server.DSN("postgres"), nil, func(h *history) {
		for range 2 {
			require.NoError(t, server.Halt())
			require.NoError(t, server.Resume(t.Context()))
			h.progress(40)
		}
	})
}

func TestFaultServerKilled(t *testing.T) {
	t.Parallel()
	server := ownServer(t, nil)
	h := underFault(t, server.DSN("postgres"), nil, func(h *history) {
		for range 2 {
			require.NoError(t, server.Kill())
			require.NoError(t, server.Resume(t.Context()))
			h.progress(40)
		}
	})
	require.Positive(t, h.failed, "calls that the crash met")
}

// If the answer to COMMIT never arrives, the outcome is unknown, although the store has the
// write.
func TestFaultCutBetweenCommitAndItsAnswer(t *testing.T) {
	t.Parallel()
	p := newProxy(t, server(t).Addr())
	s := openAt(t, p.dsn(), newSchema(), nil)
	before := put(t, s, "k", "before")
	p.whenever(answersCommit)
	_, err := s.Commit(t.Context(), store.Txn{
		If: []store.Condition{store.At("k", before)}, Do: []store.Operation{store.Put("k", []byte("after"))},
	})
	require.ErrorIs(t, err, store.ErrUnknownOutcome)
	p.whenever(nil)
	e, err := s.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "after", string(e.Value))

	t.Run("under load", func(t *testing.T) {
		h := underFault(t, p.dsn(), nil, func(h *history) {
			for range 3 {
				cut := make(chan struct{})
				once := false
				p.whenever(func(answer []byte) bool {
					if once || !answersCommit(answer) {
						return false
					}
					once = true
					close(cut)
					return true
				})
				<-cut
				h.progress(20)
			}
		})
		require.Positive(t, h.failed)
	})
}

func TestFaultAllConnectionsCut(t *testing.T) {
	t.Parallel()
	p := newProxy(t, server(t).Addr())
	underFault(t, p.dsn(), nil, func(h *history) {
		for range 5 {
			p.cutAll()
			h.progress(20)
		}
	})
}

// An open foreign transaction that has written and sees an old snapshot neither hides nor delays
// commits of other clients.
func TestFaultLongForeignTransaction(t *testing.T) {
	t.Parallel()
	dsn := server(t).DSN("postgres")
	table := "foreign_" + newSchema()
	execute(t, dsn, "CREATE TABLE "+table+" (id int)")
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.Serializable})
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	underFault(t, dsn, nil, func(h *history) {})
	require.NoError(t, tx.Commit(t.Context()))
}

// While the host uses every connection of the pool, calls wait and can be withdrawn. Then they
// continue.
func TestFaultPoolExhausted(t *testing.T) {
	t.Parallel()
	pool := newPool(t, server(t).DSN("postgres")+"&pool_max_conns=2")
	s, err := postgres.New(t.Context(), pool, newSchema(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	put(t, s, "k", "1")
	conns := make([]*pgxpool.Conn, 2)
	for i := range conns {
		conns[i], err = pool.Acquire(t.Context())
		require.NoError(t, err)
	}
	cause := errors.New("the caller gave up")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, cause)
	defer cancel()
	_, err = s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("k", []byte("2"))}})
	require.ErrorIs(t, err, cause)
	require.NotErrorIs(t, err, store.ErrUnknownOutcome, "nothing was submitted")
	_, err = s.Get(ctx, "k")
	require.ErrorIs(t, err, cause)
	for _, c := range conns {
		c.Release()
	}
	e, err := s.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "1", string(e.Value))
	put(t, s, "k", "3")
}

// While another session has the writer lock, commits wait and can be withdrawn.
func TestFaultLockHeld(t *testing.T) {
	t.Parallel()
	dsn := server(t).DSN("postgres")
	s, schema := openNew(t, nil)
	put(t, s, "k", "1")
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), postgres.WriterLock(schema))
	require.NoError(t, err)
	cause := errors.New("the caller gave up")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, cause)
	defer cancel()
	_, err = s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("k", []byte("2"))}})
	require.ErrorIs(t, err, cause)
	require.NotErrorIs(t, err, store.ErrUnknownOutcome)
	done := make(chan error, 1)
	go func() {
		_, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("other", nil)}})
		done <- err
	}()
	e, err := s.Get(t.Context(), "k") // reads do not wait
	require.NoError(t, err)
	require.Equal(t, "1", string(e.Value))
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-done)
}

// Rows that another session has locked delay only the requests for them.
func TestFaultRowsLockedByHand(t *testing.T) {
	t.Parallel()
	dsn := server(t).DSN("postgres")
	s, schema := openNew(t, nil)
	put(t, s, "locked", "1")
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), fmt.Sprintf("SELECT * FROM %s.state FOR UPDATE", schema))
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := s.Commit(context.Background(), store.Txn{Do: []store.Operation{store.Put("locked", []byte("2")), store.Delete("absent")}})
		done <- err
	}()
	for i := range 20 {
		put(t, s, "free", fmt.Sprint(i))
	}
	select {
	case err := <-done:
		require.Fail(t, "it did not wait", "%v", err)
	default:
	}
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-done)
	e, err := s.Get(t.Context(), "locked")
	require.NoError(t, err)
	require.Equal(t, "2", string(e.Value))
}

// Close does not wait for blocked requests.
func TestCloseWhileRequestsWait(t *testing.T) {
	t.Parallel()
	dsn := server(t).DSN("postgres")
	schema := newSchema()
	s, err := postgres.Open(t.Context(), dsn, schema, nil)
	require.NoError(t, err)
	put(t, s, "locked", "1")
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.HoldTx(t.Context(), tx, "locked"))
	done := make(chan error, 1)
	go func() {
		_, err := s.Commit(context.Background(), store.Txn{Do: []store.Operation{store.Delete("locked")}})
		done <- err
	}()
	awaitLockWaiters(t, dsn, schema, 1)
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-done, store.ErrClosed)
	require.NoError(t, tx.Commit(t.Context()))
	e, err := openAt(t, dsn, schema, nil).Get(t.Context(), "locked")
	require.NoError(t, err)
	require.Equal(t, "1", string(e.Value))
}

// The database is restored under a running store, with and without a new epoch.
func TestRestoreUnderARunningStore(t *testing.T) {
	t.Parallel()
	dsn := server(t).DSN("postgres")
	for _, how := range []string{"new epoch", "older revision"} {
		s, schema := openNew(t, &postgres.Options{Poll: 10 * time.Millisecond})
		for i := range 5 {
			put(t, s, "k", fmt.Sprint(i))
		}
		ended := make(chan error, 1)
		begun := make(chan struct{}, 1)
		go func() {
			for _, err := range s.Watch(context.Background(), "", store.Position{}) {
				if err != nil {
					ended <- err
				}
				select {
				case begun <- struct{}{}:
				default:
				}
			}
		}()
		<-begun
		if how == "new epoch" {
			openAt(t, dsn, schema, &postgres.Options{NewEpoch: true})
		} else {
			execute(t, dsn, fmt.Sprintf("DELETE FROM %[1]s.log WHERE revision > 2", schema))
		}
		require.ErrorIs(t, <-ended, store.ErrGone, how)
		put(t, s, "next", "v") // the store still works
		for c, err := range s.Watch(t.Context(), "", store.Position{}) {
			require.NoError(t, err)
			require.True(t, c.Bookmark())
			break
		}
	}
}

// A commit that does not fit on the disk of the server fails with ErrFull and writes nothing. A
// disk that fills up in the WAL ends the server, and the outcome is unknown.
func TestFaultDiskFull(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 48)
	server := ownServer(t, &pgtest.Options{Parent: dir, Settings: map[string]string{
		"max_wal_size": "32MB", "min_wal_size": "32MB", "wal_recycle": "off", "shared_buffers": "1MB", "autovacuum": "off",
	}})
	s := openAt(t, server.DSN("postgres"), newSchema(), nil)
	put(t, s, "first", "v")
	require.NotEmpty(t, filepath.Base(dir))
	acknowledged := 1
	var err error
	for i := 0; err == nil && i < 100; i++ {
		if _, err = s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put(fmt.Sprint(i), incompressible(1<<20))}}); err == nil {
			acknowledged++
		}
	}
	require.Error(t, err, "a disk that is full")
	t.Logf("after %d commits: %v", acknowledged, err)
	if !errors.Is(err, store.ErrUnknownOutcome) { // a full WAL ends the server
		require.ErrorIs(t, err, store.ErrFull)
		p, err := s.List(t.Context(), store.Query{})
		require.NoError(t, err)
		require.Len(t, p.Entries, acknowledged)
	}
}
