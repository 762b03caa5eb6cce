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

// Compact implements [store.Compactor]. It drops the history of all users of the cluster.
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
		return fmt.Errorf("%w: revision %d is negative", store.ErrInvalid, revision)
	}
	if revision <= beginning {
		return nil // there is no earlier history
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

// compacted returns an answer for a compaction that was done before.
func (s *Store) compacted(ctx context.Context) (*pb.CompactionResponse, error) {
	answer, err := s.kv.Range(ctx, &pb.RangeRequest{Key: []byte(s.keys.marker), CountOnly: true}, s.calls...)
	return &pb.CompactionResponse{Header: answer.GetHeader()}, err
}

// startCompactor compacts until the store is closed.
func (s *Store) startCompactor(every time.Duration) {
	s.running.Add(1) // no other goroutine has the store yet
	go func() {
		defer s.running.Done()
		c := compactor{store: s}
		next := time.NewTimer(every)
		defer next.Stop()
		for {
			ctx, end := join(s.closing, s.closing)
			// A later round, here or in another process, makes up for a failed one. Until then
			// the history is longer.
			_ = c.round(ctx)
			end()
			next.Reset(every) // count from the end, so that no round follows a late one too soon
			select {
			case <-next.C:
			case <-s.closing.Done():
				return
			}
		}
	}()
}

// compactor takes part in the election of a compactor among processes. The process that writes a
// certain key compacts in that round. The write is conditional on the version of the key that the
// process saw in the last round, so at most one process wins. This needs no lease and no
// synchronized clocks, and another process replaces a dead or paused one within a round. The
// winner compacts to the revision that it read one round before, so younger history always stays.
type compactor struct {
	store   *Store
	version int64 // of the key in the last round
	last    int64 // the revision in the last round
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
		return err // if the write succeeded after all, this process loses the next round and continues from there
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
		c.version = 0 // the key was removed
	}
	return nil
}

// roundWithoutSpace is a round on a full database. The database refuses the election but needs
// the compaction most, so every process compacts, which is harmless.
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
