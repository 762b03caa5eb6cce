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
