package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// magic begins every protobuf body; a runtime.Unknown follows, which names the
// kind of what it contains.
const magic = "k8s\x00"

// message is what the Go types of Kubernetes have for protobuf.
type message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
}

// envelope opens the body.
func (d *decoding) envelope() (runtime.Unknown, error) {
	var unknown runtime.Unknown
	raw, ok := bytes.CutPrefix(d.body, []byte(magic))
	switch {
	case len(d.body) == 0:
		return unknown, d.unrecognized(errors.New("empty data"))
	case !ok:
		return unknown, d.unrecognized(fmt.Errorf("provided data does not appear to be a protobuf message, expected prefix %v", []byte(magic)))
	case len(raw) == 0:
		return unknown, d.unrecognized(errors.New("empty body"))
	}
	if err := unknown.Unmarshal(raw); err != nil {
		return unknown, d.unrecognized(err)
	}
	return unknown, nil
}

// protobuf reads the body. There are no warnings: what a type does not know has no
// name here. The quantities say where the kind has some.
func (d *decoding) protobuf(quantities *layout) (registry.Object, error) {
	unknown, err := d.envelope()
	if err != nil {
		return registry.Object{}, err
	}
	if err := d.expected(unknown.Kind, unknown.APIVersion); err != nil {
		return registry.Object{}, err
	}
	typed := d.kind.Object.DeepCopyObject()
	m, ok := typed.(message)
	if !ok {
		return registry.Object{}, fmt.Errorf("codec: the Go type %T of %s has no protobuf form", typed, d.kind.Name())
	}
	if quantities.costly(unknown.Raw) {
		return registry.Object{}, d.unfit("", "", errCostly)
	}
	if err := m.Unmarshal(unknown.Raw); err != nil {
		return registry.Object{}, d.unfit("", "", err)
	}
	meta, err := metaOf(d.kind, typed)
	if err != nil {
		return registry.Object{}, err
	}
	o, err := d.stored(typed, meta)
	if err != nil {
		return registry.Object{}, err
	}
	if err := legible(o); err != nil {
		return registry.Object{}, d.unfit("", "", err)
	}
	return o, nil
}

// legible refuses an object with a text that is not valid UTF-8. JSON has been
// checked as a whole; protobuf has no such check of its own here.
func legible(o registry.Object) error {
	metadata, err := json.Marshal(o.Meta)
	if err != nil {
		return err
	}
	bad := illegible(metadata)
	for _, value := range o.Fields {
		bad = bad || illegible(value)
	}
	if bad {
		return errors.New("the document is not valid UTF-8")
	}
	return nil
}

// illegible reports whether a JSON value has, or had, a text that is not valid UTF-8.
// What is JSON already, such as managed fields, is written as it is.
func illegible(value []byte) bool { return !utf8.Valid(value) || replaced(value) }

// replaced reports whether a JSON value, as encoding/json wrote it, had a text that
// was not valid UTF-8: that alone is written as this escape, the character itself
// is not.
func replaced(value []byte) bool {
	const escape = `\ufffd`
	for i := bytes.Index(value, []byte(escape)); i >= 0; {
		slashes := 0
		for j := i - 1; j >= 0 && value[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return true
		}
		next := bytes.Index(value[i+1:], []byte(escape))
		if next < 0 {
			return false
		}
		i += 1 + next
	}
	return false
}
