package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/store"
)

// If the answer to a commit is lost, the commit has happened, and its outcome is reported as
// unknown.
func TestLostAnswerIsUnknown(t *testing.T) {
	server := theServer(t)
	prefix := newPrefix()
	direct := openAt(t, prefix, nil, server.URL)
	for _, how := range []string{"the connection breaks", "the context ends"} {
		t.Run(how, func(t *testing.T) {
			g := newGate(t, server.URL)
			s := openAt(t, prefix, quick(), g.url())
			put(t, s, "before", "v")
			g.silence(true)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			key := how
			watching := watchFor(t, direct, key)
			done := make(chan error)
			go func() {
				_, err := s.Commit(ctx, store.Txn{If: []store.Condition{store.Absent(key)}, Do: []store.Operation{store.Put(key, []byte("v"))}})
				done <- err
			}()
			<-watching // the write is in the store
			if how == "the context ends" {
				cancel(errEnough)
			} else {
				g.breakAll()
			}
			err := <-done
			require.ErrorIs(t, err, store.ErrUnknownOutcome)
			require.Equal(t, how == "the context ends", errors.Is(err, errEnough), "%v", err)
			e, err := direct.Get(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, "v", string(e.Value))

			g.silence(false)
			g.breakAll()
			e, err = s.Get(t.Context(), key)
			require.NoError(t, err, "the store works again once the network does")
			require.Equal(t, "v", string(e.Value))
		})
	}
}

// watchFor returns a channel that is closed when key has been written.
func watchFor(t *testing.T, s store.Store, key string) <-chan struct{} {
	begun, seen := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		var once sync.Once
		defer once.Do(func() { close(begun) })
		for c, err := range s.Watch(ctx, key, store.Position{}) {
			once.Do(func() { close(begun) })
			if err == nil && len(c.Events) > 0 {
				close(seen)
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	<-begun
	return seen
}

// A commit that was never handed to a connection has certainly not happened, however its wait
// ends.
func TestNothingSubmitted(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	s := openAt(t, newPrefix(), quick(), server.URL)
	put(t, s, "k", "v")
	server.Kill()
	// The client notices the end of the connection with a delay. Before that, outcomes are
	// unknown.
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errEnough)
		defer cancel()
		_, err := s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("k", []byte("lost"))}})
		require.Error(t, err)
		return errors.Is(err, errEnough) && !errors.Is(err, store.ErrUnknownOutcome)
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, server.Restart(t.Context()))
	e, err := s.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "v", string(e.Value))
}

// scriptedKV answers transactions with the errors of a test.
type scriptedKV struct {
	pb.KVClient
	errs      []error // of the next calls; after them, inner answers
	submitted int     // the number of submissions that each call reports
	calls     int
	puts      int // the number of calls with a put
}

func (k *scriptedKV) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	k.calls++
	for _, op := range in.Success {
		if op.GetRequestPut() != nil {
			k.puts++
			break
		}
	}
	if len(k.errs) == 0 {
		return k.KVClient.Txn(ctx, in, opts...)
	}
	err := k.errs[0]
	k.errs = k.errs[1:]
	for _, o := range opts {
		if creds, ok := o.(grpc.PerRPCCredsCallOption); ok {
			for range k.submitted {
				if _, err := creds.Creds.GetRequestMetadata(ctx); err != nil {
					return nil, err
				}
			}
		}
	}
	if err == nil {
		return &pb.TxnResponse{Header: &pb.ResponseHeader{}}, nil
	}
	return nil, err
}

// These errors certainly mean that nothing has happened; others mean that it may have.
func TestVerdicts(t *testing.T) {
	s := openNew(t, quick())
	inner := s.kv
	for _, c := range []struct {
		err   error
		want  error // nil: the write is submitted again and succeeds
		again bool
	}{
		{rpctypes.ErrGRPCRequestTooLarge, store.ErrTooLarge, false},
		{rpctypes.ErrGRPCTooManyOps, store.ErrTooLarge, false},
		{rpctypes.ErrGRPCDuplicateKey, store.ErrInvalid, false},
		{rpctypes.ErrGRPCPermissionDenied, ErrDenied, false},
		{rpctypes.ErrGRPCInvalidAuthToken, ErrDenied, false},
		{rpctypes.ErrGRPCUserEmpty, ErrDenied, false},
		{rpctypes.ErrGRPCAuthFailed, ErrDenied, false},
		{rpctypes.ErrGRPCAuthOldRevision, ErrDenied, false},
		{rpctypes.ErrGRPCCorrupt, errCorrupt, false},
		{rpctypes.ErrGRPCNotCapable, ErrVersion, false},
		{status.Error(codes.ResourceExhausted, "grpc: received message larger than max"), store.ErrTooLarge, false},
		{status.Error(codes.Unimplemented, "unknown service"), ErrVersion, false},
		{rpctypes.ErrGRPCNoLeader, nil, true},
		{rpctypes.ErrGRPCRequestTooManyRequests, nil, true},
		{rpctypes.ErrGRPCNoSpace, store.ErrFull, false},
		{rpctypes.ErrGRPCTimeout, store.ErrUnknownOutcome, false},
		{rpctypes.ErrGRPCTimeoutDueToLeaderFail, store.ErrUnknownOutcome, false},
		{rpctypes.ErrGRPCTimeoutDueToConnectionLost, store.ErrUnknownOutcome, false},
		{rpctypes.ErrGRPCLeaderChanged, store.ErrUnknownOutcome, false},
		{rpctypes.ErrGRPCStopped, store.ErrUnknownOutcome, false},
		{status.Error(codes.Unavailable, "transport is closing"), store.ErrUnknownOutcome, false},
		{status.Error(codes.Canceled, "stream reset"), store.ErrUnknownOutcome, false},
		{status.Error(codes.DeadlineExceeded, "too late"), store.ErrUnknownOutcome, false},
		{status.Error(codes.Internal, "bug"), store.ErrUnknownOutcome, false},
		{errors.New("whatever"), store.ErrUnknownOutcome, false},
	} {
		t.Run(fmt.Sprint(c.err), func(t *testing.T) {
			kv := &scriptedKV{KVClient: inner, errs: []error{c.err}, submitted: 1}
			s.kv = kv
			before := now(t, s)
			_, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("k", nil)}})
			if c.again {
				require.NoError(t, err)
				require.Equal(t, 2, kv.puts)
				return
			}
			require.ErrorIs(t, err, c.want)
			require.Equal(t, c.want == store.ErrUnknownOutcome, errors.Is(err, store.ErrUnknownOutcome), "%v", err)
			require.Equal(t, 1, kv.puts, "the number of submissions with a put")
			require.Equal(t, before, now(t, s))
		})
	}
}

// If the client library has submitted a request twice, the first submission may have succeeded, so
// a refusal of the second proves nothing.
func TestSubmittedTwice(t *testing.T) {
	s := openNew(t, quick())
	inner := s.kv
	create := store.Txn{If: []store.Condition{store.Absent("k")}, Do: []store.Operation{store.Put("k", nil)}}
	for _, err := range []error{nil, rpctypes.ErrGRPCNoSpace, rpctypes.ErrGRPCNoLeader} {
		s.kv = &scriptedKV{KVClient: inner, errs: []error{err}, submitted: 2}
		s.cluster = 0 // the cluster of the scripted answer
		_, got := s.Commit(t.Context(), create)
		require.ErrorIs(t, got, store.ErrUnknownOutcome, "%v", err)
	}
	// A request that the client itself refuses was not submitted.
	s.kv = &scriptedKV{KVClient: inner, errs: []error{status.Error(codes.Internal, "cannot encode")}}
	_, err := s.Commit(t.Context(), create)
	require.Error(t, err)
	require.NotErrorIs(t, err, store.ErrUnknownOutcome)
}

// landing submits each transaction and answers as a server does whose quota the transaction
// crosses.
type landing struct{ pb.KVClient }

func (l landing) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	if _, err := l.KVClient.Txn(ctx, in, opts...); err != nil {
		return nil, err
	}
	return nil, rpctypes.ErrGRPCNoSpace
}

// The write that crosses the quota is applied, although the server answers "no space".
func TestNoSpaceAfterTheWrite(t *testing.T) {
	s := openNew(t, quick())
	put(t, s, "k", "before")
	s.kv = &once{KVClient: s.kv, first: landing{s.kv}}
	_, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Delete("none"), store.Put("k", []byte("after"))}})
	require.ErrorIs(t, err, store.ErrUnknownOutcome)
	require.NotErrorIs(t, err, store.ErrFull)
	e, err := s.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "after", string(e.Value))
}

// once answers the first transaction with another client.
type once struct {
	pb.KVClient
	first pb.KVClient
}

func (o *once) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	kv := o.KVClient
	if o.first != nil {
		kv, o.first = o.first, nil
	}
	return kv.Txn(ctx, in, opts...)
}

// If the cluster cannot be reached, calls fail with ErrUnavailable, and nothing was written.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	o := quick()
	o.pace.attempt = 200 * time.Millisecond
	s := openAt(t, newPrefix(), o, server.URL)
	put(t, s, "k", "v")
	server.Kill()
	for range s.pace.retries { // until the client has noticed the end of the connection
		_, _ = s.Get(t.Context(), "k")
	}
	var running sync.WaitGroup
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
		"compact": func() error { return s.Compact(t.Context(), 2) },
	} {
		running.Go(func() {
			err := call()
			assert.ErrorIs(t, err, store.ErrUnavailable, name)
			assert.NotErrorIs(t, err, store.ErrUnknownOutcome, name)
		})
	}
	running.Wait()
	require.NoError(t, server.Restart(t.Context()))
	s.pace.attempt = defaultPace.attempt
	e, err := s.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "v", string(e.Value))
	put(t, s, "k", "w")
}

// Writes that the server certainly refused are submitted again, but not without bound.
func TestNoLeaderForLong(t *testing.T) {
	o := quick()
	o.pace.retry = backoff.Exponential{Min: time.Microsecond, Max: time.Millisecond}
	s := openNew(t, o)
	kv := &scriptedKV{KVClient: s.kv, submitted: 1}
	for range 100 {
		kv.errs = append(kv.errs, rpctypes.ErrGRPCNoLeader)
	}
	s.kv = kv
	for _, txn := range []store.Txn{{Do: []store.Operation{store.Put("k", nil)}}, {If: []store.Condition{store.Absent("k")}}} {
		kv.calls = 0
		_, err := s.Commit(t.Context(), txn)
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.ErrorIs(t, err, rpctypes.ErrNoLeader)
		require.NotErrorIs(t, err, store.ErrUnknownOutcome)
		require.Equal(t, o.pace.retries+1, kv.calls)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errEnough)
	defer cancel()
	s.pace.retry = backoff.Exponential{Min: time.Hour, Max: time.Hour}
	_, err := s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("k", nil)}})
	require.ErrorIs(t, err, errEnough)
	require.NotErrorIs(t, err, store.ErrUnknownOutcome)
}

// Users without rights, or with a wrong password, get ErrDenied.
func TestAuth(t *testing.T) {
	t.Parallel()
	server := ownServer(t, "--auth-token-ttl", "2", "--bcrypt-cost", "4")
	root := rawClient(t, server.URL)
	ctx := t.Context()
	prefix := newPrefix()
	for _, user := range []string{"root", "writer", "reader", "stranger"} {
		_, err := root.UserAdd(ctx, user, "secret")
		require.NoError(t, err)
		_, err = root.RoleAdd(ctx, user)
		require.NoError(t, err)
		_, err = root.UserGrantRole(ctx, user, user)
		require.NoError(t, err)
	}
	end := clientv3.GetPrefixRangeEnd(prefix)
	_, err := root.RoleGrantPermission(ctx, "writer", prefix, end, clientv3.PermissionType(clientv3.PermReadWrite))
	require.NoError(t, err)
	_, err = root.RoleGrantPermission(ctx, "reader", prefix, end, clientv3.PermissionType(clientv3.PermRead))
	require.NoError(t, err)
	_, err = root.AuthEnable(ctx)
	require.NoError(t, err)

	open := func(user, password string) (*Store, error) {
		config := clientv3.Config{Endpoints: []string{server.URL}, Username: user, Password: password}
		client, err := clientv3.New(config)
		if err != nil {
			return nil, fmt.Errorf("the client: %w", err)
		}
		t.Cleanup(func() { _ = client.Close() })
		s, err := New(ctx, client, prefix, quick())
		if err == nil {
			t.Cleanup(func() { _ = s.Close() })
		}
		return s, err
	}
	_, err = Open(ctx, []string{server.URL}, prefix, quick())
	require.ErrorIs(t, err, ErrDenied, "without a user")
	_, err = open("writer", "wrong")
	require.ErrorContains(t, err, "authentication failed")
	_, err = open("stranger", "secret")
	require.ErrorIs(t, err, ErrDenied)
	_, err = open("reader", "secret")
	require.ErrorIs(t, err, ErrDenied, "a reader cannot create the store")

	s, err := open("writer", "secret")
	require.NoError(t, err)
	put(t, s, "k", "v")
	reader, err := open("reader", "secret")
	require.NoError(t, err, "the store exists")
	_, err = reader.Get(ctx, "k")
	require.NoError(t, err)
	_, err = reader.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("k", nil)}})
	require.ErrorIs(t, err, ErrDenied)
	require.NotErrorIs(t, err, store.ErrUnknownOutcome)

	// A watch whose user has lost the right ends with ErrDenied when its stream restarts.
	admin, err := clientv3.New(clientv3.Config{Endpoints: []string{server.URL}, Username: "root", Password: "secret"})
	require.NoError(t, err)
	defer func() { _ = admin.Close() }()
	first := true
	for _, err := range reader.Watch(ctx, "", store.Position{}) {
		if first {
			require.NoError(t, err)
			first = false
			_, err := admin.RoleRevokePermission(ctx, "reader", prefix, end)
			require.NoError(t, err)
			server.Kill()
			require.NoError(t, server.Restart(ctx))
			continue
		}
		if err != nil {
			require.ErrorIs(t, err, ErrDenied)
		}
	}
	// The server has restarted and does not know the writer's token, so the client gets a new one.
	put(t, s, "k", "after the restart")
}

// An empty transaction is a linearizable read. The engine does not treat a transaction without
// ranges as one, so the store reads a range instead.
func TestEmptyTransaction(t *testing.T) {
	s := openNew(t, quick())
	last := put(t, s, "k", "v")
	kv := &scriptedKV{KVClient: s.kv}
	s.kv = kv
	r, err := s.Commit(t.Context(), store.Txn{})
	require.NoError(t, err)
	require.GreaterOrEqual(t, r, last)
	require.Zero(t, kv.calls)
}
