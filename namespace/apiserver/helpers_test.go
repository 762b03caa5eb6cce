package apiserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// served returns the kinds for the tests: built-in kinds, a custom kind with a status, and a
// cluster-scoped kind.
func served() []kinds.Kind {
	return []kinds.Kind{
		kinds.ConfigMaps(), kinds.Secrets(), kinds.ResourceQuotas(),
		kinds.Custom(registry.Type{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true, Status: true}),
		kinds.Custom(registry.Type{Group: "example.com", Version: "v1", Resource: "racks", Kind: "Rack"}),
	}
}

// env is a server with a registry on an in-memory store.
type env struct {
	t        testing.TB
	store    store.Store
	registry *registry.Registry
	server   *apiserver.Server
}

func newEnv(t testing.TB, o *apiserver.Options) *env {
	t.Helper()
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return newEnvOver(t, s, o)
}

// newEnvOver returns a server with a registry on s. When the test ends, it checks the
// stored data with registrytest.Check.
func newEnvOver(t testing.TB, s store.Store, o *apiserver.Options, admission ...registry.Admission) *env {
	t.Helper()
	list := served()
	types := make([]registry.Type, len(list))
	for i, k := range list {
		types[i] = k.Type
	}
	r, err := registry.New(s, &registry.Options{Types: types, Admission: admission})
	require.NoError(t, err)
	server, err := apiserver.New(r, list, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.NoError(t, r.Close())
		require.NoError(t, registrytest.Check(context.WithoutCancel(t.Context()), s, "registry"))
	})
	return &env{t: t, store: s, registry: r, server: server}
}

// answer is the recorded answer of a request.
type answer struct {
	t      testing.TB
	Code   int
	Header http.Header
	Body   string
}

// do sends a request. The headers are pairs of name and value.
func (e *env) do(method, target, body string, headers ...string) answer {
	e.t.Helper()
	r := httptest.NewRequestWithContext(context.WithoutCancel(e.t.Context()), method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return e.send(r)
}

func (e *env) send(r *http.Request) answer {
	e.t.Helper()
	r.Host = "localhost" // httptest sets example.com
	w := httptest.NewRecorder()
	e.server.ServeHTTP(w, r)
	return answer{t: e.t, Code: w.Code, Header: w.Result().Header, Body: w.Body.String()}
}

// must sends a request and fails the test unless the answer has the given code.
func (e *env) must(code int, method, target, body string, headers ...string) answer {
	e.t.Helper()
	a := e.do(method, target, body, headers...)
	require.Equal(e.t, code, a.Code, "%s %s: %s", method, target, a.Body)
	return a
}

func (e *env) namespace(name string) {
	e.t.Helper()
	e.must(http.StatusCreated, "POST", "/api/v1/namespaces", `{"metadata":{"name":"`+name+`"}}`)
}

// get returns the field of the answer at path, or "" if it is missing.
func (a answer) get(path ...string) any {
	a.t.Helper()
	var v any
	require.NoError(a.t, json.Unmarshal([]byte(a.Body), &v), a.Body)
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok || m[name] == nil {
			return ""
		}
		v = m[name]
	}
	return v
}

func (a answer) text(path ...string) string {
	a.t.Helper()
	s, ok := a.get(path...).(string)
	require.True(a.t, ok, "%v in %s", path, a.Body)
	return s
}

// status compares the answer with a Status. The caller omits from want the fields that all
// failures share: apiVersion, kind, metadata, code and status.
func (a answer) status(code int, want string) {
	a.t.Helper()
	require.Equal(a.t, code, a.Code, a.Body)
	var is, wanted map[string]any
	require.NoError(a.t, json.Unmarshal([]byte(a.Body), &is), a.Body)
	require.NoError(a.t, json.Unmarshal([]byte(want), &wanted), want)
	wanted["apiVersion"], wanted["kind"], wanted["metadata"] = "v1", "Status", map[string]any{}
	if code != http.StatusOK {
		wanted["code"], wanted["status"] = float64(code), "Failure"
	}
	if d := cmp.Diff(wanted, is); d != "" {
		a.t.Errorf("Status (-want +is):\n%s", d)
	}
}

// contents returns all entries of the store.
func (e *env) contents() []store.Entry {
	e.t.Helper()
	page, err := e.store.List(context.WithoutCancel(e.t.Context()), store.Query{Prefix: "/"})
	require.NoError(e.t, err)
	return page.Entries
}
