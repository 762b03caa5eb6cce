package codec

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// structure is the enforced part of an OpenAPI v3 schema: the names of fields, their types,
// and the bounds of their values. The rest (allOf, formats, CEL rules, ...) is left to
// [kinds.Kind.Validate]. A nil structure allows everything.
//
// The validator of kube-openapi is not used: it creates validators for each value, with 380
// allocations for a small object and 0.9 GB for a list of 500,000 numbers.
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

// additional is the schema of further properties, or whether they are allowed.
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

// check removes unknown fields from a document and returns an error for each, and a
// violation for each value that is not allowed. It skips kind, apiVersion and metadata.
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

// maxFaults bounds the reported faults of a document.
const maxFaults = 100

// checking collects the faults of a document.
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

// open reports whether an object may have fields that the structure does not name.
func (s *structure) open() bool {
	return s.Preserve || s.EmbeddedKind || len(s.Properties) == 0 && s.Additional == nil
}

// want returns the required type of a value, or "" for any.
func (s *structure) want() string {
	if s.IntOrString {
		return "integer or string"
	}
	return s.Type
}

// typeOf returns the type of a decoded JSON value in terms of schemas.
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
			return "integer" // 1.0 and 1e3, for example
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

// bounds is the part of a schema that restricts values of a type.
type bounds struct {
	Enum             []any    `json:"enum"`
	Minimum          *float64 `json:"minimum"`
	Maximum          *float64 `json:"maximum"`
	ExclusiveMinimum bool     `json:"exclusiveMinimum"`
	ExclusiveMaximum bool     `json:"exclusiveMaximum"`
	MinLength        *int     `json:"minLength"` // in characters
	MaxLength        *int     `json:"maxLength"`
	Pattern          pattern  `json:"pattern"`
	MinItems         *int     `json:"minItems"`
	MaxItems         *int     `json:"maxItems"`
	MinProperties    *int     `json:"minProperties"`
	MaxProperties    *int     `json:"maxProperties"`
}

// pattern is a regular expression that must match a part of a text.
type pattern struct{ *regexp.Regexp }

// UnmarshalJSON implements json.Unmarshaler.
func (p *pattern) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return fmt.Errorf("pattern: %w", err)
	}
	p.Regexp = compiled
	return nil
}

// within reports each bound that a value of the right type exceeds, in Kubernetes' words.
func (c *checking) within(path string, b *bounds, v any) {
	if len(b.Enum) > 0 && !slices.ContainsFunc(b.Enum, func(allowed any) bool { return equal(allowed, v) }) {
		c.add(namespace.FieldNotSupported, path, "Unsupported value: "+shown(v)+": supported values: "+listed(b.Enum))
	}
	switch v := v.(type) {
	case string:
		c.withinText(path, b, v)
	case []any:
		if b.MinItems != nil && len(v) < *b.MinItems {
			c.invalid(path, fmt.Sprint(len(v)), "should have at least %d items", *b.MinItems)
		}
		if b.MaxItems != nil && len(v) > *b.MaxItems {
			c.add("FieldValueTooMany", path, fmt.Sprintf("Too many: %d: must have at most %d items", len(v), *b.MaxItems))
		}
	case map[string]any:
		if b.MinProperties != nil && len(v) < *b.MinProperties {
			c.invalid(path, fmt.Sprint(len(v)), "should have at least %d properties", *b.MinProperties)
		}
		if b.MaxProperties != nil && len(v) > *b.MaxProperties {
			c.add("FieldValueTooMany", path, fmt.Sprintf("Too many: %d: must have at most %d items", len(v), *b.MaxProperties))
		}
	default:
		if number, ok := numberOf(v); ok {
			c.withinNumber(path, b, v, number)
		}
	}
}

func (c *checking) withinText(path string, b *bounds, v string) {
	size := utf8.RuneCountInString(v)
	if b.MinLength != nil && size < *b.MinLength {
		c.invalid(path, shown(v), "should be at least %d chars long", *b.MinLength)
	}
	if b.MaxLength != nil && size > *b.MaxLength {
		c.add(namespace.FieldTooLong, path, fmt.Sprintf("Too long: may not be more than %d bytes", *b.MaxLength))
	}
	if b.Pattern.Regexp != nil && !b.Pattern.MatchString(v) {
		c.invalid(path, shown(v), "should match '%s'", b.Pattern.String())
	}
}

func (c *checking) withinNumber(path string, b *bounds, v any, number float64) {
	switch {
	case b.Minimum == nil:
	case b.ExclusiveMinimum && number <= *b.Minimum:
		c.invalid(path, shown(v), "should be greater than %v", *b.Minimum)
	case number < *b.Minimum:
		c.invalid(path, shown(v), "should be greater than or equal to %v", *b.Minimum)
	}
	switch {
	case b.Maximum == nil:
	case b.ExclusiveMaximum && number >= *b.Maximum:
		c.invalid(path, shown(v), "should be less than %v", *b.Maximum)
	case number > *b.Maximum:
		c.invalid(path, shown(v), "should be less than or equal to %v", *b.Maximum)
	}
}

func (c *checking) invalid(path, value, format string, args ...any) {
	c.add(namespace.FieldInvalid, path, "Invalid value: "+value+": "+path+" in body "+fmt.Sprintf(format, args...))
}

func (c *checking) add(kind, path, message string) {
	if len(c.wrong) < maxFaults {
		c.wrong = append(c.wrong, namespace.Violation{Type: kind, Field: path, Message: message})
	}
}

// equal compares JSON values, numbers by their value.
func equal(allowed, v any) bool {
	a, isNumber := numberOf(allowed)
	b, ok := numberOf(v)
	if isNumber || ok {
		return isNumber && ok && a == b
	}
	return shown(allowed) == shown(v)
}

func numberOf(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}

// shown returns a value for a message, shortened if it is long.
func shown(v any) string {
	text, err := marshal(v)
	if err != nil {
		return "?"
	}
	if len(text) > 200 {
		return excerpt(string(text))
	}
	return string(text)
}

func listed(values []any) string {
	list := make([]string, 0, len(values))
	for _, v := range values {
		list = append(list, shown(v))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
