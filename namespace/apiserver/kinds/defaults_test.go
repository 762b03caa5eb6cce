package kinds_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

func TestSecretDefaults(t *testing.T) {
	for _, tt := range []struct{ name, fields, want string }{
		{"empty", `{}`, `{"type":"Opaque"}`},
		{"empty type", `{"type":""}`, `{"type":"Opaque"}`},
		{"a type", `{"type":"example.com/key"}`, `{"type":"example.com/key"}`},
		{"plain values", `{"stringData":{"a":"1"}}`, `{"type":"Opaque","data":{"a":"MQ=="}}`},
		{"plain values win", `{"data":{"a":"Mg==","b":"Mw=="},"stringData":{"a":"1"}}`, `{"type":"Opaque","data":{"a":"MQ==","b":"Mw=="}}`},
		{"no plain values", `{"data":null,"stringData":null}`, `{"type":"Opaque","data":null}`},
		{"unreadable", `{"data":{"a":"%"},"stringData":{"a":"1"},"type":3}`, `{"type":3,"data":{"a":"%"},"stringData":{"a":"1"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var o registry.Object
			require.NoError(t, json.Unmarshal([]byte(tt.fields), &o.Fields))
			kinds.Secrets().Default(&o)
			got, err := json.Marshal(o.Fields)
			require.NoError(t, err)
			require.JSONEq(t, tt.want, string(got))
		})
	}
	var o registry.Object
	kinds.Secrets().Default(&o)
	require.Equal(t, `"Opaque"`, string(o.Fields["type"]))
}
