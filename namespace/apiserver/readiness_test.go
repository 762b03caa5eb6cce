package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// TestReadyIsShared checks that concurrent probes share one call of Options.Ready and its
// result.
func TestReadyIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		answers := make(chan error)
		e := newEnv(t, &apiserver.Options{Ready: func(context.Context) error {
			asked.Add(1)
			return <-answers
		}})
		for round, tt := range []struct {
			err  error
			code int
		}{{nil, http.StatusOK}, {errors.New("not yet"), http.StatusInternalServerError}} {
			var probes sync.WaitGroup
			for range 100 {
				probes.Go(func() { e.must(tt.code, "GET", "/readyz", "") })
			}
			synctest.Wait()
			require.EqualValues(t, round+1, asked.Load())
			answers <- tt.err
			probes.Wait()
			require.EqualValues(t, round+1, asked.Load())
			e.must(tt.code, "GET", "/readyz", "")
			require.EqualValues(t, round+1, asked.Load(), "an answer stands for a second")
			time.Sleep(time.Second)
		}
	})
}

// TestReadyLooksAtTheStore checks that a server with an unavailable store is not ready. It
// answers requests with 503 and Retry-After.
func TestReadyLooksAtTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		var failing error
		e := newEnvOver(t, chatty{s, &failing}, &apiserver.Options{Limits: apiserver.Limits{Timeout: 7 * time.Second}})
		e.must(http.StatusOK, "GET", "/readyz", "")
		failing = &store.Error{Op: "get", Err: fmt.Errorf("%w: %s", store.ErrUnavailable, gossip)}
		time.Sleep(time.Second)
		a := e.must(http.StatusInternalServerError, "GET", "/readyz", "")
		require.NotContains(t, a.Body, "10.1.2.3")
		e.must(http.StatusOK, "GET", "/livez", "")
		for _, target := range []string{all, all + "/x", maps + "/c"} {
			a := e.do("GET", target, "")
			a.status(http.StatusServiceUnavailable, `{"reason":"ServiceUnavailable","message":"the server is currently unable to handle the request","details":{"retryAfterSeconds":1}}`)
			require.Equal(t, "1", a.Header.Get("Retry-After"))
		}
		failing = nil
		time.Sleep(time.Second)
		e.must(http.StatusOK, "GET", "/readyz", "")
	})
}

// TestReadyTimesOut checks that /readyz fails if Options.Ready does not return within
// Limits.Timeout.
func TestReadyTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, &apiserver.Options{Limits: apiserver.Limits{Timeout: 7 * time.Second}, Ready: func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}})
		start := time.Now()
		var probes sync.WaitGroup
		for range 10 {
			probes.Go(func() { e.must(http.StatusInternalServerError, "GET", "/readyz", "") })
		}
		probes.Wait()
		require.Equal(t, 7*time.Second, time.Since(start))
	})
}

// TestReadyGoesOnForOthers cancels the probe that started the shared readiness check. The check
// continues, and the other probes succeed.
func TestReadyGoesOnForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		e := newEnv(t, &apiserver.Options{Ready: func(ctx context.Context) error {
			select {
			case <-let:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}})
		ctx, leave := context.WithCancel(t.Context())
		var probes sync.WaitGroup
		probes.Go(func() {
			e.server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/readyz", nil))
		})
		synctest.Wait()
		probes.Go(func() { e.must(http.StatusOK, "GET", "/readyz", "") })
		synctest.Wait()
		leave()
		synctest.Wait()
		close(let)
		probes.Wait()
	})
}
