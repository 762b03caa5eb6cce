package kubernetes

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
)

// slowly is a rate limiter that delays each request.
type slowly struct {
	flowcontrol.RateLimiter
	wait   time.Duration
	passed func()
}

func (s *slowly) Wait(ctx context.Context) error {
	err := backoff.Sleep(ctx, s.wait)
	if s.passed != nil {
		s.passed()
	}
	return err
}

// holding returns the ways in which a client delays requests for content by 15 seconds. Each calls
// f at the end of the delay.
func holding(a *api, f func()) map[string]func() {
	return map[string]func(){
		"by the server": func() {
			refused := false
			a.before = onContent(func(w http.ResponseWriter) bool {
				if refused {
					return false
				}
				refused = true
				f()
				w.Header().Set("Retry-After", "15")
				refuse(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "later")
				return true
			})
		},
		"by its own limit": func() {
			config := rest.CopyConfig(a.config)
			config.RateLimiter = &slowly{flowcontrol.NewFakeAlwaysRateLimiter(), 15 * time.Second, f}
			spaces := a.spaces
			a.connect(config)
			a.spaces = spaces // these requests are not limited
		},
	}
}

// relying returns the requests that have no fence but a read of the namespace.
func relying(c *content, target deleter.Target) map[string]func(context.Context) error {
	calls := contentCalls(c, target)
	delete(calls, "list")
	delete(calls, "delete by name")
	return calls
}

// A delayed request does not rely on a read from before the delay.
func TestR8_CheckedWhenSent(t *testing.T) {
	for how := range holding(nil, nil) {
		for what := range relying(nil, deleter.Target{}) {
			for replaced, recheck := range map[string]time.Duration{"replaced": time.Second, "replaced, no age allowed": -1, "the same": time.Second} {
				t.Run(how+"/"+what+"/"+replaced, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						a := newAPI(t, pod("a"))
						holding(a, func() {
							if replaced != "the same" {
								a.replace(true)
							}
						})[how]()
						err := relying(a.of(podsType, recheck), a.target)[what](t.Context())
						if replaced == "the same" {
							require.NoError(t, err)
							require.Empty(t, a.names())
							return
						}
						require.ErrorIs(t, err, deleter.ErrIncarnation)
						require.Equal(t, []string{"a"}, a.names(), "an object of another incarnation was deleted")
					})
				})
			}
		}
	}
}

// A new read serves all delayed requests that it precedes. A request that was not delayed needs no
// new read.
func TestNoUnneededReads(t *testing.T) {
	for _, recheck := range []time.Duration{-1, time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			a := newAPI(t)
			_, _, err := a.of(podsType, recheck).DeleteCollection(t.Context(), a.target)
			require.NoError(t, err)
			require.Equal(t, []string{"GET x", "DELETE x/pods"}, a.asked())
			holding(a, func() {})["by the server"]()
			_, _, err = a.of(podsType, recheck).DeleteCollection(t.Context(), a.target)
			require.NoError(t, err)
			want := []string{"GET x", "DELETE x/pods", "GET x", "DELETE x/pods"}
			if recheck == time.Hour {
				want = []string{"GET x", "DELETE x/pods", "DELETE x/pods"}
			}
			require.Equal(t, want, a.asked())
		})
	}
}

// If the new read fails, the request is not sent.
func TestR8_NoReadNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, pod("a"))
		holding(a, func() {
			content := a.before
			a.before = func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "/namespaces/x") {
					refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "not yours")
					return true
				}
				return content(w, r)
			}
		})["by the server"]()
		c := a.of(podsType, time.Second)
		_, _, err := c.DeleteCollection(t.Context(), a.target)
		require.ErrorContains(t, err, "not yours")
		require.NotErrorIs(t, err, deleter.ErrIncarnation)
		require.Equal(t, []string{"a"}, a.names())
	})
}

// If the new read finds the namespace gone, that is no answer to the request: no object counts as
// deleted, and no collection as refused.
func TestR8_GoneWhenSent(t *testing.T) {
	for how := range holding(nil, nil) {
		for what := range relying(nil, deleter.Target{}) {
			t.Run(how+"/"+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := newAPI(t, pod("a"))
					holding(a, func() { a.remove() })[how]()
					c := a.of(podsType, time.Second)
					err := relying(c, a.target)[what](t.Context())
					require.ErrorIs(t, err, deleter.ErrIncarnation)
					require.NotErrorIs(t, err, deleter.ErrNotSupportedHere)
					require.False(t, c.incarnations.refusesCollections(a.target, podsResource))
				})
			})
		}
	}
}

// The same applies to the read after a conflict, if the namespace is gone or replaced.
func TestR8_GoneAfterAConflict(t *testing.T) {
	for name, change := range map[string]func(*api){
		"gone":     (*api).remove,
		"replaced": func(a *api) { a.replace(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t, pod("a"))
				a.before = func(w http.ResponseWriter, r *http.Request) bool {
					if r.Method != http.MethodDelete {
						return false
					}
					time.Sleep(15 * time.Second)
					change(a)
					refuse(w, http.StatusConflict, metav1.StatusReasonConflict, "another uid")
					return true
				}
				err := a.of(podsType, time.Second).Delete(t.Context(), a.target, "a", "uid-of-a")
				require.ErrorIs(t, err, deleter.ErrIncarnation)
				require.NotErrorIs(t, err, deleter.ErrReplaced)
			})
		})
	}
}

// stuck is a body that never arrives.
type stuck struct{ ctx context.Context }

func (s stuck) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, context.Cause(s.ctx) }
func (stuck) Close() error               { return nil }

// If an aggregated server hangs, only its types fail where each group version is discovered by
// itself. All other types are emptied.
func TestR10_OneServerHangs(t *testing.T) {
	pages := legacy(served("v1", "pods"), served("sick.example.com/v1", "things"), served("example.com/v1", "widgets"))
	for _, tt := range []struct {
		name              string
		configured, whole time.Duration
		body              bool
		want              time.Duration
	}{
		{"by default", 0, 0, false, 30 * time.Second},
		{"in its answer", 0, 0, true, 30 * time.Second},
		{"no longer than client-go", 0, time.Hour, false, 32 * time.Second},
		{"half of little", 0, 2 * time.Second, false, time.Second},
		{"as configured", 5 * time.Second, 0, false, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := &rest.Config{Host: "http://api.test", Timeout: tt.configured}
				config.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
					hangs := strings.HasPrefix(r.URL.Path, "/apis/sick.example.com")
					if hangs && !tt.body {
						<-r.Context().Done()
						return nil, r.Context().Err()
					}
					w := httptest.NewRecorder()
					pages[r.URL.Path](w, r)
					response := w.Result()
					if hangs {
						response.Body = io.NopCloser(stuck{r.Context()})
					}
					return response, nil
				})
				cluster, err := ForConfig(config, &Options{Wait: -1, Deleter: deleter.Options{CallTimeout: tt.whole}})
				require.NoError(t, err)
				began := time.Now()
				v, err := cluster.deleter.catalog.fresh(t.Context())
				require.NoError(t, err)
				require.Equal(t, tt.want, time.Since(began))
				require.Len(t, v.types, 2)
				require.Len(t, v.failed.Groups, 1)
				require.ErrorContains(t, v.failed.Groups[0], "sick.example.com")
				require.NotContains(t, v.failed.Message, "unexpected EOF")
			})
		})
	}
}
