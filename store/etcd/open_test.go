package etcd

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/nslifecycle/nslifecycle/store"
)

// A prefix that could overlap with another one is refused without a request.
func TestOpenOddPrefix(t *testing.T) {
	client := rawClient(t, theServer(t).URL)
	for _, prefix := range []string{
		"", "/", "a", "a/b", "//a", "/a/", "/a//b", "/a:b", "/a b", "/a!b", "/ä", "/a\x00", "/a\xff", "/a/*", "/.", "/a/..", "/a/../b", "/a\n",
		"/" + strings.Repeat("a", longestPrefix),
	} {
		_, err := New(t.Context(), client, prefix, nil)
		require.ErrorIs(t, err, store.ErrInvalid, "%q", prefix)
		require.Less(t, len(err.Error()), 1000)
	}
	for _, prefix := range []string{"/a", "/A-1/b_2/c.3", "/" + strings.Repeat("a", longestPrefix-1)} {
		_, err := layoutOf(prefix)
		require.NoError(t, err)
	}
}

func TestOpenBadArguments(t *testing.T) {
	url := theServer(t).URL
	client := rawClient(t, url)
	cause := errors.New("enough")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	prefix := newPrefix()
	for name, c := range map[string]struct {
		open func() (*Store, error)
		want error
	}{
		"ended context":       {func() (*Store, error) { return New(ended, client, prefix, nil) }, cause},
		"no client":           {func() (*Store, error) { return New(t.Context(), nil, prefix, nil) }, store.ErrInvalid},
		"an empty client":     {func() (*Store, error) { return New(t.Context(), &clientv3.Client{}, prefix, nil) }, store.ErrInvalid},
		"no endpoints":        {func() (*Store, error) { return Open(t.Context(), nil, prefix, nil) }, store.ErrInvalid},
		"an empty endpoint":   {func() (*Store, error) { return Open(t.Context(), []string{url, " "}, prefix, nil) }, store.ErrInvalid},
		"open: odd prefix":    {func() (*Store, error) { return Open(t.Context(), []string{url}, "x", nil) }, store.ErrInvalid},
		"negative compaction": {func() (*Store, error) { return New(t.Context(), client, prefix, &Options{Compact: -1}) }, store.ErrInvalid},
		"negative operations": {func() (*Store, error) { return New(t.Context(), client, prefix, &Options{Operations: -1}) }, store.ErrInvalid},
		"negative bytes":      {func() (*Store, error) { return New(t.Context(), client, prefix, &Options{RequestBytes: -1}) }, store.ErrInvalid},
		"too few bytes":       {func() (*Store, error) { return New(t.Context(), client, prefix, &Options{RequestBytes: 1}) }, store.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := c.open()
			require.ErrorIs(t, err, c.want)
			require.Nil(t, s)
			var e *store.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, "open", e.Op)
		})
	}
	require.Empty(t, keysUnder(t, client, prefix))
}

// If no server, or another program, answers at an address, the error names the address and the
// reason.
func TestOpenWrongEndpoints(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	silent := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	o := quick()
	o.pace.open = 300 * time.Millisecond
	_, err = Open(t.Context(), []string{silent}, newPrefix(), o)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "refused")
	require.ErrorContains(t, err, silent)

	// The deadline of the caller applies too.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = Open(ctx, []string{silent}, newPrefix(), nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	// One reachable server is enough.
	openAt(t, newPrefix(), o, silent, theServer(t).URL)
}

// statusServer is a server that only reports its version.
type statusServer struct {
	pb.UnimplementedMaintenanceServer
	version string
	cluster uint64
}

func (s statusServer) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: &pb.ResponseHeader{ClusterId: s.cluster}, Version: s.version}, nil
}

func fakeServer(t *testing.T, s statusServer) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	pb.RegisterMaintenanceServer(server, &s)
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) }) // until Stop
	t.Cleanup(func() {
		server.Stop()
		running.Wait()
	})
	return "http://" + l.Addr().String()
}

func TestOpenOldServer(t *testing.T) {
	for _, version := range []string{"3.5.12", "3.4.31", "2.3.8", "3.5", "", "new", "3.-5.13", "3.5.x"} {
		url := fakeServer(t, statusServer{version: version, cluster: 1})
		_, err := Open(t.Context(), []string{url}, newPrefix(), quick())
		require.ErrorIs(t, err, ErrVersion, version)
		require.ErrorContains(t, err, url)
		require.NotErrorIs(t, err, store.ErrUnavailable)

		o := quick()
		o.AnyVersion = true
		_, err = Open(t.Context(), []string{url}, newPrefix(), o)
		require.Error(t, err, "the fake has no keys")
		require.ErrorContains(t, err, "unknown service etcdserverpb.KV", "the version was accepted")
	}
	for _, version := range []string{"3.5.13", "3.5.29", "3.6.0-rc.1", "3.10.0", "4.0.0"} {
		require.NoError(t, supported(version), version)
	}
	// One old member is enough to refuse.
	_, err := Open(t.Context(), []string{
		fakeServer(t, statusServer{version: "3.6.0", cluster: 1}), fakeServer(t, statusServer{version: "3.5.1", cluster: 1}),
	}, newPrefix(), quick())
	require.ErrorIs(t, err, ErrVersion)
}

func TestOpenEndpointsOfTwoClusters(t *testing.T) {
	_, err := Open(t.Context(), []string{
		fakeServer(t, statusServer{version: "3.6.0", cluster: 1}), fakeServer(t, statusServer{version: "3.6.0", cluster: 2}),
	}, newPrefix(), quick())
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, "different clusters")
}

// A prefix that is not a store is refused, and stays unchanged.
func TestOpenForeign(t *testing.T) {
	client := rawClient(t, theServer(t).URL)
	for name, c := range map[string]struct {
		key, value string
		want       error
	}{
		"keys below it":            {"/pods/default/a", "x", ErrForeign},
		"entries without a marker": {":a", "x", ErrForeign},
		"an election of another":   {"!compactor", "x", ErrForeign},
		"a value of another":       {"", "hello", ErrForeign},
		"an empty value":           {"", "", ErrForeign},
		"JSON of another":          {"", `{"kind": "Pod"}`, ErrForeign},
		"a format of no version":   {"", `{"format": -1, "epoch": "a"}`, ErrForeign},
		"a marker without epoch":   {"", `{"format": 1}`, ErrForeign},
		"a newer format":           {"", `{"format": 2, "epoch": "a", "more": true}`, ErrFormat},
	} {
		t.Run(name, func(t *testing.T) {
			prefix := newPrefix()
			_, err := client.Put(t.Context(), prefix+c.key, c.value)
			require.NoError(t, err)
			before, err := client.Get(t.Context(), prefix, clientv3.WithPrefix())
			require.NoError(t, err)
			for _, o := range []*Options{nil, {NewEpoch: true}, {Compact: time.Hour}} {
				_, err = New(t.Context(), client, prefix, o)
				require.ErrorIs(t, err, c.want)
			}
			after, err := client.Get(t.Context(), prefix, clientv3.WithPrefix())
			require.NoError(t, err)
			require.Equal(t, before.Kvs, after.Kvs)
			require.Equal(t, before.Header.Revision, after.Header.Revision, "nothing was written anywhere")
		})
	}
	// Neighbours with a longer name do not matter.
	prefix := newPrefix()
	for _, key := range []string{prefix + "0", prefix + "-b:c", prefix + ".d/e"} {
		_, err := client.Put(t.Context(), key, "x")
		require.NoError(t, err)
	}
	s, err := New(t.Context(), client, prefix, nil)
	require.NoError(t, err)
	put(t, s, "k", "v")
	page, err := s.List(t.Context(), store.Query{})
	require.NoError(t, err)
	require.Len(t, page.Entries, 1)
	require.NoError(t, s.Close())
	_, err = client.Get(t.Context(), prefix)
	require.NoError(t, err, "Close does not close the client of the caller")
}

// If another program writes a key after the driver has looked for one, the driver does not write
// the marker.
func TestOpenForeignMeanwhile(t *testing.T) {
	client := rawClient(t, theServer(t).URL)
	for _, key := range []string{":k", "/k", "!k"} {
		prefix := newPrefix()
		s := openNew(t, nil)
		s.keys, _ = layoutOf(prefix)
		_, err := client.Put(t.Context(), prefix+key, "x")
		require.NoError(t, err)
		written, err := s.put(t.Context(), 0, []byte("marker"))
		require.NoError(t, err)
		require.False(t, written, key)
		require.Equal(t, []string{key}, keysUnder(t, client, prefix))
	}
}

// Many processes that open a new prefix at once agree on one epoch.
func TestOpenAtOnce(t *testing.T) {
	prefix, url := newPrefix(), theServer(t).URL
	const handles = 8
	stores := make([]*Store, handles)
	errs := make([]error, handles)
	var all sync.WaitGroup
	for i := range handles {
		all.Go(func() { stores[i], errs[i] = Open(t.Context(), []string{url}, prefix, nil) })
	}
	all.Wait()
	for i, s := range stores {
		require.NoError(t, errs[i])
		require.Equal(t, stores[0].epoch, s.epoch)
		require.NoError(t, s.Close())
	}
}

// The second opening of a store reads the marker and does not write it.
func TestReopenKeepsEpoch(t *testing.T) {
	prefix, url := newPrefix(), theServer(t).URL
	first := openAt(t, prefix, nil, url)
	r := put(t, first, "k", "v")
	second := openAt(t, prefix, nil, url)
	require.Equal(t, store.Position{Epoch: first.epoch, Revision: r}, now(t, second))
}

// A handle from before a restore ends the watches of its old epoch with ErrGone.
func TestNewEpochEndsOldWatches(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	prefix := newPrefix()
	old := openAt(t, prefix, quick(), server.URL)
	position := now(t, old)
	o := quick()
	o.NewEpoch = true
	renewed := openAt(t, prefix, o, server.URL)
	require.NotEqual(t, old.epoch, renewed.epoch)
	for _, s := range []*Store{old, renewed} {
		for _, err := range s.Watch(t.Context(), "", position) {
			require.ErrorIs(t, err, store.ErrGone)
		}
	}
}

// The first answer of another cluster at the same address makes the store refuse all calls.
func TestAnotherClusterBehindTheConnection(t *testing.T) {
	t.Parallel()
	first, second := ownServer(t), ownServer(t, "--initial-cluster-token", "other")
	gate := newGate(t, first.URL)
	s := openAt(t, newPrefix(), quick(), gate.url())
	put(t, s, "k", "v")
	gate.lead(second.URL)
	_, err := s.Get(t.Context(), "k")
	require.ErrorIs(t, err, ErrCluster)
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("k", nil)}})
	require.ErrorIs(t, err, ErrCluster, "the store refuses every further call")
	require.NotErrorIs(t, err, store.ErrUnknownOutcome)
	for _, err := range s.Watch(t.Context(), "", store.Position{}) {
		require.ErrorIs(t, err, ErrCluster)
	}
	require.NoError(t, s.Close())
	_, err = s.Get(t.Context(), "k")
	require.ErrorIs(t, err, store.ErrClosed)
}

// A closed client is refused. TestAuth has clients with wrong credentials.
func TestOpenClosedClient(t *testing.T) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{theServer(t).URL}, Logger: zap.NewNop()})
	require.NoError(t, err)
	require.NoError(t, client.Close())
	o := quick()
	o.pace.open = 100 * time.Millisecond
	o.pace.attempt = 100 * time.Millisecond
	o.pace.retries = 1
	_, err = New(t.Context(), client, newPrefix(), o)
	require.Error(t, err)
}

// The client ignores a user in an endpoint, but its errors would show the password.
func TestPasswordsAreNotInErrors(t *testing.T) {
	for _, endpoint := range []string{
		"http://u:hunter2@127.0.0.1:1", "u:hunter2@127.0.0.1:1", "http://u:hunter2@[::1", "http://u:%zzhunter2@h:1", "http://u:hunter2/@h:1",
	} {
		_, err := Open(t.Context(), []string{theServer(t).URL, endpoint}, newPrefix(), quick())
		require.ErrorIs(t, err, store.ErrInvalid, endpoint)
		require.ErrorContains(t, err, "endpoint 2")
		require.NotContains(t, err.Error(), "hunter2")
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://u:hunter2@127.0.0.1:1"}, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	_, err = New(t.Context(), client, newPrefix(), quick())
	require.ErrorIs(t, err, store.ErrInvalid)
	require.NotContains(t, err.Error(), "hunter2")
}
