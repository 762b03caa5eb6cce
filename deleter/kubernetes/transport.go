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

// ForConfig makes a Cluster of the API server that config is for; config is not
// changed. All its clients share connections and, if config has a QPS or a
// RateLimiter, that; without either the client sets no limit, and the server's own
// flow control governs: its 429 and Retry-After are honoured. Warnings of the server
// go to config's handler, else nowhere. Requests name config's UserAgent, else the one of
// [rest.DefaultKubernetesUserAgent].
//
// A request that relies on a look at the namespace, and that the limit or a refusal
// has held back, is sent after another look ([Options.Recheck]). With a small QPS that
// look queues at the same limit, so that a request which has waited for longer than half
// of the CallTimeout in [Options] may fail in that pass.
//
// One request of a discovery takes no longer than config's Timeout; without one, half
// of the CallTimeout, and 32 s. So a server that hangs, of many behind the API server,
// is all that fails.
//
// Nothing is asked of the server yet. A config that makes no sense is
// [deleter.ErrInvalid], as are options, see [New].
func ForConfig(config *rest.Config, opts *Options) (*Cluster, error) {
	if config == nil {
		return nil, fmt.Errorf("%w config: is nil", deleter.ErrInvalid)
	}
	clients, err := clientsFor(ours(config), opts.withDefaults().Deleter.CallTimeout)
	if err != nil {
		return nil, fmt.Errorf("%w config: %w", deleter.ErrInvalid, err)
	}
	return New(clients, opts)
}

// ours returns a copy of config with what this package wants where nothing is set.
func ours(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	switch {
	case config.RateLimiter != nil || config.QPS < 0:
	case config.QPS == 0:
		config.QPS = -1
	default:
		// One limit for all clients together, not one for each.
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, max(config.Burst, 1))
	}
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent() // clients of an http client that exists set none
	}
	if config.WarningHandler == nil && config.WarningHandlerWithContext == nil {
		config.WarningHandler = rest.NoWarnings{}
	}
	return config
}

// keeping gives config a transport of its own if it would use the process's, which
// keeps two connections to a host: a pass would open one for almost every request.
func keeping(config *rest.Config) error {
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

// clientsFor makes the clients of config. A discovery may take as long as given.
func clientsFor(config *rest.Config, discovery time.Duration) (Clients, error) {
	if err := keeping(config); err != nil {
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
	client := &http.Client{Transport: looking{base}, Timeout: made.Timeout}
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
	d := discoverer{config, client, perRequest(config.Timeout, discovery)}
	if _, err := d.within(context.Background()); err != nil {
		return Clients{}, err
	}
	return Clients{Namespaces: core.Namespaces(), Metadata: content, Resources: d.resources, Version: d.version}, nil
}

// discoverer makes discovery clients.
type discoverer struct {
	config *rest.Config
	client *http.Client
	limit  time.Duration // of one request
}

func (d discoverer) resources(ctx context.Context) ([]*metav1.APIResourceList, error) {
	client, err := d.within(ctx)
	if err != nil {
		return nil, err
	}
	return discovery.ServerPreferredNamespacedResources(client)
}

func (d discoverer) version(ctx context.Context) (*version.Info, error) {
	client, err := d.within(ctx)
	if err != nil {
		return nil, err
	}
	return client.ServerVersion()
}

// within returns a discovery client whose requests end with ctx. Those of client-go
// know of no context, so that nothing else ends them, or the waits between them.
func (d discoverer) within(ctx context.Context) (*discovery.DiscoveryClient, error) {
	client := *d.client
	client.Transport = transport{ctx, d.limit, d.client.Transport}
	config := *d.config
	if config.RateLimiter != nil {
		config.RateLimiter = limiter{config.RateLimiter, ctx}
	}
	made, err := discovery.NewDiscoveryClientForConfigAndClient(&config, &client)
	if err != nil {
		return nil, err
	}
	return discovery.NewDiscoveryClient(restClient{made.RESTClient(), ctx}), nil
}

// transport makes requests that end with a context of its own instead of theirs, and
// that may take so long.
type transport struct {
	ctx   context.Context
	limit time.Duration
	base  http.RoundTripper
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.ctx.Err() != nil {
		return nil, context.Cause(t.ctx)
	}
	response, err := forward(t.ctx, t.limit, t.base, r)
	if err != nil || response.StatusCode < http.StatusBadRequest {
		return response, err
	}
	switch path.Base(r.URL.Path) {
	case "api", "apis", "version":
		return inPlainText(response)
	}
	return response, nil
}

// maxRefusal is how much of a refusal is read.
const maxRefusal = 1 << 20

// inPlainText makes a text of a Status. Where the discovery client takes the body as it
// comes, it would report a Status as "unknown".
func inPlainText(response *http.Response) (*http.Response, error) {
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

// limiter waits no longer than its context.
type limiter struct {
	flowcontrol.RateLimiter
	ctx context.Context
}

func (l limiter) Wait(context.Context) error { return l.RateLimiter.Wait(l.ctx) }

// restClient waits no longer than its context before it does what was refused again.
type restClient struct {
	rest.Interface
	ctx context.Context
}

func (c restClient) Get() *rest.Request { return c.Interface.Get().BackOffWithContext(pause{c.ctx}) }

// pause waits for as long as the server asks, and no longer than its context.
type pause struct{ ctx context.Context }

func (p pause) SleepWithContext(_ context.Context, d time.Duration) { _ = backoff.Sleep(p.ctx, d) }

func (pause) CalculateBackoffWithContext(context.Context, *url.URL) time.Duration { return 0 }

func (pause) UpdateBackoffWithContext(context.Context, *url.URL, error, int) {}
