package etcd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// keepAlive is the idle time of a connection before it is probed. Servers refuse much more
// frequent probes.
const keepAlive = 10 * time.Second

// reconnect bounds the reconnection backoff of the client, by default two minutes. It is below
// the time that a call waits for a connection, so that a call succeeds after the server's return.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: defaultPace.attempt / 2},
	MinConnectTimeout: defaultPace.attempt,
}

// Open opens the store at prefix with a client of its own, which has no TLS and no user.
// [Store.Close] closes the client. To use TLS or a user, create a client and call [New].
// Endpoints are as in the configuration of the client: "127.0.0.1:2379", "http://etcd-0:2379".
func Open(ctx context.Context, endpoints []string, prefix string, o *Options) (*Store, error) {
	client, err := dial(endpoints)
	if err != nil {
		return nil, store.Wrap("open", prefix, err)
	}
	s, err := New(ctx, client, prefix, o)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	s.owned = client
	return s, nil
}

func dial(endpoints []string) (*clientv3.Client, error) {
	if len(endpoints) == 0 {
		return nil, fmt.Errorf("%w: there are no endpoints", store.ErrInvalid)
	}
	for i, e := range endpoints {
		if strings.TrimSpace(e) == "" {
			return nil, fmt.Errorf("%w: endpoint %d is empty", store.ErrInvalid, i+1)
		}
	}
	if err := withoutUsers(endpoints); err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            endpoints,
		DialKeepAliveTime:    keepAlive, // detects a server that vanished
		DialKeepAliveTimeout: keepAlive / 2,
		DialOptions:          []grpc.DialOption{grpc.WithConnectParams(reconnect)},
		Logger:               zap.NewNop(), // the errors have the information
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	return client, nil
}

// withoutUsers refuses endpoints with a user or a password. The client would ignore them, and
// errors would leak them.
func withoutUsers(endpoints []string) error {
	for i, e := range endpoints {
		if _, rest, found := strings.Cut(e, "://"); found {
			e = rest
		}
		if strings.Contains(e, "@") {
			return fmt.Errorf("%w: endpoint %d has a user or a password, which belong into the configuration of a client", store.ErrInvalid, i+1)
		}
	}
	return nil
}

// New opens the store at prefix through client, which remains the caller's. If the prefix is
// unused, New creates the store. New uses the connection of the client with its endpoints, TLS
// and user. It ignores a replaced KV or Watcher of the client, such as package namespace of the
// client sets.
//
// The prefix is "/" and segments of letters, digits, '.', '_' and '-', such as "/services/blue".
// All keys of the store begin with it. The user of the client needs the rights to read and write
// these keys.
//
// Errors: [store.ErrInvalid], [ErrVersion], [ErrForeign], [ErrFormat], [ErrDenied],
// [store.ErrFull], [store.ErrUnavailable] (if no server has reported its version within five
// seconds), and the cause of ctx.
func New(ctx context.Context, client *clientv3.Client, prefix string, o *Options) (*Store, error) {
	s, err := open(ctx, client, prefix, o)
	return s, store.Wrap("open", prefix, err)
}

func open(ctx context.Context, client *clientv3.Client, prefix string, o *Options) (*Store, error) {
	if client == nil || client.ActiveConnection() == nil {
		return nil, fmt.Errorf("%w: the client is nil or has no connection", store.ErrInvalid)
	}
	var options Options
	if o != nil {
		options = *o
	}
	if err := options.check(); err != nil {
		return nil, err
	}
	options = options.withDefaults()
	if err := withoutUsers(client.Endpoints()); err != nil {
		return nil, err
	}
	keys, err := layoutOf(prefix)
	if err != nil {
		return nil, err
	}
	s := newStore(client, keys, options)
	opening, end, err := s.begin(ctx, s.closing)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := s.servers(opening, client, options.AnyVersion); err != nil {
		return nil, err
	}
	m, err := s.mark(opening, options.NewEpoch)
	if err != nil {
		return nil, err
	}
	s.epoch = s.epochOf(m)
	if options.Compact > 0 {
		s.startCompactor(options.Compact)
	}
	return s, nil
}

// servers reads the identity of the cluster and refuses servers that are too old. Once one server
// has answered, it waits for the other ones only briefly, and ignores those that do not answer.
func (s *Store) servers(ctx context.Context, client *clientv3.Client, anyVersion bool) error {
	asking, cancel := context.WithTimeout(ctx, s.pace.open)
	defer cancel()
	endpoints := client.Endpoints()
	answers := make([]*pb.StatusResponse, len(endpoints))
	errs := make([]error, len(endpoints))
	var all sync.WaitGroup
	var first sync.Once
	for i, endpoint := range endpoints {
		all.Go(func() {
			if answers[i], errs[i] = s.status(asking, client, endpoint); errs[i] == nil {
				first.Do(func() { time.AfterFunc(s.pace.others, cancel) })
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("%w (last answer of %s: %w)", context.Cause(ctx), endpoints[0], errs[0])
	}
	for i, a := range answers {
		if errs[i] != nil {
			continue
		}
		if s.cluster == 0 {
			s.cluster = a.Header.GetClusterId()
		}
		if s.cluster != a.Header.GetClusterId() {
			return fmt.Errorf("%w: the endpoints belong to different clusters, %x and (%s) %x",
				store.ErrInvalid, s.cluster, endpoints[i], a.Header.GetClusterId())
		}
		if err := supported(a.Version); err != nil && !anyVersion {
			return fmt.Errorf("%w (%s)", err, endpoints[i])
		}
	}
	if s.cluster == 0 {
		kind, shown := classify(errs[0])
		return fmt.Errorf("%w (%s)", kind.definite(shown), strings.Join(endpoints, ", "))
	}
	return nil
}

// status asks one server until it answers or refuses, or ctx ends. In the last case it returns
// the last error before.
func (s *Store) status(ctx context.Context, client *clientv3.Client, endpoint string) (answer *pb.StatusResponse, err error) {
	conn, err := client.Dial(endpoint)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // it was used for one call
	server := pb.NewMaintenanceClient(conn)
	wait := s.backoff()
	for {
		next, nextErr := server.Status(ctx, &pb.StatusRequest{}) // fails fast, unlike the method of the client
		if err == nil || ctx.Err() == nil {
			answer, err = next, nextErr
		}
		if kind, _ := classify(err); err == nil || kind == refused {
			return answer, err
		}
		if wait(ctx) != nil {
			return nil, err
		}
	}
}

// oldest is the first version whose watches lose no events.
var oldest = [3]int{3, 5, 13}

// supported refuses versions before oldest.
func supported(version string) error {
	var v [3]int
	core, _, _ := strings.Cut(version, "-") // "3.6.0-rc.1"
	parts := strings.Split(core, ".")
	for i := range v {
		n := -1
		if i < len(parts) {
			if parsed, err := strconv.Atoi(parts[i]); err == nil {
				n = parsed
			}
		}
		if n < 0 {
			return fmt.Errorf("%w: it reports %.40q", ErrVersion, version)
		}
		v[i] = n
	}
	for i := range v {
		if v[i] != oldest[i] {
			if v[i] < oldest[i] {
				return fmt.Errorf("%w: it is %s, but watches lose no events only since %d.%d.%d", ErrVersion, version, oldest[0], oldest[1], oldest[2])
			}
			break
		}
	}
	return nil
}

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
