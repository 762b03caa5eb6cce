package etcd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// format is the version of the layout.
const format = 1

// marker marks a prefix as a store of this driver.
type marker struct {
	Format int    `json:"format"`
	Epoch  string `json:"epoch"` // random
}

// decodeMarker decodes a marker of this format.
func decodeMarker(value []byte) (marker, error) {
	var m marker
	if err := json.Unmarshal(value, &m); err != nil || m.Format <= 0 || m.Epoch == "" {
		return m, fmt.Errorf("%w: its key has the value %.80q", ErrForeign, value)
	}
	if m.Format != format {
		return m, fmt.Errorf("%w: it has version %d, this driver supports %d", ErrFormat, m.Format, format)
	}
	return m, nil
}

func newMarker() (m marker, value []byte, err error) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	m = marker{Format: format, Epoch: hex.EncodeToString(random[:])}
	value, err = json.Marshal(m)
	return m, value, err
}

// epochOf names the history: the identity of the cluster and the epoch of the marker. A restored
// cluster is usually a new one, but not if it gets the addresses and the token of the old one.
func (s *Store) epochOf(m marker) string { return fmt.Sprintf("%016x-%s", s.cluster, m.Epoch) }

// neighbours returns the prefixes at which another user of the prefix would have keys.
func (l layout) neighbours() []string { return []string{l.base, l.marker + "/", l.marker + "!"} }

// look reads the marker. If there is none, it looks for a key of another program.
func (s *Store) look(ctx context.Context) (m marker, modified int64, found bool, err error) {
	key := []byte(s.keys.marker)
	requests := []*pb.RangeRequest{{Key: key}}
	for _, prefix := range s.keys.neighbours() {
		requests = append(requests, &pb.RangeRequest{
			Key: []byte(prefix), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(prefix)), Limit: 1, KeysOnly: true,
		})
	}
	answer, err := s.readAll(ctx, requests...)
	if err != nil {
		return m, 0, false, err
	}
	if kvs := answer.Responses[0].GetResponseRange().GetKvs(); len(kvs) > 0 {
		m, err = decodeMarker(kvs[0].Value)
		return m, kvs[0].ModRevision, true, err
	}
	for _, r := range answer.Responses[1:] {
		if kvs := r.GetResponseRange().GetKvs(); len(kvs) > 0 {
			return m, 0, false, fmt.Errorf("%w: it has the key %.200q", ErrForeign, kvs[0].Key)
		}
	}
	return m, 0, false, nil
}

// mark returns the marker. It writes one if there is none, or if a new epoch is requested.
// Processes that open the same prefix concurrently agree on one.
func (s *Store) mark(ctx context.Context, newEpoch bool) (marker, error) {
	wait := s.backoff()
	for i := 0; ; i++ {
		m, modified, found, err := s.look(ctx)
		if err != nil || found && !newEpoch {
			return m, err
		}
		m, value, err := newMarker()
		if err != nil {
			return m, err
		}
		written, err := s.put(ctx, modified, value)
		if err == nil && written {
			return m, nil
		}
		if kind, shown := classify(err); err != nil && (kind == refused || kind == full || i >= s.pace.retries) {
			return m, kind.definite(shown)
		}
		// Another process was first, or the outcome is unknown: look again.
		if err := wait(ctx); err != nil {
			return m, err
		}
	}
}

// put writes the marker if its last modification is at a revision, and reports whether it did.
// Zero requires that there is no marker and no key of another program.
func (s *Store) put(ctx context.Context, modified int64, value []byte) (bool, error) {
	key := []byte(s.keys.marker)
	request := &pb.TxnRequest{
		Compare: []*pb.Compare{{Key: key, Target: pb.Compare_MOD, Result: pb.Compare_EQUAL, TargetUnion: &pb.Compare_ModRevision{ModRevision: modified}}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: value}}}},
	}
	if modified == 0 {
		for _, prefix := range s.keys.neighbours() {
			request.Compare = append(request.Compare, &pb.Compare{ // holds if the range is empty
				Key: []byte(prefix), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(prefix)),
				Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL, TargetUnion: &pb.Compare_CreateRevision{},
			})
		}
	}
	answer, err := s.kv.Txn(ctx, request, s.calls...)
	if err != nil {
		return false, err
	}
	return answer.Succeeded, s.check(answer.Header)
}
