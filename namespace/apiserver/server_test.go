package apiserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

func TestUsers(t *testing.T) {
	var asked []authorization.Attributes
	e := newEnv(t, &apiserver.Options{
		Authenticate: func(r *http.Request) (authorization.User, error) {
			if r.Header.Get("Authorization") == "" {
				return authorization.User{}, errors.New("secret reason")
			}
			return authorization.User{Name: r.Header.Get("Authorization")}, nil
		},
		Authorizer: authorizer(func(a authorization.Attributes) (authorization.Decision, error) {
			asked = append(asked, a)
			if a.User.Name == "broken" {
				return authorization.Decision{Allowed: true}, errors.New("no answer")
			}
			return authorization.Decision{Allowed: a.User.Name == "admin", Reason: "because"}, nil
		}),
	})
	a := e.do("GET", all, "")
	a.status(http.StatusUnauthorized, `{"reason":"Unauthorized","message":"Unauthorized"}`)
	require.NotEmpty(t, a.Header.Get("WWW-Authenticate"))
	e.must(http.StatusCreated, "POST", all, `{"metadata":{"name":"x"}}`, "Authorization", "admin")
	asked = nil
	e.do("GET", maps+"/a", "", "Authorization", "eve").status(http.StatusForbidden, `{"reason":"Forbidden",
		"message":"configmaps \"a\" is forbidden: User \"eve\" cannot get resource \"configmaps\" in API group \"\" in the namespace \"x\": because",
		"details":{"name":"a","kind":"configmaps"}}`)
	require.Equal(t, []authorization.Attributes{{
		User: authorization.User{Name: "eve"}, Verb: "get", Version: "v1", Resource: "configmaps", Namespace: "x", Name: "a", Path: maps + "/a",
	}}, asked)
	// The refusal is the same for a missing object.
	none := e.do("GET", "/api/v1/namespaces/none/configmaps/a", "", "Authorization", "eve")
	require.Equal(t, strings.ReplaceAll(e.do("GET", maps+"/a", "", "Authorization", "eve").Body, `namespace \"x\"`, `namespace \"none\"`), none.Body)
	e.must(http.StatusForbidden, "GET", "/api/v1/unknown", "", "Authorization", "eve")
	e.must(http.StatusForbidden, "GET", "/version", "", "Authorization", "eve")
	e.must(http.StatusForbidden, "GET", x, "", "Authorization", "broken")
}

type authorizer func(authorization.Attributes) (authorization.Decision, error)

func (f authorizer) Authorize(_ context.Context, a authorization.Attributes) (authorization.Decision, error) {
	return f(a)
}

// TestAdmissionSeesTheUser checks that an admission plugin gets the user from the context.
func TestAdmissionSeesTheUser(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	e := newEnvOver(t, s, &apiserver.Options{
		Authenticate: func(r *http.Request) (authorization.User, error) {
			return authorization.User{Name: r.Header.Get("Authorization")}, nil
		},
	}, admission(func(ctx context.Context, w *registry.Write) error {
		if u, ok := authorization.UserFrom(ctx); !ok || u.Name != "admin" {
			return fmt.Errorf("not you, %s", u.Name)
		}
		return nil
	}))
	e.must(http.StatusCreated, "POST", all, `{"metadata":{"name":"x"}}`, "Authorization", "admin")
	e.do("POST", maps, `{"metadata":{"name":"a"}}`, "Authorization", "eve").status(http.StatusForbidden, `{"reason":"Forbidden",
		"message":"configmaps \"a\" is forbidden: not you, eve","details":{"name":"a","kind":"configmaps"}}`)
	e.do("POST", all, `{"metadata":{"name":"y"}}`).status(http.StatusForbidden, `{"reason":"Forbidden",
		"message":"namespaces \"y\" is forbidden: not you, system:anonymous","details":{"name":"y","kind":"namespaces"}}`)
}

type admission func(context.Context, *registry.Write) error

func (f admission) Admit(ctx context.Context, w *registry.Write) error { return f(ctx, w) }

// TestKindsValidate checks that Kind.Validate can refuse creates and updates.
func TestKindsValidate(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	k := kinds.Custom(registry.Type{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true})
	k.Validate = func(old, updated *registry.Object) []namespace.Violation {
		if old != nil && string(old.Fields["size"]) != string(updated.Fields["size"]) {
			return []namespace.Violation{{Type: namespace.FieldInvalid, Field: "size", Message: "Invalid value: field is immutable"}}
		}
		if updated.Fields["size"] == nil {
			return []namespace.Violation{{Type: namespace.FieldRequired, Field: "size", Message: "Required value"}}
		}
		return nil
	}
	r, err := registry.New(s, &registry.Options{Types: []registry.Type{k.Type}})
	require.NoError(t, err)
	server, err := apiserver.New(r, []kinds.Kind{k}, nil)
	require.NoError(t, err)
	e := &env{t: t, store: s, registry: r, server: server}
	e.namespace("x")
	e.do("POST", widgets, `{"metadata":{"name":"a"}}`).status(http.StatusUnprocessableEntity, `{"reason":"Invalid",
		"message":"Widget.example.com \"a\" is invalid: size: Required value","details":{"name":"a","group":"example.com","kind":"Widget",
		"causes":[{"reason":"FieldValueRequired","message":"Required value","field":"size"}]}}`)
	e.must(http.StatusCreated, "POST", widgets, `{"metadata":{"name":"a"},"size":1}`)
	e.must(http.StatusUnprocessableEntity, "PUT", widgets+"/a", `{"metadata":{"name":"a"},"size":2}`)
	e.must(http.StatusOK, "PUT", widgets+"/a", `{"metadata":{"name":"a","labels":{"a":"b"}},"size":1}`)
}

// TestWritesOnNoConditionAreMadeOnWhatTheySaw changes the object between the validation and the
// commit of a PUT and a PATCH without a resourceVersion. The server validates them again,
// against the new object.
func TestWritesOnNoConditionAreMadeOnWhatTheySaw(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	k := kinds.Custom(registry.Type{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true})
	r, err := registry.New(s, &registry.Options{Types: []registry.Type{k.Type}})
	require.NoError(t, err)
	content, err := r.Content(k.Name())
	require.NoError(t, err)
	var seen []string // the sizes of the replaced objects
	var meddle int
	k.Validate = func(old, _ *registry.Object) []namespace.Violation {
		if old == nil {
			return nil
		}
		seen = append(seen, string(old.Fields["size"]))
		if meddle > 0 {
			meddle--
			_, err := content.Update(t.Context(), "x", registry.Object{
				Meta: namespace.Meta{Name: "a"}, Fields: map[string]json.RawMessage{"size": json.RawMessage(strconv.Itoa(100 + meddle))},
			})
			require.NoError(t, err)
		}
		return nil
	}
	server, err := apiserver.New(r, []kinds.Kind{k}, nil)
	require.NoError(t, err)
	e := &env{t: t, store: s, registry: r, server: server}
	e.namespace("x")
	e.must(http.StatusCreated, "POST", widgets, `{"metadata":{"name":"a"},"size":1}`)

	meddle = 2
	e.must(http.StatusOK, "PUT", widgets+"/a", `{"metadata":{"name":"a"},"size":2}`)
	require.Equal(t, []string{"1", "101", "100"}, seen)

	seen, meddle = nil, 4
	a := e.must(http.StatusOK, "PATCH", widgets+"/a", `{"spec":{"b":1}}`, "Content-Type", mergePatch)
	require.Equal(t, []string{"2", "103", "102", "101", "100"}, seen)
	require.EqualValues(t, 100, a.get("size"))

	seen, meddle = nil, 5 // a patch has five attempts
	e.must(http.StatusConflict, "PATCH", widgets+"/a", `{"spec":{"b":2}}`, "Content-Type", mergePatch)
	require.Len(t, seen, 5)

	version := e.must(http.StatusOK, "PUT", widgets+"/a", `{"metadata":{"name":"a"},"size":2}`).text("metadata", "resourceVersion")
	seen, meddle = nil, 1 // with a resourceVersion, one attempt
	e.must(http.StatusConflict, "PUT", widgets+"/a", `{"metadata":{"name":"a","resourceVersion":"`+version+`"},"size":3}`)
	require.Len(t, seen, 1)
}

func TestSystemPaths(t *testing.T) { synctest.Test(t, systemPaths) }

func systemPaths(t *testing.T) {
	var unready error
	e := newEnv(t, &apiserver.Options{Ready: func(context.Context) error { return unready }})
	for _, probe := range []string{"healthz", "livez", "readyz"} {
		require.Equal(t, "ok", e.must(http.StatusOK, "GET", "/"+probe, "").Body)
		require.Contains(t, e.must(http.StatusOK, "GET", "/"+probe+"?verbose", "").Body, probe+" check passed")
		e.must(http.StatusMethodNotAllowed, "POST", "/"+probe, "")
	}
	unready = errors.New("the password is wrong")
	e.must(http.StatusOK, "GET", "/readyz", "") // the last result is cached for a second
	time.Sleep(time.Second)
	a := e.must(http.StatusInternalServerError, "GET", "/readyz", "")
	require.Contains(t, a.Body, "[-]ready failed")
	require.NotContains(t, a.Body, "password")
	e.must(http.StatusOK, "GET", "/livez", "")
	for _, path := range []string{"/api", "/apis", "/api/v1", "/apis/example.com", "/apis/example.com/v1", "/version", "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"} {
		e.must(http.StatusOK, "GET", path, "")
		require.Equal(t, "GET, HEAD", e.must(http.StatusMethodNotAllowed, "DELETE", path, "").Header.Get("Allow"))
	}
	require.Equal(t, "v1.36.0+nslifecycle", e.must(http.StatusOK, "GET", "/version", "").text("gitVersion"))
	for _, path := range []string{"/", "/api/v2", "/apis/none", "/healthz/etcd", "/openapi", "/metrics"} {
		e.do("GET", path, "").status(http.StatusNotFound, `{"reason":"NotFound","message":"the server could not find the requested resource","details":{}}`)
	}
}

// TestTimeout checks that a request ends with 504 if the store does not answer.
func TestTimeout(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	e := newEnvOver(t, stuck{s}, &apiserver.Options{Limits: apiserver.Limits{Timeout: time.Millisecond}})
	e.do("GET", x, "").status(http.StatusGatewayTimeout, `{"reason":"Timeout",
		"message":"Timeout: request did not complete within the allotted timeout","details":{"retryAfterSeconds":1}}`)
}

// stuck is a store whose Get blocks until the context ends.
type stuck struct{ store.Store }

func (s stuck) Get(ctx context.Context, _ string) (store.Entry, error) {
	<-ctx.Done()
	return store.Entry{}, context.Cause(ctx)
}

// TestCorruptEntry checks that requests for a corrupt entry are answered 500. Only the log has
// the details.
func TestCorruptEntry(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	r, err := registry.New(s, nil)
	require.NoError(t, err)
	var log bytes.Buffer
	server, err := apiserver.New(r, nil, &apiserver.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	_, err = s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("/registry/namespaces/x", []byte("{"))}})
	require.NoError(t, err)
	e := &env{t: t, store: s, registry: r, server: server}
	for _, request := range [][3]string{{"GET", x, ""}, {"GET", all, ""}, {"PUT", x, `{"metadata":{"name":"x"}}`}, {"DELETE", x, ""}} {
		log.Reset()
		a := e.must(http.StatusInternalServerError, request[0], request[1], request[2], "Accept", "application/json;pretty=1")
		require.Equal(t, "InternalError", a.text("reason"), request)
		require.Contains(t, log.String(), "is damaged", request)
		require.NotContains(t, a.Body, "registry", "what the store says is for the log")
	}
}

// TestBadInput checks that New refuses invalid kinds and options.
func TestBadInput(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	widget := registry.Type{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true}
	watch := registry.Type{Version: "v1", Resource: "watch", Kind: "Watch", Namespaced: true}
	r, err := registry.New(s, &registry.Options{Types: []registry.Type{widget, watch}})
	require.NoError(t, err)
	other := widget
	other.Namespaced = false
	for name, make := range map[string]func() (*apiserver.Server, error){
		"no registry":     func() (*apiserver.Server, error) { return apiserver.New(nil, nil, nil) },
		"undeclared kind": func() (*apiserver.Server, error) { return apiserver.New(r, []kinds.Kind{kinds.Secrets()}, nil) },
		"another scope":   func() (*apiserver.Server, error) { return apiserver.New(r, []kinds.Kind{kinds.Custom(other)}, nil) },
		"kind twice": func() (*apiserver.Server, error) {
			return apiserver.New(r, []kinds.Kind{kinds.Custom(widget), kinds.Custom(widget)}, nil)
		},
		"kind named watch": func() (*apiserver.Server, error) { return apiserver.New(r, []kinds.Kind{kinds.Custom(watch)}, nil) },
		"negative page": func() (*apiserver.Server, error) {
			return apiserver.New(r, nil, &apiserver.Options{Limits: apiserver.Limits{Page: -1}})
		},
		"negative body": func() (*apiserver.Server, error) {
			return apiserver.New(r, nil, &apiserver.Options{Limits: apiserver.Limits{Body: -1}})
		},
		"negative duration": func() (*apiserver.Server, error) {
			return apiserver.New(r, nil, &apiserver.Options{Limits: apiserver.Limits{Wait: -1}})
		},
	} {
		server, err := make()
		require.Error(t, err, name)
		require.Nil(t, server, name)
	}
	server, err := apiserver.New(r, []kinds.Kind{kinds.Namespaces(), kinds.Custom(widget)}, nil)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	server.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost"+all, nil))
	require.Equal(t, http.StatusOK, w.Code)
}
