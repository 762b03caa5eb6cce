package registry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/document"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
)

// MaxObject is the maximum size of one stored content object, in bytes: its JSON form, and a
// header that repeats its labels and finalizers. The store may allow less.
const MaxObject = 3 << 20

// Object is content: a JSON document with metadata. A round trip through JSON preserves
// everything except white space and metadata fields that [namespace.Meta] does not have.
type Object struct {
	namespace.TypeMeta
	namespace.Meta
	// Fields are the other top-level fields ("spec", "data", "status", ...) as JSON values.
	Fields map[string]json.RawMessage
}

const statusField = "status"

// reservedField reports whether Object has a member of its own for a top-level field.
func reservedField(name string) bool {
	return name == "kind" || name == "apiVersion" || name == "metadata"
}

// DeepCopy returns an object that shares no memory with o.
func (o Object) DeepCopy() Object {
	o.Meta = o.Meta.DeepCopy()
	o.Fields = maps.Clone(o.Fields)
	for name, value := range o.Fields {
		o.Fields[name] = slices.Clone(value)
	}
	return o
}

// MarshalJSON implements [json.Marshaler]: kind, apiVersion, metadata, then the other fields
// ordered by name.
func (o Object) MarshalJSON() ([]byte, error) {
	for _, name := range slices.Sorted(maps.Keys(o.Fields)) {
		if why := fieldFault(name, o.Fields[name]); why != "" {
			return nil, fmt.Errorf("field %.80q: %s", name, why)
		}
	}
	return document.JSON(o.TypeMeta, o.Meta, document.AppendFields(nil, o.Fields)) // encoding/json checks the syntax of the fields
}

// UnmarshalJSON implements [json.Unmarshaler]. Of duplicate fields the last one counts.
func (o *Object) UnmarshalJSON(data []byte) error {
	var out Object
	if err := json.Unmarshal(data, &out.Fields); err != nil {
		return err
	}
	if out.Fields == nil {
		return errors.New("the document is null, not a JSON object")
	}
	for _, member := range []struct {
		name string
		into any
	}{{"kind", &out.Kind}, {"apiVersion", &out.APIVersion}, {"metadata", &out.Meta}} {
		value, ok := out.Fields[member.name]
		if !ok {
			continue
		}
		if err := json.Unmarshal(value, member.into); err != nil {
			return fmt.Errorf("%s: %w", member.name, err)
		}
		delete(out.Fields, member.name)
	}
	if len(out.Fields) == 0 {
		out.Fields = nil
	}
	*o = out
	return nil
}

// compactFields returns the fields without white space between JSON tokens, so that equal
// documents have equal bytes, and the violations of invalid fields.
func compactFields(fields map[string]json.RawMessage) (map[string]json.RawMessage, []namespace.Violation) {
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
	slices.SortFunc(wrong, func(a, b namespace.Violation) int { return cmp.Compare(a.Field, b.Field) })
	return out, wrong
}

func fieldFault(name string, value []byte) string {
	switch {
	case reservedField(name):
		return "must be set by Kind, APIVersion or Meta of the object, not by Fields"
	case !utf8.ValidString(name) || !utf8.Valid(value):
		return "must be valid UTF-8"
	case len(value) > MaxObject:
		return "the object would be too large"
	}
	return ""
}

// withStatus returns the fields with another status; nil means none. The result shares the
// values, but not the map.
func withStatus(fields map[string]json.RawMessage, status json.RawMessage) map[string]json.RawMessage {
	if _, had := fields[statusField]; !had && status == nil {
		return fields
	}
	fields = maps.Clone(fields)
	delete(fields, statusField)
	if status != nil {
		if fields == nil {
			fields = map[string]json.RawMessage{}
		}
		fields[statusField] = status
	}
	if len(fields) == 0 {
		return nil
	}
	return fields
}

// sameSpec reports whether a and b have the same fields except status. A change of these
// fields increments metadata.generation.
func sameSpec(a, b map[string]json.RawMessage) bool {
	contains := func(a, b map[string]json.RawMessage) bool {
		for name, value := range b {
			if other, ok := a[name]; name != statusField && (!ok || !bytes.Equal(value, other)) {
				return false
			}
		}
		return true
	}
	return contains(a, b) && contains(b, a)
}

// encodeNamespace encodes n. The phase is derived (rule R2).
func encodeNamespace(n namespace.Namespace) ([]byte, error) {
	n.Status.Phase = n.Phase()
	spec, err := json.Marshal(&n.Spec)
	if err != nil {
		return nil, err
	}
	status, err := json.Marshal(&n.Status)
	if err != nil {
		return nil, err
	}
	return document.Encode(n.TypeMeta, n.Meta, []document.Field{{Name: "spec", Value: spec}, {Name: statusField, Value: status}})
}

func decodeNamespace(e store.Entry) (namespace.Namespace, error) {
	if _, err := parseEntry(e); err != nil {
		return namespace.Namespace{}, err
	}
	var n namespace.Namespace
	if err := json.Unmarshal(e.Value, &n); err != nil { // it ignores the header
		return namespace.Namespace{}, damaged(e, err)
	}
	n.ResourceVersion = formatVersion(e.Revision)
	n.Status.Phase = n.Phase()
	return n, nil
}

func encodeObject(o Object) ([]byte, error) {
	var few [8]document.Field // on the stack
	return document.Encode(o.TypeMeta, o.Meta, document.AppendFields(few[:0], o.Fields))
}

func decodeObject(e store.Entry) (Object, error) {
	e.Value = bytes.Clone(e.Value) // the fields of the object refer to it
	d, err := parseEntry(e)
	if err != nil {
		return Object{}, err
	}
	o := Object{TypeMeta: d.TypeMeta()}
	if o.Meta, err = d.Meta(); err == nil {
		o.Fields, err = d.Fields()
	}
	if err != nil {
		return Object{}, damaged(e, err)
	}
	o.ResourceVersion = formatVersion(e.Revision)
	return o, nil
}

func parseEntry(e store.Entry) (document.Document, error) {
	d, err := document.Parse(e.Value)
	if err != nil {
		return d, damaged(e, err)
	}
	return d, nil
}

// kind describes how a Go type of objects is stored and selected.
type kind[T any] struct {
	decode func(store.Entry) (T, error)
	copy   func(T) T
	meta   func(*T) *namespace.Meta
	labels func(T) map[string]string
	field  func(T, string) string // the value of a field for selectors
	fields []string               // the selectable fields
	// outline returns the parts of a stored object that field reads. It does not decode the
	// metadata.
	outline func(key string, d *document.Document) (T, error)
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
	outline: func(key string, d *document.Document) (namespace.Namespace, error) {
		n := namespace.Namespace{Meta: namespace.Meta{Name: lastSegment(key)}}
		if d.Deleting {
			n.DeletionTimestamp = phase.At(time.Unix(1, 0)) // any time: the phase is derived from it
		}
		return n, nil
	},
}

// objectFields are the selectable fields of every resource type.
var objectFields = []string{"metadata.name", "metadata.namespace"}

// objectKind returns the kind of the objects of a resource type.
func objectKind(t Type) kind[Object] {
	return kind[Object]{
		decode: decodeObject,
		copy:   Object.DeepCopy,
		meta:   func(o *Object) *namespace.Meta { return &o.Meta },
		labels: func(o Object) map[string]string { return o.Labels },
		field: func(o Object, field string) string {
			switch field {
			case "metadata.name":
				return o.Name
			case "metadata.namespace":
				return o.Namespace
			}
			return fieldText(o.Fields, field)
		},
		fields: slices.Concat(objectFields, t.Fields),
		outline: func(key string, d *document.Document) (o Object, err error) {
			o.Name = lastSegment(key)
			if t.Namespaced {
				o.Namespace = lastSegment(key[:len(key)-len(o.Name)-1])
			}
			if len(t.Fields) > 0 {
				o.Fields, err = d.Fields()
			}
			return o, err
		},
	}
}

func lastSegment(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

// fieldText returns the JSON scalar at a path as text, and "" for anything else.
func fieldText(fields map[string]json.RawMessage, path string) string {
	for {
		name, rest, deeper := strings.Cut(path, ".")
		value := fields[name]
		if !deeper {
			return scalarText(value)
		}
		fields, path = nil, rest
		if json.Unmarshal(value, &fields) != nil {
			return ""
		}
	}
}

func scalarText(value []byte) string {
	if len(value) == 0 {
		return ""
	}
	switch value[0] {
	case '"':
		var text string
		if json.Unmarshal(value, &text) != nil {
			return ""
		}
		return text
	case '{', '[', 'n':
		return ""
	}
	return string(value)
}

// match returns the predicate of the selectors, or nil if they select everything.
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

// filter applies selectors to stored objects without decoding them. It reuses memory for one
// object after the other, and is not safe for concurrent use.
type filter[T any] struct {
	kind[T]
	matches func(T) bool // nil: everything

	doc    document.Document
	part   T
	labels map[string]string
}

func (k kind[T]) filter(labels selector.Labels, fields selector.Fields) (filter[T], error) {
	match, err := k.match(labels, fields)
	f := filter[T]{kind: k, matches: match}
	if match != nil {
		f.labels = map[string]string{}
	}
	return f, err
}

// selected returns the document of an entry, or nil if it is not selected. The document is
// valid until the next call.
func (f *filter[T]) selected(e store.Entry) (*document.Document, error) {
	var err error
	if f.doc, err = parseEntry(e); err != nil {
		return nil, err
	}
	if f.matches == nil {
		return &f.doc, nil
	}
	if f.part, err = f.outline(e.Key, &f.doc); err != nil {
		return nil, damaged(e, err)
	}
	f.doc.Labels(f.labels)
	f.meta(&f.part).Labels = f.labels
	if !f.matches(f.part) {
		return nil, nil
	}
	return &f.doc, nil
}

// deletionGrowth is an upper bound for the bytes by which an object grows when a deletion
// timestamp is set.
const deletionGrowth = 128

// checkSize refuses a value of n bytes that could not grow by growth bytes at its key. It
// could never be deleted (rule R12).
func (c *core) checkSize(resource, name string, key, n, growth int) error {
	most := c.maxValue(key)
	if most == 0 || n+growth <= most {
		return nil
	}
	return &namespace.Error{
		Kind: namespace.ErrInvalid, Resource: resource, Name: name, Err: store.ErrTooLarge,
		Message: fmt.Sprintf("%s %q has %d bytes, at most %d are allowed: the store takes %d, and the deletion needs the rest",
			resource, name, n, max(most-growth, 0), most),
	}
}

// maxValue returns the maximum size of a value at a key of the given length, in a commit that
// also writes the gate or the termination entry. Zero means unlimited.
func (c *core) maxValue(key int) int {
	most := c.limits.Value
	if c.limits.Bytes > 0 {
		const small = 256 // values and fixed segments of the other entries
		if whole := max(c.limits.Bytes-3*key-small, 1); most == 0 || whole < most {
			most = whole
		}
	}
	return most
}
