package apiserver_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// TestPanics checks that a request that panics is answered 500 and that its connection stays
// usable. After http.ErrAbortHandler the connection is closed without an answer.
func TestPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		boom := errors.New("boom")
		w := newWire(t, &apiserver.Options{Logger: log.logger(), Authenticate: func(r *http.Request) (authorization.User, error) {
			if r.Header.Get("Panic") != "" {
				panic(boom)
			}
			if r.Header.Get("Abort") != "" {
				panic(http.ErrAbortHandler)
			}
			return authorization.User{}, nil
		}})
		a := w.do("GET", "/api/v1/namespaces", "", "Panic", "1")
		a.status(http.StatusInternalServerError, `{"reason":"InternalError",
			"message":"Internal error occurred: this request caused the server to panic; its log has the details",
			"details":{"causes":[{"message":"this request caused the server to panic; its log has the details"}]}}`)
		require.NotContains(t, a.Body, "boom")
		require.Contains(t, log.with("panic=boom"), "serve_test.go")
		require.Contains(t, log.with("msg=request "), "code=500")

		c, from := w.connect()
		for _, header := range []string{"Panic: 1", "X: 1", "Panic: 1"} {
			say(t, c, "GET /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\n"+header+"\r\n\r\n")
			answer, err := http.ReadResponse(from, nil)
			require.NoError(t, err)
			require.Equal(t, header == "X: 1", answer.StatusCode == http.StatusOK)
			_, err = io.Copy(io.Discard, answer.Body)
			require.NoError(t, err)
		}
		say(t, c, "GET /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nAbort: 1\r\n\r\n")
		_, err := from.ReadByte()
		require.ErrorIs(t, err, io.EOF)
	})
}

// lines is a log in memory.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// with returns the lines that contain text.
func (l *lines) with(text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

// TestLongRequest checks that a request may take longer than Limits.Arrive and Limits.Stall.
// These limits do not include the time that the server works.
func TestLongRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := newHoldingAdmission()
		s, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		w := newWireOver(newEnvOver(t, s, nil, hold))
		time.AfterFunc(50*time.Second, hold.let)
		start := time.Now()
		answer, err := w.client.Post("http://localhost/api/v1/namespaces", "application/json", strings.NewReader(`{"metadata":{"name":"x"}}`))
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, answer.StatusCode)
		_, err = io.Copy(io.Discard, answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, 50*time.Second, time.Since(start))
	})
}

// TestRequestTimeout checks that a request that exceeds Limits.Timeout is answered 504.
func TestRequestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := newHoldingAdmission()
		s, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		e := newEnvOver(t, s, &apiserver.Options{Limits: apiserver.Limits{Timeout: 7 * time.Second}}, hold)
		start := time.Now()
		a := e.do("POST", "/api/v1/namespaces", `{"metadata":{"name":"x"}}`)
		require.Equal(t, http.StatusGatewayTimeout, a.Code)
		require.Equal(t, "Timeout", a.text("reason"))
		require.Equal(t, 7*time.Second, time.Since(start))
		hold.let()
	})
}

// TestWatchFallsBehind checks that a watch whose client reads too slowly sends the queued events
// first, and then ends with the error event Expired.
func TestWatchFallsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		maps := kinds.ConfigMaps()
		r, err := registry.New(s, &registry.Options{Types: []registry.Type{maps.Type}, WatchQueue: 10})
		require.NoError(t, err)
		t.Cleanup(func() { r.Close() })
		server, err := apiserver.New(r, []kinds.Kind{maps}, nil)
		require.NoError(t, err)
		w := newWireOver(&env{t: t, store: s, registry: r, server: server})
		w.namespace("x")
		c, from := w.connect()
		say(t, c, "GET "+configmapsOfX+"?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n")
		answer, err := http.ReadResponse(from, nil)
		require.NoError(t, err)
		for i := range 100 {
			w.put("a", strconv.Itoa(i))
		}
		synctest.Wait()
		x := &watching{t: t, answer: answer, frames: json.NewDecoder(answer.Body), leave: func() {}}
		seen := 0
		e := x.must()
		for ; e.Type != "ERROR"; e = x.must() {
			require.Equal(t, strconv.Itoa(seen), e.Object.Data["v"])
			seen++
		}
		require.Less(t, seen, 100)
		require.Equal(t, http.StatusGone, e.Object.Code)
		require.Equal(t, "Expired", e.Object.Reason)
		require.Equal(t, "too old resource version: list again and watch from there", e.Object.Message)
		x.clean()
	})
}

// TestPanicWithinAnAnswer checks that a panic after the header of an answer truncates the
// answer, so that the client sees an error. Other requests are not affected.
func TestPanicWithinAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		gadgets := kinds.Custom(registry.Type{Group: "example.com", Version: "v1", Resource: "gadgets", Kind: "Gadget", Namespaced: true})
		gadgets.Columns = []kinds.Column{{Name: "Size", Value: func(o registry.Object) any {
			if o.Name == "bad" {
				panic("no size")
			}
			return "1"
		}}}
		r, err := registry.New(s, &registry.Options{Types: []registry.Type{gadgets.Type}})
		require.NoError(t, err)
		t.Cleanup(func() { r.Close() })
		var log lines
		server, err := apiserver.New(r, []kinds.Kind{gadgets}, &apiserver.Options{Logger: log.logger()})
		require.NoError(t, err)
		w := newWireOver(&env{t: t, store: s, registry: r, server: server})
		w.namespace("x")
		const path = "/apis/example.com/v1/namespaces/x/gadgets"
		x := w.watch(path+"?watch=true", "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1", "User-Agent", "table")
		plain := w.watch(path + "?watch=true")
		for _, name := range []string{"good", "bad"} {
			w.must(http.StatusCreated, "POST", path, `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"`+name+`"}}`)
		}
		require.Equal(t, "ADDED", x.must().Type)
		_, err = x.next()
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		plain.expect("ADDED good", "ADDED bad")
		plain.end()
		synctest.Wait()
		require.Contains(t, log.with("no size"), "level=ERROR")
		require.Contains(t, log.with("agent=table"), "reason=panic")
		w.must(http.StatusInternalServerError, "GET", path, "", "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
		w.must(http.StatusOK, "GET", path, "")
	})
}
