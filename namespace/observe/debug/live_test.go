package debug_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/observe/debug"
)

// wire is the connection to a viewer. A stalled one takes nothing until its deadline.
type wire struct {
	header http.Header

	mu       sync.Mutex
	status   int
	got      bytes.Buffer
	flushes  int
	stalled  bool
	deadline time.Time
}

func newWire() *wire { return &wire{header: http.Header{}} }

func (w *wire) Header() http.Header { return w.header }

func (w *wire) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = status
}

func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	stalled, deadline := w.stalled, w.deadline
	w.mu.Unlock()
	if stalled {
		time.Sleep(time.Until(deadline))
		return 0, os.ErrDeadlineExceeded
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.got.Write(b)
}

func (w *wire) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushes++
}

func (w *wire) SetReadDeadline(time.Time) error { return nil }

func (w *wire) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	return nil
}

func (w *wire) stall() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stalled = true
}

// take returns the data that the viewer received since the last call.
func (w *wire) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.got.String()
	w.got.Reset()
	return s
}

// view opens a page. The channel is closed when the handler returns.
func view(ctx context.Context, h http.Handler, w http.ResponseWriter, target string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(w, local(httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)))
	}()
	return done
}

const (
	indexEvents = "/?format=events"
	oneEvents   = "/?namespace=one&format=events"
)

func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(going("one", time.Now()))
		h := newHandler(t, p, p, nil)
		ctx, leave := context.WithCancel(t.Context())
		index, one := newWire(), newWire()
		done := []<-chan struct{}{view(ctx, h, index, indexEvents), view(ctx, h, one, oneEvents)}
		synctest.Wait()
		require.Equal(t, "text/event-stream", index.header.Get("Content-Type"))
		first := index.take()
		require.True(t, strings.HasPrefix(first, "retry: 3000\n\ndata: "), first)
		require.True(t, strings.HasSuffix(first, "\n\n"), first)
		require.Contains(t, first, "widgets.example.com cannot be listed")
		require.Contains(t, one.take(), "connection refused")

		changed := going("one", time.Now())
		changed.Causes[0].Summary = "something <new>"
		p.set(changed)
		p.set(going("two", time.Now()))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got := index.take()
		require.Equal(t, 1, strings.Count(got, "\n\n"), "one event a turn: %s", got)
		require.Contains(t, got, "something &lt;new&gt;")
		require.Contains(t, got, `href="?namespace=two"`)
		require.Contains(t, one.take(), "something &lt;new&gt;")

		leave()
		for _, d := range done {
			<-d
		}
		require.True(t, one.deadline.IsZero(), "the connection keeps a deadline that is not the server's")
	})
}

// Each interval has one read for all viewers. Without viewers there are none, and the goroutine
// has ended.
func TestViewersShareReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(going("one", time.Now()))
		p.restless = true
		h := newHandler(t, p, p, nil)
		for range 2 {
			ctx, leave := context.WithCancel(t.Context())
			var wires []*wire
			var done []<-chan struct{}
			for range 60 {
				wires = append(wires, newWire())
				done = append(done, view(ctx, h, wires[len(wires)-1], indexEvents))
			}
			synctest.Wait()
			_, before := p.calls()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			_, after := p.calls()
			require.Equal(t, 5, after-before, "one namespace, five turns")
			for _, w := range wires {
				require.Equal(t, 6, strings.Count(w.take(), "\n\n")-1, "what it began with, and five turns")
			}
			leave()
			for _, d := range done {
				<-d
			}
			synctest.Wait()
			_, before = p.calls()
			time.Sleep(time.Hour)
			_, after = p.calls()
			require.Equal(t, before, after, "it is read without viewers")
		}
	})
}

func TestTooManyViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(going("one", time.Now()))
		h := newHandler(t, p, p, &debug.Options{Viewers: 2})
		first, leave := context.WithCancel(t.Context())
		second, leaveToo := context.WithCancel(t.Context())
		a, b := view(first, h, newWire(), indexEvents), view(second, h, newWire(), oneEvents)
		synctest.Wait()
		w := get(h, indexEvents)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, "30", w.Header().Get("Retry-After"))
		require.Equal(t, http.StatusOK, get(h, "/").Code, "pages are served nevertheless")
		leave()
		<-a
		third, c := newWire(), (<-chan struct{})(nil)
		ctx, leaveLast := context.WithCancel(t.Context())
		c = view(ctx, h, third, indexEvents)
		synctest.Wait()
		require.Contains(t, third.take(), "data: ")
		leaveToo()
		leaveLast()
		<-b
		<-c
	})
}

// A viewer that does not read is disconnected, and does not delay others.
func TestSlowViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(going("one", time.Now()))
		p.restless = true
		h := newHandler(t, p, p, nil)
		ctx, leave := context.WithCancel(t.Context())
		slow, quick := newWire(), newWire()
		slowDone, quickDone := view(ctx, h, slow, indexEvents), view(ctx, h, quick, indexEvents)
		synctest.Wait()
		slow.take()
		quick.take()
		slow.stall()
		begun := time.Now()
		<-slowDone
		require.Equal(t, 12*time.Second, time.Since(begun), "a turn, and what one write may take")
		synctest.Wait()
		require.Equal(t, 6, strings.Count(quick.take(), "\n\n"))
		leave()
		<-quickDone
	})
}

// A slow viewer gets the current state and skips earlier updates.
func TestSlowViewerMissesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(going("one", time.Now()))
		p.restless = true
		h := newHandler(t, p, p, nil)
		ctx, leave := context.WithCancel(t.Context())
		w := &pausing{wire: newWire()}
		done := view(ctx, h, w, indexEvents)
		synctest.Wait()
		w.take()
		w.pause.Store(int64(9 * time.Second)) // of one write; four turns
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for i := range 4 {
			p.set(going(fmt.Sprint("new", i), time.Now()))
			time.Sleep(2 * time.Second)
		}
		w.pause.Store(0)
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		got := w.take()
		require.Equal(t, 2, strings.Count(got, "\n\n"), "the one that took long, and the last")
		require.Contains(t, got, "new3")
		leave()
		<-done
	})
}

type pausing struct {
	*wire
	pause atomic.Int64
}

func (w *pausing) Write(b []byte) (int, error) {
	if strings.HasPrefix(string(b), "data:") {
		time.Sleep(time.Duration(w.pause.Load()))
	}
	return w.wire.Write(b)
}

// Without changes, viewers still get a comment, so that lost connections are detected and proxies
// keep the connection.
func TestQuietViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(going("one", time.Now()))
		h := newHandler(t, p, p, nil)
		ctx, leave := context.WithCancel(t.Context())
		w := newWire()
		done := view(ctx, h, w, "/?namespace=one&format=events")
		synctest.Wait()
		w.take()
		release := make(chan struct{})
		p.mu.Lock()
		p.block = func() { <-release } // nothing new can be read
		p.mu.Unlock()
		time.Sleep(31 * time.Second)
		synctest.Wait()
		require.Equal(t, ":\n\n:\n\n", w.take())
		close(release)
		leave()
		<-done
	})
}

func TestNothingNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(going("one", time.Now()))
		p.at = time.Now()
		h := newHandler(t, p, p, nil)
		ctx, leave := context.WithCancel(t.Context())
		w := newWire()
		done := view(ctx, h, w, oneEvents)
		synctest.Wait()
		w.take()
		time.Sleep(14 * time.Second)
		synctest.Wait()
		require.Empty(t, w.take(), "it is as it was")
		leave()
		<-done
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(going("one", time.Now()))
		h := newHandler(t, p, p, nil)
		done := view(t.Context(), h, newWire(), indexEvents)
		synctest.Wait()
		require.NoError(t, h.Close())
		<-done
		require.Equal(t, http.StatusServiceUnavailable, get(h, indexEvents).Code)
		require.Equal(t, http.StatusOK, get(h, "/").Code)
		require.NoError(t, h.Close())
	})
}

// mute cannot be written to, and cannot bound its writes.
type mute struct{ header http.Header }

func (m mute) Header() http.Header           { return m.header }
func (m mute) WriteHeader(int)               {}
func (m mute) Write([]byte) (n int, e error) { return 0, errors.New("gone") }
func (m mute) Flush()                        {}

func TestViewerThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(going("one", time.Now()))
		h := newHandler(t, p, p, nil)
		<-view(t.Context(), h, mute{http.Header{}}, indexEvents)
		synctest.Wait()
		_, before := p.calls()
		time.Sleep(time.Hour)
		_, after := p.calls()
		require.Equal(t, before, after)
	})
}

// The number of pages that are gathered at once is bounded.
func TestGatheringIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(going("one", time.Now()))
		release := make(chan struct{})
		p.block = func() { <-release }
		h := newHandler(t, p, p, nil)
		ctx, giveUp := context.WithCancel(t.Context())
		var patient, impatient []<-chan struct{}
		for range 4 {
			patient = append(patient, view(t.Context(), h, httptest.NewRecorder(), "/?namespace=one"))
		}
		synctest.Wait()
		for range 20 {
			impatient = append(impatient, view(ctx, h, httptest.NewRecorder(), "/?namespace=one"))
		}
		synctest.Wait()
		_, explained := p.calls()
		require.Equal(t, 4, explained)
		giveUp()
		for _, d := range impatient {
			<-d
		}
		close(release)
		for _, d := range patient {
			<-d
		}
		_, explained = p.calls()
		require.Equal(t, 4, explained)
	})
}
