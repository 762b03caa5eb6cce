package discovery_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/version"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/discovery"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

const (
	acceptV2      = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	acceptV2Beta1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
	acceptAll     = acceptV2 + "," + acceptV2Beta1 + ",application/json" // as client-go asks
)

func custom(group, version, resource, kind string) kinds.Kind {
	return kinds.Custom(registry.Type{Group: group, Version: version, Resource: resource, Kind: kind, Namespaced: true})
}

func documents() *discovery.Documents {
	widgets := custom("example.com", "v1", "widgets", "Widget")
	widgets.Status, widgets.ShortNames, widgets.Categories = true, []string{"wd"}, []string{"all"}
	nodes := custom("example.com", "v1", "racks", "Rack")
	nodes.Namespaced = false
	return discovery.New([]kinds.Kind{
		custom("example.com", "v2beta1", "gears", "Gear"), widgets, nodes, kinds.ConfigMaps(), kinds.Leases(),
	}, version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.0"})
}

func get(t testing.TB, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://server.example:8080"+path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	serve(documents(), w, r)
	return w
}

// serve answers errors in place of the server.
func serve(d *discovery.Documents, w http.ResponseWriter, r *http.Request) {
	if !d.Serves(r.URL.Path) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	err := d.Serve(w, r)
	switch {
	case errors.Is(err, codec.ErrNotAcceptable):
		http.Error(w, err.Error(), http.StatusNotAcceptable)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func decode[T any](t testing.TB, w *httptest.ResponseRecorder) T {
	t.Helper()
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var out T
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&out))
	return out
}

func TestLegacyDocuments(t *testing.T) {
	versions := decode[metav1.APIVersions](t, get(t, "/api", "Accept", "application/json"))
	require.Equal(t, []string{"v1"}, versions.Versions)
	require.Equal(t, "server.example:8080", versions.ServerAddressByClientCIDRs[0].ServerAddress)

	groups := decode[metav1.APIGroupList](t, get(t, "/apis/"))
	require.Len(t, groups.Groups, 2)
	require.Equal(t, "coordination.k8s.io", groups.Groups[0].Name)
	require.Equal(t, "example.com/v1", groups.Groups[1].PreferredVersion.GroupVersion)

	group := decode[metav1.APIGroup](t, get(t, "/apis/example.com"))
	want := metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: "example.com",
		Versions:         []metav1.GroupVersionForDiscovery{{GroupVersion: "example.com/v1", Version: "v1"}, {GroupVersion: "example.com/v2beta1", Version: "v2beta1"}},
		PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: "example.com/v1", Version: "v1"},
	}
	if diff := cmp.Diff(want, group); diff != "" {
		t.Error(diff)
	}
	info := decode[version.Info](t, get(t, "/version"))
	require.Equal(t, "v1.36.0", info.GitVersion)
}

func resources(t testing.TB, path string) map[string]metav1.APIResource {
	out := map[string]metav1.APIResource{}
	for _, r := range decode[metav1.APIResourceList](t, get(t, path)).APIResources {
		out[r.Name] = r
	}
	return out
}

func TestResourceLists(t *testing.T) {
	core := resources(t, "/api/v1")
	require.Equal(t, metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}, core["namespaces"].Verbs)
	require.Equal(t, []string{"ns"}, core["namespaces"].ShortNames)
	require.Equal(t, "namespace", core["namespaces"].SingularName)
	require.False(t, core["namespaces"].Namespaced)
	require.Equal(t, metav1.Verbs{"get", "patch", "update"}, core["namespaces/status"].Verbs)
	require.Contains(t, core["namespaces/finalize"].Verbs, "update")
	require.Equal(t, metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}, core["configmaps"].Verbs)
	require.NotContains(t, core, "configmaps/status")

	example := resources(t, "/apis/example.com/v1")
	require.Len(t, example, 3)
	require.Equal(t, "Widget", example["widgets/status"].Kind)
	require.Equal(t, []string{"all"}, example["widgets"].Categories)
	require.Equal(t, "widget", example["widgets"].SingularName)
	require.False(t, example["racks"].Namespaced)
}

func TestAggregated(t *testing.T) {
	w := get(t, "/apis", "Accept", acceptAll)
	require.Equal(t, acceptV2, w.Header().Get("Content-Type"))
	require.Contains(t, w.Header().Values("Vary"), "Accept")
	etag := w.Header().Get("ETag")
	list := decode[apidiscovery.APIGroupDiscoveryList](t, w)
	require.Equal(t, "apidiscovery.k8s.io/v2", list.APIVersion)
	require.Len(t, list.Items, 2)
	require.Equal(t, "v1", list.Items[1].Versions[0].Version)
	widgets := list.Items[1].Versions[0].Resources[1]
	want := apidiscovery.APIResourceDiscovery{
		Resource: "widgets", ResponseKind: &metav1.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"},
		Scope: "Namespaced", SingularResource: "widget", ShortNames: []string{"wd"}, Categories: []string{"all"},
		Verbs: []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		Subresources: []apidiscovery.APISubresourceDiscovery{{
			Subresource: "status", Verbs: []string{"get", "patch", "update"},
			ResponseKind: &metav1.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"},
		}},
	}
	if diff := cmp.Diff(want, widgets); diff != "" {
		t.Error(diff)
	}
	w = get(t, "/apis", "Accept", acceptAll, "If-None-Match", etag)
	require.Equal(t, http.StatusNotModified, w.Code)
	require.Empty(t, w.Body.Bytes())

	core := decode[apidiscovery.APIGroupDiscoveryList](t, get(t, "/api", "Accept", acceptAll))
	require.Len(t, core.Items, 1)
	require.Empty(t, core.Items[0].Name)

	w = get(t, "/apis", "Accept", acceptV2Beta1+",application/json")
	require.Equal(t, acceptV2Beta1, w.Header().Get("Content-Type"))
	beta := decode[apidiscoveryv2beta1.APIGroupDiscoveryList](t, w)
	require.Equal(t, "apidiscovery.k8s.io/v2beta1", beta.APIVersion)
}

func TestNegotiation(t *testing.T) {
	for _, test := range []struct{ path, accept, want string }{
		{"/apis", "", "application/json"},
		{"/apis", "*/*", "application/json"},
		{"/apis", "application/*", "application/json"},
		{"/apis", "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"},
		{"/apis", "application/vnd.kubernetes.protobuf;q=0.1,application/json", "application/json"},
		{"/apis", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json"},
		{"/apis", acceptV2 + ";q=0.5,application/json", "application/json"},
		{"/apis", "application/json;q=0," + acceptV2, acceptV2},
		{"/version", "application/vnd.kubernetes.protobuf,application/json", "application/json"},
		{"/api/v1", acceptAll, "application/json"},
	} {
		t.Run(test.path+" "+test.accept, func(t *testing.T) {
			require.Equal(t, test.want, get(t, test.path, "Accept", test.accept).Header().Get("Content-Type"))
		})
	}
}

func TestProtobuf(t *testing.T) {
	w := get(t, "/api/v1", "Accept", "application/vnd.kubernetes.protobuf")
	var list metav1.APIResourceList
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	_, _, err := protobuf.NewSerializer(scheme, scheme).Decode(w.Body.Bytes(), nil, &list)
	require.NoError(t, err)
	require.Equal(t, "v1", list.GroupVersion)
	require.Equal(t, "configmaps", list.APIResources[0].Name)
}

func TestBadInput(t *testing.T) {
	for path, code := range map[string]int{
		"/":                     http.StatusNotFound,
		"/apis/none":            http.StatusNotFound,
		"/apis/example.com/v9":  http.StatusNotFound,
		"/apis//v1":             http.StatusNotFound,
		"/apis/example.com/v1/": http.StatusOK,
		"/api/v1//":             http.StatusNotFound,
		"/api/../version":       http.StatusNotFound,
	} {
		require.Equal(t, code, get(t, path).Code, path)
	}
	w := get(t, "/api", "Accept", "text/html")
	require.Equal(t, http.StatusNotAcceptable, w.Code)
	require.Contains(t, w.Body.String(), "only the following media types are accepted: application/json")

	head := httptest.NewRecorder()
	serve(documents(), head, httptest.NewRequest(http.MethodHead, "/apis", nil))
	require.Equal(t, http.StatusOK, head.Code)
	require.Empty(t, head.Body.Bytes())
}

func TestNamespacesAreAlwaysDescribed(t *testing.T) {
	w := httptest.NewRecorder()
	serve(discovery.New(nil, version.Info{}), w, httptest.NewRequest(http.MethodGet, "/api/v1", nil))
	require.Contains(t, w.Body.String(), `"namespaces"`)
}

func FuzzServe(f *testing.F) {
	d := documents()
	f.Add("/apis", acceptAll, `"x"`)
	f.Add("/api", "application/json;q=NaN,*/*;q=2", "*")
	f.Add("/apis/example.com/v1/", ",,;,a/b;c=\"", "W/")
	f.Fuzz(func(t *testing.T, path, accept, match string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path, _, _ = strings.Cut(path, "?")
		r.Header.Set("Accept", accept)
		r.Header.Set("If-None-Match", match)
		w := httptest.NewRecorder()
		serve(d, w, r)
		require.Contains(t, []int{200, 304, 404, 406}, w.Code)
	})
}

func BenchmarkServe(b *testing.B) {
	d := documents()
	r := httptest.NewRequest(http.MethodGet, "/apis", nil)
	r.Header.Set("Accept", acceptAll)
	for b.Loop() {
		serve(d, httptest.NewRecorder(), r)
	}
}
