package apiserver_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/quota"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

const (
	maps    = "/api/v1/namespaces/x/configmaps"
	widgets = "/apis/example.com/v1/namespaces/x/widgets"
)

// TestWire_RequestsOnContent covers the rows of the table "Requests on content" of the wire
// behaviour.
func TestWire_RequestsOnContent(t *testing.T) {
	t.Run("create in a terminating namespace", func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		e.must(http.StatusOK, "DELETE", x, "")
		e.do("POST", maps, `{"metadata":{"name":"a"}}`).status(http.StatusForbidden, `{"reason":"Forbidden",
			"message":"configmaps \"a\" is forbidden: unable to create new content in namespace x because it is being terminated",
			"details":{"name":"a","kind":"configmaps","causes":[{"reason":"NamespaceTerminating","field":"metadata.namespace","message":"namespace x is being terminated"}]}}`)
		e.do("POST", widgets, `{"metadata":{"name":"a"}}`).status(http.StatusForbidden, `{"reason":"Forbidden",
			"message":"widgets.example.com \"a\" is forbidden: unable to create new content in namespace x because it is being terminated",
			"details":{"name":"a","group":"example.com","kind":"widgets","causes":[{"reason":"NamespaceTerminating","field":"metadata.namespace","message":"namespace x is being terminated"}]}}`)
	})
	t.Run("create in a missing namespace", func(t *testing.T) {
		e := newEnv(t, nil)
		e.do("POST", maps, `{"metadata":{"name":"a"}}`).status(http.StatusNotFound, `{"reason":"NotFound",
			"message":"namespaces \"x\" not found","details":{"name":"x","kind":"namespaces"}}`)
		require.Empty(t, names(e.must(http.StatusOK, "GET", maps, "")))
		e.do("GET", maps+"/a", "").status(http.StatusNotFound, `{"reason":"NotFound",
			"message":"configmaps \"a\" not found","details":{"name":"a","kind":"configmaps"}}`)
	})
	t.Run("metadata.namespace empty", func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		a := e.must(http.StatusCreated, "POST", maps, `{"metadata":{"name":"a"},"data":{"k":"v"}}`)
		require.Equal(t, "x", a.text("metadata", "namespace"))
		require.Equal(t, "ConfigMap", a.text("kind"))
		require.Equal(t, a.Body, e.must(http.StatusOK, "GET", maps+"/a", "").Body)
	})
	t.Run("metadata.namespace differs from the path", func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		e.namespace("y")
		want := `{"reason":"BadRequest","message":"the namespace of the provided object does not match the namespace sent on the request"}`
		e.do("POST", maps, `{"metadata":{"name":"a","namespace":"y"}}`).status(http.StatusBadRequest, want)
		e.must(http.StatusCreated, "POST", maps, `{"metadata":{"name":"a"}}`)
		e.do("PUT", maps+"/a", `{"metadata":{"name":"a","namespace":"y"}}`).status(http.StatusBadRequest, want)
	})
	t.Run("update and delete in a terminating namespace", func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		for _, name := range []string{"a", "b"} {
			e.must(http.StatusCreated, "POST", maps, `{"metadata":{"name":"`+name+`"}}`)
		}
		e.must(http.StatusOK, "DELETE", x, "")
		e.must(http.StatusOK, "PUT", maps+"/a", `{"metadata":{"name":"a"},"data":{"k":"v"}}`)
		e.must(http.StatusOK, "DELETE", maps+"/a", "")
		e.must(http.StatusOK, "DELETE", maps, "")
		require.Empty(t, names(e.must(http.StatusOK, "GET", maps, "")))
	})
	t.Run("delete", func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		uid := e.must(http.StatusCreated, "POST", widgets, `{"metadata":{"name":"a"}}`).text("metadata", "uid")
		e.do("DELETE", widgets+"/a", "").status(http.StatusOK, `{"status":"Success","details":{"name":"a","group":"example.com","kind":"widgets","uid":"`+uid+`"}}`)
		e.do("DELETE", widgets+"/a", "").status(http.StatusNotFound, `{"reason":"NotFound",
			"message":"widgets.example.com \"a\" not found","details":{"name":"a","group":"example.com","kind":"widgets"}}`)
		e.must(http.StatusCreated, "POST", widgets, `{"metadata":{"name":"a","finalizers":["example.com/hold"]}}`)
		a := e.must(http.StatusOK, "DELETE", widgets+"/a", "")
		require.Equal(t, "Widget", a.text("kind"))
		require.NotEmpty(t, a.text("metadata", "deletionTimestamp"))
		require.Equal(t, a.Body, e.must(http.StatusOK, "DELETE", widgets+"/a", "").Body)
		e.must(http.StatusOK, "PUT", widgets+"/a", `{"metadata":{"name":"a"}}`)
		e.must(http.StatusNotFound, "GET", widgets+"/a", "")
	})
	t.Run("delete of a collection", func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		for _, name := range []string{"a", "b", "c"} {
			e.must(http.StatusCreated, "POST", maps, `{"metadata":{"name":"`+name+`","labels":{"is":"`+name+`"}}}`)
		}
		e.do("DELETE", maps+"?labelSelector=is+in+(a,b)", "").status(http.StatusOK, `{"status":"Success","details":{"kind":"configmaps"}}`)
		require.Equal(t, []any{"c"}, names(e.must(http.StatusOK, "GET", maps, "")))
		e.must(http.StatusOK, "DELETE", maps+"?dryRun=All", "")
		e.must(http.StatusBadRequest, "DELETE", maps, `{"preconditions":{"uid":"A"}}`)
		require.Equal(t, []any{"c"}, names(e.must(http.StatusOK, "GET", maps, "")))
	})
	t.Run("a status that is a sub-resource", func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		a := e.must(http.StatusCreated, "POST", widgets, `{"metadata":{"name":"a"},"spec":{"n":1},"status":{"early":true}}`)
		require.NotContains(t, a.Body, "early")
		e.must(http.StatusOK, "PUT", widgets+"/a/status", `{"metadata":{"name":"a"},"spec":{"n":2},"status":{"ready":true}}`)
		a = e.must(http.StatusOK, "PUT", widgets+"/a", `{"metadata":{"name":"a"},"spec":{"n":3},"status":{"ready":false}}`)
		require.Equal(t, true, a.get("status", "ready"))
		require.Equal(t, float64(3), a.get("spec", "n"))
		require.Equal(t, a.Body, e.must(http.StatusOK, "GET", widgets+"/a/status", "").Body)
		e.must(http.StatusCreated, "POST", maps, `{"metadata":{"name":"a"}}`)
		e.must(http.StatusNotFound, "GET", maps+"/a/status", "")
		e.must(http.StatusNotFound, "PUT", maps+"/a/status", `{"metadata":{"name":"a"}}`)
		e.must(http.StatusNotFound, "GET", widgets+"/a/finalize", "")
	})
	t.Run("quota exceeded", func(t *testing.T) {
		s, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		link, err := quota.New()
		require.NoError(t, err)
		e := newEnvOver(t, s, nil, link)
		e.namespace("x")
		e.must(http.StatusCreated, "POST", "/api/v1/namespaces/x/resourcequotas", `{"metadata":{"name":"q"},"spec":{"hard":{"count/widgets.example.com":"1"}}}`)
		e.must(http.StatusCreated, "POST", widgets, `{"metadata":{"name":"a"}}`)
		e.do("POST", widgets, `{"metadata":{"name":"b"}}`).status(http.StatusForbidden, `{"reason":"Forbidden",
			"message":"widgets.example.com \"b\" is forbidden: exceeded quota: q, requested: count/widgets.example.com=1, used: count/widgets.example.com=1, limited: count/widgets.example.com=1",
			"details":{"name":"b","group":"example.com","kind":"widgets"}}`)
		e.must(http.StatusOK, "DELETE", widgets+"/a", "")
		e.must(http.StatusCreated, "POST", widgets, `{"metadata":{"name":"b"}}`)
	})
	t.Run("a resource type named finalize", func(t *testing.T) {
		s, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		_, err = registry.New(s, &registry.Options{Types: []registry.Type{{Version: "v1", Resource: "finalize", Kind: "Finalize", Namespaced: true}}})
		require.ErrorIs(t, err, namespace.ErrInvalid)
	})
	t.Run("cluster-scoped", func(t *testing.T) {
		e := newEnv(t, nil)
		const racks = "/apis/example.com/v1/racks"
		e.must(http.StatusCreated, "POST", racks, `{"metadata":{"name":"a"}}`)
		e.must(http.StatusOK, "GET", racks+"/a", "")
		require.Equal(t, []any{"a"}, names(e.must(http.StatusOK, "GET", racks, "")))
		e.must(http.StatusBadRequest, "POST", racks, `{"metadata":{"name":"b","namespace":"x"}}`)
		e.must(http.StatusNotFound, "GET", "/apis/example.com/v1/namespaces/x/racks", "")
		e.must(http.StatusNotFound, "GET", "/apis/example.com/v1/widgets/a", "")
		e.must(http.StatusOK, "DELETE", racks+"/a", "")
	})
}

// TestDesignDocument_RestAPI covers the paths in which the design proposal and Kubernetes differ.
func TestDesignDocument_RestAPI(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	e.namespace("y")
	e.must(http.StatusCreated, "POST", maps+"/", `{"metadata":{"name":"a"}}`)
	e.must(http.StatusCreated, "POST", "/api/v1/namespaces/y/configmaps/", `{"metadata":{"name":"b"}}`)
	e.must(http.StatusCreated, "POST", widgets+"/", `{"metadata":{"name":"w"}}`)
	require.Equal(t, []any{"a", "b"}, names(e.must(http.StatusOK, "GET", "/api/v1/list/configmaps", "")))
	require.Equal(t, []any{"a", "b"}, names(e.must(http.StatusOK, "GET", "/api/v1/configmaps", "")))
	require.Equal(t, []any{"w"}, names(e.must(http.StatusOK, "GET", "/apis/example.com/v1/list/widgets", "")))
	require.Equal(t, []any{"x", "y"}, names(e.must(http.StatusOK, "GET", "/api/v1/list/namespaces", "")))
	for _, target := range []string{"/api/v1/list/configmaps", "/api/v1/watch/configmaps", "/api/v1/configmaps"} {
		a := e.must(http.StatusMethodNotAllowed, "POST", target, `{"metadata":{"name":"c"}}`)
		require.Equal(t, "GET, HEAD", a.Header.Get("Allow"), target)
	}
}
