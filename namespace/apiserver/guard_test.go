package apiserver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
)

// TestOtherSites checks that a server without authentication refuses requests that web sites
// send through a browser: from another origin, and from a host name rebound to the address of
// the server. With authentication, the guard applies only if Options.Hosts is set.
func TestOtherSites(t *testing.T) {
	known := func(*http.Request) (authorization.User, error) { return authorization.User{Name: "alice"}, nil }
	const rebound, ours = "evil.example:8080", "console.example"
	foreign := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Origin", "http://evil.example"}
	for _, tt := range []struct {
		name    string
		options apiserver.Options
		host    string
		headers []string
		refused bool
	}{
		{"a client", apiserver.Options{}, "127.0.0.1:8080", nil, false},
		{"another origin", apiserver.Options{}, "127.0.0.1:8080", foreign, true},
		{"a rebound name", apiserver.Options{}, rebound, []string{"Origin", "http://" + rebound}, true},
		{"an allowed name", apiserver.Options{Hosts: []string{ours}}, ours, []string{"Origin", "http://" + ours}, false},
		{"another origin than the allowed name", apiserver.Options{Hosts: []string{ours}}, ours, foreign, true},
		{"credentials", apiserver.Options{Authenticate: known}, rebound, foreign, false},
		{"credentials that browsers send by themselves", apiserver.Options{Authenticate: known, Hosts: []string{ours}}, ours, foreign, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEnv(t, &tt.options)
			for _, request := range []struct {
				method, target string
				code           int
			}{
				{http.MethodPost, "/api/v1/namespaces", http.StatusCreated}, {http.MethodGet, "/api/v1/namespaces", http.StatusOK},
				{http.MethodGet, "/version", http.StatusOK}, {http.MethodDelete, "/api/v1/namespaces/x", http.StatusOK},
			} {
				before := e.contents()
				r := httptest.NewRequest(request.method, request.target, strings.NewReader(""))
				if request.method == http.MethodPost {
					r = httptest.NewRequest(request.method, request.target, strings.NewReader(`{"metadata":{"name":"x"}}`))
					r.Header.Set("Content-Type", "application/json")
				}
				r.Host = tt.host
				for i := 0; i < len(tt.headers); i += 2 {
					r.Header.Set(tt.headers[i], tt.headers[i+1])
				}
				w := httptest.NewRecorder()
				e.server.ServeHTTP(w, r)
				if !tt.refused {
					require.Equal(t, request.code, w.Code, w.Body)
					continue
				}
				require.Equal(t, http.StatusForbidden, w.Code, w.Body)
				require.Contains(t, w.Body.String(), `"reason":"Forbidden"`)
				require.Equal(t, before, e.contents())
			}
		})
	}
	_, err := apiserver.New(newEnv(t, nil).registry, nil, &apiserver.Options{Hosts: []string{"http://console.example"}})
	require.ErrorContains(t, err, "Options.Hosts")
}

// TestBodiesThatBrowsersSendUnasked sends bodies with the content types that browsers send
// cross-origin without a preflight request. The server must decode none of them as an object.
func TestBodiesThatBrowsersSendUnasked(t *testing.T) {
	known := func(*http.Request) (authorization.User, error) { return authorization.User{Name: "alice"}, nil }
	e := newEnv(t, &apiserver.Options{Authenticate: known})
	e.namespace("x")
	for _, contentType := range []string{"", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
		for _, sign := range []string{"Origin", "Sec-Fetch-Site"} {
			for target, body := range map[string]string{
				"/api/v1/namespaces":              `{"metadata":{"name":"planted"}}`,
				"/api/v1/namespaces/x/secrets":    `{"metadata":{"name":"planted"}}`,
				"/api/v1/namespaces/x/finalize":   `{"metadata":{"name":"x"},"spec":{"finalizers":[]}}`,
				"/api/v1/namespaces/x/configmaps": `{"metadata":{"name":"planted"}}`,
			} {
				before := e.contents()
				headers := []string{sign, "http://evil.example"}
				if contentType != "" {
					headers = append(headers, "Content-Type", contentType)
				}
				a := e.do(http.MethodPost, target, body, headers...)
				require.Equal(t, http.StatusUnsupportedMediaType, a.Code, a.Body)
				require.Equal(t, "UnsupportedMediaType", a.text("reason"))
				require.Equal(t, before, e.contents())
			}
		}
	}
	e.must(http.StatusCreated, http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"y"}}`) // a client that is not a browser
	e.must(http.StatusOK, http.MethodDelete, "/api/v1/namespaces/y", "", "Sec-Fetch-Site", "same-origin")
}
