package etcd

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/store"
)

// read reads a range. Reads are linearizable, so any member returns every acknowledged commit.
func (s *Store) read(ctx context.Context, request *pb.RangeRequest) (*pb.RangeResponse, error) {
	return attempt(ctx, s, func(ctx context.Context, calls ...grpc.CallOption) (*pb.RangeResponse, error) {
		return s.kv.Range(ctx, request, calls...)
	})
}

// readAll reads several ranges at one revision.
func (s *Store) readAll(ctx context.Context, requests ...*pb.RangeRequest) (*pb.TxnResponse, error) {
	var txn pb.TxnRequest
	for _, r := range requests {
		txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}})
	}
	return attempt(ctx, s, func(ctx context.Context, calls ...grpc.CallOption) (*pb.TxnResponse, error) {
		return s.kv.Txn(ctx, &txn, calls...)
	})
}

// attempt repeats a call that only reads until it is answered or refused, or has failed too
// often. If a member does not answer, the next attempt goes to another one. If no connection
// accepts the call, attempt returns [store.ErrUnavailable] at once.
func attempt[A interface{ GetHeader() *pb.ResponseHeader }](ctx context.Context, s *Store, call func(context.Context, ...grpc.CallOption) (A, error)) (answer A, err error) {
	wait := s.backoff()
	for i := 0; ; i++ {
		var sent submissions
		once, cancel := context.WithTimeout(ctx, s.pace.attempt)
		answer, err = call(once, s.counted(&sent)...)
		cancel()
		if err == nil {
			return answer, s.check(answer.GetHeader())
		}
		if ctx.Err() != nil {
			return answer, context.Cause(ctx)
		}
		kind, err := classify(err)
		if kind == refused || i >= s.pace.retries || sent.Load() == 0 {
			return answer, kind.definite(err)
		}
		if err := wait(ctx); err != nil {
			return answer, err
		}
	}
}

// backoff returns a function that waits with exponential backoff, or until its context ends.
func (s *Store) backoff() func(context.Context) error {
	failures := 0
	return func(ctx context.Context) error {
		d := s.pace.retry.Delay(failures)
		failures++
		return backoff.Sleep(ctx, d)
	}
}

// beginning is the revision of a cluster before its first commit.
const beginning = 1

// revision returns the revision of the cluster for a position of this store, or zero for now.
func (s *Store) revision(p store.Position) (int64, error) {
	switch {
	case p == store.Position{}:
		return 0, nil
	case p.Epoch != "" && p.Epoch != s.epoch:
		return 0, fmt.Errorf("%w: the position has epoch %.64q, the store has %q", store.ErrGone, p.Epoch, s.epoch)
	case p.Revision < 0:
		return 0, fmt.Errorf("%w: revision %d is negative", store.ErrInvalid, p.Revision)
	}
	return max(int64(p.Revision), beginning), nil
}

func (s *Store) position(revision int64) store.Position {
	return store.Position{Epoch: s.epoch, Revision: store.Revision(revision)}
}

// chunk is the number of entries that one request of a longer listing reads, which bounds the
// size of a message.
const chunk = 1000

// List implements [store.Store].
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	p, err := s.list(ctx, q)
	return p, store.Wrap("list", q.Prefix, err)
}

func (s *Store) list(ctx context.Context, q store.Query) (page store.Page, err error) {
	request, err := s.rangeOf(q)
	if err != nil {
		return page, err
	}
	ctx, end, err := s.begin(ctx, s.closing)
	if err != nil {
		return page, err
	}
	defer end()
	if request.CountOnly = empty(request); request.CountOnly { // only check the revision
		request.Key, request.RangeEnd = []byte(s.keys.marker), nil
	}
	size := 0
	for more := true; more; {
		request.Limit = chunk
		if q.Limit > 0 {
			request.Limit = int64(min(chunk, q.Limit-len(page.Entries)))
		}
		answer, err := s.read(ctx, request)
		if err != nil {
			return store.Page{}, s.ahead(ctx, request.Revision, err)
		}
		if request.Revision == 0 {
			request.Revision = answer.Header.Revision
		}
		if page.Entries == nil {
			page.Entries = make([]store.Entry, 0, len(answer.Kvs))
		}
		page.More = answer.More
		for _, kv := range answer.Kvs {
			if q.Full(len(page.Entries), size, len(kv.Value)) {
				page.More, answer.More = true, false // the page is full
				break
			}
			size += len(kv.Value)
			page.Entries = append(page.Entries, s.entry(kv))
		}
		more = answer.More && len(answer.Kvs) > 0 && (q.Limit == 0 || len(page.Entries) < q.Limit)
		if more {
			request.Key = append(answer.Kvs[len(answer.Kvs)-1].Key, 0)
		}
	}
	page.Position = s.position(request.Revision)
	return page, nil
}

// rangeOf returns the request for the entries that q selects, without its limit.
func (s *Store) rangeOf(q store.Query) (*pb.RangeRequest, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	at, err := s.revision(q.At)
	switch {
	case err != nil:
		return nil, err
	case len(q.Prefix)+len(q.After) > s.limits.Bytes:
		return nil, fmt.Errorf("%w: the prefix and the key have %d bytes, the limit is %d",
			store.ErrTooLarge, len(q.Prefix)+len(q.After), s.limits.Bytes)
	}
	request := &pb.RangeRequest{Revision: at}
	request.Key, request.RangeEnd = s.keys.span(q.Prefix, q.After)
	return request, nil
}

// empty reports whether no key can lie in the range of a request.
func empty(request *pb.RangeRequest) bool { return string(request.Key) >= string(request.RangeEnd) }

// Count implements [store.Counter]. The server counts all keys of the range in its index,
// whatever the limit.
func (s *Store) Count(ctx context.Context, q store.Query) (int, error) {
	n, err := s.count(ctx, q)
	return n, store.Wrap("count", q.Prefix, err)
}

func (s *Store) count(ctx context.Context, q store.Query) (int, error) {
	request, err := s.rangeOf(q)
	if err != nil {
		return 0, err
	}
	ctx, end, err := s.begin(ctx, s.closing)
	if err != nil {
		return 0, err
	}
	defer end()
	none := empty(request)
	if request.CountOnly = true; none { // only check the revision
		request.Key, request.RangeEnd = []byte(s.keys.marker), nil
	}
	answer, err := s.read(ctx, request)
	switch {
	case err != nil:
		return 0, s.ahead(ctx, request.Revision, err)
	case none:
		return 0, nil
	case q.Limit > 0:
		return int(min(answer.Count, int64(q.Limit))), nil
	}
	return int(answer.Count), nil
}

// ahead returns a complete FutureError if err reports that a revision is ahead.
func (s *Store) ahead(ctx context.Context, asked int64, err error) error {
	if !errors.Is(err, store.ErrFuture) {
		return err
	}
	answer, failed := s.read(ctx, &pb.RangeRequest{Key: []byte(s.keys.marker), CountOnly: true})
	if failed != nil {
		return failed
	}
	current := min(answer.Header.Revision, asked-1) // it may have reached that revision since
	return &store.FutureError{Asked: store.Revision(asked), Current: store.Revision(current)}
}
