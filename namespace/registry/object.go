package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
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

// MarshalJSON implements json.Marshaler: kind, apiVersion, metadata, then the
// other fields ordered by name.
func (o Object) MarshalJSON() ([]byte, error) {
	for _, name := range slices.Sorted(maps.Keys(o.Fields)) {
		if why := fieldFault(name, o.Fields[name]); why != "" {
			return nil, fmt.Errorf("field %.80q: %s", name, why)
		}
	}
	return o.encode() // the caller, encoding/json, checks the syntax of what comes back
}

// encode returns the JSON form. The fields must be valid JSON.
func (o Object) encode() ([]byte, error) {
	metadata, err := json.Marshal(o.Meta)
	if err != nil {
		return nil, err
	}
	size := len(metadata) + len(o.Kind) + len(o.APIVersion) + 64
	for name, value := range o.Fields {
		size += len(name) + len(value) + 4
	}
	buf := make([]byte, 0, size)
	buf = append(buf, '{')
	if o.Kind != "" {
		buf = append(appendString(append(buf, `"kind":`...), o.Kind), ',')
	}
	if o.APIVersion != "" {
		buf = append(appendString(append(buf, `"apiVersion":`...), o.APIVersion), ',')
	}
	buf = append(append(buf, `"metadata":`...), metadata...)
	switch len(o.Fields) {
	case 0:
	case 1: // most objects; spare the sorting
		for name, value := range o.Fields {
			buf = appendField(buf, name, value)
		}
	default:
		for _, name := range slices.Sorted(maps.Keys(o.Fields)) {
			buf = appendField(buf, name, o.Fields[name])
		}
	}
	return append(buf, '}'), nil
}

func appendField(buf []byte, name string, value []byte) []byte {
	buf = append(appendString(append(buf, ','), name), ':')
	if len(value) == 0 {
		return append(buf, "null"...)
	}
	return append(buf, value...)
}

// appendString appends s as a JSON string.
func appendString(buf []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			quoted, err := json.Marshal(s)
			if err != nil { // strings always encode
				return append(buf, `""`...)
			}
			return append(buf, quoted...)
		}
	}
	return append(append(append(buf, '"'), s...), '"')
}

// UnmarshalJSON implements json.Unmarshaler. Of a field that is there twice the
// last one counts.
func (o *Object) UnmarshalJSON(data []byte) error {
	out := Object{}
	if err := out.decode(slices.Clone(data)); err != nil {
		return err
	}
	*o = out
	return nil
}

// decode reads the JSON form; the object keeps parts of data.
func (o *Object) decode(data []byte) error {
	return eachField(data, func(name string, value []byte) error {
		switch name {
		case "kind":
			return decodeField(name, value, &o.Kind)
		case "apiVersion":
			return decodeField(name, value, &o.APIVersion)
		case "metadata":
			o.Meta = namespace.Meta{}
			return decodeField(name, value, &o.Meta)
		}
		if o.Fields == nil {
			o.Fields = map[string]json.RawMessage{}
		}
		o.Fields[name] = value
		return nil
	})
}

func decodeField(name string, value []byte, into any) error {
	if err := json.Unmarshal(value, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// header is the part of an object's metadata that decides about its deletion.
type header struct {
	Name              string        `json:"name"`
	UID               string        `json:"uid"`
	DeletionTimestamp phase.Time    `json:"deletionTimestamp"`
	Finalizers        finalizer.Set `json:"finalizers"`
}

// decodeHeader reads the header of a stored document without decoding the rest.
func decodeHeader(data []byte) (header, error) {
	var h header
	err := eachField(data, func(name string, value []byte) error {
		if name != "metadata" {
			return nil
		}
		if err := decodeField(name, value, &h); err != nil {
			return err
		}
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return h, err
}

// mayHaveFinalizers reports whether a stored document could have finalizers; it
// is cheap, and true too often rather than too seldom.
func mayHaveFinalizers(data []byte) bool {
	return bytes.Contains(data, []byte(`"finalizers"`))
}

var errEnough = errors.New("nothing more to read")
