package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres"
)

// A watch outlives a restart of the server while it still reads the log, when it is up to
// date, and when it begins during the restart.
func TestWatchThatReadsTheLogOutlivesARestart(t *testing.T) {
	t.Parallel()
	server := ownServer(t, nil)
	s := openAt(t, server.DSN("postgres"), newSchema(), &postgres.Options{Poll: 10 * time.Millisecond})
	start := store.Position{Epoch: epochOf(t, s)}
	const commits = 3
	for i := range commits {
		var operations []store.Operation
		for k := range 900 { // of a chunk of the log there is one commit
			operations = append(operations, store.Put(fmt.Sprint(i, "-", k), []byte("v")))
		}
		commit(t, s, operations...)
	}
	begun := make(chan error, 1)
	next := store.Revision(1)
	for c, err := range s.Watch(t.Context(), "", start) {
		require.NoError(t, err)
		if c.Bookmark() && c.Position.Revision == commits {
			break
		}
		require.Equal(t, next, c.Position.Revision)
		if next++; next > 2 {
			continue
		}
		require.NoError(t, server.Kill())
		go func() {
			for _, err := range s.Watch(t.Context(), "", start) {
				begun <- err
				return
			}
		}()
		resumed := make(chan error, 1)
		go func() { resumed <- server.Resume(t.Context()) }() // meanwhile the log cannot be read
		defer func() { require.NoError(t, <-resumed) }()
	}
	require.EqualValues(t, commits+1, next)
	require.NoError(t, <-begun)
}

// A watch that waits for the server ends with the store.
func TestCloseWhileAWatchWaitsForTheServer(t *testing.T) {
	t.Parallel()
	server := ownServer(t, nil)
	s := openAt(t, server.DSN("postgres"), newSchema(), nil)
	require.NoError(t, server.Kill())
	ended := make(chan error, 1)
	go func() {
		for _, err := range s.Watch(t.Context(), "", store.Position{}) {
			ended <- err
			return
		}
	}()
	require.Never(t, func() bool { return len(ended) > 0 }, 100*time.Millisecond, 10*time.Millisecond, "it waits")
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-ended, store.ErrClosed)
}
