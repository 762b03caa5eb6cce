package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace/audit"
	"github.com/nslifecycle/nslifecycle/namespace/debug"
	"github.com/nslifecycle/nslifecycle/namespace/explain"
	"github.com/nslifecycle/nslifecycle/namespace/parties"
)

// debugPath is where the debug pages are.
const debugPath = "/debug/namespaces/"

// debug serves the debug pages on l until ctx ends: what keeps namespaces, by what the
// controller was seen to do, who announced itself, and what operators declared.
func (b backend) debug(ctx context.Context, l net.Listener, passes *explain.Recorder) error {
	pages, err := b.pages(passes)
	if err != nil {
		return err
	}
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
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err = <-served:
		served <- nil // said here
	case <-ctx.Done():
	}
	_ = pages.Close() // always nil
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if server.Shutdown(drain) != nil {
		_ = server.Close() // who is slow is cut off
	}
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

func (b backend) pages(passes *explain.Recorder) (*debug.Handler, error) {
	log, err := audit.New(b.store, nil)
	if err != nil {
		return nil, err
	}
	known := func(ctx context.Context) ([]parties.Party, error) { return parties.List(ctx, b.store, nil) }
	explainer := explain.New(b.registry, &explain.Options{Recorder: passes, Parties: known, Records: log.List, Record: log.Get})
	return debug.New(b.registry, explainer, &debug.Options{Parties: known, Records: log.List})
}
