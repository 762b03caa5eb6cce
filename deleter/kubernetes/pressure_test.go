package kubernetes

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// contentCalls returns calls of each request of content, by its method.
func contentCalls(c *content, target deleter.Target) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"list":           func(ctx context.Context) error { _, err := c.List(ctx, target, 0, ""); return err },
		"delete":         func(ctx context.Context) error { return c.Delete(ctx, target, "a", "uid-of-a") },
		"delete by name": func(ctx context.Context) error { return c.Delete(ctx, target, "a", "") },
		"collection":     func(ctx context.Context) error { _, _, err := c.DeleteCollection(ctx, target); return err },
	}
}

// eachCall runs f in virtual time for each kind of request, on a server of its own whose namespace
// has just been read.
func eachCall(t *testing.T, f func(t *testing.T, a *api, call func(context.Context) error)) {
	t.Helper()
	for what := range contentCalls(nil, deleter.Target{}) {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t, pod("a"))
				c := a.of(podsType, time.Hour)
				require.NoError(t, c.incarnations.confirmRecent(t.Context(), a.target))
				a.asked()
				f(t, a, contentCalls(c, a.target)[what])
			})
		})
	}
}

// onContent answers requests for content with answer, until that returns false.
func onContent(answer func(http.ResponseWriter) bool) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		return strings.Contains(r.URL.Path, "/x/pods") && answer(w)
	}
}

// After a Retry-After, the client waits for that time and repeats the request.
func TestRetryAfterIsHonoured(t *testing.T) {
	eachCall(t, func(t *testing.T, a *api, call func(context.Context) error) {
		refusals := 0
		a.before = onContent(func(w http.ResponseWriter) bool {
			if refusals++; refusals > 2 {
				return false
			}
			w.Header().Set("Retry-After", "7")
			refuse(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "later")
			return true
		})
		began := time.Now()
		require.NoError(t, call(t.Context()))
		require.Equal(t, 14*time.Second, time.Since(began))
	})
}

// It does not wait longer than the limit of the call.
func TestRetryAfterIsBoundedByTheCall(t *testing.T) {
	eachCall(t, func(t *testing.T, a *api, call func(context.Context) error) {
		a.before = onContent(func(w http.ResponseWriter) bool {
			w.Header().Set("Retry-After", "3600")
			refuse(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "later")
			return true
		})
		late := errors.New("the call took too long")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, late)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, call(ctx), late)
		require.Equal(t, 5*time.Second, time.Since(began))
		require.Len(t, a.asked(), 1)
		require.Equal(t, []string{"a"}, a.names())
	})
}

// A server that hangs delays a call by at most the limit of the call.
func TestSilentContent(t *testing.T) {
	eachCall(t, func(t *testing.T, a *api, call func(context.Context) error) {
		a.before = func(_ http.ResponseWriter, r *http.Request) bool {
			_, _ = io.Copy(io.Discard, r.Body) // the server notices a disconnect only after the body
			<-r.Context().Done()
			return true
		}
		late := errors.New("the call took too long")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, late)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, call(ctx), late)
		require.Equal(t, 5*time.Second, time.Since(began))
	})
}

// If a proxy or another server answers, the error says so, whatever the status code is.
func TestWebPage(t *testing.T) {
	for _, code := range []int{http.StatusOK, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusBadGateway} {
		eachCall(t, func(t *testing.T, a *api, call func(context.Context) error) {
			a.before = onContent(func(w http.ResponseWriter) bool {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				w.WriteHeader(code)
				_, _ = w.Write([]byte("\n<!DOCTYPE html><html>Log in</html>"))
				return true
			})
			err := call(t.Context())
			deletes := a.asked()
			if code == http.StatusOK && strings.HasPrefix(deletes[len(deletes)-1], "DELETE") {
				return // the client believes the code; the following read finds out
			}
			require.ErrorContains(t, err, "web page")
			require.NotErrorIs(t, err, deleter.ErrNotSupportedHere)
			require.NotErrorIs(t, err, deleter.ErrIncarnation)
		})
	}
}

// A forbidden type fails alone. All other types are emptied.
func TestForbiddenType(t *testing.T) {
	a := newAPI(t, pod("a"))
	forbidden := typeInfo{gvr: podsType.gvr, verbs: podsType.verbs}
	forbidden.gvr.Resource = "secrets"
	a.before = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "secrets") {
			return false
		}
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "secrets is forbidden")
		return true
	}
	d, err := deleter.New([]deleter.Source{
		{Resource: forbidden.resource(), Content: a.of(forbidden, time.Hour)}, {Resource: podsResource, Content: a.of(podsType, time.Hour)},
	}, nil)
	require.NoError(t, err)
	report, err := d.Delete(t.Context(), a.target, deleter.Report{})
	require.True(t, apierrors.IsForbidden(err), "the cause is out of reach: %v", err)
	require.False(t, report.Empty())
	require.Empty(t, a.names())
	for _, r := range report.Results {
		require.Equal(t, r.Resource != podsResource, r.Err != nil, "%v", r.Resource)
	}
}
