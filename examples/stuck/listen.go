package main

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace/observe/debug"
	"github.com/nslifecycle/nslifecycle/namespace/observe/httpguard"
)

//go:embed front.html
var frontPage string

var front = template.Must(template.New("front").Parse(frontPage))

// listen opens the museum in the browser, until ctx ends.
func listen(ctx context.Context, w io.Writer, address string, hosts []string, all []exhibit) (err error) {
	guard, err := httpguard.New(hosts...)
	if err != nil {
		return fmt.Errorf("--hosts: %w", err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	m := newMuseum(ctx, all)
	defer func() { err = errors.Join(err, m.close()) }()
	pages, err := debug.New(m, m, &debug.Options{Hosts: hosts, Title: "Stuck namespaces", Interval: time.Second, Records: m.records})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, pages.Close()) }()
	server := &http.Server{
		Handler:           guard.Handler(m.handler(pages)),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // pages that are kept up to date end with it
	}
	fmt.Fprintf(w, "the museum is open: http://%s/\n", l.Addr())
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	err = server.Close()
	<-served // as it was closed
	return err
}

// handler serves the museum: its front page, the remedies, and pages, those of package
// debug for all worlds as if they were one.
func (m *museum) handler(pages http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", m.front)
	mux.Handle("GET /debug/", pages)
	mux.HandleFunc("POST /remedy/{name}", m.change((*room).cure))
	mux.HandleFunc("POST /again/{name}", m.change((*room).again))
	return mux
}

func (m *museum) front(w http.ResponseWriter, _ *http.Request) {
	nonce := rand.Text()
	var page bytes.Buffer
	if err := front.Execute(&page, map[string]any{"Nonce": nonce, "Rooms": m.state()}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	head := w.Header()
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+nonce+"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "no-store")
	_, _ = page.WriteTo(w) // whoever asked may have left
}

// change returns what a button of the front page does to a room.
func (m *museum) change(do func(*room) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		at := m.room(r.PathValue("name"))
		if at == nil {
			http.NotFound(w, r)
			return
		}
		if err := do(at); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		http.Redirect(w, r, "/#"+at.Name, http.StatusSeeOther)
	}
}
