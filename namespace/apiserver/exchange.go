package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/flow"
)

// exchange is a request and its answer on their way through the chain. It is the
// [http.ResponseWriter] of the inner handlers: it counts the bytes, and closes the connection
// of a client that reads too slowly. One goroutine uses it at a time.
type exchange struct {
	http.ResponseWriter
	control *http.ResponseController
	route   route      // with the user after authentication
	client  string     // the account for limits; empty: not limited yet
	memory  flow.Lease // for decoding and answering
	weight  int64      // bytes of memory
	pace    pace
	until   time.Time // the write deadline
	always  bool      // the deadline also applies while nothing is written: HTTP/2

	code   int // zero: nothing was sent
	bytes  int64
	events int64
	reason string // of a failure
}

type exchangeKey struct{}

// exchangeOf returns the exchange of a request.
func exchangeOf(ctx context.Context) *exchange {
	e, _ := ctx.Value(exchangeKey{}).(*exchange)
	return e
}

// observed begins an exchange. At its end it logs the request and calls the hook. The log
// contains nothing from bodies and headers except the user agent.
func (s *Server) observed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		e, r := s.begin(w, r)
		defer func() { // also when the answer is aborted
			s.report(r, e, time.Since(start))
		}()
		next.ServeHTTP(e, r)
		e.arm() // for the end of the answer, which net/http sends
	})
}

// begin returns the exchange of a request, and the request for inner handlers.
func (s *Server) begin(w http.ResponseWriter, r *http.Request) (*exchange, *http.Request) {
	limits := s.options.Limits
	e := &exchange{
		ResponseWriter: w, control: http.NewResponseController(w), route: routeOf(r), always: r.ProtoMajor >= 2,
		pace: pace{most: limits.Stall, rate: limits.Rate, credit: limits.Stall},
	}
	if !e.always {
		e.arm()
	}
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e))
	if r.Body == nil { // a request made by hand, without a connection
		r.Body = http.NoBody
	}
	if r.Body != http.NoBody && e.control.SetReadDeadline(time.Now().Add(limits.Arrive)) == nil {
		r.Body = arriving{ReadCloser: r.Body, within: limits.Arrive}
	}
	return e, r
}

func (s *Server) report(r *http.Request, e *exchange, took time.Duration) {
	if ctx := r.Context(); s.log.Enabled(ctx, slog.LevelInfo) {
		attrs := make([]slog.Attr, 0, 10)
		attrs = append(attrs,
			slog.String("method", excerpt(r.Method)), slog.String("path", excerpt(r.URL.Path)), slog.String("verb", excerpt(e.route.Verb)),
			slog.String("user", excerpt(e.route.User.Name)), slog.Int("code", e.code), slog.Int64("bytes", e.bytes),
			slog.Duration("duration", took), slog.String("agent", excerpt(r.UserAgent())))
		if by := e.route.User.ImpersonatedBy; by != "" {
			attrs = append(attrs, slog.String("impersonator", excerpt(by)))
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

var errPanic = errors.New("this request caused the server to panic; its log has the details")

// recovered answers 500 when a handler panics. It aborts an answer that has begun, so that
// the client does not take it for a complete one.
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
				"panic", cause, "method", excerpt(r.Method), "path", excerpt(r.URL.Path), "stack", string(debug.Stack()))
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

// piece is the size of one write, so that a slow client earns credit for each piece of a
// large answer.
const piece = 256 << 10

// Write implements [http.ResponseWriter].
func (e *exchange) Write(p []byte) (int, error) {
	if e.code == 0 {
		e.WriteHeader(http.StatusOK)
	}
	defer e.rest()
	total := 0
	for {
		e.arm()
		n, err := e.ResponseWriter.Write(p[:min(len(p), piece)])
		e.pace.took(time.Now(), n)
		total += n
		e.bytes += int64(n)
		if p = p[n:]; err != nil || len(p) == 0 {
			return total, e.lost(err)
		}
	}
}

// WriteHeader implements [http.ResponseWriter].
func (e *exchange) WriteHeader(code int) {
	if e.code == 0 && code >= http.StatusOK {
		e.code = code
	}
	e.ResponseWriter.WriteHeader(code)
}

// FlushError is called by [http.ResponseController].
func (e *exchange) FlushError() error {
	if e.code == 0 {
		e.code = http.StatusOK
	}
	e.arm()
	defer e.rest()
	err := e.control.Flush()
	e.pace.took(time.Now(), 0)
	return e.lost(err)
}

// lost records why the client did not receive the whole answer.
func (e *exchange) lost(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		e.reason = "the client takes too little"
	case err != nil && e.reason == "":
		e.reason = "the client is gone"
	}
	return err
}

// Unwrap is called by [http.ResponseController].
func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// arm sets the write deadline from the client's credit. It keeps a deadline that leaves
// about as much, because setting it is expensive.
func (e *exchange) arm() {
	now := time.Now()
	credit := e.pace.begin(now)
	if left := e.until.Sub(now); left > credit/2 && left <= credit {
		return
	}
	e.until = now.Add(credit)
	_ = e.control.SetWriteDeadline(e.until) // not every writer has one
}

// rest removes the deadline while nothing is written, if it would end an idle watch.
func (e *exchange) rest() {
	if e.always {
		e.until = time.Time{}
		_ = e.control.SetWriteDeadline(time.Time{})
	}
}

// pace limits how long a client may delay an answer. Waiting for the client uses up credit.
// Bytes that it takes, and time in which there is nothing to send, restore it. So a client
// that reads little by little has no more time in total than one that stops.
type pace struct {
	most   time.Duration
	rate   int // bytes per second
	credit time.Duration
	last   time.Time // when the latest write began or ended
}

// begin returns the time that the client has for the next write.
func (p *pace) begin(now time.Time) time.Duration {
	if !p.last.IsZero() {
		p.restore(now.Sub(p.last))
	}
	p.last = now
	return p.credit
}

// took records that a write of n bytes ended.
func (p *pace) took(now time.Time, n int) {
	p.credit -= now.Sub(p.last)
	p.last = now
	p.restore(time.Duration(n) * time.Second / time.Duration(p.rate))
}

func (p *pace) restore(by time.Duration) { p.credit = min(p.most, max(0, p.credit)+by) }

// arriving is the body of a request with a read deadline. net/http removes the deadline at
// the end of the body.
type arriving struct {
	io.ReadCloser
	within time.Duration
}

// Read implements [io.Reader].
func (b arriving) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = &apierrors.StatusError{ErrStatus: plain(http.StatusRequestTimeout, metav1.StatusReasonTimeout,
			fmt.Errorf("the body of the request did not arrive within %v", b.within))}
	}
	return n, err
}
