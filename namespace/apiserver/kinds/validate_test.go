package kinds_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

func TestValidate(t *testing.T) {
	const (
		invalid, needed, forbidden, tooLong = "FieldValueInvalid", "FieldValueRequired", "FieldValueForbidden", "FieldValueTooLong"
		badKey                              = `a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`
		isFrozen                            = "Forbidden: field is immutable when `immutable` is set"
		isNeeded                            = "Required value"
	)
	config, secret, event, lease := kinds.ConfigMaps(), kinds.Secrets(), kinds.Events(), kinds.Leases()
	type wrong = []namespace.Violation
	one := func(kind, field, message string) wrong {
		return wrong{{Type: kind, Field: field, Message: message}}
	}
	half := strings.Repeat("x", 1<<19)
	tests := []struct {
		name     string
		kind     kinds.Kind
		old, new string // old empty: created
		want     wrong
	}{
		{"config", config, "", `{"data":{"a.B-c_1":"x"},"binaryData":{"b":"eA=="}}`, nil},
		{"nothing", config, "", `{}`, nil},
		{"key", config, "", `{"data":{"a/b":"x"}}`, one(invalid, "data[a/b]", `Invalid value: "a/b": `+badKey)},
		{"binary key", config, "", `{"binaryData":{"a b":"eA=="}}`, one(invalid, "binaryData[a b]", `Invalid value: "a b": `+badKey)},
		{"parent", config, "", `{"data":{"..":"x"}}`, one(invalid, "data[..]", `Invalid value: "..": must not be '..'`)},
		{"in both", config, "", `{"data":{"a":"x"},"binaryData":{"a":"eA=="}}`, one(invalid, "data[a]", `Invalid value: "a": duplicate of key present in binaryData`)},
		{"as large as can be", config, "", `{"data":{"a":"` + half + `","b":"` + half + `"}}`, nil},
		{"too large", config, "", `{"data":{"a":"` + half + `","b":"` + half + `x"}}`, one(tooLong, "[]", "Too long: may not be more than 1048576 bytes")},
		{"change", config, `{"data":{"a":"x"}}`, `{"data":{"a":"y"}}`, nil},
		{"freeze", config, `{"data":{"a":"x"}}`, `{"data":{"a":"y"},"immutable":true}`, nil},
		{"frozen, same", config, `{"immutable":true,"data":{"a":"x","b":"y"}}`, `{"immutable":true,"data":{"b":"y","a":"x"},"binaryData":{}}`, nil},
		{"frozen, changed", config, `{"immutable":true,"data":{"a":"x"}}`, `{"immutable":true,"data":{"a":"y"}}`, one(forbidden, "data", isFrozen)},
		{"frozen, binary", config, `{"immutable":true}`, `{"immutable":true,"binaryData":{"a":"eA=="}}`, one(forbidden, "binaryData", isFrozen)},
		{"thaw", config, `{"immutable":true}`, `{"immutable":false}`, one(forbidden, "immutable", isFrozen)},
		{"thaw by leaving out", config, `{"immutable":true}`, `{}`, one(forbidden, "immutable", isFrozen)},

		{"secret", secret, "", `{"type":"Opaque","data":{"a":"eA=="}}`, nil},
		{"secret's key", secret, "", `{"type":"Opaque","data":{"a/b":"eA=="}}`, one(invalid, "data[a/b]", `Invalid value: "a/b": `+badKey)},
		{"type", secret, `{"type":"Opaque"}`, `{"type":"example.com/x"}`, one(invalid, "type", `Invalid value: "example.com/x": field is immutable`)},
		{"frozen secret", secret, `{"type":"Opaque","immutable":true}`, `{"type":"Opaque","immutable":true,"data":{"a":"eA=="}}`, one(forbidden, "data", isFrozen)},
		{"TLS", secret, "", `{"type":"kubernetes.io/tls","data":{"tls.crt":"","tls.key":""}}`, nil},
		{"TLS without key", secret, "", `{"type":"kubernetes.io/tls","data":{"tls.crt":""}}`, one(needed, "data[tls.key]", isNeeded)},
		{"docker", secret, "", `{"type":"kubernetes.io/dockerconfigjson","data":{".dockerconfigjson":"e30="}}`, nil},
		{"docker without file", secret, "", `{"type":"kubernetes.io/dockerconfigjson"}`, one(needed, "data[.dockerconfigjson]", isNeeded)},
		{"docker with no JSON", secret, "", `{"type":"kubernetes.io/dockercfg","data":{".dockercfg":"eA=="}}`, one(invalid, "data[.dockercfg]", `Invalid value: "<secret contents redacted>": invalid character 'x' looking for beginning of value`)},
		{"basic auth", secret, "", `{"type":"kubernetes.io/basic-auth","data":{"password":"eA=="}}`, nil},
		{"basic auth without data", secret, "", `{"type":"kubernetes.io/basic-auth"}`, wrong{{Type: needed, Field: "data[username]", Message: isNeeded}, {Type: needed, Field: "data[password]", Message: isNeeded}}},
		{"SSH", secret, "", `{"type":"kubernetes.io/ssh-auth","data":{"ssh-privatekey":"eA=="}}`, nil},
		{"SSH with an empty key", secret, "", `{"type":"kubernetes.io/ssh-auth","data":{"ssh-privatekey":""}}`, one(needed, "data[ssh-privatekey]", isNeeded)},
		{"token without a service account", secret, "", `{"type":"kubernetes.io/service-account-token"}`, one(needed, "metadata.annotations[kubernetes.io/service-account.name]", isNeeded)},
		{"token", secret, "", `{"metadata":{"annotations":{"kubernetes.io/service-account.name":"x"}},"type":"kubernetes.io/service-account-token"}`, nil},

		{"event", event, "", `{"metadata":{"namespace":"x"},"involvedObject":{"namespace":"x","name":"a"}}`, nil},
		{"event about no namespace", event, "", `{"metadata":{"namespace":"x"},"involvedObject":{"name":"a"}}`, nil},
		{"event about nothing", event, "", `{"metadata":{"namespace":"x"}}`, nil},
		{"event about another namespace", event, "", `{"metadata":{"namespace":"x"},"involvedObject":{"namespace":"y"}}`, one(invalid, "involvedObject.namespace", `Invalid value: "y": does not match event.namespace`)},
		{"event, then about another namespace", event, `{"metadata":{"namespace":"x"},"involvedObject":{"namespace":"x"}}`, `{"metadata":{"namespace":"x"},"involvedObject":{"namespace":"y"}}`, one(invalid, "involvedObject.namespace", `Invalid value: "y": does not match event.namespace`)},
		{"event that was about another namespace", event, `{"metadata":{"namespace":"x"},"involvedObject":{"namespace":"y"}}`, `{"metadata":{"namespace":"x"},"involvedObject":{"namespace":"y"},"count":2}`, nil},

		{"lease", lease, "", `{"spec":{"leaseDurationSeconds":15,"leaseTransitions":0}}`, nil},
		{"lease without spec", lease, "", `{}`, nil},
		{"lease of no time", lease, "", `{"spec":{"leaseDurationSeconds":0}}`, one(invalid, "spec.leaseDurationSeconds", "Invalid value: 0: must be greater than 0")},
		{"transitions", lease, "", `{"spec":{"leaseTransitions":-1}}`, one(invalid, "spec.leaseTransitions", "Invalid value: -1: must be greater than or equal to 0")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var old *registry.Object
			if test.old != "" {
				o := object(t, test.old)
				old = &o
			}
			updated := object(t, test.new)
			before, err := json.Marshal(updated)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(test.want, test.kind.Validate(old, &updated)))
			after, err := json.Marshal(updated)
			require.NoError(t, err)
			require.True(t, bytes.Equal(before, after), "Validate modified the object")
		})
	}
	large := object(t, fmt.Sprintf(`{"data":{"a":"%s","b":"%[1]sAAAAAAAA"}}`, strings.Repeat("AAAA", (1<<19)/3)))
	require.Empty(t, cmp.Diff(one(tooLong, "data", "Too long: may not be more than 1048576 bytes"), secret.Validate(nil, &large)))
}
