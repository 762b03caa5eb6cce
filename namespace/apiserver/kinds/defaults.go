package kinds

import (
	"encoding/json"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// defaultSecret does to a Secret what Kubernetes does when it reads one: plain
// values are merged into the encoded ones and not kept, and the type is Opaque
// unless it says otherwise. What cannot be read is left for others to refuse.
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

// orNull stands for a field that is missing.
func orNull(value json.RawMessage) json.RawMessage {
	if len(value) == 0 {
		return json.RawMessage("null")
	}
	return value
}
