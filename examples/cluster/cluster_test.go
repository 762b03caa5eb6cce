//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres/pgtest"
)

// The test binary is the program, and a replica of it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asReplica {
		main()
	}
	programs.Main(m, main)
}

func requireServer(t *testing.T) {
	t.Helper()
	if _, err := pgtest.Find(); err != nil {
		require.Empty(t, os.Getenv("NSLIFECYCLE_REQUIRE_SERVERS"), err)
		t.Skip(err)
	}
}

func TestConduct(t *testing.T) {
	t.Parallel()
	requireServer(t)
	programs.Conduct{Ready: "replica c started", Absent: []string{"--dsn", "postgres://x:secret@127.0.0.1:1/x"}}.Check(t)
}

func TestStory(t *testing.T) {
	t.Parallel()
	requireServer(t)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, []string{"--tenants", "60"}), "%s", &out)
	require.Regexp(t, `^starting a temporary PostgreSQL server
60 tenants created
replica a started
replica b started
replica c started
DELETE all tenants
replica b killed \(kill -9\) after a third of the work
all tenants removed [0-9]+ s after the kill
replica a stopped
replica c stopped
tenants emptied: a [0-9]+(, b [0-9]+)?, c [0-9]+
$`, out.String())
}

// The program can be interrupted and run again on the same database.
func TestAgain(t *testing.T) {
	t.Parallel()
	requireServer(t)
	server, err := pgtest.Start(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Stop()) }()
	args := []string{"--tenants", "12", "--dsn", server.DSN("postgres")}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := onWord{word: []byte("DELETE all"), call: cancel}
	require.ErrorIs(t, run(ctx, first, args), context.Canceled)
	var again bytes.Buffer
	require.NoError(t, run(t.Context(), &again, args), "%s", &again)
	require.Contains(t, again.String(), "all tenants removed")
}

// onWord is a writer that calls a function when a word is written.
type onWord struct {
	word []byte
	call func()
}

func (w onWord) Write(p []byte) (int, error) {
	if bytes.Contains(p, w.word) {
		w.call()
	}
	return len(p), nil
}

func TestBadInput(t *testing.T) {
	for want, args := range map[string][]string{
		"--tenants is 2":    {"--tenants", "2"},
		"--tenants is 5001": {"--tenants", "5001"},
		"--dsn: ":           {"--dsn", "postgres://[::1"},
		"refused":           {"--dsn", "postgres://nobody@127.0.0.1:1/none?sslmode=disable&connect_timeout=2"},
	} {
		var out bytes.Buffer
		require.ErrorContains(t, run(t.Context(), &out, args), want)
	}
}

// Four processes under load: one is killed, and one is stopped until the others have taken over
// its share, and continues. Every tenant is removed, no key is left, and the work is not repeated
// over and over.
func TestR12_FourProcesses(t *testing.T) {
	t.Parallel()
	requireServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	server, err := pgtest.Start(ctx, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Stop()) }()
	c, err := newCluster(ctx, server.DSN("postgres"), t.Output())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.close()) }()
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		require.NoError(t, c.start(name))
	}
	created := 0
	// load creates and deletes tenants until a condition holds.
	load := func(condition func() bool) {
		for {
			var batch []namespace.Namespace
			for range 24 {
				ns, err := c.client.Create(ctx, fmt.Sprintf("load-%05d", created))
				require.NoError(t, err)
				created++
				batch = append(batch, ns)
			}
			require.NoError(t, c.delete(ctx, batch))
			require.NoError(t, c.removed(ctx, batch))
			c.mu.Lock()
			done := condition()
			c.mu.Unlock()
			if done {
				return
			}
		}
	}
	everyone := func() bool { return len(c.emptied) == len(names) }
	load(everyone)
	began := time.Now()
	c.replicas["a"].kill()
	delete(c.replicas, "a")
	load(func() bool { return true })
	t.Logf("share of a taken over after %v", time.Since(began))

	b := c.replicas["b"].cmd.Process
	require.NoError(t, b.Signal(syscall.SIGSTOP))
	load(func() bool { return true })
	c.mu.Lock()
	before := c.emptied["b"]
	c.mu.Unlock()
	require.NoError(t, b.Signal(syscall.SIGCONT))
	load(func() bool { return c.emptied["b"] > before })
	for _, name := range names[1:] {
		require.NoError(t, c.replicas[name].stop())
	}
	page, err := c.store.List(ctx, store.Query{})
	require.NoError(t, err)
	for _, e := range page.Entries {
		switch { // records of types and of parties remain
		case e.Key == "/registry/.format", strings.HasPrefix(e.Key, "/registry/.types/"), strings.HasPrefix(e.Key, "/registry/.parties/"):
		default:
			t.Errorf("left behind: %s", e.Key)
		}
	}
	t.Logf("%d tenants, %d passes, emptied by %v", created, c.passes, c.emptied)
	require.Less(t, c.passes, 3*created, "the work is repeated over and over")
}
