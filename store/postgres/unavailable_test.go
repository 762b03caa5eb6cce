package postgres_test

import (
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres"
)

// checkUnavailable makes every call except Watch, which waits, all at once. It checks that each
// error reports that the database cannot be reached and that nothing was written.
func checkUnavailable(t *testing.T, s *postgres.Store) {
	t.Helper()
	var running sync.WaitGroup
	defer running.Wait()
	for name, call := range map[string]func() error{
		"get":   func() error { _, err := s.Get(t.Context(), "k"); return err },
		"list":  func() error { _, err := s.List(t.Context(), store.Query{}); return err },
		"count": func() error { _, err := s.Count(t.Context(), store.Query{}); return err },
		"commit": func() error {
			_, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("k", nil)}})
			return err
		},
		"checked read": func() error {
			_, err := s.Commit(t.Context(), store.Txn{If: []store.Condition{store.Exists("k")}})
			return err
		},
		"compact": func() error { return s.Compact(t.Context(), 1) },
	} {
		running.Go(func() {
			err := call()
			assert.ErrorIs(t, err, store.ErrUnavailable, name)
			assert.NotErrorIs(t, err, store.ErrUnknownOutcome, name)
		})
	}
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	hurry := postgres.Hurried(postgres.Options{}, 100*time.Millisecond, 0, 0, 0)
	t.Run("connections are refused", func(t *testing.T) {
		p := newProxy(t, server(t).Addr())
		s := openAt(t, p.dsn(), newSchema(), nil)
		put(t, s, "k", "v")
		p.close()
		checkUnavailable(t, s)
		_, err := postgres.Open(t.Context(), p.dsn(), newSchema(), nil)
		require.ErrorIs(t, err, store.ErrUnavailable)
	})
	t.Run("connections are not answered", func(t *testing.T) {
		p := newProxy(t, server(t).Addr())
		s := openAt(t, p.dsn()+"&connect_timeout=1", newSchema(), hurry)
		put(t, s, "k", "v")
		p.deafen()
		checkUnavailable(t, s)
		p.close() // else the pool waits for answers
	})
	t.Run("too many connections", func(t *testing.T) {
		dsn := database(t)
		execute(t, dsn, "DO $$ BEGIN CREATE ROLE crowded LOGIN CONNECTION LIMIT 0; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
		_, err := postgres.Open(t.Context(), as(dsn, "crowded"), newSchema(), nil)
		require.ErrorIs(t, err, store.ErrUnavailable)
	})
	t.Run("the server stops", func(t *testing.T) {
		own := ownServer(t, nil)
		s := openAt(t, own.DSN("postgres"), newSchema(), nil)
		put(t, s, "k", "v")
		require.NoError(t, own.Halt())
		checkUnavailable(t, s)
		require.NoError(t, own.Resume(t.Context()))
		put(t, s, "k", "w")
	})
}

// Errors of calls that wrote nothing: the database is unavailable or full, or there is another
// cause.
func TestRefusal(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]error{
		"53300": store.ErrUnavailable, // too many connections
		"53200": store.ErrUnavailable, // out of memory
		"57P01": store.ErrUnavailable, // the server stops
		"57P02": store.ErrUnavailable,
		"57P03": store.ErrUnavailable, // it starts
		"08006": store.ErrUnavailable,
		"08P01": store.ErrUnavailable, // PgBouncer: server conn crashed
		"53100": store.ErrFull,
		"42501": postgres.ErrPrivilege,
		"25006": postgres.ErrReadOnly,
		"42P01": store.ErrClosed,
		"22023": nil,
	} {
		err := postgres.Refusal(&pgconn.PgError{Severity: "ERROR", Code: code})
		for _, kind := range []error{store.ErrUnavailable, store.ErrFull, postgres.ErrPrivilege, postgres.ErrReadOnly, store.ErrClosed} {
			require.Equal(t, kind == want, errors.Is(err, kind), "%s is %v: %v", code, kind, err)
		}
	}
	require.ErrorIs(t, postgres.Refusal(io.ErrUnexpectedEOF), store.ErrUnavailable)
	require.NotErrorIs(t, postgres.Refusal(errors.New("a value cannot be scanned")), store.ErrUnavailable)
}
