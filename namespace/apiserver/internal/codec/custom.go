package codec

import (
	"bytes"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/excerpt"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// custom reads a JSON object of a kind without a Go type. Its values stay as they
// were sent, unless fields must go: then they are written anew.
func (d *decoding) custom(data []byte, schema *structure) (registry.Object, error) {
	var tree any
	twice, err := kjson.UnmarshalStrict(data, &tree, kjson.DisallowDuplicateFields)
	if err != nil {
		return registry.Object{}, d.malformed(data, err)
	}
	var head struct {
		metav1.TypeMeta
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &head); err != nil {
		return registry.Object{}, d.malformed(data, err)
	}
	if err := d.expected(head.Kind, head.APIVersion); err != nil {
		return registry.Object{}, err
	}
	if len(head.Metadata) == 0 {
		head.Metadata = json.RawMessage("{}") // an object without a name, which validation refuses
	}
	o, strict, err := d.customMeta(head.Metadata)
	if err != nil {
		return registry.Object{}, err
	}
	pruned, wrong := schema.check(tree)
	if err := d.judge(append(append(twice, strict...), pruned...)); err != nil {
		return registry.Object{}, err
	}
	if len(wrong) > 0 {
		name := excerpt.Of(o.Name)
		return registry.Object{}, namespace.Invalid(d.qualified(), d.kind.Name().String(), name, wrong)
	}
	o.Fields, err = fieldsOf(data, schema, len(twice)+len(pruned) > 0)
	return o, err
}

// customMeta reads metadata through its Go type, which every kind shares.
func (d *decoding) customMeta(data []byte) (registry.Object, []error, error) {
	var meta metav1.ObjectMeta
	strict, err := kjson.UnmarshalStrict(data, &meta, kjson.DisallowUnknownFields)
	if err != nil {
		return registry.Object{}, nil, d.unfit("", "", fmt.Errorf("metadata: %w", err))
	}
	for _, err := range strict {
		if field, ok := err.(kjson.FieldError); ok {
			field.SetFieldPath("metadata." + field.FieldPath())
		}
	}
	var o registry.Object
	if o.Meta, err = fromMeta(&meta); err != nil {
		return registry.Object{}, nil, d.unfit("", "", err)
	}
	o.Kind, o.APIVersion = d.kind.Kind, d.kind.APIVersion()
	return o, strict, nil
}

// fieldsOf returns the fields of a document but for those that every object has.
// Rewritten, each is there once, and those that the schema does not know are gone.
func fieldsOf(data []byte, schema *structure, rewrite bool) (map[string]json.RawMessage, error) {
	if rewrite {
		var tree map[string]any
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber() // keeps numbers as they were sent
		if err := d.Decode(&tree); err != nil {
			return nil, err
		}
		schema.check(tree)
		var err error
		if data, err = marshal(tree); err != nil {
			return nil, err
		}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	for _, own := range []string{"kind", "apiVersion", "metadata"} {
		delete(fields, own)
	}
	if len(fields) == 0 {
		return nil, nil
	}
	return fields, nil
}

// qualified is how messages about invalid objects name the kind.
func (d *decoding) qualified() string {
	if d.kind.Group == "" {
		return d.kind.Kind
	}
	return d.kind.Kind + "." + d.kind.Group
}
