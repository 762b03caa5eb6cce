package kinds

import (
	"encoding/json"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// defaultSecret sets Kubernetes' defaults: it moves stringData into data, and sets an empty type
// to Opaque. It leaves malformed fields for validation to refuse.
func defaultSecret(o *registry.Object) {
	if o.Fields == nil {
		o.Fields = map[string]json.RawMessage{}
	}
	var kind string
	if value, ok := o.Fields["type"]; !ok || json.Unmarshal(value, &kind) == nil && kind == "" {
		o.Fields["type"] = json.RawMessage(`"Opaque"`)
	}
	var plain map[string]string
	var data map[string][]byte
	if json.Unmarshal(orNull(o.Fields["stringData"]), &plain) != nil || json.Unmarshal(orNull(o.Fields["data"]), &data) != nil {
		return
	}
	delete(o.Fields, "stringData")
	if len(plain) == 0 {
		return
	}
	if data == nil {
		data = make(map[string][]byte, len(plain))
	}
	for key, value := range plain {
		data[key] = []byte(value)
	}
	if merged, err := json.Marshal(data); err == nil {
		o.Fields["data"] = merged
	}
}

// orNull returns value, or null if it is empty.
func orNull(value json.RawMessage) json.RawMessage {
	if len(value) == 0 {
		return json.RawMessage("null")
	}
	return value
}
