package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/nslifecycle/nslifecycle/namespace/observe/httpguard"
)

// endpoints begins to listen, and returns what serves health, metrics and debug pages
// until ctx ends.
func (a *agent) endpoints(ctx context.Context) (serve func() error, err error) {
	l, err := net.Listen("tcp", a.config.listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	handler, err := a.handler()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	a.say("health and metrics at http://%s", l.Addr())
	if a.pages != nil {
		a.say("debug pages at http://%s%s", l.Addr(), pagesPath)
	}
	return a.serving(ctx, l, handler), nil
}

// serving returns a function that serves handler on l until ctx ends. No client holds a connection for
// long that it does not use.
func (a *agent) serving(ctx context.Context, l net.Listener, handler http.Handler) func() error {
	server := &http.Server{
		Handler:        handler,
		ReadTimeout:    10 * time.Second, // also of a body, which nobody reads
		WriteTimeout:   30 * time.Second,
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: 16 << 10,
		BaseContext:    func(net.Listener) context.Context { return ctx }, // nobody is answered longer
	}
	return func() error {
		if a.pages != nil {
			defer func() { _ = a.pages.Close() }() // always nil
		}
		defer context.AfterFunc(ctx, func() { _ = server.Close() })() // Serve tells
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
}

func (a *agent) handler() (http.Handler, error) {
	guard, err := httpguard.New(a.config.reach.Hosts(a.config.listen)...)
	if err != nil {
		return nil, fmt.Errorf("--hosts: %w", err)
	}
	mux := http.NewServeMux()
	// The process is healthy as long as it answers: what else may fail it recovers
	// from by itself, and no restart would help.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n") // the client went away
	})
	// A replica that stands by is ready: for its turn.
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
