package kubernetes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// prompt is how long it may take until a request is sent that nothing holds back.
const prompt = 100 * time.Millisecond

// lookKey is where a context has the look that its requests rely upon.
type lookKey struct{}

// sending returns a context for requests that have no other fence than a look at the
// target just before, which was now. A client may hold them back for long: until its
// own limit lets them through, or the server, after a refusal, will have them again.
// [looking] then looks anew.
func (in *incarnations) sending(ctx context.Context, target deleter.Target) context.Context {
	looked := time.Now()
	return context.WithValue(ctx, lookKey{}, func(ctx context.Context) error {
		if time.Since(looked) <= prompt {
			return nil
		}
		return in.recent(ctx, target)
	})
}

// looking sends each request, and each attempt at one, only if the look that it relies
// upon is recent enough, or a new one shows the same.
type looking struct{ base http.RoundTripper }

func (l looking) RoundTrip(r *http.Request) (*http.Response, error) {
	look, ok := r.Context().Value(lookKey{}).(func(context.Context) error)
	if !ok {
		return l.base.RoundTrip(r)
	}
	// The look is a request, too; it relies on no other.
	if err := look(context.WithValue(r.Context(), lookKey{}, nil)); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	return l.base.RoundTrip(r)
}

// WrappedRoundTripper returns what makes the requests, as client-go wants to know.
func (l looking) WrappedRoundTripper() http.RoundTripper { return l.base }

// mostPerRequest is what client-go allows for one request of a discovery.
const mostPerRequest = 32 * time.Second

// perRequest returns how long one request of a discovery may take: so much less than
// the whole that a server which hangs, of many that are asked, is all that fails.
func perRequest(configured, whole time.Duration) time.Duration {
	if configured > 0 {
		return configured
	}
	return min(whole/2, mostPerRequest)
}

// forward makes a request that ends with ctx instead of its own context, and after limit,
// its body included.
func forward(ctx context.Context, limit time.Duration, base http.RoundTripper, r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	response, err := base.RoundTrip(r.WithContext(ctx))
	if err != nil {
		err = explain(ctx, err)
		cancel()
		return nil, err
	}
	response.Body = ending{response.Body, cancel}
	return response, nil
}

// ending is a body that ends the request when it is closed.
type ending struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (e ending) Close() error {
	defer e.cancel()
	return e.ReadCloser.Close()
}
