package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/flow"
)

// exchange is a request and its answer on their way through the chain. It is the
// [http.ResponseWriter] of the links within: it counts what is sent, and has the
// connection cut when the client does not take it. One goroutine uses it at a time.
type exchange struct {
	http.ResponseWriter
	control *http.ResponseController
	route   route       // with the user, once that is known
	client  string      // the account for limits; empty: not known yet
	memory  *flow.Lease // nil: exempt
	weight  int64       // of memory
	pace    pace
	until   time.Time // when the connection is cut, as it was told last
	always  bool      // deadlines of the writer count also while nothing is written: HTTP/2

	code   int // zero: nothing was sent
	bytes  int64
	events int64
	reason string // why it failed
}

type exchangeKey struct{}

// exchangeOf returns the exchange that a request is part of; nil when it did not
// come through the chain.
func exchangeOf(ctx context.Context) *exchange {
	e, _ := ctx.Value(exchangeKey{}).(*exchange)
	return e
}

// begin returns the exchange of a request, and the request to pass on.
func (s *Server) begin(w http.ResponseWriter, r *http.Request) (*exchange, *http.Request) {
	e := &exchange{ResponseWriter: w, control: http.NewResponseController(w), route: routeOf(r), pace: newPace(s.options.Limits), always: r.ProtoMajor >= 2}
	if !e.always {
		e.arm()
	}
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e))
	if r.Body == nil { // of a request that came over no connection
		r.Body = http.NoBody
	}
	if r.Body != http.NoBody {
		// Not every writer has deadlines; then the host's server bounds the time.
		if e.control.SetReadDeadline(time.Now().Add(s.options.Limits.Arrive)) == nil {
			r.Body = arriving{ReadCloser: r.Body, within: s.options.Limits.Arrive}
		}
	}
	return e, r
}

// piece is how much is sent at once, so that a large answer to a slow client counts
// as taken piece by piece.
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

// FlushError sends what was written so far. [http.ResponseController] calls it.
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

// lost notes why the client did not get all of the answer.
func (e *exchange) lost(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		e.reason = "the client takes too little"
	case err != nil && e.reason == "":
		e.reason = "the client is gone"
	}
	return err
}

// Unwrap lets [http.ResponseController] reach what lies beneath.
func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// arm moves the time at which the connection is cut to where the pace has it, unless
// the last time leaves about as much: it costs more than a look at the clock.
func (e *exchange) arm() {
	now := time.Now()
	credit := e.pace.begin(now)
	if left := e.until.Sub(now); left > credit/2 && left <= credit {
		return
	}
	e.until = now.Add(credit)
	_ = e.control.SetWriteDeadline(e.until) // not every writer has one
}

// rest lifts the time until there is more to send, where it would cut an answer
// that waits for its next event, or a handler that takes long.
func (e *exchange) rest() {
	if e.always {
		e.until = time.Time{}
		_ = e.control.SetWriteDeadline(time.Time{})
	}
}

// arriving is the body of a request with a time by which it must have come. Once it
// has, net/http lifts the deadline.
type arriving struct {
	io.ReadCloser
	within time.Duration
}

// Read implements [io.Reader].
func (b arriving) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusRequestTimeout, Reason: metav1.StatusReasonTimeout,
			Message: fmt.Sprintf("the body of the request did not arrive within %v", b.within),
		}}
	}
	return n, err
}
