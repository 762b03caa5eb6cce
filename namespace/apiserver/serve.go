package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
)

// Serve answers the connections that l accepts until ctx ends, and closes l. It
// bounds how long clients may take for headers and between requests
// ([Limits.Header], [Limits.Idle]), which a host that mounts the handler in a
// server of its own must see to.
//
// Over a listener of [crypto/tls.NewListener] whose configuration offers it, "h2" in
// NextProtos, HTTP/2 is served too, which clients of Kubernetes prefer: many watches
// share a connection.
//
// When ctx ends the server is closed ([Server.Close]), no connection is accepted
// any more, and requests that are being served have [Limits.Drain] to end; those
// that have not are cut off, and the error says so. Otherwise the error is nil, or
// that of l.
//
// It may be called for several listeners; the first to end closes the server.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	limits := s.options.Limits
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: limits.Header, IdleTimeout: limits.Idle, MaxHeaderBytes: limits.HeaderBytes,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		HTTP2:    &http.HTTP2Config{WriteByteTimeout: limits.Stall}, // what waits in a connection is of no request
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	var failure error
	select {
	case failure = <-done:
		done <- http.ErrServerClosed
	case <-ctx.Done():
	}
	s.traffic.end()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.Drain)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		server.Close() // what it says is about listeners, which are closed
		if failure == nil && errors.Is(err, context.DeadlineExceeded) {
			failure = fmt.Errorf("apiserver: requests were cut off that had not ended %v after the server did: %w", limits.Drain, err)
		}
	}
	<-done
	return failure
}

// Close ends all watches as if their time were up, answers further ones 503, and
// lets /readyz fail. Other requests are still served. It is for hosts that mount
// the handler in a server of their own, which they shut down after this. It may be
// called more than once, and returns nil.
func (s *Server) Close() error {
	s.traffic.end()
	return nil
}
