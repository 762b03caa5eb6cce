package apiserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/excerpt"
)

// observed writes a line about every request at its end, and tells the host. What
// was sent in bodies and headers, but for the user agent, never gets there.
func (s *Server) observed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		e, r := s.begin(w, r)
		defer func() { // also when the answer is cut off
			s.report(r, e, time.Since(start))
		}()
		next.ServeHTTP(e, r)
		e.arm() // for what is sent after this: the end of the answer
	})
}

func (s *Server) report(r *http.Request, e *exchange, took time.Duration) {
	if ctx := r.Context(); s.log.Enabled(ctx, slog.LevelInfo) {
		attrs := make([]slog.Attr, 0, 10)
		attrs = append(attrs,
			slog.String("method", excerpt.Of(r.Method)), slog.String("path", excerpt.Of(r.URL.Path)), slog.String("verb", excerpt.Of(e.route.Verb)),
			slog.String("user", excerpt.Of(e.route.User.Name)), slog.Int("code", e.code), slog.Int64("bytes", e.bytes),
			slog.Duration("duration", took), slog.String("agent", excerpt.Of(r.UserAgent())))
		if by := e.route.User.ImpersonatedBy; by != "" {
			attrs = append(attrs, slog.String("impersonator", excerpt.Of(by)))
		}
		if e.route.watches() {
			attrs = append(attrs, slog.Int64("events", e.events))
		}
		if e.reason != "" {
			attrs = append(attrs, slog.String("reason", e.reason))
		}
		s.log.LogAttrs(ctx, slog.LevelInfo, "request", attrs...)
	}
	if s.options.Hooks.Served != nil {
		s.options.Hooks.Served(Served{
			Attributes: e.route.Attributes, Code: e.code, Bytes: e.bytes, Events: e.events, Duration: took, Failure: e.reason,
		})
	}
}

// watches reports whether the request is for a watch.
func (rt *route) watches() bool { return rt.isResource && rt.Verb == "watch" }

// recovered answers 500 when a handler panics. An answer that has begun is cut off,
// so that no client takes it for a whole one.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			e := exchangeOf(r.Context())
			if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(http.ErrAbortHandler)
			}
			s.log.ErrorContext(context.WithoutCancel(r.Context()), "a request caused a panic",
				"panic", cause, "method", excerpt.Of(r.Method), "path", excerpt.Of(r.URL.Path), "stack", string(debug.Stack()))
			if e.code != 0 {
				e.reason = "panic"
				panic(http.ErrAbortHandler)
			}
			for _, name := range []string{"Content-Length", "Content-Encoding", "ETag", "Last-Modified", "Cache-Control"} {
				w.Header().Del(name)
			}
			s.fail(w, r, apierrors.NewInternalError(errPanic))
		}()
		next.ServeHTTP(w, r)
	})
}

var errPanic = errors.New("this request caused the server to panic; its log has the details")
