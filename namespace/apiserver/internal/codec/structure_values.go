package codec

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/excerpt"
)

// bounds is the part of a schema that says which values of a type are allowed.
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

// pattern is a regular expression that a text must match somewhere.
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

// within reports where a value of the right type breaks the bounds, in the words of
// Kubernetes.
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

// equal compares JSON values by what they mean: numbers by their value.
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

// shown returns a value for a message, cut when nobody would read it.
func shown(v any) string {
	text, err := marshal(v)
	if err != nil {
		return "?"
	}
	if len(text) > 200 {
		return excerpt.Of(string(text))
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
