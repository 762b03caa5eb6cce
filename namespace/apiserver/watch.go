package apiserver

import (
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

const (
	bookmarkInterval = time.Minute     // between bookmarks of a watch without events
	bookmarkLead     = 2 * time.Second // from the last bookmark to the end of a long watch
	farewell         = 5 * time.Second // for the last write after Close
	statePage        = 500             // objects of the initial state that are read at once
)

// watch answers a watch: the current state, if the
// client asks for it, and then its changes, until the time is over, the client leaves or the
// server is closed. It returns only errors from before the first byte of the answer.
func (s *Server) watch(w http.ResponseWriter, r *request) error {
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return apierrors.NewBadRequest("watches over WebSocket are not offered: send a plain GET")
	}
	if s.closed() {
		return &apierrors.StatusError{ErrStatus: unavailable()}
	}
	if err := r.narrow(); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, s.options.Limits.Body)); err != nil {
		return bodyFault(err) // net/http detects that the client leaves only after the body
	}
	timeout := s.watchTimeout(r)
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	st := newWatchStream(s, w, r, timeout)
	defer st.close()
	ended := make(chan struct{})
	stop := context.AfterFunc(s.open, func() {
		defer close(ended)
		cancel()
		_ = st.control.SetWriteDeadline(time.Now().Add(farewell)) // a write may be blocked
	})
	defer func() {
		if !stop() {
			<-ended // the writer must not be used after the handler has returned
		}
	}()
	err := s.await(r, func(context.Context) error { return st.run(ctx) })
	if ctx.Err() != nil || errors.Is(err, registry.ErrClosed) || errors.Is(err, store.ErrClosed) {
		return st.finish(r.Context())
	}
	return st.fail(err)
}

// watchTimeout returns the duration of a watch.
func (s *Server) watchTimeout(r *request) time.Duration {
	if asked := r.query.timeoutSeconds; asked != nil && *asked > 0 {
		return time.Duration(min(*asked, int64(maxTime/time.Second))) * time.Second
	}
	least := s.options.Limits.WatchTimeout
	return least + rand.N(least)
}

// narrow selects the object that the path names, if any.
func (r *request) narrow() error {
	if !r.item {
		return nil
	}
	var err error
	r.query.list.Fields, err = r.query.list.Fields.And("metadata.name", r.Name)
	return err
}

// begins is where a watch begins.
type begins uint8

const (
	fromVersion begins = iota // after the client's resource version
	fromNow                   // with the next change
	fromState                 // with the current state, as ADDED events
)

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

// watchStream is the answer to a watch. The goroutine of the request writes events, a timer
// writes bookmarks.
type watchStream struct {
	server  *Server
	r       *request
	w       http.ResponseWriter
	control *http.ResponseController
	events  *int64 // number of sent events, for the log
	end     time.Time
	lead    time.Duration // from the last bookmark to the end
	first   string        // the form of the first event: in a Table it declares the columns
	others  string        // the form of the other events

	mu      sync.Mutex
	started bool // the header was sent
	closed  bool
	version string // where the client can resume; empty: unknown
	sent    string // the version of the last event or bookmark
	titled  bool   // the first event was sent; set by the goroutine of the request
	timer   *time.Timer
	err     error // of a write
}

func newWatchStream(s *Server, w http.ResponseWriter, r *request, timeout time.Duration) *watchStream {
	st := &watchStream{
		server: s, r: r, w: w, control: http.NewResponseController(w), events: &exchangeOf(r.Context()).events,
		end: time.Now().Add(timeout), lead: min(bookmarkLead, timeout/4),
	}
	st.first, st.others = st.form(true), st.form(false)
	return st
}

// run sends the state, if the client asks for it, and then changes. It returns when there are
// no more.
func (st *watchStream) run(ctx context.Context) error {
	o := registry.WatchOptions{
		Labels: st.r.query.list.Labels, Fields: st.r.query.list.Fields,
		ResourceVersion: st.r.query.list.ResourceVersion, Shared: true,
	}
	switch st.r.query.begins() {
	case fromState:
		version, err := st.sendState(ctx)
		if err != nil {
			return err
		}
		o.ResourceVersion = version
	case fromNow:
		o.ResourceVersion = ""
	case fromVersion:
		o.Repeat = true // the version may belong to an object
	}
	return st.r.storage.watch(ctx, st.r.Namespace, o, st)
}

func (c content) watch(ctx context.Context, ns string, o registry.WatchOptions, to *watchStream) error {
	return follow(to, c.Watch(ctx, ns, o), func(o registry.Object) (registry.Object, error) { return o, nil })
}

func (n namespaces) watch(ctx context.Context, _ string, o registry.WatchOptions, to *watchStream) error {
	return follow(to, n.registry.Watch(ctx, o), func(n namespace.Namespace) (registry.Object, error) { return objectOf(n, nil) })
}

// follow sends events until there are no more.
func follow[T any](st *watchStream, events iter.Seq2[registry.Event[T], error], object func(T) (registry.Object, error)) error {
	encode := func(e registry.Event[T]) ([]byte, error) { return encodeEvent(st, e, object, false) }
	encodeFirst := func(e registry.Event[T]) ([]byte, error) { return encodeEvent(st, e, object, true) }
	for e, err := range events {
		if err != nil {
			return err
		}
		if e.Type == registry.Bookmark {
			err = st.reached(e.ResourceVersion)
		} else {
			var frame []byte
			if st.titled {
				frame, err = e.Encoded(st.others, encode)
			} else {
				frame, err = e.Encoded(st.first, encodeFirst)
			}
			if err == nil {
				err = st.send(frame, e.ResourceVersion)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func encodeEvent[T any](st *watchStream, e registry.Event[T], object func(T) (registry.Object, error), first bool) ([]byte, error) {
	o, err := object(e.Object)
	if err != nil {
		return nil, err
	}
	return st.server.codec.Event(st.r.format, st.r.Kind, e.Type.String(), o, st.table(first))
}

// form identifies the encoding of events, which watchers share.
func (st *watchStream) form(first bool) string {
	if !st.r.format.Table() {
		return st.r.format.Key()
	}
	return st.r.format.Key() + st.table(first).Key()
}

func (st *watchStream) table(first bool) codec.TableOptions {
	o := st.r.table()
	o.NoHeaders = !first
	return o
}

// sendState sends a snapshot of the state as ADDED events, a page at a time, and returns its
// version. Meanwhile the watch occupies a slot for reads as well. No request waits for a watch
// while it has a slot, so there is no deadlock.
func (st *watchStream) sendState(ctx context.Context) (string, error) {
	slot := st.server.pools.reads.Lease(exchangeOf(st.r.Context()).client)
	if err := enter(ctx, &slot); err != nil {
		return "", err
	}
	defer slot.Release()
	if err := st.server.setMemory(st.r, reading); err != nil {
		return "", err
	}
	defer func() { _ = st.server.setMemory(st.r, 0) }()
	o := st.r.query.list
	o.Limit, o.Bytes, o.Continue, o.Exact = statePage, pageBytes, "", false
	read := st.readPage
	if st.r.format.Raw() {
		read = st.readRawPage
	}
	for {
		page, err := read(ctx, o)
		if err != nil {
			return "", err
		}
		if err := st.sendPage(ctx, page); err != nil {
			return "", err
		}
		if page.Continue == "" {
			return page.ResourceVersion, st.endState(page.ResourceVersion)
		}
		o.Continue, o.ResourceVersion = page.Continue, ""
	}
}

// statePart is a page of the state.
type statePart struct {
	namespace.ListMeta
	size  int
	event func(i int) ([]byte, error)
}

func (st *watchStream) readPage(ctx context.Context, o registry.ListOptions) (statePart, error) {
	page, err := st.r.storage.List(ctx, st.r.Namespace, o)
	weight := int64(reading)
	for _, object := range page.Items {
		weight += st.r.encoding(object)
	}
	if err == nil {
		err = st.server.setMemory(st.r, weight)
	}
	return statePart{page.ListMeta, len(page.Items), func(i int) ([]byte, error) {
		return st.server.codec.Event(st.r.format, st.r.Kind, registry.Added.String(), page.Items[i], st.table(!st.titled))
	}}, err
}

// readRawPage reads a page of stored documents, which are sent undecoded.
func (st *watchStream) readRawPage(ctx context.Context, o registry.ListOptions) (statePart, error) {
	page, err := st.r.storage.ListJSON(ctx, st.r.Namespace, o)
	if err == nil {
		err = st.server.setMemory(st.r, rawWeight(page.Items, page.Continue != ""))
	}
	return statePart{page.ListMeta, len(page.Items), func(i int) ([]byte, error) {
		return st.server.codec.RawEvent(registry.Added.String(), page.Items[i]), nil
	}}, err
}

// sendPage sends a page of the state. The client cannot resume before the last page.
func (st *watchStream) sendPage(ctx context.Context, page statePart) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.start(); err != nil {
		return err
	}
	for i := range page.size {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		event, err := page.event(i)
		if err != nil {
			return err
		}
		st.titled = true
		*st.events++
		if _, st.err = st.w.Write(event); st.err != nil {
			return st.err
		}
	}
	return st.write(nil)
}

// endState records that the state was sent. A client that asked for it explicitly gets a
// bookmark.
func (st *watchStream) endState(version string) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.version, st.sent = version, version
	q := &st.r.query
	if q.sendInitialEvents == nil || !*q.sendInitialEvents || !q.bookmarks {
		return nil
	}
	return st.bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
}

// reached records that all events up to a version were sent.
func (st *watchStream) reached(version string) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.version = version
	return st.start()
}

// send writes an event, after which the client can resume at version.
func (st *watchStream) send(frame []byte, version string) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.start(); err != nil {
		return err
	}
	st.version, st.sent, st.titled = version, version, true
	*st.events++
	return st.write(frame)
}

// The methods below, up to bookmark, require st.mu.

// start sends the header once, which shows the client that the watch has begun.
func (st *watchStream) start() error {
	if st.started || st.err != nil {
		return st.err
	}
	st.started = true
	headOfUnknownSize(st.w, http.StatusOK, st.r.format.ContentType())
	if st.r.query.bookmarks {
		st.timer = time.AfterFunc(st.nextBookmark(), st.tick)
	}
	return st.write(nil)
}

// write sends a frame immediately.
func (st *watchStream) write(frame []byte) error {
	if st.err != nil {
		return st.err
	}
	if len(frame) > 0 {
		_, st.err = st.w.Write(frame)
	}
	if st.err == nil {
		st.err = st.control.Flush()
	}
	return st.err
}

// nextBookmark returns the time to the next bookmark.
func (st *watchStream) nextBookmark() time.Duration {
	return max(0, min(bookmarkInterval, time.Until(st.end)-st.lead))
}

// bookmark sends the version at which the client can resume.
func (st *watchStream) bookmark(annotations map[string]string) error {
	frame, err := st.server.codec.Event(st.r.format, st.r.Kind, registry.Bookmark.String(), registry.Object{
		TypeMeta: namespace.TypeMeta{Kind: st.r.Type.Kind, APIVersion: st.r.Kind.APIVersion()},
		Meta:     namespace.Meta{ResourceVersion: st.version, Annotations: annotations},
	}, st.table(!st.titled))
	if err != nil {
		return err
	}
	st.sent = st.version
	*st.events++
	return st.write(frame)
}

// tick sends a bookmark if there is a new version, and a last one in any case.
func (st *watchStream) tick() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closed || st.err != nil {
		return
	}
	last := time.Until(st.end) <= st.lead
	if st.version != "" && (last || st.version != st.sent) {
		_ = st.bookmark(nil) // the next event fails with the same error
	}
	if !last {
		st.timer.Reset(st.nextBookmark())
	}
}

// close stops the timer.
func (st *watchStream) close() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.closed = true
	if st.timer != nil {
		st.timer.Stop()
	}
}

// finish ends a watch whose time is over, or whose server is closed.
func (st *watchStream) finish(client context.Context) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.err != nil {
		panic(http.ErrAbortHandler)
	}
	if client.Err() != nil {
		return nil
	}
	if st.start() != nil { // the watch may not have begun
		panic(http.ErrAbortHandler)
	}
	return nil
}

// fail ends a watch with an error. It returns the error if the answer has not begun, except
// for a version that is too old: clients expect an event. If the event cannot be sent, fail
// aborts the answer, so that the client does not take it for a complete one.
func (st *watchStream) fail(err error) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	gone := errors.Is(err, namespace.ErrGone)
	switch {
	case st.err != nil:
		panic(http.ErrAbortHandler)
	case err == nil, !st.started && !gone:
		return err
	}
	status := failure(err)
	if gone {
		status = st.expired(err)
	}
	if status.Code >= http.StatusInternalServerError {
		st.server.log.ErrorContext(st.r.Context(), "watch failed", "path", excerpt(st.r.URL.Path), "user", userOf(st.r.Request), "error", err)
	}
	exchangeOf(st.r.Context()).reason = excerpt(status.Message)
	err = st.start()
	if err == nil {
		var frame []byte
		if frame, err = st.server.codec.ErrorEvent(st.r.format, status); err == nil {
			*st.events++
			err = st.write(frame)
		}
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// expired returns the Status for a resource version that is too old.
func (st *watchStream) expired(cause error) metav1.Status {
	message := "too old resource version: list again and watch from there"
	if st.r.query.begins() == fromVersion && !st.started {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(st.r.Context()), time.Second)
		defer cancel()
		message = "too old resource version: " + st.r.query.list.ResourceVersion
		if now, err := st.r.storage.ListJSON(ctx, st.r.Namespace, registry.ListOptions{Limit: 1}); err == nil {
			message += " (" + now.ResourceVersion + ")"
		}
	}
	return failure(&namespace.Error{Kind: namespace.ErrGone, Message: message, Err: cause})
}
