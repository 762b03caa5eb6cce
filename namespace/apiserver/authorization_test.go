package apiserver_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
)

// granted returns the options of a server that takes the user from the header "User".
// User tenant may do everything in namespace x. User patcher may get and patch configmaps
// there. User admin may do everything.
func granted(t *testing.T) *apiserver.Options {
	t.Helper()
	everything := []authorization.Rule{{Verbs: []string{"*"}, Resources: []string{"*"}}}
	g, err := authorization.New([]authorization.Grant{
		{Users: []string{"tenant"}, Namespaces: []string{"x"}, Rules: everything},
		{Users: []string{"patcher"}, Namespaces: []string{"x"}, Rules: []authorization.Rule{{Verbs: []string{"get", "patch"}, Resources: []string{"configmaps"}}}},
		{Users: []string{"admin"}, Cluster: true, Rules: everything},
	})
	require.NoError(t, err)
	return &apiserver.Options{Authorizer: g, Authenticate: func(r *http.Request) (authorization.User, error) {
		return authorization.User{Name: r.Header.Get("User")}, nil
	}}
}

// TestNarrowingIsOfLists checks that a field selector does not affect the authorization of a
// create. Only lists and watches are narrowed to one namespace.
func TestNarrowingIsOfLists(t *testing.T) {
	e := newEnv(t, granted(t))
	a := e.do("POST", "/api/v1/namespaces?fieldSelector=metadata.name%3Dx", `{"metadata":{"name":"y"}}`, "User", "tenant")
	require.Equal(t, http.StatusForbidden, a.Code, a.Body)
	require.Empty(t, e.contents())
}

// TestApplyNeedsCreate checks that apply creates an object only for a user with permission to
// create it. Permission to patch is not enough, and a grant for namespace x does not include
// the creation of x.
func TestApplyNeedsCreate(t *testing.T) {
	e := newEnv(t, granted(t))
	apply := func(user, target, body string) answer {
		return e.do("PATCH", target+"?fieldManager=m", body, "User", user, "Content-Type", "application/apply-patch+yaml")
	}
	const ns, cm = "/api/v1/namespaces/x", "/api/v1/namespaces/x/configmaps/c"
	const nsBody, cmBody = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"}}`, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`
	a := apply("tenant", ns, nsBody)
	require.Equal(t, http.StatusForbidden, a.Code, a.Body)
	require.Equal(t, `namespaces "x" is forbidden: User "tenant" cannot create resource "namespaces" in API group "" at the cluster scope`, a.text("message"))
	require.Equal(t, http.StatusCreated, apply("admin", ns, nsBody).Code)
	require.Equal(t, http.StatusOK, apply("tenant", ns, nsBody).Code)
	require.Equal(t, http.StatusForbidden, apply("patcher", cm, cmBody).Code)
	require.Equal(t, http.StatusCreated, apply("tenant", cm, cmBody).Code)
	require.Equal(t, http.StatusOK, apply("patcher", cm, cmBody).Code)
}

// TestNarrowedListTellsNothingOfOthers checks that a list of one namespace shows no trace of
// other namespaces, neither as items nor as a continue token.
func TestNarrowedListTellsNothingOfOthers(t *testing.T) {
	e := newEnv(t, granted(t))
	for _, name := range []string{"x", "y"} {
		e.must(http.StatusCreated, "POST", "/api/v1/namespaces", `{"metadata":{"name":"`+name+`"}}`, "User", "admin")
		a := e.must(http.StatusOK, "GET", "/api/v1/namespaces?limit=1&fieldSelector=metadata.name%3Dx", "", "User", "tenant")
		require.Equal(t, []any{"x"}, names(a))
		require.Empty(t, a.text("metadata", "continue"))
	}
}

// TestDeletionsAreNotWiderThanAsked sends DELETE requests with unsupported parameters or
// preconditions that fail. Each is refused and deletes nothing.
func TestDeletionsAreNotWiderThanAsked(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	created := e.must(http.StatusCreated, "POST", maps, `{"metadata":{"name":"a"}}`)
	version, uid := created.text("metadata", "resourceVersion"), created.text("metadata", "uid")
	before := e.contents()
	for _, tt := range []struct {
		target, body string
		code         int
	}{
		{maps + "?limit=1", "", http.StatusBadRequest},
		{maps + "?continue=a", "", http.StatusBadRequest},
		{maps + "/a?uid=other", `{"preconditions":{"resourceVersion":"` + version + `"}}`, http.StatusConflict},
		{maps + "/a?uid=other", `{"preconditions":{"uid":"` + uid + `"}}`, http.StatusBadRequest},
		{maps + "/a?uid=", "", http.StatusBadRequest},
		{maps + "/a", `{"preconditions":{"uid":""}}`, http.StatusBadRequest},
		{maps + "/a", `{"preconditions":{"resourceVersion":""}}`, http.StatusBadRequest},
	} {
		e.must(tt.code, "DELETE", tt.target, tt.body)
		require.Equal(t, before, e.contents(), "%s %s", tt.target, tt.body)
	}
}

// overHTTP2 serves h over TLS with HTTP/2. It returns the URL and a client.
func overHTTP2(t *testing.T, h http.Handler) (string, *http.Client) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	transport := &http.Transport{TLSClientConfig: server.Client().Transport.(*http.Transport).TLSClientConfig, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return server.URL, &http.Client{Transport: transport}
}

// TestQuietWatchOverHTTP2 checks that Limits.Stall does not end an idle watch. With HTTP/2 a
// write deadline expires even if no write is in progress.
func TestQuietWatchOverHTTP2(t *testing.T) {
	e := newEnv(t, &apiserver.Options{Limits: apiserver.Limits{Stall: 50 * time.Millisecond}})
	e.namespace("x")
	url, client := overHTTP2(t, e.server)
	r, err := client.Get(url + "/api/v1/namespaces?watch=1&timeoutSeconds=1")
	require.NoError(t, err)
	defer r.Body.Close()
	require.Equal(t, 2, r.ProtoMajor)
	_, err = io.ReadAll(r.Body)
	require.NoError(t, err, "the watch was cut")
}

// late is a writer that delays the write deadline that Close sets. It waits until the client
// has read the whole answer, for at most 100 ms, and closes set afterwards.
type late struct {
	http.ResponseWriter
	ended <-chan struct{}
	set   chan<- struct{}
}

func (l late) Unwrap() http.ResponseWriter { return l.ResponseWriter }

func (l late) SetWriteDeadline(at time.Time) error {
	control := http.NewResponseController(l.ResponseWriter)
	if left := time.Until(at); left < 0 || left > 10*time.Second {
		return control.SetWriteDeadline(at)
	}
	defer close(l.set)
	select {
	case <-l.ended:
	case <-time.After(100 * time.Millisecond): // expected: the answer does not end before the deadline is set
	}
	return control.SetWriteDeadline(at)
}

// TestCloseDoesNotUseWritersOfOthers checks that Close does not use the writer of a finished
// request. With HTTP/2 such a use panics outside of any request.
func TestCloseDoesNotUseWritersOfOthers(t *testing.T) {
	e := newEnv(t, nil)
	ended, set := make(chan struct{}), make(chan struct{})
	url, client := overHTTP2(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.server.ServeHTTP(late{w, ended, set}, r)
	}))
	r, err := client.Get(url + "/api/v1/namespaces?watch=1")
	require.NoError(t, err)
	defer r.Body.Close()
	require.NoError(t, e.server.Close())
	_, err = io.ReadAll(r.Body)
	require.NoError(t, err)
	close(ended)
	<-set
}
