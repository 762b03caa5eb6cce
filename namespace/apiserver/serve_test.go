package apiserver_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// connect opens a connection for a client that writes what it wants.
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

// A client that sends its header byte by byte is cut off.
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

// A body that comes byte by byte has its time too.
func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, &apiserver.Options{Limits: apiserver.Limits{Arrive: 20 * time.Second}})
		c, from := w.connect()
		start := time.Now()
		var writing sync.WaitGroup
		defer writing.Wait()
		writing.Go(func() {
			_, err := io.WriteString(c, "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
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

// A body that nobody reads does not hold a connection beyond its time.
func TestSlowBodyOfARefusedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, &apiserver.Options{Limits: apiserver.Limits{Arrive: 20 * time.Second}})
		c, from := w.connect()
		start := time.Now()
		say(t, c, "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n ")
		answer, err := http.ReadResponse(from, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, answer.StatusCode)
		_, err = io.Copy(io.Discard, from)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), 21*time.Second)
	})
}

// A deadline for one body is nothing to the requests after it.
func TestConnectionLivesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		c, from := w.connect()
		for i := range 4 {
			body := fmt.Sprintf(`{"metadata":{"name":"x%d"}}`, i)
			say(t, c, fmt.Sprintf("POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
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

// Who takes nothing of a watch is cut off, and the others go on.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		w := newWire(t, &apiserver.Options{Logger: log.logger(), Limits: apiserver.Limits{Stall: 10 * time.Second}})
		w.namespace("x")
		quick := w.watch(configmapsOfX + "?watch=true")
		c, from := w.connect()
		say(t, c, "GET "+configmapsOfX+"?watch=true HTTP/1.1\r\nHost: x\r\nUser-Agent: slow\r\n\r\n")
		answer, err := http.ReadResponse(from, nil)
		require.NoError(t, err)
		time.Sleep(time.Hour / 4) // quiet, but it reads
		w.put("a", "1")
		w.put("a", "2")
		start := time.Now()
		synctest.Wait()
		quick.expect("ADDED a 1", "MODIFIED a 2")
		time.Sleep(30 * time.Second)
		require.Contains(t, log.with("agent=slow"), `reason="the client takes nothing"`)
		require.Contains(t, log.with("agent=slow"), "code=200")
		_, err = io.ReadAll(answer.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.LessOrEqual(t, time.Since(start), time.Minute)
		w.put("a", "3")
		quick.expect("MODIFIED a 3")
		quick.end()
	})
}

// A client that leaves ends its watch at once.
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

// Closing the server ends watches as a whole answer, without an error event.
func TestCloseEndsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		before := w.watch(configmapsOfX + "?watch=true")
		registryEnds := w.watch("/api/v1/namespaces?watch=true")
		registryEnds.expect("ADDED x")
		require.NoError(t, w.server.Close())
		require.NoError(t, w.server.Close())
		before.clean()
		registryEnds.clean()
		a := w.do("GET", configmapsOfX+"?watch=true", "")
		require.Equal(t, http.StatusServiceUnavailable, a.Code)
		require.NotEmpty(t, a.Header.Get("Retry-After"))
		w.must(http.StatusOK, "GET", "/api/v1/namespaces/x", "")
		w.must(http.StatusOK, "GET", "/livez", "")
		require.Equal(t, http.StatusInternalServerError, w.do("GET", "/readyz", "").Code)
	})
}

func TestRegistryCloseEndsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		x := w.watch(configmapsOfX + "?watch=true")
		require.NoError(t, w.registry.Close())
		x.clean()
	})
}

// At the end of Serve nothing is accepted any more, watches end, and what is being
// served is waited for.
func TestShutdown(t *testing.T) {
	for _, patient := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			hold := newHoldingAdmission()
			s, err := memory.New(nil)
			require.NoError(t, err)
			t.Cleanup(func() { s.Close() })
			w := newWireOver(newEnvOver(t, s, &apiserver.Options{Limits: apiserver.Limits{Drain: 10 * time.Second}}, hold))
			hold.let()
			w.namespace("x")
			hold.arm()
			x := w.watch(configmapsOfX + "?watch=true")
			code := make(chan string, 1)
			go func() {
				answer, err := w.client.Post("http://memory"+configmapsOfX, "application/json", strings.NewReader(`{"metadata":{"name":"a"}}`))
				if err != nil {
					code <- "cut off"
					return
				}
				defer answer.Body.Close()
				code <- answer.Status
			}()
			synctest.Wait()
			start := time.Now()
			w.stop()
			x.clean()
			_, err = w.listener.dial(t.Context(), "", "")
			require.Error(t, err)
			if patient {
				time.Sleep(9 * time.Second)
				hold.let()
				require.Equal(t, "201 Created", <-code)
				err := <-w.ended
				require.NoError(t, err)
				require.Less(t, time.Since(start), 10*time.Second)
				w.ended <- nil
				return
			}
			require.Equal(t, "cut off", <-code)
			err = <-w.ended
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "requests were cut off that had not ended 10s after")
			require.Equal(t, 10*time.Second, time.Since(start))
			w.ended <- nil
			hold.let()
		})
	}
}

// A client that takes nothing of its watch does not hold up the end of the server.
func TestShutdownWithASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		c, from := w.connect()
		say(t, c, "GET "+configmapsOfX+"?watch=true HTTP/1.1\r\nHost: x\r\n\r\n")
		_, err := http.ReadResponse(from, nil)
		require.NoError(t, err)
		w.put("a", "1")
		w.put("a", "2")
		synctest.Wait()
		start := time.Now()
		w.stop()
		require.NoError(t, <-w.ended)
		require.LessOrEqual(t, time.Since(start), 6*time.Second)
		w.ended <- nil
	})
}

// holdingAdmission holds writes while it is armed.
type holdingAdmission struct {
	mu   sync.Mutex
	open chan struct{}
}

func newHoldingAdmission() *holdingAdmission { return &holdingAdmission{open: make(chan struct{})} }

func (h *holdingAdmission) arm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = make(chan struct{})
}

func (h *holdingAdmission) let() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.open)
}

// Admit implements [registry.Admission]. It ends with its request.
func (h *holdingAdmission) Admit(ctx context.Context, _ *registry.Write) error {
	h.mu.Lock()
	open := h.open
	h.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Under load on real connections the end of Serve leaves no goroutine behind.
func TestShutdownUnderLoad(t *testing.T) {
	before := runtime.NumGoroutine()
	func() {
		e := newEnv(t, nil)
		e.namespace("x")
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.server.Serve(ctx, l) }()
		transport := &http.Transport{MaxIdleConnsPerHost: 100}
		client := &http.Client{Transport: transport}
		url := "http://" + l.Addr().String()
		var running, started sync.WaitGroup
		started.Add(20)
		for i := range 20 {
			running.Go(func() {
				first := true
				for n := 0; ; n++ {
					answer, err := client.Get(url + configmapsOfX + map[bool]string{true: "?watch=true", false: ""}[i%2 == 0])
					if first {
						started.Done()
						first = false
					}
					if err != nil || answer.StatusCode != http.StatusOK {
						return
					}
					if _, err := io.Copy(io.Discard, answer.Body); err != nil {
						t.Error("an answer was cut off: ", err)
					}
					answer.Body.Close()
				}
			})
		}
		started.Wait()
		stop()
		require.NoError(t, <-ended)
		running.Wait()
		transport.CloseIdleConnections()
		require.NoError(t, e.server.Close())
	}()
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 10*time.Second, time.Millisecond,
		"goroutines are left: the store of the test has one")
}

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
			say(t, c, "GET /api/v1/namespaces HTTP/1.1\r\nHost: x\r\n"+header+"\r\n\r\n")
			answer, err := http.ReadResponse(from, nil)
			require.NoError(t, err)
			require.Equal(t, header == "X: 1", answer.StatusCode == http.StatusOK)
			_, err = io.Copy(io.Discard, answer.Body)
			require.NoError(t, err)
		}
		say(t, c, "GET /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nAbort: 1\r\n\r\n")
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
