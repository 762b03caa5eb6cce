package codec

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// structure is what is enforced of an OpenAPI v3 schema: which fields there are,
// their types, and the bounds of their values. What else a schema demands (allOf,
// formats, rules in CEL, ...) is for [kinds.Kind.Validate]. A nil structure allows
// everything.
type structure struct {
	bounds
	Type         string                `json:"type"`
	Nullable     bool                  `json:"nullable"`
	Required     []string              `json:"required"`
	Properties   map[string]*structure `json:"properties"`
	Additional   *additional           `json:"additionalProperties"`
	Items        *structure            `json:"items"`
	Preserve     bool                  `json:"x-kubernetes-preserve-unknown-fields"`
	IntOrString  bool                  `json:"x-kubernetes-int-or-string"`
	EmbeddedKind bool                  `json:"x-kubernetes-embedded-resource"`
}

// additional is a schema, or whether there may be further properties at all.
type additional struct {
	allowed bool
	schema  *structure
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *additional) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &a.allowed) == nil {
		return nil
	}
	a.allowed = true
	return json.Unmarshal(data, &a.schema)
}

func structureOf(schema []byte) (*structure, error) {
	s := &structure{}
	if err := json.Unmarshal(schema, s); err != nil {
		return nil, err
	}
	return s, nil
}

// check removes from a document the fields that the structure does not know, and
// returns them as errors, with the values that it has no room for. Kind,
// apiVersion and metadata are not looked at: all objects have them.
func (s *structure) check(document any) ([]error, []namespace.Violation) {
	object, ok := document.(map[string]any)
	if s == nil || !ok {
		return nil, nil
	}
	root := *s
	root.Properties = maps.Clone(s.Properties)
	if root.Properties == nil {
		root.Properties = map[string]*structure{}
	}
	for _, own := range []string{"kind", "apiVersion", "metadata"} {
		root.Properties[own] = nil
	}
	root.Preserve = s.open()
	var c checking
	c.value("", &root, object)
	return c.unknown, c.wrong
}

// maxFaults bounds how many faults of one document are told.
const maxFaults = 100

// checking is one document that is being checked.
type checking struct {
	unknown []error
	wrong   []namespace.Violation
}

func (c *checking) value(path string, s *structure, v any) {
	if s == nil {
		return
	}
	if v == nil {
		if !s.Nullable && s.Type != "" && path != "" {
			c.mistyped(path, s.Type, "null")
		}
		return
	}
	found := typeOf(v)
	if want := s.want(); want != "" && want != found && !(want == "number" && found == "integer") {
		if !(s.IntOrString && (found == "integer" || found == "string")) {
			c.mistyped(path, want, found)
			return
		}
	}
	c.within(path, &s.bounds, v)
	switch v := v.(type) {
	case map[string]any:
		c.object(path, s, v)
	case []any:
		if s.Items == nil {
			return
		}
		for i, item := range v {
			c.value(path+"["+strconv.Itoa(i)+"]", s.Items, item)
		}
	}
}

func (c *checking) object(path string, s *structure, object map[string]any) {
	for _, name := range s.Required {
		if _, ok := object[name]; !ok {
			c.add(namespace.FieldRequired, join(path, name), "Required value")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		property, known := s.Properties[name]
		switch {
		case known:
		case s.Additional != nil && s.Additional.allowed:
			property = s.Additional.schema
		case s.open():
			continue
		default:
			if len(c.unknown) < maxFaults {
				c.unknown = append(c.unknown, fmt.Errorf("unknown field %q", join(path, name)))
			}
			delete(object, name)
			continue
		}
		c.value(join(path, name), property, object[name])
	}
}

func (c *checking) mistyped(path, want, found string) {
	c.add(namespace.FieldInvalid, path, fmt.Sprintf("Invalid value: %q: %s in body must be of type %s: %q", found, path, want, found))
}

// open reports whether an object may have fields that the structure does not name:
// so it is unless it names any.
func (s *structure) open() bool {
	return s.Preserve || s.EmbeddedKind || len(s.Properties) == 0 && s.Additional == nil
}

// want is the type that a value must have; empty: any.
func (s *structure) want() string {
	if s.IntOrString {
		return "integer or string"
	}
	return s.Type
}

// typeOf returns the type of a decoded JSON value, as schemas name it.
func typeOf(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<63 {
			return "integer" // as 1.0 and 1e3 are
		}
		return "number"
	case json.Number:
		if f, err := v.Float64(); err == nil {
			return typeOf(f)
		}
		return "number"
	case int64:
		return "integer"
	}
	return "null"
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
