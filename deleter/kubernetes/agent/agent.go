// Package agent runs the controller of this library against a Kubernetes cluster, or any other
// server of the Kubernetes API, as an operable service: leader election, health, metrics, debug
// pages, dry runs, and failures reported with advice. The command is in cmd/nslifecycle-agent.
//
// With finalizer "kubernetes", the default, the agent replaces the stock namespace controller,
// which must be switched off. With any other finalizer it is a second party beside it.
//
// Any number of replicas may run: one leads, the others stand by. An agent that is killed, even
// with kill -9, and restarted picks up where it left off. Once the agent runs, no failure of the
// API server ends it: it reports the failure once, with advice, retries with backoff, and reports
// recovery. If the permission for one resource type is missing, the namespaces concerned are not
// finalized until it is granted; all other types in them are deleted.
//
// permissions.yaml lists the permissions that the agent needs.
package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/observe/debug"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// Agent is one replica of the party that owns a finalizer. Create it with [New].
type Agent struct {
	config     Config
	connection *rest.Config
	cluster    *kubernetes.Cluster
	controller *controller.Controller
	metrics    *metrics
	progress   *progress
	passes     *explain.Recorder
	pages      *debug.Handler // nil unless Config.DebugPages
	leading    atomic.Bool
	version    atomic.Pointer[string] // of the API server, once known
	ready      readiness

	mu sync.Mutex // serializes writes to config.Output
}

// New returns an Agent for the API server at connection. It sends no requests. New adds a
// transport wrapper to connection. An invalid field of c is an error that names it as the flag of
// the command does.
func New(connection *rest.Config, c Config) (*Agent, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	a := &Agent{config: c, connection: connection, passes: explain.NewRecorder()}
	a.progress = newProgress(a.report)
	var err error
	if a.metrics, err = newMetrics(c.Finalizer, a.progress); err != nil {
		return nil, err
	}
	connection.Wrap(func(next http.RoundTripper) http.RoundTripper { return counted{next, a.metrics.count} })
	a.cluster, err = kubernetes.ForConfig(connection, &c.Content)
	if err != nil {
		return nil, err
	}
	party := namespace.Party{Finalizer: c.Finalizer}
	a.controller, err = controller.New(observed{a.cluster.Namespaces(), a}, a.cluster.Deleter(), party, &controller.Options{
		Workers: c.Workers,
		Hooks:   a.hooks(),
		Logger:  c.Logger,
	})
	if err != nil {
		return nil, err
	}
	if c.DebugPages {
		a.pages, err = a.newPages()
	}
	return a, err
}

// Run works until ctx ends, and then returns nil. It returns an error only if it
// cannot start, or if the listener of [Config.Listen] fails.
func (a *Agent) Run(ctx context.Context) error {
	a.report("finalizing namespaces for %s at %s", a.config.Finalizer, a.connection.Host)
	group, ctx := errgroup.WithContext(ctx)
	if a.config.Listen != "" {
		serve, err := a.listen(ctx)
		if err != nil {
			return err
		}
		group.Go(serve)
	}
	group.Go(func() error {
		if a.config.Lease != nil {
			return a.elect(ctx)
		}
		return a.lead(ctx)
	})
	err := group.Wait()
	a.report("stopped")
	return err
}

// lead runs the controller until ctx ends, regardless of other replicas.
func (a *Agent) lead(ctx context.Context) error {
	a.metrics.leader.Set(1)
	a.leading.Store(true)
	a.ready.set("namespaces are not watched yet")
	defer func() {
		a.leading.Store(false)
		a.metrics.leader.Set(0)
		a.metrics.watching.Set(0)
		a.metrics.controller.Clear()
		a.progress.clear()
	}()
	return a.controller.Run(ctx)
}

func (a *Agent) hooks() []controller.Hooks {
	return []controller.Hooks{a.metrics.controller.Hooks(), a.passes.Hooks(a.config.Finalizer), {
		PassEnded: func(_ context.Context, ref namespace.Ref, result pass.Result, err error, _ time.Duration) {
			a.progress.passEnded(ref, result, err)
		},
		Removed: a.progress.removed,
	}}
}

// report writes a line to Config.Output.
func (a *Agent) report(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Fprintf(a.config.Output, format+"\n", args...)
}

// observed reports whether the watch of terminating namespaces works.
type observed struct {
	controller.Namespaces
	agent *Agent
}

// Terminating implements [controller.Namespaces].
func (o observed) Terminating(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
	return func(yield func(namespace.Event, error) bool) {
		for event, err := range o.Namespaces.Terminating(ctx, after) {
			switch {
			case err == nil && event.Type == namespace.EventSynced:
				o.agent.watching()
			case err != nil && ctx.Err() == nil && !errors.Is(err, namespace.ErrGone): // the controller lists again
				o.agent.watchFailed(err)
			}
			if !yield(event, err) {
				return
			}
		}
	}
}

func (a *Agent) watching() {
	if a.ready.set("") {
		a.metrics.watching.Set(1)
		a.report("watching terminating namespaces")
	}
}

func (a *Agent) watchFailed(err error) {
	text := describe(err)
	if a.ready.set("cannot watch namespaces: " + text) {
		a.metrics.watching.Set(0)
		a.report("cannot watch namespaces, retrying: %s", text)
	}
}

// readiness records why the agent is not ready. The zero value is not ready.
type readiness struct {
	mu     sync.Mutex
	ready  bool
	reason string
}

// set records why the agent is not ready; empty means ready. It reports whether that changed,
// apart from numbers.
func (r *readiness) set(reason string) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed = r.ready != (reason == "") || withoutDigits(r.reason) != withoutDigits(reason)
	r.ready, r.reason = reason == "", reason
	return changed
}

// get returns why the agent is not ready; empty means ready.
func (r *readiness) get() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ready && r.reason == "" {
		return "the agent is starting"
	}
	return r.reason
}

// counted counts requests to the API server by method and status.
type counted struct {
	next  http.RoundTripper
	count func(method, code string)
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(r)
	code := "none"
	if err == nil {
		code = fmt.Sprint(response.StatusCode)
	}
	c.count(r.Method, code)
	return response, err
}

// WrappedRoundTripper gives client-go access to the wrapped transport.
func (c counted) WrappedRoundTripper() http.RoundTripper { return c.next }
