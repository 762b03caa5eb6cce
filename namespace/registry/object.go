package registry

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// MaxObject is the greatest size of one object of content in JSON form, in
// bytes. The store may allow less.
const MaxObject = 3 << 20

// Object is content: a JSON document with metadata. A round trip through JSON
// loses nothing but white space, and fields of metadata that [namespace.Meta]
// does not have.
type Object struct {
	namespace.TypeMeta
	namespace.Meta
	// Fields are the other top-level fields ("spec", "data", "status", ...), each a
	// JSON value that is kept as it is.
	Fields map[string]json.RawMessage
}

// DeepCopy returns an object that shares nothing with o.
func (o Object) DeepCopy() Object {
	o.Meta = o.Meta.DeepCopy()
	o.Fields = maps.Clone(o.Fields)
	for name, value := range o.Fields {
		o.Fields[name] = slices.Clone(value)
	}
	return o
}

// reserved are the top-level fields that Object has members of its own for.
func reserved(name string) bool { return name == "kind" || name == "apiVersion" || name == "metadata" }

// compacted returns the fields with all white space between JSON tokens removed,
// so that equal documents have equal bytes, and what is wrong with them.
func compacted(fields map[string]json.RawMessage) (map[string]json.RawMessage, []namespace.Violation) {
	if len(fields) == 0 {
		return nil, nil
	}
	var wrong []namespace.Violation
	out := make(map[string]json.RawMessage, len(fields))
	for name, value := range fields {
		if why := fieldFault(name, value); why != "" {
			wrong = append(wrong, namespace.Violation{
				Type: namespace.FieldInvalid, Field: strings.ToValidUTF8(clip(name), "\uFFFD"), Message: "Invalid value: " + why,
			})
			continue
		}
		var b bytes.Buffer
		b.Grow(len(value))
		if err := json.Compact(&b, value); err != nil {
			wrong = append(wrong, namespace.Violation{
				Type: namespace.FieldInvalid, Field: clip(name), Message: "Invalid value: must be a JSON value: " + err.Error(),
			})
			continue
		}
		out[name] = b.Bytes()
	}
	slices.SortFunc(wrong, func(a, b namespace.Violation) int { return strings.Compare(a.Field, b.Field) })
	return out, wrong
}

func fieldFault(name string, value []byte) string {
	switch {
	case reserved(name):
		return "must be set in the member of Object that it has"
	case !utf8.ValidString(name) || !utf8.Valid(value):
		return "must be valid UTF-8"
	case len(value) > MaxObject:
		return "the object would be too large"
	}
	return ""
}

// sameSpec reports whether a and b have the same fields, not looking at status:
// what makes a new generation.
func sameSpec(a, b map[string]json.RawMessage) bool {
	return covers(a, b) && covers(b, a)
}

func covers(a, b map[string]json.RawMessage) bool {
	for name, value := range a {
		if name == "status" {
			continue
		}
		if other, ok := b[name]; !ok || !bytes.Equal(value, other) {
			return false
		}
	}
	return true
}
