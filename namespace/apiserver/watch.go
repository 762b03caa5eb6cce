package apiserver

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// watch answers a watch (WIRE.md, "Encodings and odds and ends"): what is there
// now, if that is asked for, and then what happens to it, until the time is up, the
// client leaves or the server is closed. Errors from before it began are returned.
func (s *Server) watch(w http.ResponseWriter, r *request) error {
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return apierrors.NewBadRequest("watches over WebSocket are not offered: send a plain GET")
	}
	if s.traffic.closed() {
		return &apierrors.StatusError{ErrStatus: unavailable()}
	}
	if err := r.narrow(); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, s.options.Limits.Body)); err != nil {
		return bodyFault(err) // until the body was read nobody sees that the client leaves
	}
	timeout := s.watchTimeout(r)
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	st := newWatchStream(s, w, r, timeout)
	defer st.close()
	ended := make(chan struct{})
	stop := context.AfterFunc(s.traffic.open, func() {
		defer close(ended)
		cancel()
		_ = st.control.SetWriteDeadline(time.Now().Add(farewell)) // it may hang in a write
	})
	defer func() {
		if !stop() {
			<-ended // the writer must not be used after this
		}
	}()
	err := s.await(r, func(context.Context) error { return st.run(ctx) })
	if ctx.Err() != nil || errors.Is(err, registry.ErrClosed) || errors.Is(err, store.ErrClosed) {
		return st.finish(r.Context())
	}
	return st.fail(err)
}

// farewell is how long a client has to take what it is sent when the server is
// closed.
const farewell = 5 * time.Second

// watchTimeout is how long a watch lasts.
func (s *Server) watchTimeout(r *request) time.Duration {
	if asked := r.query.timeoutSeconds; asked != nil && *asked > 0 {
		return time.Duration(min(*asked, int64(longest/time.Second))) * time.Second
	}
	least := s.options.Limits.WatchTimeout
	return least + rand.N(least)
}

// narrow has a watch of one object, whose name is in the path, select that.
func (r *request) narrow() error {
	if !r.item {
		return nil
	}
	var err error
	r.query.list.Fields, err = r.query.list.Fields.And("metadata.name", r.Name)
	return err
}

// begins says where a watch begins.
type begins uint8

const (
	fromVersion begins = iota // after the version that the client gives
	fromNow                   // with what happens from now on
	fromState                 // with the state of now, as ADDED events
)

// begins reads how the parameters say where the watch begins.
func (q *query) begins() begins {
	version := q.list.ResourceVersion
	switch {
	case q.sendInitialEvents != nil && *q.sendInitialEvents:
		return fromState
	case version != "" && version != "0":
		return fromVersion
	case q.sendInitialEvents != nil:
		return fromNow
	}
	return fromState
}

// expired is the Status for a resource version that is too old.
func (st *watchStream) expired(cause error) metav1.Status {
	message := "too old resource version: list again and watch from there"
	if st.r.query.begins() == fromVersion && !st.started {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(st.r.Context()), time.Second)
		defer cancel()
		message = "too old resource version: " + st.r.query.list.ResourceVersion
		if now, err := st.r.storage.listJSON(ctx, st.r.Namespace, registry.ListOptions{Limit: 1}); err == nil {
			message += " (" + now.ResourceVersion + ")"
		}
	}
	status := failure(&namespace.Error{Kind: namespace.ErrGone, Message: message, Err: cause})
	return status
}
