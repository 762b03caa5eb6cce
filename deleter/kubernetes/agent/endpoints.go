package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/nslifecycle/nslifecycle/namespace/observe/debug"
	"github.com/nslifecycle/nslifecycle/namespace/observe/httpguard"
)

const pagesPath = "/debug/namespaces/"

// newPages returns the debug pages. They read from the API server and share --qps with the
// controller, so they refresh slowly.
func (a *Agent) newPages() (*debug.Handler, error) {
	return debug.New(a.cluster.Namespaces(), a, &debug.Options{
		Hosts:    a.config.hosts(),
		Title:    "Namespaces that " + string(a.config.Finalizer) + " holds",
		Interval: 5 * time.Second,
		Rows:     50,
	})
}

// listen opens Config.Listen and returns a function that serves the endpoints until ctx ends.
func (a *Agent) listen(ctx context.Context) (serve func() error, err error) {
	l, err := net.Listen("tcp", a.config.Listen)
	if err != nil {
		return nil, err
	}
	handler, err := a.handler()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	a.report("health and metrics at http://%s", l.Addr())
	if a.pages != nil {
		a.report("debug pages at http://%s%s", l.Addr(), pagesPath)
	}
	return func() error { return a.serve(ctx, l, handler) }, nil
}

// serve serves handler on l until ctx ends. Timeouts close connections of slow and idle clients.
func (a *Agent) serve(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:        handler,
		ReadTimeout:    10 * time.Second,
		WriteTimeout:   30 * time.Second,
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: 16 << 10,
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
	if a.pages != nil {
		defer func() { _ = a.pages.Close() }() // always nil
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // Serve returns
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (a *Agent) handler() (http.Handler, error) {
	guard, err := httpguard.New(a.config.hosts()...)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	// The process recovers from every failure without a restart, so it is healthy if it answers.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n") // the client may be gone
	})
	// A standby replica is ready.
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if reason := a.ready.get(); reason != "" {
			http.Error(w, "not ready: "+reason, http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics.registry, promhttp.HandlerOpts{}))
	if a.pages != nil {
		mux.Handle(pagesPath, a.pages)
	}
	return guard.Handler(mux), nil
}
