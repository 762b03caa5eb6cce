package etcd

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/etcd/internal/etcdtest"
)

// suite has the directory, the binary and the server that the tests share. They are created on
// first use and removed by TestMain.
type suite struct {
	dir    string
	binary func() (string, error)
	server func() (*etcdtest.Server, error)
	used   atomic.Bool
}

var shared suite

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	shared.dir = dir
	shared.binary = sync.OnceValues(func() (string, error) { return etcdtest.Build(dir) })
	shared.server = sync.OnceValues(func() (*etcdtest.Server, error) {
		binary, err := shared.binary()
		if err != nil {
			return nil, err
		}
		shared.used.Store(true)
		return etcdtest.Start(context.Background(), etcdtest.Config{Binary: binary, Dir: dir})
	})
	defer func() {
		if !shared.used.Load() {
			return
		}
		if server, err := shared.server(); err == nil {
			server.Kill()
		}
	}()
	return m.Run()
}

// theServer returns the shared server. Tests that use it run one after another.
func theServer(tb testing.TB) *etcdtest.Server {
	tb.Helper()
	s, err := shared.server()
	require.NoError(tb, err)
	return s
}

// ownServer starts a server for one test.
func ownServer(tb testing.TB, flags ...string) *etcdtest.Server {
	tb.Helper()
	binary, err := shared.binary()
	require.NoError(tb, err)
	s, err := etcdtest.Start(tb.Context(), etcdtest.Config{Binary: binary, Dir: tb.TempDir(), Flags: flags})
	require.NoError(tb, err)
	tb.Cleanup(s.Kill)
	return s
}

var prefixes atomic.Int64

// newPrefix returns a prefix that no other test uses.
func newPrefix() string { return fmt.Sprintf("/test/%d", prefixes.Add(1)) }

// quick returns options with short time limits.
func quick() *Options {
	p := defaultPace
	p.open, p.attempt, p.others = 2*time.Second, 2*time.Second, 100*time.Millisecond
	p.stall = time.Second
	p.bookmark = 100 * time.Millisecond
	return &Options{pace: p}
}

// openAt opens a store and closes it after the test.
func openAt(tb testing.TB, prefix string, o *Options, urls ...string) *Store {
	tb.Helper()
	s, err := Open(tb.Context(), urls, prefix, o)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// openNew opens a new store on the shared server.
func openNew(tb testing.TB, o *Options) *Store {
	tb.Helper()
	return openAt(tb, newPrefix(), o, theServer(tb).URL)
}

// rawClient returns a client without a store.
func rawClient(tb testing.TB, urls ...string) *clientv3.Client {
	tb.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: urls, Logger: zap.NewNop()})
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

func put(tb testing.TB, s store.Store, key, value string) store.Revision {
	tb.Helper()
	r, err := s.Commit(tb.Context(), store.Txn{Do: []store.Operation{store.Put(key, []byte(value))}})
	require.NoError(tb, err)
	return r
}

func now(tb testing.TB, s store.Store) store.Position {
	tb.Helper()
	p, err := s.List(tb.Context(), store.Query{Prefix: "nothing", Limit: 1})
	require.NoError(tb, err)
	return p.Position
}

// keysUnder lists the keys of the cluster with a prefix.
func keysUnder(tb testing.TB, c *clientv3.Client, prefix string) []string {
	tb.Helper()
	answer, err := c.Get(tb.Context(), prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	require.NoError(tb, err)
	var keys []string
	for _, kv := range answer.Kvs {
		keys = append(keys, strings.TrimPrefix(string(kv.Key), prefix))
	}
	return keys
}
