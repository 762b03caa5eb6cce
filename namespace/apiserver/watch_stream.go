package apiserver

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/excerpt"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

const (
	// bookmarkEvery is how often a quiet watch is told how far it is.
	bookmarkEvery = time.Minute
	// bookmarkBefore is how long before its end a watch is told so, if it is long
	// enough.
	bookmarkBefore = 2 * time.Second
	// initialEventsEnd is the annotation of the bookmark after the initial state.
	initialEventsEnd = metav1.InitialEventsAnnotationKey
)

// watchStream is the answer to one watch. Events are written by the goroutine of
// the request, bookmarks by that of a timer too.
type watchStream struct {
	server  *Server
	r       *request
	w       http.ResponseWriter
	control *http.ResponseController
	events  *int64 // how many were sent, for the log
	end     time.Time
	lead    time.Duration // how long before the end the last bookmark is sent
	first   string        // the form of the first event: of a Table it has the columns
	others  string        // that of all others

	mu      sync.Mutex
	started bool // the header was sent
	closed  bool
	version string // where the client can resume; empty: not known yet
	told    string // that of the last event or bookmark that was sent
	titled  bool   // the first event was sent
	timer   *time.Timer
	err     error // of writing
}

func newWatchStream(s *Server, w http.ResponseWriter, r *request, timeout time.Duration) *watchStream {
	st := &watchStream{
		server: s, r: r, w: w, control: http.NewResponseController(w), events: new(int64),
		end: time.Now().Add(timeout), lead: min(bookmarkBefore, timeout/4),
	}
	if e := exchangeOf(r.Context()); e != nil {
		st.events = &e.events
	}
	st.first, st.others = st.form(true), st.form(false)
	return st
}

// run sends the state, if the client wants it, and follows what happens. It
// returns when there is nothing more to come.
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
		o.Repeat = true // it may be that of an object
	}
	return st.r.storage.watch(ctx, st.r.Namespace, o, st)
}

// follow sends events until there are no more, and returns why.
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
			if st.titled { // written by this goroutine only
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

// form names how events are encoded, for watchers that share them.
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

// reached notes that everything up to a version was sent.
func (st *watchStream) reached(version string) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.version = version
	return st.start()
}

// send writes the frame of an event after which the client can resume at version.
func (st *watchStream) send(frame []byte, version string) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.start(); err != nil {
		return err
	}
	st.version, st.told, st.titled = version, version, true
	*st.events++
	return st.write(frame)
}

// start sends the header, once, so that the client knows that the watch stands.
func (st *watchStream) start() error {
	if st.started || st.err != nil {
		return st.err
	}
	st.started = true
	h := st.w.Header()
	h["Content-Type"] = []string{st.r.format.ContentType()}
	h["Cache-Control"], h["X-Content-Type-Options"] = uncached, nosniff
	st.w.WriteHeader(http.StatusOK)
	if st.r.query.bookmarks {
		st.timer = time.AfterFunc(st.nextBookmark(), st.tick)
	}
	return st.write(nil)
}

// write sends a frame at once.
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

// tick sends a bookmark when there is something to tell, and at the end always.
func (st *watchStream) tick() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closed || st.err != nil {
		return
	}
	last := time.Until(st.end) <= st.lead
	if st.version != "" && (last || st.version != st.told) {
		_ = st.bookmark(nil) // the next event meets the same error
	}
	if !last {
		st.timer.Reset(st.nextBookmark())
	}
}

// nextBookmark is the time to the next bookmark.
func (st *watchStream) nextBookmark() time.Duration {
	return max(0, min(bookmarkEvery, time.Until(st.end)-st.lead))
}

// bookmark tells the client where it can resume.
func (st *watchStream) bookmark(annotations map[string]string) error {
	frame, err := st.server.codec.Event(st.r.format, st.r.Kind, registry.Bookmark.String(), registry.Object{
		TypeMeta: namespace.TypeMeta{Kind: st.r.Kind.Kind, APIVersion: st.r.Kind.APIVersion()},
		Meta:     namespace.Meta{ResourceVersion: st.version, Annotations: annotations},
	}, st.table(!st.titled))
	if err != nil {
		return err
	}
	st.told = st.version
	*st.events++
	return st.write(frame)
}

// close ends what runs beside the request.
func (st *watchStream) close() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.closed = true
	if st.timer != nil {
		st.timer.Stop()
	}
}

// finish ends a watch whose time is up, or whose server is closed: there is
// nothing wrong.
func (st *watchStream) finish(client context.Context) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.err != nil {
		return st.cut()
	}
	if client.Err() != nil {
		return nil
	}
	if err := st.start(); err != nil { // it ended before it began
		return st.cut()
	}
	return nil
}

// fail ends a watch with what went wrong: as an event, once it has begun. That a
// version is too old is always an event, as clients expect.
func (st *watchStream) fail(err error) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	gone := errors.Is(err, namespace.ErrGone)
	switch {
	case st.err != nil:
		return st.cut()
	case err == nil, !st.started && !gone:
		return err
	}
	status := failure(err)
	if gone {
		status = st.expired(err)
	}
	if status.Code >= http.StatusInternalServerError {
		st.server.log.ErrorContext(st.r.Context(), "watch failed", "path", excerpt.Of(st.r.URL.Path), "user", userOf(st.r.Request), "error", err)
	}
	if e := exchangeOf(st.r.Context()); e != nil {
		e.reason = excerpt.Of(status.Message)
	}
	if st.start() != nil {
		return st.cut()
	}
	frame, err := st.server.codec.ErrorEvent(st.r.format, status)
	if err == nil {
		*st.events++
		err = st.write(frame)
	}
	if err != nil {
		return st.cut()
	}
	return nil
}

// cut ends an answer that could not be written: the client must not take it for a
// whole one.
func (st *watchStream) cut() error {
	panic(http.ErrAbortHandler)
}
