package apiserver_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubernetesprotobuf "k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/store"
)

// TestDryRun sends every kind of write with dryRun=All. The answer is the same as without it,
// and the store does not change.
func TestDryRun(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	e.must(http.StatusCreated, "POST", maps, `{"metadata":{"name":"a"}}`)
	e.must(http.StatusCreated, "POST", widgets, `{"metadata":{"name":"w"}}`)
	before := e.contents()
	for _, tt := range []struct {
		method, target, body string
		code                 int
		contains             string
	}{
		{"POST", all, `{"metadata":{"name":"y"}}`, http.StatusCreated, `"phase":"Active"`},
		{"POST", all, `{"metadata":{"name":"x"}}`, http.StatusConflict, "already exists"},
		{"PUT", x, `{"metadata":{"name":"x","labels":{"a":"b"}}}`, http.StatusOK, `"a":"b"`},
		{"PUT", x + "/status", `{"metadata":{"name":"x"},"status":{"conditions":[{"type":"T","status":"True"}]}}`, http.StatusOK, `"type":"T"`},
		{"PUT", x + "/finalize", `{"metadata":{"name":"x"},"spec":{"finalizers":["example.com/a"]}}`, http.StatusOK, "example.com/a"},
		{"DELETE", x, "", http.StatusOK, "Terminating"},
		{"POST", maps, `{"metadata":{"name":"b"}}`, http.StatusCreated, `"name":"b"`},
		{"PUT", maps + "/a", `{"metadata":{"name":"a"},"data":{"k":"v"}}`, http.StatusOK, `"k":"v"`},
		{"PUT", widgets + "/w/status", `{"metadata":{"name":"w"},"status":{"ok":true}}`, http.StatusOK, `"ok":true`},
		{"DELETE", maps + "/a", "", http.StatusOK, "Success"},
		{"DELETE", maps, "", http.StatusOK, "Success"},
	} {
		a := e.do(tt.method, tt.target+"?dryRun=All", tt.body)
		require.Equal(t, tt.code, a.Code, "%s %s: %s", tt.method, tt.target, a.Body)
		require.Contains(t, a.Body, tt.contains)
		require.Equal(t, before, e.contents(), "%s %s", tt.method, tt.target)
	}
	e.must(http.StatusOK, "DELETE", x, `{"kind":"DeleteOptions","dryRun":["All"]}`)
	e.must(http.StatusOK, "DELETE", x+"?dryRun=All", `{"kind":"DeleteOptions"}`)
	require.Equal(t, before, e.contents())
}

func TestListInPages(t *testing.T) {
	e := newEnv(t, &apiserver.Options{Limits: apiserver.Limits{Page: 4}})
	e.namespace("x")
	for i := range 10 {
		e.must(http.StatusCreated, "POST", maps, fmt.Sprintf(`{"metadata":{"name":"a%d"}}`, i))
	}
	require.Len(t, names(e.must(http.StatusOK, "GET", maps, "")), 10, "without a limit everything is answered")
	for _, limit := range []int{3, 100} {
		var got []any
		first := e.must(http.StatusOK, "GET", fmt.Sprintf("%s?limit=%d", maps, limit), "")
		require.Len(t, names(first), min(limit, 4))
		version := first.text("metadata", "resourceVersion")
		e.must(http.StatusCreated, "POST", maps, fmt.Sprintf(`{"metadata":{"name":"b%d"}}`, limit)) // created after the snapshot, so not in later pages
		for a := first; ; {
			require.Equal(t, version, a.text("metadata", "resourceVersion"))
			got = append(got, names(a)...)
			next := a.text("metadata", "continue")
			if next == "" {
				break
			}
			a = e.must(http.StatusOK, "GET", fmt.Sprintf("%s?limit=%d&continue=%s", maps, limit, url.QueryEscape(next)), "")
		}
		require.NotContains(t, got, fmt.Sprintf("b%d", limit))
		require.Subset(t, got, []any{"a0", "a9"})
	}
}

// TestEncodingsOfBodies creates namespaces from bodies in every supported encoding.
func TestEncodingsOfBodies(t *testing.T) {
	e := newEnv(t, nil)
	var protobuf bytes.Buffer
	require.NoError(t, kubernetesprotobuf.NewSerializer(nil, nil).Encode(&corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"a": "b"}},
	}, &protobuf))
	for contentType, body := range map[string]string{
		"":                                    `{"metadata":{"name":"a","labels":{"a":"b"}}}`,
		"application/json":                    `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"b","labels":{"a":"b"}}}`,
		"application/json; charset=utf-8":     `{"metadata":{"name":"d","labels":{"a":"b"}}}`,
		"application/vnd.kubernetes.protobuf": protobuf.String(),
		"application/yaml":                    "metadata:\n  name: e\n  labels: {a: b}\n",
	} {
		a := e.must(http.StatusCreated, "POST", all, body, "Content-Type", contentType)
		require.Equal(t, "b", a.text("metadata", "labels", "a"), contentType)
	}
	require.Equal(t, []any{"a", "b", "c", "d", "e"}, names(e.must(http.StatusOK, "GET", all, "")))
	var options bytes.Buffer
	require.NoError(t, kubernetesprotobuf.NewSerializer(nil, nil).Encode(&metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: metav1.NewUIDPreconditions("A"),
	}, &options))
	e.must(http.StatusConflict, "DELETE", all+"/c", options.String(), "Content-Type", "application/vnd.kubernetes.protobuf")
	gone := e.must(http.StatusOK, "DELETE", all+"/c", "", "Accept", "application/vnd.kubernetes.protobuf")
	decoded, _, err := kubernetesprotobuf.NewSerializer(scheme{}, scheme{}).Decode([]byte(gone.Body), nil, &corev1.Namespace{})
	require.NoError(t, err)
	require.Equal(t, corev1.NamespaceTerminating, decoded.(*corev1.Namespace).Status.Phase)
}

// scheme is a runtime scheme with the kind Namespace only.
type scheme struct{}

func (scheme) New(schema.GroupVersionKind) (runtime.Object, error) { return &corev1.Namespace{}, nil }

func (scheme) ObjectKinds(runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	return []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Namespace")}, false, nil
}

func (scheme) Recognizes(schema.GroupVersionKind) bool { return true }

// TestNamesThatArePaths uses path segments of the API as names of namespaces and content.
func TestNamesThatArePaths(t *testing.T) {
	e := newEnv(t, nil)
	for _, name := range []string{"finalize", "status", "watch", "list", "namespaces", "configmaps", "v1"} {
		e.namespace(name)
		a := e.must(http.StatusOK, "GET", all+"/"+name, "")
		require.Equal(t, name, a.text("metadata", "name"))
		require.Equal(t, a.Body, e.must(http.StatusOK, "GET", all+"/"+name+"/status", "").Body)
		path := all + "/" + name + "/configmaps"
		e.must(http.StatusCreated, "POST", path, `{"metadata":{"name":"`+name+`"}}`)
		a = e.must(http.StatusOK, "GET", path+"/"+name, "")
		require.Equal(t, []string{"ConfigMap", name}, []string{a.text("kind"), a.text("metadata", "namespace")})
		require.Equal(t, []any{name}, names(e.must(http.StatusOK, "GET", path, "")))
	}
}

// TestUpdateThatChangesNothing checks that an update without a change writes nothing, so that
// the resource version stays the same.
func TestUpdateThatChangesNothing(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	e.must(http.StatusCreated, "POST", maps, `{"metadata":{"name":"a"},"data":{"k":"v"}}`)
	e.must(http.StatusCreated, "PATCH", maps+"/b?fieldManager=m", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {k: v}\n", "Content-Type", applyPatch)
	before := e.contents()
	for _, name := range []string{"a", "b"} {
		e.must(http.StatusOK, "PUT", maps+"/"+name, e.must(http.StatusOK, "GET", maps+"/"+name, "").Body)
		e.must(http.StatusOK, "PUT", maps+"/"+name, `{"metadata":{"name":"`+name+`"},"data":{ "k" : "v" }}`)
		e.must(http.StatusOK, "PATCH", maps+"/"+name, `{"data":{"k":"v"}}`, "Content-Type", mergePatch)
		e.must(http.StatusOK, "PATCH", maps+"/"+name, `[]`, "Content-Type", jsonPatch)
	}
	e.must(http.StatusOK, "PATCH", maps+"/b?fieldManager=m", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {k: v}\n", "Content-Type", applyPatch)
	require.Equal(t, before, e.contents())
}

// TestResourceVersions checks the effect of resourceVersion on lists and reads.
func TestResourceVersions(t *testing.T) {
	e := newEnv(t, &apiserver.Options{Limits: apiserver.Limits{Wait: time.Millisecond}})
	e.namespace("x")
	old := e.must(http.StatusCreated, "POST", maps, `{"metadata":{"name":"a"}}`).text("metadata", "resourceVersion")
	now := e.must(http.StatusCreated, "POST", maps, `{"metadata":{"name":"b"}}`).text("metadata", "resourceVersion")
	for query, want := range map[string]int{
		"":                        2,
		"?resourceVersion=0":      2,
		"?resourceVersion=" + old: 2,
		"?resourceVersion=" + old + "&resourceVersionMatch=NotOlderThan": 2,
		"?resourceVersion=" + old + "&resourceVersionMatch=Exact":        1,
		"?resourceVersion=" + old + "&limit=5":                           1, // with a limit, the default match is Exact
		"?resourceVersion=" + now + "&resourceVersionMatch=Exact":        2,
	} {
		require.Len(t, names(e.must(http.StatusOK, "GET", maps+query, "")), want, query)
	}
	for _, target := range []string{maps + "?resourceVersion=99", maps + "/a?resourceVersion=99", maps + "?resourceVersion=99&resourceVersionMatch=Exact"} {
		a := e.do("GET", target, "")
		a.status(http.StatusGatewayTimeout, `{"reason":"Timeout","message":"Timeout: Too large resource version: 99, current: `+now+`",
			"details":{"retryAfterSeconds":1,"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]}}`)
		require.Equal(t, "1", a.Header.Get("Retry-After"))
	}
	require.NoError(t, e.store.(store.Compactor).Compact(t.Context(), 3))
	e.do("GET", maps+"?resourceVersion=1&resourceVersionMatch=Exact", "").status(http.StatusGone,
		`{"reason":"Expired","message":"The provided resource version is too old: list again without it."}`)
}

// TestAVersionFromTheFutureIsWaitedFor checks that a list waits for a version that the store has
// not reached.
func TestAVersionFromTheFutureIsWaitedFor(t *testing.T) {
	e := newEnv(t, &apiserver.Options{Limits: apiserver.Limits{Wait: time.Minute}})
	e.namespace("x") // commits revision 1
	got := make(chan answer)
	go func() { got <- e.do("GET", maps+"?resourceVersion=2", "") }()
	e.must(http.StatusCreated, "POST", maps, `{"metadata":{"name":"a"}}`)
	require.Equal(t, []any{"a"}, names(<-got))
}

// TestRenderings gets objects with different Accept headers.
func TestRenderings(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	e.must(http.StatusCreated, "POST", maps, `{"metadata":{"name":"a"},"data":{"k":"v"}}`)
	table := "application/json;as=Table;v=v1;g=meta.k8s.io"
	for _, tt := range []struct{ target, accept, contentType, contains string }{
		{maps + "/a", "", "application/json", `"data":{"k":"v"}`},
		{maps + "/a", "*/*", "application/json", `"data":{"k":"v"}`},
		{maps + "/a", "application/yaml", "application/yaml", "k: v"},
		{maps + "/a?pretty=true", "", "application/json", "\"k\": \"v\"\n"},
		{maps + "/a", "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf", "k8s\x00"},
		{maps, "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf", "k8s\x00"},
		{maps + "/a", table, "application/json", `"kind":"Table"`},
		{maps, table, "application/json", `"columnDefinitions":`},
		{maps + "?includeObject=None", table, "application/json", `"kind":"Table"`},
		{maps + "?includeObject=Object", table, "application/json", `"data":{"k":"v"}`},
		{maps, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json", "application/json", `"kind":"PartialObjectMetadataList"`},
		{maps + "/a", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/json", `"kind":"PartialObjectMetadata"`},
		{all, table, "application/json", `"Active"`},
		{maps + "/none", table, "application/json", `"kind":"Status"`},
		{maps + "/none", "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf", "k8s\x00"},
		{maps + "/none", "image/png", "application/json", `"NotAcceptable"`},
	} {
		a := e.do("GET", tt.target, "", "Accept", tt.accept)
		require.Equal(t, tt.contentType, a.Header.Get("Content-Type"), "%s %s", tt.target, tt.accept)
		require.Contains(t, a.Body, tt.contains, "%s %s", tt.target, tt.accept)
		head := e.do("HEAD", tt.target, "", "Accept", tt.accept)
		require.Equal(t, a.Code, head.Code)
		require.Equal(t, a.Header.Get("Content-Length"), head.Header.Get("Content-Length"))
	}
}

// TestFieldValidation sends bodies with unknown and duplicate fields.
func TestFieldValidation(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	body := `{"metadata":{"name":"%s"},"data":{"k":"v","k":"w"},"extra":1}`
	a := e.must(http.StatusCreated, "POST", maps, fmt.Sprintf(body, "a"))
	require.Equal(t, []string{`299 - "unknown field \"extra\""`, `299 - "duplicate field \"data.k\""`}, sorted(a.Header.Values("Warning")))
	a = e.must(http.StatusCreated, "POST", maps+"?fieldValidation=Ignore", fmt.Sprintf(body, "b"))
	require.Empty(t, a.Header.Values("Warning"))
	a = e.must(http.StatusBadRequest, "POST", maps+"?fieldValidation=Strict", fmt.Sprintf(body, "c"))
	require.Contains(t, a.text("message"), `unknown field "extra"`)
	require.Contains(t, a.text("message"), `duplicate field "data.k"`)
}

func sorted(warnings []string) []string {
	for i, w := range warnings {
		if strings.Contains(w, "unknown") {
			warnings[0], warnings[i] = warnings[i], warnings[0]
		}
	}
	return warnings
}

// TestBodyOfUnknownLength sends bodies without a Content-Length. The server reads them up to
// Limits.Body.
func TestBodyOfUnknownLength(t *testing.T) {
	e := newEnv(t, &apiserver.Options{Limits: apiserver.Limits{Body: 100}})
	for padding, code := range map[int]int{10: http.StatusCreated, 100: http.StatusRequestEntityTooLarge} {
		r := httptest.NewRequest("POST", all, strings.NewReader(strings.Repeat(" ", padding)+`{"metadata":{"name":"x"}}`))
		r.ContentLength = -1
		require.Equal(t, code, e.send(r).Code)
	}
}

// TestNoBody sends requests with a nil body, as http.NewRequest creates them.
func TestNoBody(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	for _, tt := range []struct {
		method string
		code   int
	}{
		{"GET", http.StatusOK}, {"PUT", http.StatusBadRequest}, {"PATCH", http.StatusUnsupportedMediaType}, {"DELETE", http.StatusOK},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.method, "http://localhost"+x, nil)
		require.NoError(t, err)
		require.Equal(t, tt.code, e.send(r).Code, tt.method)
	}
}

// TestObjectsWithoutMetadata checks that a document without metadata is refused because the name
// is missing.
func TestObjectsWithoutMetadata(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	for target, kind := range map[string]string{all: "Namespace", maps: "ConfigMap", widgets: "Widget"} {
		for _, body := range []string{`{}`, `{"metadata":null}`, `{"metadata":{}}`, `{"Metadata":{"name":"a"}}`, "kind: " + kind} {
			contentType := "application/json"
			if body[0] != '{' {
				contentType = "application/yaml"
			}
			a := e.do("POST", target, body, "Content-Type", contentType)
			require.Equal(t, http.StatusUnprocessableEntity, a.Code, "%s %s: %s", target, body, a.Body)
			require.Contains(t, a.Body, kind)
			require.Contains(t, a.Body, `"causes":[{"reason":"FieldValueRequired","message":"Required value: name or generateName is required","field":"metadata.name"}]`)
		}
	}
	e.must(http.StatusBadRequest, "PUT", x, `{}`)
}

// TestMethodsOfSubresources checks that subresources support the same methods as in Kubernetes.
func TestMethodsOfSubresources(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	e.must(http.StatusCreated, "POST", widgets, `{"metadata":{"name":"w"}}`)
	const status = "GET, HEAD, PUT, PATCH"
	for target, allowed := range map[string]string{
		x + "/finalize": "PUT, POST", x + "/status": status, widgets + "/w/status": status,
		widgets + "/w/finalize": "", maps + "/c/status": "", x + "/scale/y": "", maps + "/c/scale": "",
	} {
		for _, method := range []string{"GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"} {
			a := e.do(method, target, "")
			switch {
			case allowed == "":
				require.Equal(t, http.StatusNotFound, a.Code, "%s %s", method, target)
			case strings.Contains(allowed, method):
				require.NotContains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, a.Code, "%s %s", method, target)
			default:
				require.Equal(t, http.StatusMethodNotAllowed, a.Code, "%s %s", method, target)
				require.Equal(t, allowed, a.Header.Get("Allow"))
			}
		}
	}
	e.must(http.StatusMethodNotAllowed, "GET", x+"/finalize?watch=true", "")
}

// TestGenerations checks that metadata.generation is maintained for custom kinds only. In
// Kubernetes the built-in kinds of this test have no generation.
func TestGenerations(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	for target, generations := range map[string][2]any{
		maps: {"", ""}, x + "/secrets": {"", ""}, x + "/resourcequotas": {"", ""}, widgets: {1.0, 2.0},
	} {
		a := e.must(http.StatusCreated, "POST", target, `{"metadata":{"name":"a","generation":7}}`)
		require.Equal(t, generations[0], a.get("metadata", "generation"), target)
		a = e.must(http.StatusOK, "PUT", target+"/a", `{"metadata":{"name":"a","generation":7},"data":{"k":"dg=="},"spec":{"hard":{"pods":"1"}}}`)
		require.Equal(t, generations[1], a.get("metadata", "generation"), target)
	}
}
