package openapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	pb "google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/util/proto"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/openapi"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

const widgetSchema = `{"type":"object","description":"A widget.","properties":{"spec":{"type":"object","required":["size"],"properties":{
	"size":{"type":"integer","format":"int32","description":"How large it is."},
	"port":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]},
	"note":{"type":"string","nullable":true},
	"extra":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"string"}}},
	"parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],
		"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"count":{"type":"integer"}}}}}}}}`

func widgets(schema string) kinds.Kind {
	k := kinds.Custom(registry.ResourceType{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true, Status: true})
	k.Schema = json.RawMessage(schema)
	return k
}

func pods() kinds.Kind {
	k := kinds.Custom(registry.ResourceType{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true, Status: true})
	k.Object, k.List = &corev1.Pod{}, &corev1.PodList{}
	return k
}

func all() []kinds.Kind {
	return []kinds.Kind{
		kinds.Namespaces(), kinds.ConfigMaps(), kinds.Secrets(), kinds.ServiceAccounts(), kinds.Events(),
		kinds.ResourceQuotas(), kinds.LimitRanges(), kinds.Leases(), widgets(widgetSchema),
	}
}

// shared is made once: the detector of races makes it slow.
var shared = sync.OnceValues(func() (*openapi.Documents, error) { return openapi.New(all()) })

func documents(t testing.TB) *openapi.Documents {
	t.Helper()
	d, err := shared()
	require.NoError(t, err)
	return d
}

func get(d http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

// What kubectl's apply, explain and validation read of OpenAPI v2.
func TestV2IsWhatOldClientsRead(t *testing.T) {
	d := documents(t)
	for _, accept := range []string{
		"application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
		"application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
	} {
		w := get(d, "/openapi/v2", "Accept", accept)
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", w.Header().Get("Content-Type"))
		var doc openapi_v2.Document
		require.NoError(t, pb.Unmarshal(w.Body.Bytes(), &doc))
		models, err := proto.NewOpenAPIData(&doc)
		require.NoError(t, err)

		configMap, ok := models.LookupModel("io.k8s.api.core.v1.ConfigMap").(*proto.Kind)
		require.True(t, ok)
		require.Equal(t, []any{map[any]any{"group": "", "kind": "ConfigMap", "version": "v1"}}, configMap.GetExtensions()["x-kubernetes-group-version-kind"])
		require.Contains(t, configMap.GetDescription(), "configuration data")
		require.IsType(t, &proto.Map{}, configMap.Fields["data"])

		widget, ok := models.LookupModel("com.example.v1.Widget").(*proto.Kind)
		require.True(t, ok)
		require.Equal(t, "A widget.", widget.GetDescription())
		require.ElementsMatch(t, []string{"apiVersion", "kind", "metadata", "spec"}, widget.Keys())

		_, err = managedfields.NewGVKParser(models, false)
		require.NoError(t, err)
	}
}

func TestV3IsWhatClientsRead(t *testing.T) {
	d := documents(t)
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string } `json:"paths"`
	}
	w := get(d, "/openapi/v3", "Accept", "application/json, */*")
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &index))
	versions := []string{}
	for version, entry := range index.Paths {
		versions = append(versions, version)
		w := get(d, entry.ServerRelativeURL, "Accept", "application/json")
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, "public, immutable", w.Header().Get("Cache-Control"))
		var doc spec3.OpenAPI
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &doc))
		requireClosed(t, &doc)

		w = get(d, entry.ServerRelativeURL, "Accept", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf")
		var parsed openapi_v3.Document
		require.NoError(t, pb.Unmarshal(w.Body.Bytes(), &parsed))
		_, err := proto.NewOpenAPIV3Data(&parsed)
		require.NoError(t, err)
	}
	slices.Sort(versions)
	require.Equal(t, []string{"api/v1", "apis/coordination.k8s.io/v1", "apis/example.com/v1"}, versions)
}

// requireClosed checks that every reference of a document leads somewhere in it.
func requireClosed(t *testing.T, doc *spec3.OpenAPI) {
	t.Helper()
	data, err := json.Marshal(doc)
	require.NoError(t, err)
	for _, part := range strings.Split(string(data), `"$ref":"#/components/schemas/`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		require.Contains(t, doc.Components.Schemas, name)
	}
}

// supports is how cli-runtime's QueryParamVerifierV3 looks for a parameter.
func supports(doc *spec3.OpenAPI, group, kind, parameter string) bool {
	for _, path := range doc.Paths.Paths {
		for _, op := range []*spec3.Operation{path.Patch} {
			if op == nil {
				continue
			}
			var gvk map[string]any
			if err := op.Extensions.GetObject("x-kubernetes-group-version-kind", &gvk); err != nil || gvk["kind"] != kind || gvk["group"] != group {
				continue
			}
			for _, p := range op.Parameters {
				if p.Name == parameter {
					return true
				}
			}
		}
	}
	return false
}

func version(t testing.TB, d *openapi.Documents, name string) *spec3.OpenAPI {
	t.Helper()
	var doc spec3.OpenAPI
	require.NoError(t, json.Unmarshal(get(d, "/openapi/v3/"+name).Body.Bytes(), &doc))
	return &doc
}

func TestParametersThatClientsVerify(t *testing.T) {
	d := documents(t)
	core, example := version(t, d, "api/v1"), version(t, d, "apis/example.com/v1")
	for _, parameter := range []string{"dryRun", "fieldValidation", "fieldManager", "force"} {
		require.True(t, supports(core, "", "ConfigMap", parameter), parameter)
		require.True(t, supports(core, "", "Namespace", parameter), parameter)
		require.True(t, supports(example, "example.com", "Widget", parameter), parameter)
	}
	require.False(t, supports(core, "", "Gadget", "dryRun"))

	strategic := "application/strategic-merge-patch+json"
	require.Contains(t, core.Paths.Paths["/api/v1/namespaces/{namespace}/configmaps/{name}"].Patch.RequestBody.Content, strategic)
	require.NotContains(t, example.Paths.Paths["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"].Patch.RequestBody.Content, strategic)
}

// How kubectl before 1.27 looks for a parameter.
func TestParametersThatOldClientsVerify(t *testing.T) {
	w := get(documents(t), "/openapi/v2", "Accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
	var doc openapi_v2.Document
	require.NoError(t, pb.Unmarshal(w.Body.Bytes(), &doc))
	supports := func(kind, parameter string) bool {
		for _, path := range doc.GetPaths().GetPath() {
			for _, extension := range path.GetValue().GetPatch().GetVendorExtension() {
				var gvk struct{ Group, Version, Kind string }
				if extension.GetName() != "x-kubernetes-group-version-kind" || yaml.Unmarshal([]byte(extension.GetValue().GetYaml()), &gvk) != nil || gvk.Kind != kind {
					continue
				}
				for _, p := range path.GetValue().GetPatch().GetParameters() {
					if p.GetParameter().GetNonBodyParameter().GetQueryParameterSubSchema().GetName() == parameter {
						return true
					}
				}
			}
		}
		return false
	}
	for _, kind := range []string{"ConfigMap", "Namespace", "Widget"} {
		require.True(t, supports(kind, "dryRun"), kind)
		require.True(t, supports(kind, "fieldValidation"), kind)
	}
	require.False(t, supports("Widget", "none"))
}

func TestPaths(t *testing.T) {
	d := documents(t)
	core := version(t, d, "api/v1").Paths.Paths
	require.Nil(t, core["/api/v1/namespaces"].Delete, "a collection of namespaces is never deleted")
	require.NotNil(t, core["/api/v1/namespaces/{name}/finalize"].Put)
	require.NotNil(t, core["/api/v1/namespaces/{name}/finalize"].Post)
	require.NotNil(t, core["/api/v1/namespaces/{name}/status"].Patch)
	require.NotNil(t, core["/api/v1/configmaps"].Get)
	require.NotNil(t, core["/api/v1/namespaces/{namespace}/configmaps"].Delete)
	require.NotContains(t, core, "/api/v1/namespaces/{namespace}/configmaps/{name}/status")
	require.Contains(t, version(t, d, "apis/example.com/v1").Paths.Paths, "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}/status")

	for _, path := range []string{
		"/api/v1/watch/configmaps", "/api/v1/watch/namespaces/{namespace}/configmaps", "/api/v1/watch/namespaces/{namespace}/configmaps/{name}",
		"/api/v1/list/configmaps", "/api/v1/watch/namespaces", "/api/v1/watch/namespaces/{name}",
	} {
		require.Contains(t, core, path)
		require.NotNil(t, core[path].Get, path)
	}

	seen := map[string]bool{}
	for _, name := range []string{"api/v1", "apis/coordination.k8s.io/v1", "apis/example.com/v1"} {
		for _, path := range version(t, d, name).Paths.Paths {
			for _, op := range []*spec3.Operation{path.Get, path.Put, path.Post, path.Patch, path.Delete} {
				if op != nil {
					require.False(t, seen[op.OperationId], op.OperationId)
					seen[op.OperationId] = true
				}
			}
		}
	}
}

func TestDefinitions(t *testing.T) {
	d, err := openapi.New(append(all(), pods()))
	require.NoError(t, err)
	all := d.Schemas()
	property := func(definition, name string) spec.Schema {
		require.Contains(t, all, definition)
		require.Contains(t, all[definition].Properties, name)
		return all[definition].Properties[name]
	}
	meta := "io.k8s.apimachinery.pkg.apis.meta.v1."
	for _, test := range []struct {
		definition, property, key string
		want                      any
	}{
		{meta + "ObjectMeta", "finalizers", "x-kubernetes-list-type", "set"},
		{meta + "ObjectMeta", "finalizers", "x-kubernetes-patch-strategy", "merge"},
		{meta + "ObjectMeta", "ownerReferences", "x-kubernetes-list-map-keys", []any{"uid"}},
		{meta + "ObjectMeta", "ownerReferences", "x-kubernetes-patch-merge-key", "uid"},
		{meta + "ObjectMeta", "managedFields", "x-kubernetes-list-type", "atomic"},
		{"io.k8s.api.core.v1.NamespaceStatus", "conditions", "x-kubernetes-list-map-keys", []any{"type"}},
		{"io.k8s.api.core.v1.ServiceAccount", "imagePullSecrets", "x-kubernetes-list-type", "atomic"},
		{"io.k8s.api.core.v1.Container", "ports", "x-kubernetes-list-map-keys", []any{"containerPort", "protocol"}},
		{"io.k8s.api.core.v1.PodSpec", "topologySpreadConstraints", "x-kubernetes-list-map-keys", []any{"topologyKey", "whenUnsatisfiable"}},
	} {
		t.Run(test.definition+"."+test.property, func(t *testing.T) {
			if diff := cmp.Diff(test.want, property(test.definition, test.property).Extensions[test.key]); diff != "" {
				t.Error(diff)
			}
		})
	}
	require.Equal(t, "date-time", all[meta+"Time"].Format)
	require.Equal(t, spec.StringOrArray{"object"}, all[meta+"FieldsV1"].Type)
	require.Len(t, all["io.k8s.apimachinery.pkg.api.resource.Quantity"].OneOf, 2)
	require.Len(t, all["io.k8s.apimachinery.pkg.util.intstr.IntOrString"].OneOf, 2)
	require.Equal(t, "byte", property("io.k8s.api.core.v1.Secret", "data").AdditionalProperties.Schema.Format)
	require.Equal(t, []string{"involvedObject", "metadata"}, all["io.k8s.api.core.v1.Event"].Required)
	require.Equal(t, "TCP", property("io.k8s.api.core.v1.ContainerPort", "protocol").Default)
	require.Equal(t, "atomic", all["io.k8s.api.core.v1.LocalObjectReference"].Extensions["x-kubernetes-map-type"])
}

// An object with no schema may have any fields.
func TestSchemasForManagedFields(t *testing.T) {
	for _, test := range []struct {
		name, schema, object, refused string
	}{
		{"no schema", "", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"x":[1]}}`, ""},
		{"its schema", widgetSchema, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1,"port":"http","note":null,"extra":{"b":1},"parts":[{"name":"x"}]}}`, ""},
		{"an unknown field", widgetSchema, `{"apiVersion":"example.com/v1","kind":"Widget","spec":{"sise":1}}`, ".spec.sise: field not declared in schema"},
		{"a quantity", "", `{"apiVersion":"v1","kind":"ResourceQuota","spec":{"hard":{"a":1,"b":"2Gi"}}}`, ""},
		{"a port", "", `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a","ports":[{"containerPort":53,"protocol":"UDP"},{"containerPort":53}]}]}}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, err := openapi.New([]kinds.Kind{widgets(test.schema), kinds.ResourceQuotas(), pods()})
			require.NoError(t, err)
			converter, err := managedfields.NewTypeConverter(d.Schemas(), false)
			require.NoError(t, err)
			var o unstructured.Unstructured
			require.NoError(t, o.UnmarshalJSON([]byte(test.object)))
			_, err = converter.ObjectToTyped(&o)
			if test.refused == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.refused)
		})
	}
}

func TestServing(t *testing.T) {
	d := documents(t)
	w := get(d, "/openapi/v2")
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	etag := w.Header().Get("ETag")
	require.NotEmpty(t, etag)
	require.Contains(t, w.Header().Values("Vary"), "Accept")
	require.Equal(t, http.StatusNotModified, get(d, "/openapi/v2", "If-None-Match", etag).Code)

	w = get(d, "/openapi/v2", "Accept-Encoding", "gzip")
	require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))

	w = get(d, "/openapi/v3/api/v1?hash=old")
	require.Equal(t, http.StatusMovedPermanently, w.Code)
	require.Equal(t, http.StatusOK, get(d, w.Header().Get("Location")).Code)

	w = get(d, "/openapi/v3/api/v1", "Accept", "text/plain")
	require.Equal(t, http.StatusNotAcceptable, w.Code)
	require.Equal(t, http.StatusNotFound, get(d, "/openapi/v3/apis/none/v1").Code)
	require.True(t, d.Serves("/openapi/v3/api/v1"))
	require.False(t, d.Serves("/openapi"))
}

func TestBadInput(t *testing.T) {
	for name, list := range map[string][]kinds.Kind{
		"no object":                      {widgets(`[]`)},
		"null":                           {widgets(`null`)},
		"no JSON":                        {widgets(`{`)},
		"a string":                       {widgets(`{"type":"string"}`)},
		"two types":                      {widgets(`{"type":["object","null"]}`)},
		"a reference":                    {widgets(`{"properties":{"a":{"$ref":"#/definitions/x"}}}`)},
		"a deep reference":               {widgets(`{"properties":{"a":{"type":"array","items":{"allOf":[{"$ref":"http://x/y"}]}}}}`)},
		"an unknown type":                {widgets(`{"properties":{"a":{"type":"thing"}}}`)},
		"a list of nothing":              {widgets(`{"properties":{"a":{"type":"array"}}}`)},
		"a misspelt keyword":             {widgets(`{"properties":{"a":{"type":"string","oops":1}}}`)},
		"a keyword of JSON Schema alone": {widgets(`{"properties":{"a":{"patternProperties":{"x":{"type":"string"}}}}}`)},
		"too large":                      {widgets(`{"description":"` + strings.Repeat("x", 1<<20) + `"}`)},
		"twice":                          {widgets(""), widgets("")},
		"twice built in":                 {kinds.ConfigMaps(), kinds.ConfigMaps()},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openapi.New(list)
			require.ErrorIs(t, err, namespace.ErrInvalid)
		})
	}
	d, err := openapi.New(nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, get(d, "/openapi/v3/api/v1").Code)
}

func FuzzSchema(f *testing.F) {
	f.Add(widgetSchema)
	f.Add(`{"type":"object","properties":{"a":{"$ref":"b"}}}`)
	f.Add(`{"additionalProperties":{"type":"array","items":[{"type":"string"}]}}`)
	f.Fuzz(func(t *testing.T, schema string) {
		d, err := openapi.New([]kinds.Kind{widgets(schema)})
		if err != nil {
			require.ErrorIs(t, err, namespace.ErrInvalid)
			return
		}
		_, err = managedfields.NewTypeConverter(d.Schemas(), false)
		require.NoError(t, err)
	})
}

func FuzzServe(f *testing.F) {
	d := documents(f)
	f.Add("/openapi/v3/api/v1?hash=x", "application/json;q=0.5,*/*;q=0.1", "gzip")
	f.Add("/openapi/v3/../v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "")
	f.Fuzz(func(t *testing.T, path, accept, encoding string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path, r.URL.RawQuery, _ = strings.Cut(path, "?")
		r.Header.Set("Accept", accept)
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		require.Contains(t, []int{200, 301, 404, 406}, w.Code)
	})
}

func BenchmarkNew(b *testing.B) {
	list := all()
	for b.Loop() {
		if _, err := openapi.New(list); err != nil {
			b.Fatal(err)
		}
	}
}

// Documents are encoded when they are first asked for, by whoever comes.
func TestManyAskAtOnce(t *testing.T) {
	d, err := openapi.New([]kinds.Kind{kinds.ConfigMaps(), widgets(widgetSchema)})
	require.NoError(t, err)
	var wait sync.WaitGroup
	bodies := make([]string, 8)
	for i := range bodies {
		wait.Go(func() {
			for _, path := range []string{"/openapi/v3", "/openapi/v3/apis/example.com/v1", "/openapi/v2"} {
				bodies[i] += get(d, path).Body.String()
			}
			d.Schemas()
		})
	}
	wait.Wait()
	for _, body := range bodies {
		require.Equal(t, bodies[0], body)
	}
}
