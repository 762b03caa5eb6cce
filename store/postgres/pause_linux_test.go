package postgres_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A process that is stopped while it has the writer lock loses the lock, and the others go on.
func TestPausedProcessLosesTheLock(t *testing.T) {
	t.Parallel()
	dsn := server(t).DSN("postgres")
	schema := newSchema()
	s := openAt(t, dsn, schema, nil)
	paused := startWriter(t, dsn, schema, "paused")
	require.Eventually(t, func() bool { return paused.count() > 10 }, 40*time.Second, time.Millisecond)
	require.NoError(t, paused.cmd.Process.Signal(syscall.SIGSTOP))
	for range 10 {
		put(t, s, "k", "goes on")
	}
	require.NoError(t, paused.cmd.Process.Signal(syscall.SIGCONT))
	require.NoError(t, paused.end())
	<-paused.read
	_ = paused.cmd.Wait() // its connection may have been cut
	for key, r := range paused.acknowledged {
		e, err := s.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, r, e.Revision)
	}
}
