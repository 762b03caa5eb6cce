package apiserver_test

import (
	"context"
	"io"
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
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// TestCloseEndsWatches checks that Close ends watches as complete answers, without an error
// event. Other requests still succeed, except the readiness probe.
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

// TestShutdown checks the end of Serve. It ends watches, closes the listener, and waits up to
// Limits.Drain for requests in progress.
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
				answer, err := w.client.Post("http://localhost"+configmapsOfX, "application/json", strings.NewReader(`{"metadata":{"name":"a"}}`))
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
			synctest.Wait() // the watches end before the listener closes
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

// TestShutdownWithASlowReader checks that a watch whose client reads nothing does not delay the
// end of Serve by more than the time for a last write.
func TestShutdownWithASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		c, from := w.connect()
		say(t, c, "GET "+configmapsOfX+"?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n")
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

// holdingAdmission is an admission plugin that blocks writes from arm, or from its creation,
// until let.
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

// Admit implements [registry.Admission]. It waits until let is called or the request ends.
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

// TestShutdownUnderLoad checks that the end of Serve leaks no goroutine and truncates no answer
// while clients send requests over TCP.
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
