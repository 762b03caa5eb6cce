package postgres_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres"
)

// The environment of this binary in a child process: the database, the schema, and the name of
// the writer.
const envChild = "NSLIFECYCLE_TEST_WRITER"

// child runs the writer if this process was started as one.
func child() bool {
	words := strings.Fields(os.Getenv(envChild))
	if len(words) != 3 {
		return false
	}
	if err := writer(words[0], words[1], words[2]); err != nil {
		fmt.Println("failed", err)
	}
	return true
}

// writer opens the store. Until its standard input ends, it increments a counter that all
// writers share, creates an entry of its own in the same transaction, and prints each
// acknowledged revision.
func writer(dsn, schema, name string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		stop()
	}()
	s, err := postgres.Open(ctx, dsn, schema, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	for n := 0; ctx.Err() == nil; {
		r, err := count(context.WithoutCancel(ctx), s, fmt.Sprintf("%s/%d", name, n))
		switch {
		case err == nil:
			fmt.Println("ok", int64(r), fmt.Sprintf("%s/%d", name, n))
			n++
		case !errors.Is(err, store.ErrConflict):
			return err
		}
	}
	return nil
}

// count adds one to the counter and creates an entry, in one transaction.
func count(ctx context.Context, s store.Store, key string) (store.Revision, error) {
	e, err := s.Get(ctx, "counter")
	var condition store.Condition
	n := 0
	switch {
	case errors.Is(err, store.ErrNotFound):
		condition = store.Absent("counter")
	case err != nil:
		return 0, err
	default:
		condition = store.At("counter", e.Revision)
		if _, err := fmt.Sscan(string(e.Value), &n); err != nil {
			return 0, err
		}
	}
	return s.Commit(ctx, store.Txn{
		If: []store.Condition{condition, store.Absent(key)},
		Do: []store.Operation{store.Put("counter", fmt.Append(nil, n+1)), store.Put(key, nil)},
	})
}

// process is a writer in a process of its own.
type process struct {
	cmd          *exec.Cmd
	mu           sync.Mutex
	acknowledged map[string]store.Revision
	failed       string
	read         chan struct{} // closed when its output has ended
	end          func() error
}

func startWriter(t *testing.T, dsn, schema, name string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", envChild, dsn, schema, name))
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &process{cmd: cmd, acknowledged: map[string]store.Revision{}, read: make(chan struct{}), end: in.Close}
	go func() {
		defer close(p.read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var r store.Revision
			var key string
			p.mu.Lock()
			if n, _ := fmt.Sscanf(lines.Text(), "ok %d %s", &r, &key); n == 2 {
				p.acknowledged[key] = r
			} else {
				p.failed = lines.Text()
			}
			p.mu.Unlock()
		}
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // usually it has ended
	return p
}

func (p *process) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.acknowledged)
}

// Several processes write. When one is killed, the others continue.
func TestSeveralProcesses(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			dsn := server(t).DSN("postgres")
			schema := newSchema() // the writers create it concurrently
			var writers []*process
			for i := range n {
				writers = append(writers, startWriter(t, dsn, schema, fmt.Sprintf("w%d", i)))
			}
			s := openAt(t, dsn, schema, nil)
			f := follow(s, store.Position{Revision: 0, Epoch: epochOf(t, s)})
			defer f.stop()
			reach := func(p *process, more int) {
				from := p.count()
				require.Eventually(t, func() bool { return p.count() >= from+more }, 40*time.Second, 2*time.Millisecond, "a writer that goes on: %s", p.failed)
			}
			for _, p := range writers {
				reach(p, 10)
			}
			require.NoError(t, writers[0].cmd.Process.Kill())
			for _, p := range writers[1:] {
				reach(p, 20)
				require.NoError(t, p.end())
			}
			acknowledged := map[string]store.Revision{}
			for _, p := range writers {
				<-p.read
				_ = p.cmd.Wait() // one was killed
				require.Empty(t, p.failed)
				for key, r := range p.acknowledged {
					acknowledged[key] = r
				}
			}
			checkProcesses(t, s, f, acknowledged)
		})
	}
}

func epochOf(t *testing.T, s store.Store) string {
	p, err := s.List(t.Context(), store.Query{Limit: 1})
	require.NoError(t, err)
	return p.Position.Epoch
}

// checkProcesses compares the store with the acknowledged commits. The commit that a killed
// process had in progress may be in the store too.
func checkProcesses(t *testing.T, s store.Store, f *follower, acknowledged map[string]store.Revision) {
	t.Helper()
	page, err := s.List(t.Context(), store.Query{Prefix: "w"})
	require.NoError(t, err)
	there := map[string]store.Revision{}
	for _, e := range page.Entries {
		there[e.Key] = e.Revision
	}
	for key, r := range acknowledged {
		require.Equal(t, r, there[key], "the acknowledged %s", key)
	}
	require.LessOrEqual(t, len(there), len(acknowledged)+1)
	counter, err := s.Get(t.Context(), "counter")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(len(there)), string(counter.Value), "the counter, against the entries created with it")
	require.EqualValues(t, len(there), page.Position.Revision, "revisions have no gaps")
	put(t, s, "the end", "")
	require.NoError(t, <-f.ended)
	for i, c := range f.changes {
		require.EqualValues(t, i+1, c.Position.Revision, "each revision once, in order")
	}
	require.Len(t, f.changes, len(there)+1)
}
