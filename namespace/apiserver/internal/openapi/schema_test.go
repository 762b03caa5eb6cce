package openapi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/openapi"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
)

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

// An object without a schema may have any fields.
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
