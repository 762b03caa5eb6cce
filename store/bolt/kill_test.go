package bolt

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

const (
	killEnv     = "BOLT_TEST_KILL" // "path seed": run the child that is killed
	killWriters = 6
	killKeys    = 12 // of each writer
)

// A short history, so that the child is killed while old changes are dropped too.
var killOptions = Options{Retain: 300, Check: true}

func TestMain(m *testing.M) {
	if job := os.Getenv(killEnv); job != "" {
		if err := killChild(job, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// killStep returns the n-th transaction of a writer. It depends on its arguments only, so the
// parent can compute the entries from the number of steps. Each step also increments a counter in
// the same transaction.
func killStep(seed uint64, writer, n int) []store.Operation {
	rng := rand.New(rand.NewPCG(seed, uint64(writer)<<32|uint64(n)))
	ops := []store.Operation{store.Put(killCounter(writer), []byte(strconv.Itoa(n)))}
	for _, k := range rng.Perm(killKeys)[:rng.IntN(4)] {
		key := fmt.Sprintf("w%d/k%02d", writer, k)
		if rng.IntN(3) == 0 {
			ops = append(ops, store.Delete(key))
		} else {
			ops = append(ops, store.Put(key, bytes.Repeat([]byte{byte(n)}, rng.IntN(2000))))
		}
	}
	return ops
}

func killCounter(writer int) string { return fmt.Sprintf("w%d/count", writer) }

// killChild resumes each writer at the step in the file. After each commit it prints
// "writer step revision".
func killChild(job string, out io.Writer) error {
	path, text, _ := strings.Cut(job, " ")
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return err
	}
	s, err := Open(path, &killOptions)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for writer := range killWriters {
		go func() { failed <- killWriter(s, seed, writer, out) }()
	}
	return <-failed
}

func killWriter(s store.Store, seed uint64, writer int, out io.Writer) error {
	ctx := context.Background()
	key := killCounter(writer)
	condition, n := store.Absent(key), 0
	if e, err := s.Get(ctx, key); err == nil {
		condition = store.At(key, e.Revision)
		if n, err = strconv.Atoi(string(e.Value)); err != nil {
			return err
		}
	}
	for {
		n++
		r, err := s.Commit(ctx, store.Txn{If: []store.Condition{condition}, Do: killStep(seed, writer, n)})
		if err != nil {
			return err
		}
		// One write per line, so that the parent reads a line completely or not at all.
		if _, err := io.WriteString(out, fmt.Sprintf("%d %d %d\n", writer, n, r)); err != nil {
			return err
		}
		condition = store.At(key, r)
	}
}

// killRecord has the acknowledged steps of one writer.
type killRecord struct {
	step  int               // the number of the step that produced state
	acked int               // the newest acknowledged step
	rev   store.Revision    // of the acknowledged step
	state map[string]string // of the writer's keys
}

// After a SIGKILL at any moment, the file has every acknowledged transaction and no part of any
// other, a log that explains the state, and no revision is used again.
func TestKill(t *testing.T) {
	t.Parallel()
	rounds := 25
	if testing.Short() {
		rounds = 8
	}
	rng := seeded(t)
	seed := rng.Uint64()
	path := filepath.Join(t.TempDir(), "store.db")
	writers := make([]killRecord, killWriters)
	for w := range writers {
		writers[w].state = map[string]string{}
	}
	var newest store.Revision // the newest revision that a reader has seen
	total := 0
	for round := range rounds {
		total += killOnce(t, rng, path, seed, writers, newest)
		s := openAt(t, path, &killOptions)
		page := listAt(t, s, store.Position{})
		for _, w := range writers {
			require.GreaterOrEqual(t, page.Position.Revision, w.rev, "round %d: the store has gone back", round)
		}
		newest = page.Position.Revision
		requireAcknowledged(t, seed, writers, page)
		requireLogGivesState(t, s, page)
		checkFile(t, s)
		require.NoError(t, s.Close())
	}
	t.Logf("%d acknowledged transactions, %d kills, revision %d", total, rounds, newest)
	require.Positive(t, total)
}

// killOnce runs a child, kills it and records the commits that it acknowledged.
func killOnce(t *testing.T, rng *rand.Rand, path string, seed uint64, writers []killRecord, newest store.Revision) (acks int) {
	t.Helper()
	var complaint bytes.Buffer
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", killEnv, path, seed))
	child.Stderr = &complaint
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	limit := rng.IntN(300)
	if rng.IntN(3) == 0 { // sometimes while it opens the file
		kill := time.AfterFunc(time.Duration(rng.Int64N(int64(30*time.Millisecond))), func() { _ = child.Process.Kill() })
		defer kill.Stop()
	}
	for lines := bufio.NewScanner(out); lines.Scan(); acks++ {
		if acks == limit {
			require.NoError(t, child.Process.Kill())
		}
		var writer, step int
		var r store.Revision
		_, err := fmt.Sscanf(lines.Text(), "%d %d %d", &writer, &step, &r)
		require.NoError(t, err, "%q", lines.Text())
		require.Greater(t, r, newest, "a revision is used again")
		w := &writers[writer]
		require.Greater(t, step, w.acked)
		w.acked, w.rev = step, r
	}
	err = child.Wait()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, -1, exit.ExitCode(), "the child failed before it was killed: %s", complaint.String())
	return acks
}

// Open refuses a file that another process has open, or waits for it. The file is free as soon as
// that process is dead.
func TestHeldByAnotherProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", killEnv, path, 1))
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	defer func() { _ = child.Wait() }()
	defer func() { _ = child.Process.Kill() }()
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan(), "it writes")
	_, err = Open(path, nil)
	require.ErrorIs(t, err, store.ErrInUse)
	_, err = Open(path, &Options{Wait: time.Millisecond})
	require.ErrorIs(t, err, store.ErrInUse)
	require.NoError(t, child.Process.Kill())
	s := openAt(t, path, &Options{Wait: time.Minute})
	require.NotEmpty(t, listAt(t, s, store.Position{}).Entries)
	checkFile(t, s)
}

// requireAcknowledged requires that the keys of each writer are in the state after its newest
// acknowledged step, or after the step in progress.
func requireAcknowledged(t *testing.T, seed uint64, writers []killRecord, page store.Page) {
	t.Helper()
	found := make([]map[string]string, killWriters)
	for w := range found {
		found[w] = map[string]string{}
	}
	for _, e := range page.Entries {
		w := int(e.Key[1] - '0')
		found[w][e.Key] = string(e.Value)
		if e.Key == killCounter(w) && string(e.Value) == strconv.Itoa(writers[w].acked) {
			require.Equal(t, writers[w].rev, e.Revision, "the revision that was acknowledged")
		}
	}
	for i := range writers {
		w := &writers[i]
		step := 0
		if count, ok := found[i][killCounter(i)]; ok {
			var err error
			step, err = strconv.Atoi(count)
			require.NoError(t, err)
		}
		require.GreaterOrEqual(t, step, w.acked, "writer %d: an acknowledged transaction is lost", i)
		require.LessOrEqual(t, step, max(w.acked, w.step)+1, "writer %d: more than it has done", i)
		for ; w.step < step; w.step++ {
			for _, op := range killStep(seed, i, w.step+1) {
				if op.Delete {
					delete(w.state, op.Key)
				} else {
					w.state[op.Key] = string(op.Value)
				}
			}
		}
		require.True(t, maps.Equal(w.state, found[i]), "writer %d: a part of a transaction", i)
	}
}

// requireLogGivesState replays the log onto the listing at the oldest position and compares the
// result with the current listing.
func requireLogGivesState(t *testing.T, s *Store, now store.Page) {
	t.Helper()
	var oldest store.Position
	require.NoError(t, s.view(t.Context(), viewHead(func(h head) {
		oldest = store.Position{Epoch: now.Position.Epoch, Revision: max(h.compacted, firstRevision)}
	})))
	state := map[string]store.Entry{}
	for _, e := range listAt(t, s, oldest).Entries {
		state[e.Key] = e
	}
	changes, upTo := changesUntil(t, s, "", oldest)
	require.Equal(t, now.Position, upTo)
	for _, c := range changes {
		for _, e := range c.Events {
			old, ok := state[e.Key]
			if prev := e.Prev; ok != (prev != nil) || ok && (prev.Revision != old.Revision || !bytes.Equal(prev.Value, old.Value)) {
				require.Empty(t, cmp.Diff(pointer(old, ok), prev), "the entry before %q at revision %d", e.Key, c.Position.Revision)
			}
			if e.Deleted {
				delete(state, e.Key)
			} else {
				state[e.Key] = store.Entry{Key: e.Key, Value: e.Value, Revision: c.Position.Revision}
			}
		}
	}
	var replayed []store.Entry
	for _, key := range slices.Sorted(maps.Keys(state)) {
		replayed = append(replayed, state[key])
	}
	require.Equal(t, now.Entries, replayed)
}
