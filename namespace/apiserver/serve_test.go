package apiserver_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
)

// A handler that panics is answered 500, and the connection goes on; if the answer
// has begun it is cut off.
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

// lines is a log.
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
