package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
)

// ForConfig returns a Cluster for the API server of config, and does not change config. Its clients
// share connections and the rate limit of config's RateLimiter or QPS. Without a configured limit
// only the server's flow control limits requests: its 429 and Retry-After are honored. Warnings of
// the server go to config's handler, or are dropped. UserAgent defaults to
// [rest.DefaultKubernetesUserAgent].
//
// If a rate limit or a retry delays a request that relies on a read of the namespace, the namespace
// is read again before the request is sent ([Options.Recheck]). Under a small QPS that read waits
// for the same limit, so a request that waited longer than half of CallTimeout may fail in that
// pass.
//
// Each request of a discovery has a timeout: that of config, or else half of CallTimeout and at most
// 32 s. One of many aggregated servers that hangs then fails alone.
//
// ForConfig sends no requests. An invalid config or option is an error that matches
// [deleter.ErrInvalid]; see [New].
func ForConfig(config *rest.Config, opts *Options) (*Cluster, error) {
	if config == nil {
		return nil, fmt.Errorf("%w: the config is nil", deleter.ErrInvalid)
	}
	clients, err := clientsFor(withClientDefaults(config), opts.withDefaults().Deleter.CallTimeout)
	if err != nil {
		return nil, fmt.Errorf("%w: the config: %w", deleter.ErrInvalid, err)
	}
	return New(clients, opts)
}

// withClientDefaults returns a copy of config with this package's defaults.
func withClientDefaults(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	switch {
	case config.RateLimiter != nil || config.QPS < 0:
	case config.QPS == 0:
		config.QPS = -1
	default:
		// All clients share one limit.
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, max(config.Burst, 1))
	}
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent() // clients with a given http.Client set none
	}
	if config.WarningHandler == nil && config.WarningHandlerWithContext == nil {
		config.WarningHandler = rest.NoWarnings{}
	}
	return config
}

// withOwnTransport gives config its own transport instead of http.DefaultTransport, which keeps
// only two idle connections per host: a pass would open a connection for almost every request.
func withOwnTransport(config *rest.Config) error {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return err
	}
	shared, ok := http.DefaultTransport.(*http.Transport)
	if !ok || tls != nil || config.Transport != nil || config.Dial != nil || config.Proxy != nil ||
		config.ExecProvider != nil || config.AuthProvider != nil {
		return nil
	}
	own := shared.Clone()
	own.MaxIdleConns, own.MaxIdleConnsPerHost = 0, parallelism
	config.Transport = own
	return nil
}

// clientsFor returns the clients of config. discovery is the timeout of a discovery.
func clientsFor(config *rest.Config, discovery time.Duration) (Clients, error) {
	if err := withOwnTransport(config); err != nil {
		return Clients{}, err
	}
	made, err := rest.HTTPClientFor(config)
	if err != nil {
		return Clients{}, err
	}
	base := made.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	client := &http.Client{Transport: rechecking{base}, Timeout: made.Timeout}
	typed := rest.CopyConfig(config)
	typed.ContentType = runtime.ContentTypeProtobuf
	typed.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	core, err := corev1.NewForConfigAndClient(typed, client)
	if err != nil {
		return Clients{}, err
	}
	content, err := metadata.NewForConfigAndClient(config, client)
	if err != nil {
		return Clients{}, err
	}
	d := discoverer{config, client, discoveryTimeout(config.Timeout, discovery)}
	if _, err := d.client(context.Background()); err != nil {
		return Clients{}, err
	}
	return Clients{Namespaces: core.Namespaces(), Metadata: content, Resources: d.resources, Version: d.version}, nil
}

// discoverer creates discovery clients.
type discoverer struct {
	config *rest.Config
	http   *http.Client
	limit  time.Duration // timeout of one request
}

func (d discoverer) resources(ctx context.Context) ([]*metav1.APIResourceList, error) {
	client, err := d.client(ctx)
	if err != nil {
		return nil, err
	}
	return discovery.ServerPreferredNamespacedResources(client)
}

func (d discoverer) version(ctx context.Context) (*version.Info, error) {
	client, err := d.client(ctx)
	if err != nil {
		return nil, err
	}
	return client.ServerVersion()
}

// client returns a discovery client whose requests, retries and rate limit waits end with ctx.
// client-go's discovery takes no context.
func (d discoverer) client(ctx context.Context) (*discovery.DiscoveryClient, error) {
	client := *d.http
	client.Transport = contextTransport{ctx, d.limit, d.http.Transport}
	config := *d.config
	if config.RateLimiter != nil {
		config.RateLimiter = contextLimiter{config.RateLimiter, ctx}
	}
	made, err := discovery.NewDiscoveryClientForConfigAndClient(&config, &client)
	if err != nil {
		return nil, err
	}
	return discovery.NewDiscoveryClient(contextREST{made.RESTClient(), ctx}), nil
}

// contextTransport sends requests with its own context and timeout.
type contextTransport struct {
	ctx   context.Context
	limit time.Duration
	base  http.RoundTripper
}

func (t contextTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.ctx.Err() != nil {
		return nil, context.Cause(t.ctx)
	}
	response, err := roundTripWithin(t.ctx, t.limit, t.base, r)
	if err != nil || response.StatusCode < http.StatusBadRequest {
		return response, err
	}
	switch path.Base(r.URL.Path) {
	case "api", "apis", "version":
		return statusAsText(response)
	}
	return response, nil
}

// maxRefusal limits the size of an error response.
const maxRefusal = 1 << 20

// statusAsText replaces a Status by its message. Where the discovery client takes the body
// verbatim, it reports a Status as "unknown".
func statusAsText(response *http.Response) (*http.Response, error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	if closed := response.Body.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		body = []byte(status.Message)
		response.Header.Set("Content-Type", "text/plain")
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return response, nil
}

// contextLimiter waits with its own context.
type contextLimiter struct {
	flowcontrol.RateLimiter
	ctx context.Context
}

func (l contextLimiter) Wait(context.Context) error { return l.RateLimiter.Wait(l.ctx) }

// contextREST waits with its own context between retries.
type contextREST struct {
	rest.Interface
	ctx context.Context
}

func (c contextREST) Get() *rest.Request {
	return c.Interface.Get().BackOffWithContext(contextBackoff{c.ctx})
}

// contextBackoff waits as long as the server asks, or until ctx ends.
type contextBackoff struct{ ctx context.Context }

func (p contextBackoff) SleepWithContext(_ context.Context, d time.Duration) {
	_ = backoff.Sleep(p.ctx, d)
}

func (contextBackoff) CalculateBackoffWithContext(context.Context, *url.URL) time.Duration { return 0 }

func (contextBackoff) UpdateBackoffWithContext(context.Context, *url.URL, error, int) {}

// recheckAfter is the delay after which a request counts as delayed.
const recheckAfter = 100 * time.Millisecond

// recheckKey is the context key of the recheck function.
type recheckKey struct{}

// withRecheck returns a context for requests whose only protection is a read of the target just
// before. Rate limits and retries may delay such a request, so [rechecking] then reads the
// namespace again.
func (in *incarnations) withRecheck(ctx context.Context, target deleter.Target) context.Context {
	checked := time.Now()
	return context.WithValue(ctx, recheckKey{}, func(ctx context.Context) error {
		if time.Since(checked) <= recheckAfter {
			return nil
		}
		return in.confirmRecent(ctx, target)
	})
}

// rechecking calls the recheck function of a request before each attempt to send it.
type rechecking struct{ base http.RoundTripper }

func (l rechecking) RoundTrip(r *http.Request) (*http.Response, error) {
	recheck, ok := r.Context().Value(recheckKey{}).(func(context.Context) error)
	if !ok {
		return l.base.RoundTrip(r)
	}
	// The read is a request too, and needs no recheck.
	if err := recheck(context.WithValue(r.Context(), recheckKey{}, nil)); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	return l.base.RoundTrip(r)
}

// WrappedRoundTripper gives client-go access to the wrapped transport.
func (l rechecking) WrappedRoundTripper() http.RoundTripper { return l.base }

// maxDiscoveryTimeout is client-go's timeout of a discovery request.
const maxDiscoveryTimeout = 32 * time.Second

// discoveryTimeout returns the timeout of one request of a discovery. It is small enough that one
// server that hangs does not fail the whole discovery.
func discoveryTimeout(configured, whole time.Duration) time.Duration {
	if configured > 0 {
		return configured
	}
	return min(whole/2, maxDiscoveryTimeout)
}

// roundTripWithin sends a request that ends with ctx instead of its own context. The timeout
// includes the body.
func roundTripWithin(ctx context.Context, limit time.Duration, base http.RoundTripper, r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no response within %v", limit))
	response, err := base.RoundTrip(r.WithContext(ctx))
	if err != nil {
		err = clientError(ctx, err)
		cancel()
		return nil, err
	}
	response.Body = cancelOnClose{response.Body, cancel}
	return response, nil
}

// cancelOnClose is a body that releases the context of its request when closed.
type cancelOnClose struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (e cancelOnClose) Close() error {
	defer e.cancel()
	return e.ReadCloser.Close()
}
