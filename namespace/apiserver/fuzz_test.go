package apiserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// FuzzRequests sends raw requests to a server with a namespace and content. The server must
// not panic. Each answer must be JSON with a kind, and a Status if the request failed. The
// stored data must pass registrytest.Check.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		post(all, `{"metadata":{"name":"y"},"spec":{"finalizers":["example.com/a"]}}`),
		post(all, `{"metadata":{"generateName":"y-"}}`),
		post(maps, `{"metadata":{"name":"b","finalizers":["example.com/a"]},"data":{"k":"v"}}`),
		post(widgets+"/?fieldManager=m&dryRun=All", `{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"b"},"spec":{"a":[1,{"b":null}]}}`),
		raw("PUT", x, `{"metadata":{"name":"x","labels":{"a":"b"}}}`),
		raw("PUT", x+"/status", `{"metadata":{"name":"x"},"status":{"phase":"Active","conditions":[{"type":"T","status":"True"}]}}`),
		raw("PUT", x+"/finalize", `{"metadata":{"name":"x"},"spec":{"finalizers":[]}}`),
		raw("POST", x+"/finalize", "metadata: {name: x}\n", "Content-Type: application/yaml"),
		raw("PUT", widgets+"/a/status", `{"metadata":{"name":"a"},"status":{}}`),
		raw("PATCH", x, `{"metadata":{"annotations":{"a":"b"}}}`, "Content-Type: "+mergePatch),
		raw("PATCH", maps+"/a", `[{"op":"add","path":"/data/x","value":"y"}]`, "Content-Type: "+jsonPatch),
		raw("PATCH", maps+"/a", `{"data":{"$patch":"replace"}}`, "Content-Type: "+strategicPatch),
		raw("PATCH", maps+"/new?fieldManager=m&force=1", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\n", "Content-Type: "+applyPatch),
		raw("DELETE", x, `{"kind":"DeleteOptions","preconditions":{"uid":"u"},"dryRun":["All"]}`),
		raw("DELETE", x, ""),
		raw("DELETE", maps+"?labelSelector=a+in+(b,c)&fieldSelector=metadata.name!%3Da", ""),
		raw("DELETE", maps+"/a?propagationPolicy=Orphan&gracePeriodSeconds=0", ""),
		raw("GET", all+"?limit=1&resourceVersion=1&resourceVersionMatch=Exact", "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"),
		raw("GET", maps+"?continue=abc", "", "Accept: application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
		raw("GET", "/api/v1/watch/namespaces/x/configmaps?timeoutSeconds=1&allowWatchBookmarks=true", ""),
		raw("GET", "/apis/example.com/v1/list/widgets", ""),
		raw("GET", "/api", ""), raw("GET", "/openapi/v3/api/v1", ""), raw("GET", "/readyz?verbose", ""),
		raw("POST", all, "k8s\x00\n\x0f\n\x02v1\x12\tNamespace\x12\x07\n\x05\n\x01y\x12\x00\x1a\x00\"\x00", "Content-Type: application/vnd.kubernetes.protobuf"),
	} {
		f.Add([]byte(seed))
	}
	s, err := memory.New(nil)
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, s.Close()) })
	shared := newEnvOver(f, s, &apiserver.Options{Limits: apiserver.Limits{Wait: time.Millisecond, WatchTimeout: time.Millisecond}})
	f.Fuzz(func(t *testing.T, request []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
		if err != nil || r.URL.Path == "" {
			return // net/http refuses such a request itself
		}
		e := &env{t: t, store: shared.store, registry: shared.registry, server: shared.server}
		e.wipe()
		e.namespace("x")
		e.must(http.StatusCreated, "POST", maps, `{"metadata":{"name":"a","labels":{"a":"b"}},"data":{"k":"v"}}`)
		e.must(http.StatusCreated, "POST", widgets, `{"metadata":{"name":"a"},"spec":{"n":1}}`)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // ends watches
		defer cancel()
		r.RemoteAddr = "192.0.2.1:1234"
		w := httptest.NewRecorder()
		e.server.ServeHTTP(w, r.WithContext(ctx))
		checkAnswer(t, r, w)
		require.NoError(t, registrytest.Check(context.WithoutCancel(t.Context()), e.store, "registry"))
	})
}

// wipe deletes all entries of the store directly, without the registry.
func (e *env) wipe() {
	e.t.Helper()
	var txn store.Txn
	for _, entry := range e.contents() {
		txn.Do = append(txn.Do, store.Delete(entry.Key))
	}
	_, err := e.store.Commit(context.Background(), txn)
	require.NoError(e.t, err)
}

// checkAnswer checks that clients can decode the answer, and that it is neither an internal
// error nor a redirect.
func checkAnswer(t *testing.T, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code == http.StatusInternalServerError {
		t.Errorf("%s %s: %s", r.Method, r.URL, w.Body)
	}
	if w.Header().Get("Location") != "" {
		t.Errorf("%s %s: sent to %s", r.Method, r.URL, w.Header().Get("Location"))
	}
	if w.Header().Get("Content-Type") != "application/json" || w.Body.Len() == 0 || w.Code == http.StatusNotModified {
		return
	}
	var document struct {
		Kind, Type, Swagger, OpenAPI, GitVersion string
		Paths                                    map[string]any
		Code                                     int
		Object                                   *struct{ Kind string }
	}
	decoder := json.NewDecoder(w.Body) // decodes the first event if the answer is a watch
	if err := decoder.Decode(&document); err != nil {
		t.Fatalf("%s %s: %d is no JSON: %v", r.Method, r.URL, w.Code, err)
	}
	switch {
	case w.Code >= 300:
		require.Equal(t, "Status", document.Kind)
		require.Equal(t, w.Code, document.Code)
	case document.Object != nil:
		require.NotEmpty(t, document.Type)
		require.NotEmpty(t, document.Object.Kind)
	case !strings.HasPrefix(r.URL.Path, "/openapi") && !strings.HasPrefix(r.URL.Path, "/version"):
		require.NotEmpty(t, document.Kind, "%s %s", r.Method, r.URL)
	}
}
