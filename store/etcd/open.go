package etcd

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/nslifecycle/nslifecycle/store"
)

// keepAlive is how long a connection of Open's client may be silent before it is
// probed. Servers refuse to be probed much more often.
const keepAlive = 10 * time.Second

// reconnect bounds the client's reconnection backoff, by default two minutes, below the
// time that a call waits for a connection, so that a call after the server's return
// succeeds.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: defaultPace.attempt / 2},
	MinConnectTimeout: defaultPace.attempt,
}

// Open opens the store at prefix with a client of its own, which [Store.Close]
// closes: without TLS and without a user. For those make a client and use [New].
// Endpoints are those of the client: "127.0.0.1:2379", "http://etcd-0:2379".
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
		DialKeepAliveTime:    keepAlive, // a server that vanished is noticed
		DialKeepAliveTimeout: keepAlive / 2,
		DialOptions:          []grpc.DialOption{grpc.WithConnectParams(reconnect)},
		Logger:               zap.NewNop(), // what it would log is in the errors
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	return client, nil
}

// withoutUsers refuses endpoints with a user or a password. The client would not use them,
// and errors would leak them.
func withoutUsers(endpoints []string) error {
	for i, e := range endpoints {
		if _, rest, found := strings.Cut(e, "://"); found {
			e = rest
		}
		if strings.Contains(e, "@") {
			return fmt.Errorf("%w: endpoint %d has a user or a password, which endpoints cannot carry", store.ErrInvalid, i+1)
		}
	}
	return nil
}

// New opens the store at prefix through client, which stays the caller's. It makes
// the store when nobody uses the prefix. It uses the connection of the client, so
// endpoints, TLS and users are those of the client's configuration; a KV or
// Watcher that replaces the client's own (such as package namespace of the client)
// is not seen.
//
// The prefix is "/" and segments of letters, digits, '.', '_' and '-', such as
// "/services/blue"; the store's keys begin with it. A user of the cluster needs the
// rights to read and write keys that start with it.
//
// Errors: [store.ErrInvalid], [ErrVersion], [ErrForeign], [ErrFormat], [ErrDenied],
// [store.ErrFull], [store.ErrUnavailable] (when no server has reported its version for five
// seconds), and the cause of ctx.
func New(ctx context.Context, client *clientv3.Client, prefix string, o *Options) (*Store, error) {
	s, err := open(ctx, client, prefix, o)
	return s, store.Wrap("open", prefix, err)
}

func open(ctx context.Context, client *clientv3.Client, prefix string, o *Options) (*Store, error) {
	if client == nil || client.ActiveConnection() == nil {
		return nil, fmt.Errorf("%w: the client is nil or has no connection", store.ErrInvalid)
	}
	options, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
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
