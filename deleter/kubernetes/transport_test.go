package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// website serves pages by path, otherwise 404, and counts requests.
type website struct {
	*httptest.Server
	pages map[string]http.HandlerFunc

	mu    sync.Mutex
	calls map[string]int
}

func newWebsite(t *testing.T, pages map[string]http.HandlerFunc) *website {
	w := &website{pages: pages, calls: map[string]int{}}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.calls[r.URL.Path]++
		w.mu.Unlock()
		if page := w.pages[r.URL.Path]; page != nil {
			page(rw, r)
			return
		}
		http.NotFound(rw, r)
	}))
	t.Cleanup(w.Close)
	return w
}

func (w *website) count(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[path]
}

func (w *website) clients(t *testing.T) Clients {
	t.Helper()
	clients, err := clientsFor(withClientDefaults(&rest.Config{Host: w.URL}), time.Minute)
	require.NoError(t, err)
	return clients
}

func page(status int, contentType string, body any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		if text, ok := body.(string); ok {
			_, _ = w.Write([]byte(text))
		} else {
			_ = json.NewEncoder(w).Encode(body)
		}
	}
}

const aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// group is a group in aggregated discovery, with its versions in order of preference. "v1?" is a
// version that the server failed to discover.
func group(name string, versions map[string][]string, order ...string) apidiscovery.APIGroupDiscovery {
	g := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, v := range order {
		version, stale := strings.CutSuffix(v, "?")
		described := apidiscovery.APIVersionDiscovery{Version: version, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
		if stale {
			described.Freshness = apidiscovery.DiscoveryFreshnessStale
		}
		for _, t := range versions[version] {
			r := servedType(t)
			scope := apidiscovery.ScopeCluster
			if r.Namespaced {
				scope = apidiscovery.ScopeNamespace
			}
			kind := &metav1.GroupVersionKind{Group: name, Version: version, Kind: r.Name}
			described.Resources = append(described.Resources, apidiscovery.APIResourceDiscovery{
				Resource: r.Name, Scope: scope, Verbs: r.Verbs, ResponseKind: kind,
				Subresources: []apidiscovery.APISubresourceDiscovery{{Subresource: "status", ResponseKind: kind, Verbs: metav1.Verbs{"delete"}}},
			})
		}
		g.Versions = append(g.Versions, described)
	}
	return g
}

func aggregated(groups ...apidiscovery.APIGroupDiscovery) http.HandlerFunc {
	return page(http.StatusOK, aggregatedType, apidiscovery.APIGroupDiscoveryList{Items: groups})
}

// legacy returns the pages of a server without aggregated discovery, one for each group version.
func legacy(lists ...*metav1.APIResourceList) map[string]http.HandlerFunc {
	groups := metav1.APIGroupList{}
	pages := map[string]http.HandlerFunc{"/api": page(http.StatusOK, "application/json", metav1.APIVersions{Versions: []string{"v1"}})}
	for _, list := range lists {
		path := "/api/" + list.GroupVersion
		if name, version, ok := strings.Cut(list.GroupVersion, "/"); ok {
			path = "/apis/" + list.GroupVersion
			v := metav1.GroupVersionForDiscovery{GroupVersion: list.GroupVersion, Version: version}
			if n := len(groups.Groups); n > 0 && groups.Groups[n-1].Name == name {
				groups.Groups[n-1].Versions = append(groups.Groups[n-1].Versions, v)
			} else {
				groups.Groups = append(groups.Groups, metav1.APIGroup{Name: name, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
			}
		}
		pages[path] = page(http.StatusOK, "application/json", list)
	}
	pages["/apis"] = page(http.StatusOK, "application/json", groups)
	return pages
}

func status(code int, reason metav1.StatusReason, message string) http.HandlerFunc {
	return page(code, "application/json", metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

// Both forms of discovery have the same result, including missing groups. For a type in two
// versions the preferred one counts, or the other one if the preferred one failed.
func TestDiscoveryOverHTTP(t *testing.T) {
	versions := map[string][]string{"v2": {"widgets", "nodes!"}, "v1": {"widgets=list,delete", "gadgets"}}
	core := group("", map[string][]string{"v1": {"pods", "bindings=create"}}, "v1")
	complete := legacy(served("v1", "pods", "pods/status", "bindings=create"),
		served("example.com/v2", "widgets", "nodes!"), served("example.com/v1", "widgets=list,delete", "gadgets"))
	partial := legacy(served("v1", "pods"), served("example.com/v2", "widgets", "nodes!"), served("example.com/v1", "widgets=list,delete", "gadgets"))
	partial["/apis/example.com/v2"] = status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "no backend")
	for _, tt := range []struct {
		name    string
		pages   map[string]http.HandlerFunc
		want    []string
		message string
		asked   int
	}{
		{name: "aggregated", asked: 2, want: []string{"example.com/v1 gadgets", "/v1 pods", "example.com/v2 widgets"},
			pages: map[string]http.HandlerFunc{"/api": aggregated(core), "/apis": aggregated(group("example.com", versions, "v2", "v1"))}},
		{name: "aggregated, in part", asked: 2, want: []string{"example.com/v1 gadgets", "/v1 pods", "example.com/v1 widgets"},
			pages:   map[string]http.HandlerFunc{"/api": aggregated(core), "/apis": aggregated(group("example.com", versions, "v2?", "v1"))},
			message: "unable to retrieve the complete list of server APIs: example.com/v2: stale GroupVersion discovery: example.com/v2"},
		{name: "legacy", pages: complete, asked: 5, want: []string{"example.com/v1 gadgets", "/v1 pods", "example.com/v2 widgets"}},
		{name: "legacy, in part", pages: partial, asked: 5, want: []string{"example.com/v1 gadgets", "/v1 pods", "example.com/v1 widgets"},
			message: "unable to retrieve the complete list of server APIs: example.com/v2: no backend"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			site := newWebsite(t, tt.pages)
			types, failed, err := scope{}.read(site.clients(t).Resources(t.Context()))
			require.NoError(t, err)
			var got []string
			for _, ty := range types {
				got = append(got, ty.gvr.Group+"/"+ty.gvr.Version+" "+ty.gvr.Resource)
			}
			require.Empty(t, cmp.Diff(tt.want, got))
			message := ""
			if failed != nil {
				message = failed.Message
			}
			require.Equal(t, tt.message, message)
			asked := 0
			for _, n := range site.calls {
				asked += n
			}
			require.Equal(t, tt.asked, asked)
		})
	}
}

// Answers to a whole discovery, of an API server or of another program in its place. The result is
// never an empty list of types without an error.
func TestDiscoveryRefused(t *testing.T) {
	html := page(http.StatusOK, "text/html", "<!DOCTYPE html><html><body>Please log in</body></html>")
	for _, tt := range []struct {
		name string
		page http.HandlerFunc
		is   func(error) bool
		text string
	}{
		{"unauthorized", status(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized"), apierrors.IsUnauthorized, "the server has asked for the client to provide credentials"},
		{"forbidden", status(http.StatusForbidden, metav1.StatusReasonForbidden, `forbidden: User "x" cannot get path "/apis"`), apierrors.IsForbidden, `cannot get path "/apis"`},
		{"an error of the server", status(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcd is down"), apierrors.IsInternalError, "etcd is down"},
		{"not found", nil, apierrors.IsNotFound, "the server could not find the requested resource"},
		{"a login page", html, func(error) bool { return true }, "not JSON, check the server's address and proxies"},
		{"an empty list", page(http.StatusOK, "application/json", "{}"), func(err error) bool { return errors.Is(err, deleter.ErrNothingDiscovered) }, "found no resource types"},
		{"something else", page(http.StatusOK, "application/json", `{"groups": 7}`), func(error) bool { return true }, "cannot unmarshal number"},
		{"nothing", page(http.StatusOK, "application/json", ""), func(error) bool { return true }, "unexpected end of JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			site := newWebsite(t, map[string]http.HandlerFunc{"/api": tt.page, "/apis": tt.page})
			cluster, err := ForConfig(&rest.Config{Host: site.URL}, nil)
			require.NoError(t, err)
			report, err := cluster.Deleter().Delete(t.Context(), target(), deleter.Report{})
			require.Error(t, err)
			require.True(t, tt.is(err), "%v", err)
			require.ErrorContains(t, err, tt.text)
			require.Len(t, report.Discovery, 1)
			require.False(t, report.Empty())
		})
	}
}

func TestVersionOverHTTP(t *testing.T) {
	for _, tt := range []struct {
		body string
		want server
	}{
		{`{"gitVersion":"v1.36.0+nslifecycle"}`, gatedServer},
		{`{"gitVersion":"v1.36.0-rc.1+k3s1.nslifecycle.7"}`, gatedServer},
		{`{"gitVersion":"v1.36.0"}`, foreignServer},
		{`{"gitVersion":"v1.36.0+k3s1"}`, foreignServer},
		{`{"gitVersion":"v1.36.0-nslifecycle"}`, foreignServer},
		{`{"gitVersion":"v1.36.0+nslifecycles"}`, foreignServer},
		{`{}`, foreignServer},
		{`<html>`, unknownServer},
	} {
		site := newWebsite(t, map[string]http.HandlerFunc{"/version": page(http.StatusOK, "application/json", tt.body)})
		require.Equal(t, tt.want, detectServer(t.Context(), site.clients(t).Version), tt.body)
	}
	require.Equal(t, unknownServer, detectServer(t.Context(), newWebsite(t, nil).clients(t).Version))
	require.Equal(t, foreignServer, detectServer(t.Context(), nil))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// DiscoveryInterface has no contexts. Yet the end of the caller's context ends every step: a
// request, a Retry-After, and the wait for the client's own rate limit.
func TestDiscoveryEndsWithItsContext(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request)
		config rest.Config
	}{
		{"in a request", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, rest.Config{}},
		{"between requests", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}, rest.Config{}},
		{"at the client's limit", page(http.StatusOK, "application/json", `{"versions":["v1"]}`), rest.Config{QPS: 1e-3, Burst: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				stop := errors.New("stop")
				requests := 0
				tt.config.Host = "http://nowhere.example.com"
				tt.config.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
					requests++
					w := httptest.NewRecorder()
					tt.answer(w, r)
					if err := r.Context().Err(); err != nil {
						return nil, err
					}
					return w.Result(), nil
				})
				// The limiter refuses a wait that exceeds the deadline.
				cluster, err := ForConfig(&tt.config, &Options{Deleter: deleter.Options{CallTimeout: time.Hour}})
				require.NoError(t, err)
				go func() {
					synctest.Wait() // until all goroutines are blocked
					cancel(stop)
				}()
				began := time.Now()
				_, err = cluster.Deleter().Delete(ctx, target(), deleter.Report{})
				require.ErrorIs(t, err, stop)
				require.Equal(t, 1, requests)
				require.Zero(t, time.Since(began))
			})
		})
	}
}

// After a Retry-After, the discovery waits for that time and asks again.
func TestDiscoveryHonoursRetryAfter(t *testing.T) {
	first := true
	site := newWebsite(t, map[string]http.HandlerFunc{
		"/api": func(w http.ResponseWriter, r *http.Request) {
			if first {
				first = false
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			aggregated(group("", map[string][]string{"v1": {"pods"}}, "v1"))(w, r)
		},
		"/apis": aggregated(),
	})
	types, failed, err := scope{}.read(site.clients(t).Resources(t.Context()))
	require.NoError(t, err)
	require.Nil(t, failed)
	require.Len(t, types, 1)
	require.Equal(t, 2, site.count("/api"))
}

func TestConfig(t *testing.T) {
	own := flowcontrol.NewFakeAlwaysRateLimiter()
	for _, tt := range []struct {
		name    string
		config  rest.Config
		qps     float32
		limited bool
	}{
		{"none: the server governs", rest.Config{}, -1, false},
		{"a rate: one limit for all clients", rest.Config{QPS: 5, Burst: 10}, 5, true},
		{"a rate without a burst", rest.Config{QPS: 5}, 5, true},
		{"no limit", rest.Config{QPS: -1}, -1, false},
		{"a limiter", rest.Config{RateLimiter: own}, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := tt.config
			got := withClientDefaults(&tt.config)
			require.Equal(t, before, tt.config)
			require.Equal(t, tt.qps, got.QPS)
			require.Equal(t, tt.limited, got.RateLimiter != nil)
			require.Equal(t, rest.NoWarnings{}, got.WarningHandler)
		})
	}
}

// The User-Agent names the program, unless the config sets one.
func TestUserAgent(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{"": rest.DefaultKubernetesUserAgent(), "agent/1": "agent/1"} {
		var agents sync.Map
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			agents.Store(r.URL.Path, r.UserAgent())
			http.NotFound(w, r)
		}))
		t.Cleanup(s.Close)
		config := &rest.Config{Host: s.URL, UserAgent: given}
		clients, err := clientsFor(withClientDefaults(config), time.Minute)
		require.NoError(t, err)
		_, err = clients.Namespaces.Get(t.Context(), "a", metav1.GetOptions{})
		require.Error(t, err)
		_, err = clients.Metadata.Resource(podsType.gvr).Namespace("a").List(t.Context(), metav1.ListOptions{})
		require.Error(t, err)
		_, err = clients.Version(t.Context())
		require.Error(t, err)
		for _, path := range []string{"/api/v1/namespaces/a", "/api/v1/namespaces/a/pods", "/version"} {
			agent, _ := agents.Load(path)
			require.Equal(t, want, agent, path)
		}
		require.Equal(t, given, config.UserAgent)
	}
}
