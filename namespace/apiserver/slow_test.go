package apiserver_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
)

// connect opens a connection for raw requests.
func (w *wire) connect() (net.Conn, *bufio.Reader) {
	w.t.Helper()
	c, err := w.listener.dial(w.t.Context(), "", "")
	require.NoError(w.t, err)
	w.t.Cleanup(func() { c.Close() })
	return c, bufio.NewReader(c)
}

func say(t testing.TB, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	require.NoError(t, err)
}

// TestSlowHeader checks that the server closes a connection whose header takes longer than
// Limits.Header.
func TestSlowHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		c, from := w.connect()
		start := time.Now()
		var writing sync.WaitGroup
		writing.Go(func() {
			_, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nX: ")
			for ; err == nil; time.Sleep(time.Second) {
				_, err = io.WriteString(c, "x")
			}
		})
		answer, err := io.ReadAll(from)
		require.NoError(t, err)
		require.NotContains(t, string(answer), "200")
		require.LessOrEqual(t, time.Since(start), 11*time.Second)
		writing.Wait()
	})
}

// TestSlowBody checks that a body that takes longer than Limits.Arrive is answered 408.
func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, &apiserver.Options{Limits: apiserver.Limits{Arrive: 20 * time.Second}})
		c, from := w.connect()
		start := time.Now()
		var writing sync.WaitGroup
		defer writing.Wait()
		writing.Go(func() {
			_, err := io.WriteString(c, "POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
			for ; err == nil; time.Sleep(time.Second) {
				_, err = io.WriteString(c, " ")
			}
		})
		answer, err := http.ReadResponse(from, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestTimeout, answer.StatusCode)
		require.Equal(t, 20*time.Second, time.Since(start))
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), "the body of the request did not arrive within 20s")
		require.True(t, answer.Close)
		_, err = from.ReadByte()
		require.ErrorIs(t, err, io.EOF)
	})
}

// TestSlowBodyOfARefusedRequest checks that the unread body of a refused request does not keep
// the connection open beyond Limits.Arrive.
func TestSlowBodyOfARefusedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, &apiserver.Options{Limits: apiserver.Limits{Arrive: 20 * time.Second}})
		c, from := w.connect()
		start := time.Now()
		say(t, c, "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n ")
		answer, err := http.ReadResponse(from, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, answer.StatusCode)
		_, err = io.Copy(io.Discard, from)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), 21*time.Second)
	})
}

// TestConnectionLivesOn checks that the deadline for the body of one request does not affect
// later requests of the connection.
func TestConnectionLivesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		c, from := w.connect()
		for i := range 4 {
			body := fmt.Sprintf(`{"metadata":{"name":"x%d"}}`, i)
			say(t, c, fmt.Sprintf("POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
			answer, err := http.ReadResponse(from, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusCreated, answer.StatusCode)
			_, err = io.Copy(io.Discard, answer.Body)
			require.NoError(t, err)
			time.Sleep(100 * time.Second)
		}
		time.Sleep(100 * time.Second)
		_, err := from.ReadByte()
		require.ErrorIs(t, err, io.EOF, "an idle connection is closed")
	})
}

// TestSlowReader checks that a watch whose client reads nothing is cut off, and that other
// watches continue.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		w := newWire(t, &apiserver.Options{Logger: log.logger(), Limits: apiserver.Limits{Stall: 10 * time.Second}})
		w.namespace("x")
		quick := w.watch(configmapsOfX + "?watch=true")
		c, from := w.connect()
		say(t, c, "GET "+configmapsOfX+"?watch=true HTTP/1.1\r\nHost: localhost\r\nUser-Agent: slow\r\n\r\n")
		answer, err := http.ReadResponse(from, nil)
		require.NoError(t, err)
		time.Sleep(time.Hour / 4) // an idle watch is not a slow reader
		w.put("a", "1")
		w.put("a", "2")
		start := time.Now()
		synctest.Wait()
		quick.expect("ADDED a 1", "MODIFIED a 2")
		time.Sleep(30 * time.Second)
		require.Contains(t, log.with("agent=slow"), `reason="the client takes too little"`)
		require.Contains(t, log.with("agent=slow"), "code=200")
		_, err = io.ReadAll(answer.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.LessOrEqual(t, time.Since(start), time.Minute)
		w.put("a", "3")
		quick.expect("MODIFIED a 3")
		quick.end()
	})
}

// TestClientLeaves checks that a watch ends as soon as its client disconnects.
func TestClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		w := newWire(t, &apiserver.Options{Logger: log.logger()})
		w.namespace("x")
		x := w.watch(configmapsOfX+"?watch=true", "User-Agent", "leaver")
		w.put("a", "1")
		x.expect("ADDED a 1")
		require.Empty(t, log.with("agent=leaver"))
		x.end()
		synctest.Wait()
		require.Contains(t, log.with("agent=leaver"), "verb=watch")
		require.Contains(t, log.with("agent=leaver"), "events=1")
	})
}
