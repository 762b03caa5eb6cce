package httpguard_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/observe/httpguard"
)

func TestHosts(t *testing.T) {
	guard, err := httpguard.New("Console.Example.com", "tenants.svc.")
	require.NoError(t, err)
	open, err := httpguard.New(httpguard.Any)
	require.NoError(t, err)
	for host, accepted := range map[string]bool{
		"localhost": true, "localhost:8080": true, "LOCALHOST.": true, "tenants.localhost:80": true,
		"127.0.0.1:8080": true, "127.8.8.8": true, "[::1]:8080": true, "[::1]": true, "192.0.2.7:80": true, "[fe80::1%25eth0]:1": true,
		"console.example.com:443": true, "console.example.com.": true, "tenants.svc": true,
		"": true, // not a browser

		"evil.example": false, "evil.example:8080": false, "localhost.evil.example": false, "notlocalhost": false,
		"127.0.0.1.evil.example:8080": false, "127.0.0.1.": false, "a.console.example.com": false, "example.com": false, "*": false,
		"evil.example:127.0.0.1": false, "[evil.example]": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		err := guard.Check(r)
		if accepted {
			require.NoError(t, err, host)
		} else {
			require.ErrorIs(t, err, namespace.ErrForbidden, host)
		}
		require.NoError(t, open.Check(r), host)
	}
	for _, bad := range []string{"", ".", "example.com:80", "http://example.com", "[::1]", "*.example.com", "a b"} {
		_, err := httpguard.New(bad)
		require.ErrorIs(t, err, namespace.ErrBadRequest, bad)
	}
}

func TestOrigins(t *testing.T) {
	guard, err := httpguard.New()
	require.NoError(t, err)
	handler := guard.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	const get, post = http.MethodGet, http.MethodPost
	for _, c := range []struct {
		method, site, mode, dest, origin string
		status                           int
	}{
		{get, "", "", "", "", http.StatusOK}, // not a browser
		{post, "", "", "", "", http.StatusOK},
		{get, "none", "navigate", "document", "", http.StatusOK}, // typed in by the user
		{get, "same-origin", "cors", "empty", "", http.StatusOK},
		{post, "same-origin", "cors", "empty", "http://localhost:8080", http.StatusOK},
		{post, "", "", "", "http://localhost:8080", http.StatusOK}, // plain HTTP to an address: no Sec-Fetch-Site
		{get, "cross-site", "navigate", "document", "", http.StatusOK},
		{http.MethodHead, "same-site", "navigate", "document", "", http.StatusOK},

		{get, "cross-site", "navigate", "iframe", "", http.StatusForbidden},
		{get, "cross-site", "no-cors", "empty", "", http.StatusForbidden},
		{get, "cross-site", "cors", "empty", "http://evil.example", http.StatusForbidden},
		{get, "same-site", "no-cors", "script", "", http.StatusForbidden}, // another port of this machine
		{get, "", "", "", "http://evil.example", http.StatusForbidden},
		{get, "cross-site", "", "", "", http.StatusForbidden},
		{post, "cross-site", "navigate", "document", "http://evil.example", http.StatusForbidden}, // a form
		{post, "cross-site", "no-cors", "empty", "http://evil.example", http.StatusForbidden},
		{post, "", "", "", "http://evil.example", http.StatusForbidden},
		{post, "", "", "", "http://localhost:9090", http.StatusForbidden},
		{post, "", "", "", "null", http.StatusForbidden},
		{http.MethodDelete, "cross-site", "cors", "empty", "http://evil.example", http.StatusForbidden},
		{http.MethodOptions, "cross-site", "cors", "empty", "http://evil.example", http.StatusForbidden}, // a preflight
	} {
		r := httptest.NewRequest(c.method, "/", nil)
		r.Host = "localhost:8080"
		for name, value := range map[string]string{"Sec-Fetch-Site": c.site, "Sec-Fetch-Mode": c.mode, "Sec-Fetch-Dest": c.dest, "Origin": c.origin} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Equal(t, c.status, w.Code, "%+v: %s", c, w.Body)
	}
}
