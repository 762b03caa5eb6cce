package registry

import (
	"encoding/json"
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
	"github.com/nslifecycle/nslifecycle/store"
)

// kind is how one Go type of objects is read from the store.
type kind[T any] struct {
	decode func(store.Entry) (T, error)
	copy   func(T) T
	meta   func(*T) *namespace.Meta
	labels func(T) map[string]string
	field  func(T, string) string // the value of a field for selectors
	fields []string               // those that there are
}

var namespaceKind = kind[namespace.Namespace]{
	decode: decodeNamespace,
	copy:   namespace.Namespace.DeepCopy,
	meta:   func(n *namespace.Namespace) *namespace.Meta { return &n.Meta },
	labels: func(n namespace.Namespace) map[string]string { return n.Labels },
	field: func(n namespace.Namespace, field string) string {
		if field == "status.phase" {
			return string(n.Phase())
		}
		return n.Name
	},
	fields: []string{"metadata.name", "name", "status.phase"},
}

var objectKind = kind[Object]{
	decode: decodeObject,
	copy:   Object.DeepCopy,
	meta:   func(o *Object) *namespace.Meta { return &o.Meta },
	labels: func(o Object) map[string]string { return o.Labels },
	field: func(o Object, field string) string {
		if field == "metadata.namespace" {
			return o.Namespace
		}
		return o.Name
	},
	fields: []string{"metadata.name", "metadata.namespace"},
}

// encodeNamespace returns what is stored for n. The phase is derived (rule R2),
// the version is that of the entry.
func encodeNamespace(n namespace.Namespace) ([]byte, error) {
	n.ResourceVersion = ""
	n.Status.Phase = n.Phase()
	return json.Marshal(n)
}

func decodeNamespace(e store.Entry) (namespace.Namespace, error) {
	var n namespace.Namespace
	if err := json.Unmarshal(e.Value, &n); err != nil {
		return n, corrupt(e, err)
	}
	n.ResourceVersion = formatVersion(e.Revision)
	n.Status.Phase = n.Phase()
	return n, nil
}

func encodeObject(o Object) ([]byte, error) {
	o.ResourceVersion = ""
	return o.encode()
}

func decodeObject(e store.Entry) (Object, error) {
	var o Object
	if err := o.decode(append([]byte(nil), e.Value...)); err != nil {
		return o, corrupt(e, err)
	}
	o.ResourceVersion = formatVersion(e.Revision)
	return o, nil
}

func decodeText(e store.Entry) (string, error) { return string(e.Value), nil }

func corrupt(e store.Entry, err error) error {
	return fmt.Errorf("registry: the entry at %q of revision %d cannot be read, somebody else wrote it: %w", e.Key, e.Revision, err)
}

// match returns what selects objects; nil when everything is selected.
func (k kind[T]) match(labels selector.Labels, fields selector.Fields) (func(T) bool, error) {
	if err := fields.Check(k.fields...); err != nil {
		return nil, err
	}
	if labels.Empty() && fields.Empty() {
		return nil, nil
	}
	return func(object T) bool {
		return labels.Matches(k.labels(object)) &&
			fields.Matches(func(field string) string { return k.field(object, field) })
	}, nil
}
