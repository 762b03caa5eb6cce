package openapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"github.com/stretchr/testify/require"
	pb "google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/util/proto"
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
	k := kinds.Custom(registry.Type{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true, Status: true})
	k.Schema = json.RawMessage(schema)
	return k
}

func pods() kinds.Kind {
	k := kinds.Custom(registry.Type{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true, Status: true})
	k.Object, k.List = &corev1.Pod{}, &corev1.PodList{}
	return k
}

func all() []kinds.Kind {
	return []kinds.Kind{
		kinds.Namespaces(), kinds.ConfigMaps(), kinds.Secrets(), kinds.ServiceAccounts(), kinds.Events(),
		kinds.ResourceQuotas(), kinds.LimitRanges(), kinds.Leases(), widgets(widgetSchema),
	}
}

// shared is created once, since the race detector makes it slow.
var shared = sync.OnceValues(func() (*openapi.Documents, error) { return openapi.New(all()) })

func documents(t testing.TB) *openapi.Documents {
	t.Helper()
	d, err := shared()
	require.NoError(t, err)
	return d
}

// OpenAPI v2 has the parts that kubectl's apply, explain and validation read.
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

// requireClosed checks that a document defines everything that it refers to.
func requireClosed(t *testing.T, doc *spec3.OpenAPI) {
	t.Helper()
	data, err := json.Marshal(doc)
	require.NoError(t, err)
	for _, part := range strings.Split(string(data), `"$ref":"#/components/schemas/`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		require.Contains(t, doc.Components.Schemas, name)
	}
}

// supports looks for a parameter as cli-runtime's QueryParamVerifierV3 does.
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

// kubectl before 1.27 looks for a parameter in OpenAPI v2.
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

func BenchmarkNew(b *testing.B) {
	list := all()
	for b.Loop() {
		if _, err := openapi.New(list); err != nil {
			b.Fatal(err)
		}
	}
}
