package etcd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/nslifecycle/nslifecycle/store"
)

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
