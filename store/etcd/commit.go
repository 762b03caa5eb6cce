package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/nslifecycle/nslifecycle/store"
)

// Commit implements [store.Store] with one transaction of the engine, whose comparisons are the
// conditions.
func (s *Store) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	r, err := s.commit(ctx, txn)
	return r, store.Wrap("commit", "", err)
}

func (s *Store) commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if err := txn.Check(s.limits); err != nil {
		return 0, err
	}
	request, size := s.encode(txn)
	if size > s.request {
		return 0, fmt.Errorf("%w: the request has %d bytes for %d conditions and %d operations, the limit of the server is %d",
			store.ErrTooLarge, size, len(txn.If), len(txn.Do), s.request)
	}
	ctx, end, err := s.begin(ctx, s.aborting)
	if err != nil {
		return 0, err
	}
	defer end()
	if len(txn.If)+len(txn.Do) == 0 {
		// For the engine, a transaction without ranges is no linearizable read.
		answer, err := s.read(ctx, &pb.RangeRequest{Key: []byte(s.keys.marker), CountOnly: true})
		return store.Revision(answer.GetHeader().GetRevision()), err
	}
	var answer *pb.TxnResponse
	if len(txn.Do) == 0 {
		answer, err = attempt(ctx, s, func(ctx context.Context, calls ...grpc.CallOption) (*pb.TxnResponse, error) {
			return s.kv.Txn(ctx, request, calls...)
		})
	} else {
		answer, err = s.write(ctx, request)
	}
	if err != nil {
		return 0, err
	}
	if answer.Succeeded {
		return store.Revision(answer.Header.Revision), nil
	}
	return 0, s.conflict(txn.If, answer)
}

// overhead is the most that the encoding adds to a key or value: tags and lengths of nested
// messages, a revision.
const overhead = 32

// encode returns the request for txn and an upper estimate of its size. If a condition fails, the
// server also reads every key of the conditions at the same revision, so the answer contains the
// current entries.
func (s *Store) encode(txn store.Txn) (request *pb.TxnRequest, size int) {
	request = &pb.TxnRequest{
		Compare: make([]*pb.Compare, len(txn.If)),
		Success: make([]*pb.RequestOp, len(txn.Do)),
		Failure: make([]*pb.RequestOp, len(txn.If)),
	}
	for i, c := range txn.If {
		key := s.keys.of(c.Key)
		request.Compare[i] = compare(key, c)
		request.Failure[i] = &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}
		size += 2 * (len(key) + overhead)
	}
	for i, op := range txn.Do {
		key := s.keys.of(op.Key)
		if op.Delete {
			request.Success[i] = &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: key}}}
		} else {
			request.Success[i] = &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: op.Value}}}
		}
		size += len(key) + len(op.Value) + overhead
	}
	return request, size
}

// compare returns the engine's comparison for c. An absent key has revision 0.
func compare(key []byte, c store.Condition) *pb.Compare {
	switch c.Want {
	case store.WantRevision:
		return &pb.Compare{Key: key, Target: pb.Compare_MOD, Result: pb.Compare_EQUAL, TargetUnion: &pb.Compare_ModRevision{ModRevision: int64(c.Revision)}}
	case store.WantExists:
		return &pb.Compare{Key: key, Target: pb.Compare_CREATE, Result: pb.Compare_GREATER, TargetUnion: &pb.Compare_CreateRevision{}}
	}
	return &pb.Compare{Key: key, Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL, TargetUnion: &pb.Compare_CreateRevision{}}
}

// conflict returns the first condition that failed.
func (s *Store) conflict(conditions []store.Condition, answer *pb.TxnResponse) error {
	for i, c := range conditions {
		if i >= len(answer.Responses) {
			break
		}
		var current *store.Entry
		if kvs := answer.Responses[i].GetResponseRange().GetKvs(); len(kvs) > 0 {
			e := s.entry(kvs[0])
			current = &e
		}
		if !c.Holds(current) {
			return &store.ConflictError{Condition: c, Current: current}
		}
	}
	return errors.New("the server refused the transaction, although every condition holds")
}

// write submits a request that writes. It submits it again only if the server certainly did not
// process it, because it had no leader or was too busy. It gives up if no connection accepts the
// request.
func (s *Store) write(ctx context.Context, request *pb.TxnRequest) (*pb.TxnResponse, error) {
	wait := s.backoff()
	for i := 0; ; i++ {
		since := s.seen.Load()
		var sent submissions
		once, cancel := context.WithCancel(ctx)
		unsent := time.AfterFunc(s.pace.attempt, func() {
			if sent.Load() == 0 {
				cancel()
			}
		})
		answer, err := s.kv.Txn(once, request, s.counted(&sent)...)
		unsent.Stop()
		cancel()
		n := sent.Load()
		if err == nil {
			if err := s.check(answer.Header); err != nil {
				return nil, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
			}
			if n > 1 && !answer.Succeeded {
				return nil, fmt.Errorf("%w: it was submitted %d times, and refused the last time", store.ErrUnknownOutcome, n)
			}
			return answer, nil
		}
		kind, shown := classify(err)
		switch {
		case n == 0 && ctx.Err() != nil:
			return nil, fmt.Errorf("%w, nothing was submitted: %w", context.Cause(ctx), shown)
		case n > 1, n == 1 && (kind == unsure || kind == silent), n == 1 && kind == full && !s.refusedFull(ctx, request, since):
			return nil, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, causeOr(ctx, shown))
		case kind != transient || i >= s.pace.retries:
			return nil, kind.definite(shown)
		}
		if err := wait(ctx); err != nil {
			return nil, err
		}
	}
}

// refusedFull reports whether a write that was answered "no space" certainly wrote nothing.
// A server with a full database refuses a write before it proposes it. But the write that
// crosses the quota is applied and gets the same error. Both cases are decided before the
// answer: if the history of a key that the request puts has the put after revision since,
// the write was applied; otherwise it was refused.
func (s *Store) refusedFull(ctx context.Context, request *pb.TxnRequest, since int64) bool {
	var put *pb.PutRequest
	for _, op := range request.Success {
		if put = op.GetRequestPut(); put != nil {
			break
		}
	}
	if put == nil {
		return false
	}
	key := s.keys.keyOf(put.Key)
	ctx, cancel := context.WithTimeout(ctx, s.pace.attempt)
	defer cancel()
	for c, err := range s.Watch(ctx, key, s.position(since)) {
		if err != nil {
			return false
		}
		if c.Bookmark() {
			return true
		}
		for _, e := range c.Events {
			if e.Key == key && !e.Deleted && bytes.Equal(e.Value, put.Value) {
				return false
			}
		}
	}
	return false
}

// submissions counts how often a request was handed to a connection. After gRPC has chosen a
// connection, and just before it writes, it asks the credentials of the call for their metadata,
// which are empty here. If the count is zero, the server cannot have seen the request. If it is
// more than one, gRPC or the client's interceptor has submitted the request again. That is
// usually safe (a new token, a refused stream), but not if the interceptor reacts to a stream
// that a proxy has reset.
type submissions struct{ atomic.Int32 }

func (s *submissions) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	s.Add(1)
	return nil, nil
}

func (s *submissions) RequireTransportSecurity() bool { return false }

// counted returns call options that count the submissions of a call in sent.
func (s *Store) counted(sent *submissions) []grpc.CallOption {
	return append(slices.Clip(s.calls), grpc.PerRPCCredentials(sent))
}
