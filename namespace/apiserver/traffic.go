package apiserver

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/flow"
)

// traffic is the room that a server has for requests, and its end.
type traffic struct {
	reads, writes *flow.Limiter
	watchers      *flow.Counter
	arriving      *flow.Budget    // memory for incoming bodies
	memory        *flow.Budget    // memory for decoding and answering
	open          context.Context // ends with Close
	end           context.CancelFunc
}

func newTraffic(l Limits) *traffic {
	t := &traffic{
		reads:    flow.New(flow.Options{Slots: l.Reads, Wait: l.Queue}),
		writes:   flow.New(flow.Options{Slots: l.Writes, Wait: l.Queue}),
		watchers: flow.NewCounter(l.AllWatches, l.Watches),
		arriving: flow.NewBudget(l.Memory / arrivingPart),
		memory:   flow.NewBudget(l.Memory - l.Memory/arrivingPart),
	}
	t.open, t.end = context.WithCancel(context.Background())
	return t
}

// closed reports whether the server shuts down.
func (t *traffic) closed() bool { return t.open.Err() != nil }

// limited lets requests in as there is room for them. Questions about the health of
// the server always get through.
func (s *Server) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		if isHealth(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		user := e.route.User.Name
		if user == authorization.Anonymous {
			user = ""
		}
		client := flow.Client(user, r.RemoteAddr)
		e.client = client
		e.memory = s.traffic.memory.Lease(client)
		defer e.memory.Release()
		if e.route.watches() {
			if err := s.traffic.watchers.Enter(client); err != nil {
				s.fail(w, r, tooMany())
				return
			}
			defer s.traffic.watchers.Leave(client)
			next.ServeHTTP(w, r)
			return
		}
		slot, err := acquire(r.Context(), s.traffic.limiter(r.Method), client)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		defer slot.Release()
		next.ServeHTTP(w, r)
	})
}

// acquire waits for a slot for a request of a client.
func acquire(ctx context.Context, l *flow.Limiter, client string) (flow.Slot, error) {
	slot, err := l.Acquire(ctx, client)
	if errors.Is(err, flow.ErrTooMany) {
		err = tooMany()
	}
	return slot, err
}

func (t *traffic) limiter(method string) *flow.Limiter {
	if method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions {
		return t.reads
	}
	return t.writes
}

func isHealth(path string) bool { return path == "/healthz" || path == "/livez" || path == "/readyz" }

// tooMany asks a client to come back later.
func tooMany() error {
	return apierrors.NewTooManyRequests("Too many requests, please try again later.", 1)
}
