package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// fill puts o into an empty object of its Go type. It decodes the fields alone:
// metadata is copied, which costs a fraction.
func fill(k kinds.Kind, typed runtime.Object, o registry.Object) error {
	meta, err := metaOf(k, typed)
	if err != nil {
		return err
	}
	if len(o.Fields) > 0 {
		document := fieldsDocument(o)
		err := inexpensive(k, document)
		if err == nil {
			err = kjson.UnmarshalCaseSensitivePreserveInts(document, typed)
		}
		if err != nil {
			return fmt.Errorf("codec: %s %q cannot be read as %T: %w", k.Name(), o.Name, typed, err)
		}
	}
	if *meta, err = toMeta(o.Meta); err != nil {
		return fmt.Errorf("codec: %s %q: %w", k.Name(), o.Name, err)
	}
	typed.GetObjectKind().SetGroupVersionKind(gvk(k))
	return nil
}

// fieldsDocument returns the fields of o, without its metadata, as a JSON object.
func fieldsDocument(o registry.Object) []byte {
	size := 2
	for name, value := range o.Fields {
		size += len(name) + len(value) + len(`"":null,`)
	}
	buf := append(make([]byte, 0, size), '{')
	for name, value := range o.Fields {
		if len(buf) > 1 {
			buf = append(buf, ',')
		}
		buf = append(appendString(buf, name), ':')
		if len(value) == 0 {
			value = null
		}
		buf = append(buf, value...)
	}
	return append(buf, '}')
}

var null = json.RawMessage("null")

// untyped returns an object of a Go type as the registry has it; meta is that of
// typed. It shares the maps of its metadata with typed, which is as it was before.
func untyped(k kinds.Kind, typed runtime.Object, meta *metav1.ObjectMeta) (registry.Object, error) {
	var o registry.Object
	var err error
	if o.Meta, err = fromMeta(meta); err != nil {
		return registry.Object{}, err
	}
	o.Kind, o.APIVersion = k.Kind, k.APIVersion()
	kept := *meta
	*meta = metav1.ObjectMeta{} // it needs no encoding
	data, err := marshal(withoutNulls(typed))
	*meta = kept
	if err != nil {
		return registry.Object{}, err
	}
	if err := json.Unmarshal(data, &o.Fields); err != nil {
		return registry.Object{}, err
	}
	for _, own := range []string{"kind", "apiVersion", "metadata"} {
		delete(o.Fields, own)
	}
	if len(o.Fields) == 0 {
		o.Fields = nil
	}
	return o, nil
}

// withoutNulls returns typed with an empty value for each null among encoded values:
// Kubernetes answers so, because its storage cannot tell them apart. typed stays as
// it is.
func withoutNulls(typed runtime.Object) runtime.Object {
	switch o := typed.(type) {
	case *corev1.Secret:
		other := *o
		other.Data = emptyForNull(o.Data)
		return &other
	case *corev1.ConfigMap:
		other := *o
		other.BinaryData = emptyForNull(o.BinaryData)
		return &other
	}
	return typed
}

func emptyForNull(values map[string][]byte) map[string][]byte {
	var out map[string][]byte
	for key, value := range values {
		if value == nil {
			if out == nil {
				out = maps.Clone(values)
			}
			out[key] = []byte{}
		}
	}
	if out == nil {
		return values
	}
	return out
}

// marshal returns the JSON form of v without escapes that only HTML needs, so
// that a text has one form whoever wrote it.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
