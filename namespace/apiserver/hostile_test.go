package apiserver_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
)

// post returns a raw POST request with a JSON body.
func post(target, body string, headers ...string) string {
	return raw("POST", target, body, append([]string{"Content-Type: application/json"}, headers...)...)
}

// raw returns the bytes of a request as text.
func raw(method, target, body string, headers ...string) string {
	lines := append([]string{method + " " + target + " HTTP/1.1", "Host: localhost", "Connection: close"}, headers...)
	if body != "" {
		lines = append(lines, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	return strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

// TestHostileRequests sends malformed and malicious requests over a connection. No request may
// change the store. Each answer is a Status, unless net/http itself has answered.
func TestHostileRequests(t *testing.T) {
	const ns = "/api/v1/namespaces"
	deep := `{"metadata":{"name":"a"},"spec":` + strings.Repeat(`{"a":`, 20_000) + `1` + strings.Repeat(`}`, 20_000) + `}`
	for _, tt := range []struct {
		name, request string
		code          int
		reason        string // reason of the Status; "-" if the answer has no Status
	}{
		// Paths.
		{"traversal", raw("GET", ns+"/../../../etc/passwd", ""), 404, "NotFound"},
		{"traversal to another namespace", raw("DELETE", ns+"/x/configmaps/../../keep", ""), 404, "NotFound"},
		{"traversal, escaped", raw("DELETE", ns+"/x/configmaps/%2e%2e/%2e%2e/keep", ""), 404, "NotFound"},
		{"dots as a name", raw("DELETE", ns+"/%2e%2e", ""), 400, "BadRequest"},
		{"escaped slash", raw("DELETE", ns+"/x%2f..%2fkeep", ""), 400, "BadRequest"},
		{"escaped slash in a name", raw("DELETE", ns+"/x/configmaps%2fkeep", ""), 404, "NotFound"},
		{"escaped slash to a sub-resource", raw("PUT", ns+"/keep%2ffinalize", `{"metadata":{"name":"keep"}}`), 400, "BadRequest"},
		{"escaped twice", raw("DELETE", ns+"/x%252fkeep", ""), 400, "BadRequest"},
		{"double slash", raw("DELETE", ns+"//keep", ""), 404, "NotFound"},
		{"double slash at the front", raw("DELETE", "//api/v1/namespaces/keep", ""), 404, "NotFound"},
		{"empty name", raw("DELETE", ns+"/keep/configmaps//", ""), 404, "NotFound"},
		{"empty name of a namespace", raw("GET", ns+"//configmaps/keep", ""), 404, "NotFound"},
		{"NUL", raw("DELETE", ns+"/keep%00", ""), 400, "BadRequest"},
		{"newline", raw("DELETE", ns+"/keep%0a", ""), 400, "BadRequest"},
		{"not UTF-8", raw("DELETE", ns+"/%ff%fe", ""), 400, "BadRequest"},
		{"a key of the store", raw("DELETE", ns+"/.gate", ""), 400, "BadRequest"},
		{"a key of the store as a type", raw("DELETE", ns+"/keep/.terminating", ""), 404, "NotFound"},
		{"a very long name", raw("GET", ns+"/"+strings.Repeat("a", 10_000), ""), 400, "BadRequest"},
		{"a very deep path", raw("GET", ns+strings.Repeat("/a", 5_000), ""), 404, "NotFound"},
		{"bad escape", raw("GET", ns+"/%zz", ""), 400, "-"},
		{"absolute form", raw("DELETE", "http://localhost:1/api/v1/namespaces//keep", ""), 404, "NotFound"},
		{"a semicolon", raw("DELETE", ns+"/keep;x", ""), 404, "NotFound"},
		{"upper case", raw("DELETE", "/API/V1/namespaces/keep", ""), 404, "NotFound"},
		{"a type that is none", raw("GET", "/api/v1/pods", ""), 404, "NotFound"},
		{"a version that is none", raw("GET", "/api/v2/namespaces", ""), 404, "NotFound"},
		{"a group that is none", raw("GET", "/apis/none/v1/namespaces", ""), 404, "NotFound"},
		{"the core group by name", raw("GET", "/apis//v1/namespaces", ""), 404, "NotFound"},
		{"a type named finalize", post(ns+"/keep/finalize/a", `{"metadata":{"name":"a"}}`), 404, "NotFound"},

		// Methods.
		{"another method", raw("BREW", ns, ""), 405, "MethodNotAllowed"},
		{"OPTIONS", raw("OPTIONS", ns, ""), 405, "MethodNotAllowed"},
		{"TRACE", raw("TRACE", ns+"/keep", ""), 405, "MethodNotAllowed"},
		{"POST to an object", post(ns+"/keep", `{"metadata":{"name":"keep"}}`), 405, "MethodNotAllowed"},
		{"DELETE of all namespaces", raw("DELETE", ns, ""), 405, "MethodNotAllowed"},
		{"DELETE of a sub-resource", raw("DELETE", ns+"/keep/finalize", ""), 405, "MethodNotAllowed"},
		{"DELETE of a list", raw("DELETE", "/api/v1/list/configmaps", ""), 405, "MethodNotAllowed"},
		{"DELETE in all namespaces", raw("DELETE", "/api/v1/configmaps", ""), 405, "MethodNotAllowed"},
		{"HEAD of a watch", raw("HEAD", ns+"?watch=1", ""), 405, "-"},
		{"HEAD of a watch, the document's", raw("HEAD", "/api/v1/watch/namespaces/keep", ""), 405, "-"},
		{"method override", raw("GET", ns+"/none", "", "X-HTTP-Method-Override: DELETE", "X-Method-Override: DELETE"), 404, "NotFound"},
		{"method override by parameter", raw("GET", ns+"/none?_method=DELETE", ""), 404, "NotFound"},

		// Parameters.
		{"huge selector", raw("GET", ns+"?labelSelector="+strings.Repeat("a,", 40_000)+"a", ""), 400, "BadRequest"},
		{"huge query", raw("GET", ns+"?a="+strings.Repeat("a", 600_000), ""), 400, "BadRequest"},
		{"selector with a bad key", raw("GET", ns+"?labelSelector=a%2Fb%2Fc", ""), 400, "BadRequest"},
		{"field that cannot be selected", raw("GET", ns+"?fieldSelector=spec.secret%3Da", ""), 400, "BadRequest"},
		{"selector twice", raw("GET", ns+"?labelSelector=a&labelSelector=b", ""), 400, "BadRequest"},
		{"limit of letters", raw("GET", ns+"?limit=many", ""), 400, "BadRequest"},
		{"negative limit", raw("GET", ns+"?limit=-1", ""), 400, "BadRequest"},
		{"limit that overflows", raw("GET", ns+"?limit=99999999999999999999", ""), 400, "BadRequest"},
		{"limit twice", raw("GET", ns+"?limit=1&limit=2", ""), 400, "BadRequest"},
		{"continue made up", raw("GET", ns+"?continue=AAAA", ""), 400, "BadRequest"},
		{"version of letters", raw("GET", ns+"?resourceVersion=now", ""), 400, "BadRequest"},
		{"version of letters, of one", raw("GET", ns+"/keep?resourceVersion=now", ""), 400, "BadRequest"},
		{"negative version", raw("GET", ns+"?resourceVersion=-1", ""), 400, "BadRequest"},
		{"version match without a version", raw("GET", ns+"?resourceVersionMatch=Exact", ""), 422, "Invalid"},
		{"version match made up", raw("GET", ns+"?resourceVersion=1&resourceVersionMatch=Newest", ""), 422, "Invalid"},
		{"watch neither on nor off", raw("GET", ns+"?watch=perhaps", ""), 400, "BadRequest"},
		{"negative timeout", raw("GET", ns+"?watch=1&timeoutSeconds=-1", ""), 400, "BadRequest"},
		{"dryRun made up", raw("DELETE", ns+"/keep?dryRun=None", ""), 422, "Invalid"},
		{"dryRun empty", raw("DELETE", ns+"/keep?dryRun=", ""), 422, "Invalid"},
		{"propagation made up", raw("DELETE", ns+"/keep?propagationPolicy=Everything", ""), 422, "Invalid"},
		{"propagation said twice", raw("DELETE", ns+"/keep?propagationPolicy=Orphan&orphanDependents=true", ""), 422, "Invalid"},
		{"grace period of letters", raw("DELETE", ns+"/keep?gracePeriodSeconds=soon", ""), 400, "BadRequest"},
		{"fieldValidation made up", post(ns+"?fieldValidation=Lax", `{"metadata":{"name":"a"}}`), 422, "Invalid"},
		{"manager that cannot be printed", post(ns+"?fieldManager=%07", `{"metadata":{"name":"a"}}`), 422, "Invalid"},
		{"manager that is too long", post(ns+"?fieldManager="+strings.Repeat("m", 129), `{"metadata":{"name":"a"}}`), 422, "Invalid"},
		{"query with a bad escape", raw("DELETE", ns+"/keep?a=%zz", ""), 400, "BadRequest"},
		{"query with a semicolon", raw("DELETE", ns+"/keep?a=1;dryRun=All", ""), 400, "BadRequest"},
		{"includeObject made up", raw("GET", ns+"?includeObject=All", ""), 400, "BadRequest"},

		// Bodies.
		{"no body", post(ns, ""), 400, "BadRequest"},
		{"no JSON", post(ns, `name: a`), 400, "BadRequest"},
		{"truncated", post(ns, `{"metadata":{"name":"a"`), 400, "BadRequest"},
		{"more than one document", post(ns, `{"metadata":{"name":"a"}}{"metadata":{"name":"b"}}`), 400, "BadRequest"},
		{"an array", post(ns, `[{"metadata":{"name":"a"}}]`), 400, "BadRequest"},
		{"null", post(ns, `null`), 400, "BadRequest"},
		{"not UTF-8 in the body", post(ns, "{\"metadata\":{\"name\":\"a\xff\"}}"), 400, "BadRequest"},
		{"deep JSON", post("/apis/example.com/v1/namespaces/x/widgets", deep), 400, "BadRequest"},
		{"deep JSON in options", raw("DELETE", ns+"/keep", deep, "Content-Type: application/json"), 400, "BadRequest"},
		{"another kind", post(ns, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`), 400, "BadRequest"},
		{"another version", post(ns, `{"kind":"Namespace","apiVersion":"v2","metadata":{"name":"a"}}`), 400, "BadRequest"},
		{"a kind smuggled as options", raw("DELETE", ns+"/keep", `{"kind":"Namespace","metadata":{"name":"keep"}}`), 400, "BadRequest"},
		{"duplicate keys", post(ns+"?fieldValidation=Strict", `{"metadata":{"name":"a","name":"b"}}`), 400, "BadRequest"},
		{"unknown fields", post(ns+"?fieldValidation=Strict", `{"metadata":{"name":"a"},"spek":{}}`), 400, "BadRequest"},
		{"a name that is a path", post(ns, `{"metadata":{"name":"../../a"}}`), 422, "Invalid"},
		{"a name that is a key", post(ns, `{"metadata":{"name":".gate"}}`), 422, "Invalid"},
		{"a name of another object", raw("PUT", ns+"/x", `{"metadata":{"name":"keep"}}`, "Content-Type: application/json"), 400, "BadRequest"},
		{"a name that is not one", post(ns, `{"metadata":{"name":7}}`), 400, "BadRequest"},
		{"a version at creation", post(ns, `{"metadata":{"name":"a","resourceVersion":"1"}}`), 400, "BadRequest"},
		{"body too large", post(ns, `{"metadata":{"name":"a","annotations":{"a":"`+strings.Repeat("a", 4<<20)+`"}}}`), 413, "RequestEntityTooLarge"},
		{"annotations too large", post(ns, `{"metadata":{"name":"a","annotations":{"a":"`+strings.Repeat("a", 1<<20)+`"}}}`), 422, "Invalid"},
		{"wrong content type", raw("POST", ns, `{"metadata":{"name":"a"}}`, "Content-Type: text/html"), 415, "UnsupportedMediaType"},
		{"broken content type", raw("POST", ns, `{"metadata":{"name":"a"}}`, "Content-Type: ///"), 415, "UnsupportedMediaType"},
		{"a form", raw("POST", ns, `name=a`, "Content-Type: application/x-www-form-urlencoded"), 415, "UnsupportedMediaType"},
		{"protobuf of a custom kind", raw("POST", "/apis/example.com/v1/namespaces/x/widgets", "k8s\x00", "Content-Type: application/vnd.kubernetes.protobuf"), 415, "UnsupportedMediaType"},
		{"protobuf that is none", raw("POST", ns, "k8s\x00\xff\xff", "Content-Type: application/vnd.kubernetes.protobuf"), 400, "BadRequest"},
		{"compressed", raw("POST", ns, "\x1f\x8b", "Content-Type: application/json", "Content-Encoding: gzip"), 415, "UnsupportedMediaType"},
		{"YAML with aliases", raw("POST", ns, "a: &a [x,x,x]\nb: &b [*a,*a,*a]\nmetadata: {name: *b}\n", "Content-Type: application/yaml"), 400, "BadRequest"},
		{"accepts nothing there is", raw("GET", ns, "", "Accept: image/png"), 406, "NotAcceptable"},
		{"patch of no type", raw("PATCH", ns+"/keep", `{}`), 415, "UnsupportedMediaType"},
		{"patch of JSON", raw("PATCH", ns+"/keep", `{}`, "Content-Type: application/json"), 415, "UnsupportedMediaType"},

		// Requests that net/http refuses.
		{"two lengths", "POST " + ns + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 25\r\n\r\n{}", 400, "-"},
		{"negative length", "POST " + ns + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: -2\r\n\r\n{}", 400, "-"},
		{"two hosts", "GET " + ns + " HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "-"},
		{"no host", "GET " + ns + " HTTP/1.1\r\n\r\n", 400, "-"},
		{"a space in the header", "GET " + ns + " HTTP/1.1\r\nHost : test\r\n\r\n", 400, "-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, nil)
			e.namespace("x")
			e.namespace("keep")
			e.must(http.StatusCreated, "POST", ns+"/keep/configmaps", `{"metadata":{"name":"keep"}}`)
			before := e.contents()
			server := httptest.NewServer(e.server)
			defer server.Close()
			code, header, body := exchange(t, server, tt.request)
			require.Equal(t, tt.code, code, "%.500s", body)
			require.Empty(t, header.Get("Location"))
			if tt.reason != "-" {
				requireStatus(t, body, tt.code, tt.reason)
			}
			require.Equal(t, before, e.contents())
		})
	}
}

// exchange sends a raw request and reads the answer.
func exchange(t testing.TB, server *httptest.Server, request string) (int, http.Header, string) {
	t.Helper()
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	go io.WriteString(c, request) // the server may answer before it has read the whole request
	method, _, _ := strings.Cut(request, " ")
	response, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, response.Header, string(body)
}

// requireStatus checks that body is a failure Status with the given code and reason.
func requireStatus(t testing.TB, body string, code int, reason string) {
	t.Helper()
	var s struct {
		Kind, APIVersion, Status, Reason, Message string
		Code                                      int
	}
	require.NoError(t, json.NewDecoder(bytes.NewBufferString(body)).Decode(&s), "%.500s", body)
	require.Equal(t, []any{"Status", "v1", "Failure", reason, code}, []any{s.Kind, s.APIVersion, s.Status, s.Reason, s.Code}, "%.500s", body)
	require.NotEmpty(t, s.Message)
	require.Less(t, len(s.Message), 4096, "the message is too long")
}

// TestBadParametersAreNamed checks that the message of a refusal names the bad parameter.
func TestBadParametersAreNamed(t *testing.T) {
	e := newEnv(t, &apiserver.Options{})
	for _, parameter := range []string{
		"limit=x", "limit=-1", "limit=1&limit=1", "watch=x", "pretty=x", "includeObject=x", "timeoutSeconds=x&watch=1", "timeoutSeconds=-1&watch=1",
		"allowWatchBookmarks=x&watch=1", "sendInitialEvents=x&watch=1", "sendInitialEvents=true", "labelSelector=a&labelSelector=a",
		"fieldSelector=a=b&fieldSelector=a=b", "continue=a&continue=a", "resourceVersion=1&resourceVersion=1", "resourceVersionMatch=Exact",
	} {
		a := e.do("GET", "/api/v1/namespaces?"+parameter, "")
		name, _, _ := strings.Cut(parameter, "=")
		require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, a.Code, parameter)
		require.Contains(t, a.text("message"), name)
	}
}
