package manifests_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/manifests"
)

// server is an HTTP server with a configurable handler.
type server struct {
	*httptest.Server
	mu     sync.Mutex // a handler may run after its response
	answer func(w http.ResponseWriter, r *http.Request)
	seen   []string // status and validators of each request
}

func newServer(t *testing.T) *server {
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, strings.TrimSpace(r.Header.Get("If-None-Match")+" "+r.Header.Get("If-Modified-Since")+" "+r.Header.Get("Authorization")))
		answer := s.answer
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) set(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *server) document(text, etag, date string) {
	s.set(func(w http.ResponseWriter, r *http.Request) {
		if etag != "" {
			w.Header().Set("ETag", etag)
		}
		if date != "" {
			w.Header().Set("Last-Modified", date)
		}
		if etag != "" && r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, text)
	})
}

func TestURL(t *testing.T) {
	e, srv := newEnv(t).space(), newServer(t)
	src, err := manifests.URL(strings.Replace(srv.URL, "//", "//user:secret@", 1)+"/manifest?token=x", nil)
	require.NoError(t, err)
	require.Equal(t, srv.URL+"/manifest", src.Name(), "no secrets in annotations")
	s := e.syncer(src, nil)
	srv.document(docs(configmap("a", "1"), configmap("b", "1")), `"v1"`, "")
	require.Empty(t, cmp.Diff(manifests.Result{Created: 2}, e.sync(s)))
	require.Empty(t, cmp.Diff(manifests.Result{Unchanged: 2}, e.sync(s)))
	_, err = e.content(configmaps).Delete(e.ctx, space, "a", namespace.Preconditions{})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(manifests.Result{Created: 1, Unchanged: 1}, e.sync(s)), "reverted although the document has not changed")
	srv.document(configmap("a", "2"), "", "Mon, 02 Jan 2006 15:04:05 GMT")
	require.Empty(t, cmp.Diff(manifests.Result{Updated: 1, Deleted: 1}, e.sync(s)))
	e.sync(s)
	basic := "Basic dXNlcjpzZWNyZXQ="
	require.Empty(t, cmp.Diff([]string{basic, `"v1"  ` + basic, `"v1"  ` + basic, `"v1"  ` + basic, "Mon, 02 Jan 2006 15:04:05 GMT " + basic}, srv.seen))
	srv.document(`{"apiVersion":"v1","kind":"List","items":[]}`, "", "")
	require.Empty(t, cmp.Diff(manifests.Result{Deleted: 1}, e.sync(s)))
}

// Failed responses delete nothing.
func TestURLFailures(t *testing.T) {
	e, srv := newEnv(t).space(), newServer(t)
	src, err := manifests.URL(srv.URL, &manifests.URLOptions{MaxBytes: 200, Header: http.Header{"Authorization": {"Bearer x"}}})
	require.NoError(t, err)
	s := e.syncer(src, nil)
	srv.document(configmap("a", "1"), `"v1"`, "")
	e.sync(s)
	require.Equal(t, []string{"Bearer x"}, srv.seen)
	before := e.position()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		is     error
		text   string
	}{
		"500":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, manifests.ErrSource, "500 Internal Server Error"},
		"404":       {http.NotFound, manifests.ErrSource, "404 Not Found"},
		"204":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, manifests.ErrSource, "204 No Content"},
		"empty":     {func(http.ResponseWriter, *http.Request) {}, manifests.ErrSource, "the document is empty"},
		"too large": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("#", 201)) }, manifests.ErrSource, "more than 200 bytes"},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "apiVersion: v1\nkind: List\nitems: []\n")
		}, manifests.ErrSource, "unexpected EOF"},
		"hung up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, manifests.ErrSource, "EOF"},
		"a page":  {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>Log in</html>") }, manifests.ErrDocument, ""},
	} {
		srv.set(c.answer)
		_, err := s.Sync(e.ctx)
		require.ErrorIs(t, err, c.is, name)
		require.ErrorContains(t, err, c.text, name)
		require.Equal(t, before, e.position(), name)
	}
	srv.Close()
	_, err = s.Sync(e.ctx)
	require.ErrorIs(t, err, manifests.ErrSource)
	require.Equal(t, before, e.position())
}

// A first response of 304 is an error.
func TestURLNotModifiedAtFirst(t *testing.T) {
	e, srv := newEnv(t).space(), newServer(t)
	srv.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	src, err := manifests.URL(srv.URL, &manifests.URLOptions{Client: srv.Client()})
	require.NoError(t, err)
	_, err = e.syncer(src, nil).Sync(e.ctx)
	require.ErrorIs(t, err, manifests.ErrSource)
}

func TestURLBadInput(t *testing.T) {
	for _, text := range []string{"", "x", "/path", "ftp://a/b", "http://", "http://a b", "http://user:secret@%zz/", "file:///etc/passwd"} {
		_, err := manifests.URL(text, nil)
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "secret")
	}
	_, err := manifests.URL("http://a", &manifests.URLOptions{MaxBytes: -1})
	require.ErrorContains(t, err, "URLOptions.MaxBytes")
}
