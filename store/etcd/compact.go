package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/nslifecycle/nslifecycle/store"
)

// Compact implements [store.Compactor]. History is the cluster's, so it is the
// history of all its users that is dropped.
func (s *Store) Compact(ctx context.Context, revision store.Revision) error {
	ctx, end, err := s.begin(ctx, s.closing)
	if err == nil {
		defer end()
		err = s.compact(ctx, int64(revision))
	}
	return store.Wrap("compact", "", err)
}

func (s *Store) compact(ctx context.Context, revision int64) error {
	if revision < 0 {
		return fmt.Errorf("%w: the revision %d is negative", store.ErrInvalid, revision)
	}
	if revision <= beginning {
		return nil // nothing lies before
	}
	_, err := attempt(ctx, s, func(ctx context.Context, calls ...grpc.CallOption) (*pb.CompactionResponse, error) {
		answer, err := s.kv.Compact(ctx, &pb.CompactionRequest{Revision: revision}, calls...)
		if err != nil && isCompacted(err) {
			return s.compacted(ctx)
		}
		return answer, err
	})
	return s.ahead(ctx, revision, err)
}

// compacted stands for the answer to a compaction that was done before.
func (s *Store) compacted(ctx context.Context) (*pb.CompactionResponse, error) {
	answer, err := s.kv.Range(ctx, &pb.RangeRequest{Key: []byte(s.keys.marker), CountOnly: true}, s.calls...)
	return &pb.CompactionResponse{Header: answer.GetHeader()}, err
}

// startCompactor compacts until the store is closed.
func (s *Store) startCompactor(every time.Duration) {
	s.running.Add(1) // nobody else has the store yet
	go func() {
		defer s.running.Done()
		c := compactor{store: s}
		next := time.NewTimer(every)
		defer next.Stop()
		for {
			ctx, end := join(s.closing, s.closing)
			// A round that fails is made up for by the next one, here or elsewhere: then
			// history is longer for a while.
			_ = c.round(ctx)
			end()
			next.Reset(every) // from its end: a round that was late must not be close to the next one
			select {
			case <-next.C:
			case <-s.closing.Done():
				return
			}
		}
	}()
}

// compactor is one process's part in the election. There is a key, and whoever
// writes it does the work of the round: its version tells that nobody else has
// since this process looked last. So the compactors need no leases and no clocks
// that agree, one that pauses or dies is replaced within a round, and history of
// less than a round is never dropped: the revision to compact to is one that this
// process read a round ago.
type compactor struct {
	store   *Store
	version int64 // of the key, when this process looked last
	last    int64 // the revision at that time
}

func (c *compactor) round(ctx context.Context) error {
	s := c.store
	key := []byte(s.keys.compactor)
	ctx, cancel := context.WithTimeout(ctx, s.pace.attempt)
	defer cancel()
	answer, err := s.kv.Txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{{Key: key, Target: pb.Compare_VERSION, Result: pb.Compare_EQUAL, TargetUnion: &pb.Compare_Version{Version: c.version}}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: []byte(strconv.FormatInt(c.last, 10))}}}},
		Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}},
	}, s.calls...)
	if errors.Is(rpctypes.Error(err), rpctypes.ErrNoSpace) {
		return c.roundWithoutSpace(ctx)
	}
	if err != nil {
		return err // if it was written, this process loses the next round, and goes on from there
	}
	if err := s.check(answer.Header); err != nil {
		return err
	}
	last := c.last
	c.last = answer.Header.Revision
	if answer.Succeeded {
		c.version++
		return s.compact(ctx, last)
	}
	if kvs := answer.Responses[0].GetResponseRange().GetKvs(); len(kvs) > 0 {
		c.version = kvs[0].Version
	} else {
		c.version = 0 // somebody removed it
	}
	return nil
}

// roundWithoutSpace is a round on a full database, which refuses the election but
// needs the compaction most. Then everybody does the work: it is the same.
func (c *compactor) roundWithoutSpace(ctx context.Context) error {
	s := c.store
	answer, err := s.read(ctx, &pb.RangeRequest{Key: []byte(s.keys.marker), CountOnly: true})
	if err != nil {
		return err
	}
	last := c.last
	c.last = answer.Header.Revision
	return s.compact(ctx, last)
}
