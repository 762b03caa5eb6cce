package apiserver_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	all  = "/api/v1/namespaces"
	x    = "/api/v1/namespaces/x"
	text = "text/plain"
	yaml = "application/yaml"
)

// TestWire_RequestsOnANamespace covers the rows of the table "Requests on a namespace" of the wire
// behaviour, and the table of the Namespace API in the design proposal.
func TestWire_RequestsOnANamespace(t *testing.T) {
	t.Run("create", func(t *testing.T) {
		e := newEnv(t, nil)
		a := e.must(http.StatusCreated, "POST", all, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x","uid":"mine",
			"creationTimestamp":"2001-01-01T00:00:00Z","labels":{"a":"b"}},"spec":{"finalizers":["example.com/a"]},"status":{"phase":"Terminating"}}`)
		require.Equal(t, "Active", a.text("status", "phase"))
		require.Equal(t, []any{"example.com/a", "kubernetes"}, a.get("spec", "finalizers"))
		require.Equal(t, map[string]any{"a": "b", "kubernetes.io/metadata.name": "x"}, a.get("metadata", "labels"))
		require.NotEqual(t, "mine", a.text("metadata", "uid"))
		require.NotContains(t, a.Body, "2001")
		require.Equal(t, a.Body, e.must(http.StatusOK, "GET", x, "").Body)
	})
	t.Run("create, name generated", func(t *testing.T) {
		e := newEnv(t, nil)
		a := e.must(http.StatusCreated, "POST", all+"/", `{"metadata":{"generateName":"x-"}}`)
		require.Regexp(t, `^x-.{5}$`, a.text("metadata", "name"))
		e.do("POST", all, `{"metadata":{}}`).status(http.StatusUnprocessableEntity, `{"reason":"Invalid",
			"message":"Namespace \"\" is invalid: metadata.name: Required value: name or generateName is required",
			"details":{"kind":"Namespace","causes":[{"reason":"FieldValueRequired","message":"Required value: name or generateName is required","field":"metadata.name"}]}}`)
	})
	t.Run("create, name taken", func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		e.do("POST", all, `{"metadata":{"name":"x"}}`).status(http.StatusConflict, `{"reason":"AlreadyExists",
			"message":"namespaces \"x\" already exists","details":{"name":"x","kind":"namespaces"}}`)
		e.must(http.StatusOK, "DELETE", x, "")
		e.do("POST", all, `{"metadata":{"name":"x"}}`).status(http.StatusConflict, `{"reason":"AlreadyExists",
			"message":"object is being deleted: namespaces \"x\" already exists","details":{"name":"x","kind":"namespaces"}}`)
	})
	t.Run("PUT", func(t *testing.T) {
		e := newEnv(t, nil)
		e.do("PUT", x, `{"metadata":{"name":"x"}}`).status(http.StatusNotFound, `{"reason":"NotFound",
			"message":"namespaces \"x\" not found","details":{"name":"x","kind":"namespaces"}}`)
		e.namespace("x")
		a := e.must(http.StatusOK, "PUT", x, `{"metadata":{"name":"x","labels":{"a":"b"}},"spec":{"finalizers":["example.com/new"]},"status":{"phase":"Terminating"}}`)
		require.Equal(t, []any{"kubernetes"}, a.get("spec", "finalizers"))
		require.Equal(t, "Active", a.text("status", "phase"))
		version := a.text("metadata", "resourceVersion")
		a = e.must(http.StatusOK, "PUT", x, `{"metadata":{"name":"x","resourceVersion":"`+version+`","labels":{"a":"c"}}}`)
		require.NotEqual(t, version, a.text("metadata", "resourceVersion"))
		e.do("PUT", x, `{"metadata":{"name":"x","resourceVersion":"`+version+`"}}`).status(http.StatusConflict, `{"reason":"Conflict",
			"message":"Operation cannot be fulfilled on namespaces \"x\": the object has been modified; please apply your changes to the latest version and try again",
			"details":{"name":"x","kind":"namespaces"}}`)
	})
	t.Run("PUT that changes nothing", func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		body := e.must(http.StatusOK, "GET", x, "").Body
		require.Equal(t, body, e.must(http.StatusOK, "PUT", x, body).Body)
	})
	t.Run("PUT of another name", func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		e.do("PUT", x, `{"metadata":{"name":"y"}}`).status(http.StatusBadRequest, `{"reason":"BadRequest",
			"message":"the name of the object (y) does not match the name on the URL (x)"}`)
		e.do("PUT", x, `{"metadata":{}}`).status(http.StatusBadRequest, `{"reason":"BadRequest",
			"message":"the name of the object (x based on URL) was undeterminable: name must be provided"}`)
		e.do("POST", all, `{"metadata":{"name":"z","namespace":"x"}}`).status(http.StatusBadRequest, `{"reason":"BadRequest",
			"message":"the namespace of the provided object does not match the namespace sent on the request"}`)
	})
	t.Run("DELETE", func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		a := e.must(http.StatusOK, "DELETE", x, "")
		require.Equal(t, "Namespace", a.text("kind"))
		require.Equal(t, "Terminating", a.text("status", "phase"))
		require.NotEmpty(t, a.text("metadata", "deletionTimestamp"))
		require.Equal(t, a.Body, e.must(http.StatusOK, "DELETE", x, "").Body)
		e.do("DELETE", all+"/none", "").status(http.StatusNotFound, `{"reason":"NotFound",
			"message":"namespaces \"none\" not found","details":{"name":"none","kind":"namespaces"}}`)
	})
	t.Run("DELETE with preconditions", func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		a := e.must(http.StatusOK, "GET", x, "")
		uid, version := a.text("metadata", "uid"), a.text("metadata", "resourceVersion")
		for _, send := range []func() answer{
			func() answer {
				return e.do("DELETE", x, `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"A"}}`)
			},
			func() answer { return e.do("DELETE", x, "preconditions:\n  uid: A\n", "Content-Type", yaml) },
			func() answer { return e.do("DELETE", x+"?uid=A", "") },
			func() answer { return e.do("DELETE", x+"?uid=A", `{"kind":"DeleteOptions"}`) },
		} {
			send().status(http.StatusConflict, `{"reason":"Conflict",
				"message":"Operation cannot be fulfilled on namespaces \"x\": Precondition failed: UID in precondition: A, UID in object meta: `+uid+`",
				"details":{"name":"x","kind":"namespaces"}}`)
		}
		e.must(http.StatusUnprocessableEntity, "DELETE", x+"?propagationPolicy=Everything", `{"kind":"DeleteOptions"}`)
		e.must(http.StatusUnprocessableEntity, "DELETE", x+"?orphanDependents=true", `{"propagationPolicy":"Orphan"}`)
		e.do("DELETE", x, `{"preconditions":{"resourceVersion":"7777"}}`).status(http.StatusConflict, `{"reason":"Conflict",
			"message":"Operation cannot be fulfilled on namespaces \"x\": Precondition failed: ResourceVersion in precondition: 7777, ResourceVersion in object meta: `+version+`",
			"details":{"name":"x","kind":"namespaces"}}`)
		require.Equal(t, "Active", e.must(http.StatusOK, "GET", x, "").text("status", "phase"))
		e.must(http.StatusOK, "DELETE", x, `{"preconditions":{"uid":"`+uid+`","resourceVersion":"`+version+`"},"propagationPolicy":"Foreground"}`)
	})
	t.Run("DELETE of an immortal name", func(t *testing.T) {
		e := newEnv(t, nil)
		for _, name := range []string{"default", "kube-system", "kube-public"} {
			e.namespace(name)
			e.do("DELETE", all+"/"+name, "").status(http.StatusForbidden, `{"reason":"Forbidden",
				"message":"namespaces \"`+name+`\" is forbidden: this namespace may not be deleted","details":{"name":"`+name+`","kind":"namespaces"}}`)
		}
	})
	for _, method := range []string{"PUT", "POST"} {
		t.Run(method+" finalize", func(t *testing.T) {
			e := newEnv(t, nil)
			e.namespace("x")
			a := e.must(http.StatusOK, method, x+"/finalize", `{"metadata":{"name":"x","labels":{"no":"no"}},"spec":{"finalizers":["kubernetes","example.com/a"]}}`)
			require.Equal(t, []any{"kubernetes", "example.com/a"}, a.get("spec", "finalizers"))
			require.NotContains(t, a.Body, `"no"`)
			e.must(http.StatusOK, "DELETE", x, "")
			a = e.must(http.StatusOK, method, x+"/finalize", `{"metadata":{"name":"x"},"spec":{}}`)
			require.Equal(t, "Terminating", a.text("status", "phase"))
			e.must(http.StatusNotFound, "GET", x, "")
		})
	}
	t.Run("finalize with a name that is not qualified", func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		a := e.do("PUT", x+"/finalize", `{"metadata":{"name":"x"},"spec":{"finalizers":["kubernetes","short"]}}`)
		require.Equal(t, http.StatusUnprocessableEntity, a.Code)
		require.Contains(t, a.text("message"), "name is neither a standard finalizer name nor is it fully qualified")
		require.Contains(t, a.Body, `"field":"spec.finalizers[1]"`)
		a = e.do("POST", all, `{"metadata":{"name":"y"},"spec":{"finalizers":["short"]}}`)
		require.Equal(t, http.StatusUnprocessableEntity, a.Code)
		require.Contains(t, a.Body, `"field":"spec.finalizers"`)
	})
	t.Run("PUT status", func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		a := e.must(http.StatusOK, "PUT", x+"/status", `{"metadata":{"name":"x","labels":{"no":"no"}},"status":{"phase":"Active","conditions":[{"type":"T","status":"True"}]}}`)
		require.NotContains(t, a.Body, `"no"`)
		require.Contains(t, a.Body, `"type":"T"`)
		require.Equal(t, a.Body, e.must(http.StatusOK, "GET", x+"/status", "").Body)
		e.do("PUT", x+"/status", `{"metadata":{"name":"x"},"status":{"phase":"Terminating"}}`).status(http.StatusUnprocessableEntity, `{"reason":"Invalid",
			"message":"Namespace \"x\" is invalid: status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `+"`deletionTimestamp`"+` is empty",
			"details":{"name":"x","kind":"Namespace","causes":[{"reason":"FieldValueInvalid","field":"status.Phase",
			"message":"Invalid value: \"Terminating\": may only be 'Active' if `+"`deletionTimestamp`"+` is empty"}]}}`)
	})
	t.Run("new metadata.finalizers while terminating", func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		e.must(http.StatusOK, "DELETE", x, "")
		e.do("PUT", x, `{"metadata":{"name":"x","finalizers":["example.com/late"]}}`).status(http.StatusUnprocessableEntity, `{"reason":"Invalid",
			"message":"Namespace \"x\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/late\"}",
			"details":{"name":"x","kind":"Namespace","causes":[{"reason":"FieldValueForbidden","field":"metadata.finalizers",
			"message":"Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/late\"}"}]}}`)
	})
	t.Run("selectors", func(t *testing.T) {
		e := newEnv(t, nil)
		e.must(http.StatusCreated, "POST", all, `{"metadata":{"name":"x","labels":{"a":"b"}}}`)
		e.namespace("y")
		e.must(http.StatusOK, "DELETE", all+"/y", "")
		for query, want := range map[string][]any{
			"":                                        {"x", "y"},
			"?labelSelector=a%3Db":                    {"x"},
			"?labelSelector=a+notin+(b)":              {"y"},
			"?fieldSelector=metadata.name%3Dy":        {"y"},
			"?fieldSelector=name%3Dx":                 {"x"},
			"?fieldSelector=status.phase!%3DActive":   {"y"},
			"?fieldSelector=status.phase%3DActive":    {"x"},
			"?labelSelector=a&fieldSelector=name%3Dy": nil,
		} {
			require.Equal(t, want, names(e.must(http.StatusOK, "GET", all+query, "")), query)
		}
		e.do("GET", all+"?fieldSelector=spec.x%3Dy", "").status(http.StatusBadRequest, `{"reason":"BadRequest","message":"field label not supported: spec.x"}`)
	})
	t.Run("deletecollection", func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		a := e.do("DELETE", all, "")
		a.status(http.StatusMethodNotAllowed, `{"reason":"MethodNotAllowed","message":"the server does not allow this method on the requested resource","details":{}}`)
		require.Equal(t, "GET, HEAD, POST", a.Header.Get("Allow"))
		require.Equal(t, "Active", e.must(http.StatusOK, "GET", x, "").text("status", "phase"))
	})
	t.Run("DELETE without spec.finalizers removes it at once", func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		e.must(http.StatusOK, "PUT", x+"/finalize", `{"metadata":{"name":"x"}}`)
		require.Equal(t, "Namespace", e.must(http.StatusOK, "DELETE", x, "").text("kind"))
		e.must(http.StatusNotFound, "GET", x, "")
	})
	t.Run("the name label cannot be changed", func(t *testing.T) {
		e := newEnv(t, nil)
		e.namespace("x")
		a := e.must(http.StatusOK, "PUT", x, `{"metadata":{"name":"x","labels":{"kubernetes.io/metadata.name":"other"}}}`)
		require.Equal(t, "x", a.text("metadata", "labels", "kubernetes.io/metadata.name"))
	})
}

// names returns the names of the items of a list.
func names(a answer) []any {
	a.t.Helper()
	items, ok := a.get("items").([]any)
	require.True(a.t, ok, a.Body)
	var list []any
	for _, item := range items {
		list = append(list, item.(map[string]any)["metadata"].(map[string]any)["name"])
	}
	return list
}
