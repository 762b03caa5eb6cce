package declare

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// The limits of a declaration, in bytes.
const (
	maxValue  = 8 << 10 // the whole annotation
	maxName   = 512     // an owner or a user, such as the name of a service account
	maxReason = 1 << 10
	maxSource = 512
	maxTime   = 64
)

// field is one string of the JSON object in an annotation. Its value is text or time.
type field struct {
	name     string
	text     *string
	time     *time.Time
	limit    int // in bytes
	optional bool
	verify   func(text string) error // may be nil
}

// check returns an error if text cannot be printed on one line of a terminal or a log.
func (f field) check(text string) error {
	switch {
	case text == "" && f.optional:
		return nil
	case strings.TrimSpace(text) == "" && f.optional:
		return fmt.Errorf("%s must not be blank: omit it", f.name)
	case strings.TrimSpace(text) == "":
		return fmt.Errorf("%s is required", f.name)
	case len(text) > f.limit:
		return fmt.Errorf("%s has %d bytes, at most %d are allowed", f.name, len(text), f.limit)
	case !utf8.ValidString(text):
		return fmt.Errorf("%s must be valid UTF-8", f.name)
	case strings.ContainsFunc(text, Hidden):
		return fmt.Errorf("%s must be one line of visible characters", f.name)
	case f.verify != nil:
		return f.verify(text)
	}
	return nil
}

// set sets the value.
func (f field) set(text string) error {
	if err := f.check(text); err != nil || text == "" {
		return err
	}
	if f.time == nil {
		*f.text = text
		return nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return fmt.Errorf("%s must be a time such as 2026-01-02T15:04:05Z", f.name)
	}
	t = t.UTC()
	if _, err := t.MarshalText(); err != nil || t.IsZero() { // the offset may lead to a year that has no text
		return fmt.Errorf("%s is out of range", f.name)
	}
	*f.time = t
	return nil
}

// get returns the value as text. A zero time is empty.
func (f field) get() (string, error) {
	text := ""
	switch {
	case f.time == nil:
		text = *f.text
	case !f.time.IsZero():
		utc := f.time.UTC()
		encoded, err := utc.MarshalText()
		if err != nil {
			return "", fmt.Errorf("%s must be between the years 0 and 9999, got the year %d", f.name, utc.Year())
		}
		text = string(encoded)
	}
	return text, f.check(text)
}

// Hidden reports whether r is invisible or changes the display of other characters, such as a
// line break or a bidirectional control. Joiners are not hidden, since several scripts need them.
func Hidden(r rune) bool { return !unicode.IsGraphic(r) && !unicode.Is(unicode.Join_Control, r) }

// Printable returns s without invalid UTF-8 and [Hidden] characters, cut to limit bytes.
func Printable(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if Hidden(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return strings.TrimSpace(s)
}

// readAnnotation reads the value of the annotation key into fields. It accepts exactly one
// JSON object, of strings, without duplicate or unknown names. Names are case-sensitive.
func readAnnotation(key, value string, fields []field) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if len(value) > maxValue {
		return fmt.Errorf("has %d bytes, at most %d are allowed", len(value), maxValue)
	}
	if !utf8.ValidString(value) {
		return errors.New("must be valid UTF-8")
	}
	values, err := decode(value, fields)
	if errors.Is(err, errNotObject) {
		return fmt.Errorf("must be a JSON object with %s", names(fields))
	}
	if err != nil {
		return err
	}
	for i, f := range fields {
		if err := f.set(values[i]); err != nil {
			return err
		}
	}
	return nil
}

var errNotObject = errors.New("not a JSON object")

// decode decodes a JSON object of strings and returns the values of the fields. Unlike
// [json.Unmarshal], it refuses duplicate names and null.
func decode(text string, fields []field) ([]string, error) {
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errNotObject
	}
	values, seen := make([]string, len(fields)), make([]bool, len(fields))
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil, errNotObject
		}
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown field %s, known are %s", strconv.Quote(phase.Truncate(name, maxShown)), names(fields))
		}
		if seen[i] {
			return nil, fmt.Errorf("%s appears twice", name)
		}
		seen[i] = true
		if token, err = d.Token(); err != nil {
			return nil, errNotObject
		}
		if values[i], ok = token.(string); !ok {
			return nil, fmt.Errorf("%s must be a string", name)
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, errNotObject
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has text after the JSON object")
	}
	return values, nil
}

// names lists the names of fields and marks optional ones.
func names(fields []field) string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.name
		if f.optional {
			list[i] += " (optional)"
		}
	}
	return strings.Join(list, ", ")
}

func checkKey(key string) error {
	if problems := syntax.QualifiedName(key); len(problems) > 0 {
		return errors.New(problems[0])
	}
	return nil
}

// writeAnnotation returns key, and the value that readAnnotation reads into the same fields.
// It omits empty optional fields.
func writeAnnotation(key string, fields []field) (string, string, error) {
	if err := checkKey(key); err != nil {
		return "", "", invalidDeclaration(key, err)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // operators read it
	separator := byte('{')
	for _, f := range fields {
		text, err := f.get()
		if err != nil {
			return "", "", invalidDeclaration(key, err)
		}
		if text == "" {
			continue
		}
		out.WriteByte(separator)
		out.WriteString(`"` + f.name + `":`)
		_ = encoder.Encode(text)    // encoding a string into a buffer cannot fail
		out.Truncate(out.Len() - 1) // the line break that Encode appends
		separator = ','
	}
	out.WriteByte('}')
	return key, out.String(), nil
}

// readAll reads the annotations of m whose keys begin with prefix, in the order of the keys.
// The error is a [*namespace.Error] with one cause for each unreadable annotation.
func readAll[T any](m namespace.Meta, prefix string, read func(key, value string) (T, error)) ([]T, error) {
	var all []T
	var violations []namespace.Violation
	for _, key := range keysWith(m, prefix) {
		v, err := read(key, m.Annotations[key])
		if err != nil {
			violations = append(violations, unreadable(key, m.Annotations[key], err))
			continue
		}
		all = append(all, v)
	}
	return all, namespace.Invalid(namespace.Kind, namespace.Resource, m.Name, violations)
}

// keysWith returns the sorted keys of the annotations that begin with prefix.
func keysWith(m namespace.Meta, prefix string) []string {
	var keys []string
	for key := range m.Annotations {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// maxShown limits the keys and names that errors repeat, in bytes.
const maxShown = 256

func annotationField(key string) string {
	return "metadata.annotations[" + phase.Truncate(key, maxShown) + "]"
}

func unreadable(key, value string, err error) namespace.Violation {
	return namespace.InvalidField(annotationField(key), value, err.Error())
}

// invalidDeclaration is the error of a declaration that cannot be written as an annotation.
func invalidDeclaration(key string, err error) error {
	return &namespace.Error{
		Kind: namespace.ErrInvalid, Resource: namespace.Resource,
		Message: "the annotation " + strconv.Quote(phase.Truncate(key, maxShown)) + " is invalid: " + err.Error(),
		Causes:  []namespace.Violation{{Type: namespace.FieldInvalid, Field: annotationField(key), Message: "Invalid value: " + err.Error()}},
	}
}
