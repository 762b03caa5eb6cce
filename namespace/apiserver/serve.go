package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// Serve answers the connections of l until ctx ends, and closes l. It bounds the time that
// clients take for headers and between requests ([Limits.Header], [Limits.Idle]). A host that
// mounts the handler in a server of its own must do so itself.
//
// Serve speaks HTTP/2 over a listener of [crypto/tls.NewListener] that offers it ("h2" in
// NextProtos). Clients of Kubernetes prefer it, because many watches share a connection.
//
// When ctx ends, Serve closes the server ([Server.Close]) and waits up to [Limits.Drain] for
// running requests. It then aborts the remaining ones and returns an error. Otherwise it
// returns nil, or the error of l.
//
// Serve may be called for several listeners. The first to end closes the server.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	limits := s.options.Limits
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: limits.Header, IdleTimeout: limits.Idle, MaxHeaderBytes: limits.HeaderBytes,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		HTTP2:    &http.HTTP2Config{WriteByteTimeout: limits.Stall}, // for data that belongs to no request
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	var failure error
	select {
	case failure = <-done:
		done <- http.ErrServerClosed
	case <-ctx.Done():
	}
	s.close()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.Drain)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		server.Close() // its error is about listeners, which are closed
		if failure == nil && errors.Is(err, context.DeadlineExceeded) {
			failure = fmt.Errorf("apiserver: requests were cut off that had not ended %v after the server did: %w", limits.Drain, err)
		}
	}
	<-done
	return failure
}

// Close ends all watches as if their time were over, rejects new ones with 503, and makes
// /readyz fail. Other requests are still served. Close is for hosts that mount the handler in
// a server of their own, which they shut down afterwards. It may be called more than once, and
// returns nil.
func (s *Server) Close() error {
	s.close()
	return nil
}

// closed reports whether the server shuts down.
func (s *Server) closed() bool { return s.open.Err() != nil }

// serveSystem answers paths other than resources: probes, discovery and schemas.
func (s *Server) serveSystem(w http.ResponseWriter, r *http.Request) error {
	if isProbe(r.URL.Path) {
		return s.probe(w, r)
	}
	for _, documents := range []interface {
		Serves(path string) bool
		Serve(http.ResponseWriter, *http.Request) error
	}{s.discovery, s.schemas} {
		switch {
		case !documents.Serves(r.URL.Path):
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			return errMethod(w, http.MethodGet, http.MethodHead)
		default:
			return documents.Serve(w, r)
		}
	}
	return errNoSuchPath()
}

func isProbe(path string) bool { return path == "/healthz" || path == "/livez" || path == "/readyz" }

// probe answers probes. Any answer shows that the process is alive.
func (s *Server) probe(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return errMethod(w, http.MethodGet, http.MethodHead)
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	var report strings.Builder
	report.WriteString("[+]ping ok\n")
	code := http.StatusOK
	if name == "readyz" {
		if s.closed() {
			code = http.StatusInternalServerError
			report.WriteString("[-]shutdown failed: the server shuts down\n")
		}
		if err := s.isReady(r.Context()); err != nil {
			s.log.WarnContext(r.Context(), "not ready", "error", err)
			code = http.StatusInternalServerError
			report.WriteString("[-]ready failed: reason withheld\n") // probes are not authorized: it is in the log
		} else {
			report.WriteString("[+]ready ok\n")
		}
	}
	body := "ok"
	switch {
	case code != http.StatusOK:
		body = report.String() + name + " check failed\n"
	case r.URL.Query().Has("verbose"):
		body = fmt.Sprintf("%s%s check passed\n", report.String(), name)
	}
	write(w, code, "text/plain; charset=utf-8", []byte(body))
	return nil
}

// readyFor is how long a result of isReady is cached. Probes take no slot, so a client may
// send any number of them.
const readyFor = time.Second

// isReady returns why the store or the host cannot serve requests, or nil. Concurrent calls
// share one check, which ends after Limits.Timeout.
func (s *Server) isReady(ctx context.Context) error {
	_, err, _ := s.readiness.Do("", func() (any, error) {
		if time.Now().Before(s.readyUntil) {
			return nil, s.notReady
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Limits.Timeout)
		defer cancel()
		err := s.registry.Ping(ctx)
		if err == nil && s.options.Ready != nil {
			err = s.options.Ready(ctx)
		}
		s.notReady, s.readyUntil = err, time.Now().Add(readyFor)
		return nil, err
	})
	return err
}
