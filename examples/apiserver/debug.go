package main

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/observe/debug"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// debugPath is where the debug pages are.
const debugPath = "/debug/namespaces/"

// debug serves the debug pages on l until ctx ends: what keeps namespaces, by what the
// controller was seen to do, who announced itself, and what operators declared.
func (b backend) debug(ctx context.Context, l net.Listener, hosts []string, recorder *explain.Recorder) error {
	log, err := audit.New(b.store, nil)
	if err != nil {
		return err
	}
	known := func(ctx context.Context) ([]parties.Party, error) { return parties.List(ctx, b.store, nil) }
	explainer := explain.New(b.registry, &explain.Options{Recorder: recorder, Parties: known, Records: log.List, Record: log.Get})
	pages, err := debug.New(b.registry, explainer, &debug.Options{Hosts: hosts, Parties: known, Records: log.List})
	if err != nil {
		return err
	}
	defer pages.Close() // ends what keeps open pages up to date
	mux := http.NewServeMux()
	mux.Handle(debugPath, pages)
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout:      30 * time.Second, // pages that are kept up to date have bounds of their own
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // nobody is answered longer
	}
	return serveUntil(ctx, server, l)
}

// serveUntil serves on l until ctx ends. Who is slow then is cut off.
func serveUntil(ctx context.Context, server *http.Server, l net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if server.Shutdown(drain) != nil {
		_ = server.Close() // what it says is about listeners, which are closed
	}
	<-served // as it was closed
	return nil
}
