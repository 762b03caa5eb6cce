package patch_test

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/openapi"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/patch"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

const (
	jsonPatch  = "application/json-patch+json"
	mergePatch = "application/merge-patch+json"
	strategic  = "application/strategic-merge-patch+json"
	applyPatch = "application/apply-patch+yaml"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

const widgetSchema = `{"type":"object","properties":{
	"spec":{"type":"object","properties":{
		"size":{"type":"integer"},
		"parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],
			"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"count":{"type":"integer"}}}},
		"tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}}},
	"status":{"type":"object","properties":{"ready":{"type":"boolean"}}}}}`

func widgets() kinds.Kind {
	k := kinds.Custom(registry.Type{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true, Status: true})
	k.Schema = json.RawMessage(widgetSchema)
	return k
}

func gadgets() kinds.Kind { // without a schema
	return kinds.Custom(registry.Type{Group: "example.com", Version: "v1", Resource: "gadgets", Kind: "Gadget", Namespaced: true})
}

// newPatcher returns the Patcher that all tests share.
func newPatcher(t testing.TB) *patch.Patcher {
	t.Helper()
	p, err := shared()
	require.NoError(t, err)
	return p
}

var shared = sync.OnceValues(makePatcher)

func makePatcher() (*patch.Patcher, error) {
	list := []kinds.Kind{
		kinds.ConfigMaps(), kinds.Secrets(), kinds.ServiceAccounts(), kinds.ResourceQuotas(), kinds.Events(), widgets(), gadgets(),
	}
	c, err := codec.New(list)
	if err != nil {
		return nil, err
	}
	d, err := openapi.New(list)
	if err != nil {
		return nil, err
	}
	return patch.New(list, c, d)
}

// object reads a stored object.
func object(t testing.TB, data string) registry.Object {
	t.Helper()
	var o registry.Object
	require.NoError(t, json.Unmarshal([]byte(data), &o))
	return o
}

// text returns the JSON form of an object without its managed fields.
func text(t testing.TB, o registry.Object) string {
	t.Helper()
	o.ManagedFields = nil
	data, err := json.Marshal(o)
	require.NoError(t, err)
	return string(data)
}

const configMap = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"x","uid":"u","resourceVersion":"7",
	"creationTimestamp":"2020-01-01T00:00:00Z","labels":{"app":"web"}},"data":{"k":"v","n":"1"}}`

const widget = `{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"a","namespace":"x","uid":"u","resourceVersion":"7",
	"creationTimestamp":"2020-01-01T00:00:00Z","generation":3},"spec":{"size":1,"parts":[{"name":"p","count":1}],"tags":["t"]},"status":{"ready":true}}`

const gadget = `{"kind":"Gadget","apiVersion":"example.com/v1","metadata":{"name":"a","namespace":"x","uid":"u","resourceVersion":"7"},
	"spec":{"big":9007199254740993,"float":1.50,"list":[1,2,3],"o":{"a":{"b":null}}}}`
