package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/nslifecycle/nslifecycle/store"
)

var (
	_ store.Store     = (*Store)(nil)
	_ store.Compactor = (*Store)(nil)
	_ store.Counter   = (*Store)(nil)
	_ store.Limiter   = (*Store)(nil)
)

// Store is a part of the key space of a cluster. See [store.Store] for its methods,
// which any number of goroutines may call at once.
type Store struct {
	kv      pb.KVClient
	watches pb.WatchClient
	calls   []grpc.CallOption
	owned   *clientv3.Client // closed by Close; nil if the client belongs to the caller
	keys    layout
	limits  store.Limits
	request int // the maximum number of bytes of a request
	pace    pace
	cluster uint64
	epoch   string
	seen    atomic.Int64 // the newest revision that a server has reported

	closing  context.Context // ends with Close, or when another cluster answers
	stop     context.CancelCauseFunc
	aborting context.Context // the same for commits, but later
	abort    context.CancelCauseFunc
	close    sync.Once

	mu      sync.Mutex
	refusal error          // the reason why no call may begin any more
	running sync.WaitGroup // calls in progress; Add requires mu
}

// newStore returns a store that is not opened yet.
func newStore(client *clientv3.Client, keys layout, o Options) *Store {
	s := &Store{
		kv:      pb.NewKVClient(client.ActiveConnection()),
		watches: pb.NewWatchClient(client.ActiveConnection()),
		calls: []grpc.CallOption{
			grpc.WaitForReady(true),
			grpc.MaxCallSendMsgSize(o.RequestBytes + 512<<10),
			grpc.MaxCallRecvMsgSize(math.MaxInt32),
		},
		keys:    keys,
		limits:  o.limits(),
		request: o.RequestBytes,
		pace:    o.pace,
	}
	s.closing, s.stop = context.WithCancelCause(context.Background())
	s.aborting, s.abort = context.WithCancelCause(context.Background())
	return s
}

// Limits returns the bounds of keys, values and transactions. With the default limits of the
// servers these are keys of 2 KiB, values of 1 MiB, 128 operations and 1.125 MiB in a transaction
// ([Options.Operations], [Options.RequestBytes]). A transaction within them that has many
// conditions on long keys can still be [store.ErrTooLarge].
func (s *Store) Limits() store.Limits { return s.limits }

// Close implements [store.Store]. Reads and watches end at once. Commits in progress have one
// second; after that they fail with [store.ErrUnknownOutcome]. Close does not close a client that
// was passed to [New].
func (s *Store) Close() (err error) {
	s.close.Do(func() {
		s.refuse(store.ErrClosed)
		timer := time.AfterFunc(s.pace.close, func() { s.abort(store.ErrClosed) })
		s.running.Wait()
		timer.Stop()
		s.abort(store.ErrClosed)
		if s.owned == nil {
			return
		}
		if closeErr := s.owned.Close(); closeErr != nil && !errors.Is(closeErr, context.Canceled) {
			err = &store.Error{Op: "close", Err: closeErr}
		}
	})
	return err
}

// refuse makes further calls fail with why, and ends watches and reads.
func (s *Store) refuse(why error) {
	s.mu.Lock()
	if s.refusal == nil || why == store.ErrClosed {
		s.refusal = why
	}
	s.mu.Unlock()
	s.stop(why)
}

// begin begins a call. The returned context ends with ctx or until, and the returned function
// ends the call.
func (s *Store) begin(ctx, until context.Context) (context.Context, func(), error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusal != nil {
		return nil, nil, s.refusal
	}
	s.running.Add(1)
	ctx, cancel := join(ctx, until)
	return ctx, func() {
		cancel()
		s.running.Done()
	}, nil
}

// join returns a context that ends with either context, with the cause of the first, and that
// requires a server with a leader.
func join(ctx, until context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(until, func() { cancel(context.Cause(until)) })
	return clientv3.WithRequireLeader(ctx), func() {
		stop()
		cancel(nil)
	}
}

// check refuses an answer of another cluster, and all further calls.
func (s *Store) check(h *pb.ResponseHeader) error {
	if h.GetClusterId() == s.cluster {
		for seen := s.seen.Load(); h.GetRevision() > seen && !s.seen.CompareAndSwap(seen, h.GetRevision()); {
			seen = s.seen.Load()
		}
		return nil
	}
	err := fmt.Errorf("%w: %w: %x before, %x now", store.ErrClosed, ErrCluster, s.cluster, h.GetClusterId())
	s.refuse(err)
	return err
}

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, key string) (store.Entry, error) {
	e, err := s.get(ctx, key)
	return e, store.Wrap("get", key, err)
}

func (s *Store) get(ctx context.Context, key string) (store.Entry, error) {
	if err := store.CheckKey(key, s.limits); err != nil {
		return store.Entry{}, err
	}
	ctx, end, err := s.begin(ctx, s.closing)
	if err != nil {
		return store.Entry{}, err
	}
	defer end()
	answer, err := s.read(ctx, &pb.RangeRequest{Key: s.keys.of(key)})
	if err != nil {
		return store.Entry{}, err
	}
	if len(answer.Kvs) == 0 {
		return store.Entry{}, store.ErrNotFound
	}
	return s.entry(answer.Kvs[0]), nil
}

func (s *Store) entry(kv *mvccpb.KeyValue) store.Entry {
	return store.Entry{Key: s.keys.keyOf(kv.Key), Value: kv.Value, Revision: store.Revision(kv.ModRevision)}
}
