package debug_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/observe/debug"
)

// Requests from pages of other web sites are rejected before anything is read.
func TestOtherSites(t *testing.T) {
	p := newPlace(going("one", time.Now()))
	h := newHandler(t, p, p, &debug.Options{Hosts: []string{"console.example"}})
	for _, c := range []struct {
		host, site, mode, dest, target string
		status                         int
	}{
		{"localhost", "", "", "", "/?format=json", http.StatusOK}, // not a browser
		{"localhost", "none", "navigate", "document", "/?format=json", http.StatusOK},
		{"localhost", "same-origin", "cors", "empty", "/?format=json", http.StatusOK},
		{"localhost", "cross-site", "navigate", "document", "/?namespace=one", http.StatusOK}, // a link
		{"console.example:8080", "same-origin", "cors", "empty", "/?format=json", http.StatusOK},
		{"localhost", "cross-site", "navigate", "iframe", "/", http.StatusForbidden},
		{"localhost", "cross-site", "no-cors", "empty", "/", http.StatusForbidden},
		{"localhost", "cross-site", "cors", "empty", "/?format=json", http.StatusForbidden},
		{"localhost", "same-site", "cors", "empty", "/?format=events", http.StatusForbidden},
		{"evil.example", "", "", "", "/", http.StatusForbidden}, // rebound to this server
		{"evil.example:8080", "same-origin", "cors", "empty", "/?format=json", http.StatusForbidden},
		{"evil.example", "", "", "", "/?format=events", http.StatusForbidden},
	} {
		r := httptest.NewRequest(http.MethodGet, c.target, nil)
		r.Host = c.host
		for name, value := range map[string]string{"Sec-Fetch-Site": c.site, "Sec-Fetch-Mode": c.mode, "Sec-Fetch-Dest": c.dest} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		before, _ := p.calls()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, c.status, w.Code, "%+v", c)
		after, _ := p.calls()
		if c.status != http.StatusOK {
			require.Equal(t, before, after, "%+v: it was read for nothing", c)
		}
	}
	_, err := debug.New(p, p, &debug.Options{Hosts: []string{"http://console.example"}})
	require.ErrorContains(t, err, "option Hosts")
}

// silent is a response writer that cannot flush.
type silent struct {
	header http.Header
	status int
}

func (s *silent) Header() http.Header         { return s.header }
func (s *silent) WriteHeader(status int)      { s.status = status }
func (s *silent) Write(b []byte) (int, error) { return len(b), nil }

// wrapped is a writer around another, as middleware has it.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestWriterWithoutFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(going("one", time.Now()))
		h := newHandler(t, p, p, nil)
		for _, wrap := range []func(http.ResponseWriter) http.ResponseWriter{
			func(w http.ResponseWriter) http.ResponseWriter { return w },
			func(w http.ResponseWriter) http.ResponseWriter { return wrapped{w} },
		} {
			w := &silent{header: http.Header{}}
			<-view(t.Context(), h, wrap(w), indexEvents)
			require.Equal(t, http.StatusNotImplemented, w.status)
			_, explained := p.calls()
			require.Zero(t, explained, "it joined")
		}
	})
}

// Requests wait for hanging pages no longer than Patience.
func TestQueueHasPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(going("one", time.Now()))
		release := make(chan struct{})
		p.block = func() { <-release } // whatever its context says
		h := newHandler(t, p, p, &debug.Options{Patience: 3 * time.Second})
		var stuck []<-chan struct{}
		for range 4 {
			stuck = append(stuck, view(t.Context(), h, httptest.NewRecorder(), "/?namespace=one"))
		}
		synctest.Wait()
		begun := time.Now()
		w := httptest.NewRecorder()
		done := view(t.Context(), h, w, "/?namespace=one")
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Error("it waits for ever")
		}
		require.Equal(t, 3*time.Second, time.Since(begun))
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.NotEmpty(t, w.Header().Get("Retry-After"))
		close(release)
		for _, d := range stuck {
			<-d
		}
		<-done
		require.Equal(t, http.StatusOK, get(h, "/?namespace=one").Code)
	})
}

// An invalid name is answered 404, any other failure 500.
func TestBadRequests(t *testing.T) {
	p := newPlace()
	p.failWith(&namespace.Error{Kind: namespace.ErrBadRequest, Message: "invalid resource name \"..\""})
	h := newHandler(t, p, p, nil)
	w := get(h, "/?namespace=..")
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Contains(t, w.Body.String(), "There is no namespace of that name.")

	p.failWith(&namespace.Error{Kind: namespace.ErrBadRequest, Message: "the cluster is gone"})
	w = get(h, "/?namespace=one")
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.NotContains(t, w.Body.String(), "There is no namespace of that name.")
	require.Contains(t, w.Body.String(), "the cluster is gone")
}
