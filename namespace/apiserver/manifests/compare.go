package manifests

import (
	"bytes"
	"encoding/json"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// covers reports whether an object has all labels, annotations and fields of wanted. The object may
// have more, such as defaults, a status or other clients' additions.
func covers(o, wanted registry.Object) bool {
	for name, value := range wanted.Labels {
		if has, ok := o.Labels[name]; !ok || has != value {
			return false
		}
	}
	for name, value := range wanted.Annotations {
		if has, ok := o.Annotations[name]; !ok || has != value {
			return false
		}
	}
	for name, value := range wanted.Fields {
		if bytes.Equal(o.Fields[name], value) {
			continue
		}
		w, ok := tree(value)
		has, too := tree(o.Fields[name])
		if !ok || !too || !within(w, has) {
			return false
		}
	}
	return true
}

func tree(raw []byte) (value any, ok bool) {
	if len(raw) == 0 {
		return nil, true
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	return value, decoder.Decode(&value) == nil
}

// within reports whether b has all fields of a. Objects in b may have more fields. Lists must have
// equal lengths. A null equals a missing value.
func within(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case map[string]any:
		other, ok := b.(map[string]any)
		if !ok {
			return false
		}
		for name, value := range a {
			if !within(value, other[name]) {
				return false
			}
		}
		return true
	case []any:
		other, ok := b.([]any)
		if !ok || len(a) != len(other) {
			return false
		}
		for i := range a {
			if !within(a[i], other[i]) {
				return false
			}
		}
		return true
	case json.Number:
		other, ok := b.(json.Number)
		return ok && sameNumber(a, other)
	}
	return a == b
}

func sameNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	x, err := a.Float64()
	if err != nil {
		return false
	}
	y, err := b.Float64()
	return err == nil && x == y
}
