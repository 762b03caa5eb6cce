// Package fieldpath finds values in objects of any kind by declared paths.
package fieldpath

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/phase"
)

// Path locates values in an object, such as
// "spec.containers[*].resources.requests['example.com/gpu']": names of fields separated by
// dots, [*] for each element of a list, and quotes and brackets around a name that contains
// dots or brackets. The zero Path locates nothing.
type Path struct {
	text  string
	steps []step
}

// step leads from a value to values in it.
type step struct {
	field string
	each  bool // every element of a list; there is no field
}

const (
	maxText  = 1024 // bytes
	maxSteps = 32
)

// Parse parses a path. It must begin with a top-level field other than kind, apiVersion and
// metadata.
func Parse(text string) (Path, error) {
	if len(text) > maxText {
		return Path{}, fmt.Errorf("the path has %d bytes, at most %d are allowed", len(text), maxText)
	}
	if !utf8.ValidString(text) {
		return Path{}, errors.New("the path is not valid UTF-8")
	}
	p := Path{text: text}
	for rest := text; ; {
		s, tail, err := cut(rest, len(p.steps) == 0)
		if err != nil {
			return Path{}, fmt.Errorf("the path %q: %w", text, err)
		}
		if p.steps = append(p.steps, s); len(p.steps) > maxSteps {
			return Path{}, fmt.Errorf("the path %q has more than %d steps", text, maxSteps)
		}
		if tail == "" {
			break
		}
		rest = tail
	}
	switch p.steps[0].field {
	case "kind", "apiVersion", "metadata":
		return Path{}, fmt.Errorf("the path %q: %s cannot be looked into", text, p.steps[0].field)
	}
	return p, nil
}

// cut splits the first step from a text.
func cut(text string, first bool) (step, string, error) {
	switch {
	case first && strings.HasPrefix(text, "["):
		return step{}, "", errors.New("it must begin with the name of a field")
	case strings.HasPrefix(text, "[*]"):
		return step{each: true}, text[len("[*]"):], nil
	case strings.HasPrefix(text, "['"):
		name, tail, ok := strings.Cut(text[len("['"):], "']")
		if !ok || name == "" {
			return step{}, "", errors.New("a name in brackets must be ['name']")
		}
		return step{field: name}, tail, nil
	case strings.HasPrefix(text, "["):
		return step{}, "", errors.New("brackets hold * or a name in single quotes")
	case !first && !strings.HasPrefix(text, "."):
		return step{}, "", errors.New("steps are separated by dots")
	case !first:
		text = text[1:]
	}
	end := strings.IndexAny(text, ".[")
	if end < 0 {
		end = len(text)
	}
	name := text[:end]
	if name == "" || strings.ContainsAny(name, "]'\"* \t\r\n") {
		return step{}, "", fmt.Errorf("%q is not the name of a field", name)
	}
	return step{field: name}, text[end:], nil
}

// String returns the text of the path.
func (p Path) String() string { return p.text }

// IsZero reports whether p is the zero Path.
func (p Path) IsZero() bool { return len(p.steps) == 0 }

// Top returns the top-level field of the path.
func (p Path) Top() string {
	if p.IsZero() {
		return ""
	}
	return p.steps[0].field
}

// Document has the fields of an object. It decodes a field when a path needs it. It must not
// be used concurrently.
type Document struct {
	fields map[string]json.RawMessage
	trees  map[string]any
}

// Of returns a document of the top-level fields of an object, which it does not modify.
func Of(fields map[string]json.RawMessage) *Document { return &Document{fields: fields} }

// Found is a value and its location.
type Found struct {
	At    string // such as "spec.containers[1].resources"
	Value any    // as decoded by encoding/json, numbers as json.Number
}

// Mismatch is the error for an object that does not have the declared shape.
type Mismatch struct {
	At   string
	Want string // "an object" or "a list"
}

// Error implements error.
func (m *Mismatch) Error() string { return fmt.Sprintf("%s must be %s", m.At, m.Want) }

// Find returns the values at p in order. Missing and null fields have no values. If the object
// has another shape, the error is a [*Mismatch]. The caller may modify objects and lists among
// the values before [Document.Encode].
func (d *Document) Find(p Path) ([]Found, error) {
	if p.IsZero() {
		return nil, nil
	}
	tree, err := d.tree(p.Top())
	if err != nil || tree == nil {
		return nil, err
	}
	found := []Found{{At: p.Top(), Value: tree}}
	for _, s := range p.steps[1:] {
		if found, err = follow(found, s); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func follow(found []Found, s step) ([]Found, error) {
	var next []Found
	for _, f := range found {
		if s.each {
			list, ok := f.Value.([]any)
			if !ok {
				return nil, &Mismatch{f.At, "a list"}
			}
			for i, value := range list {
				if value != nil {
					next = append(next, Found{f.At + "[" + strconv.Itoa(i) + "]", value})
				}
			}
			continue
		}
		object, ok := f.Value.(map[string]any)
		if !ok {
			return nil, &Mismatch{f.At, "an object"}
		}
		if value := object[s.field]; value != nil {
			next = append(next, Found{Key(f.At, s.field), value})
		}
	}
	return next, nil
}

// Key returns the path of a field of the object at a path.
func Key(at, field string) string {
	if strings.ContainsAny(field, ".[]/") {
		return at + "[" + field + "]"
	}
	return at + "." + field
}

// tree decodes a top-level field once.
func (d *Document) tree(top string) (any, error) {
	if tree, ok := d.trees[top]; ok {
		return tree, nil
	}
	raw, ok := d.fields[top]
	if !ok || len(raw) == 0 {
		return nil, nil
	}
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("%s: %w", top, err)
	}
	if d.trees == nil {
		d.trees = map[string]any{}
	}
	d.trees[top] = tree
	return tree, nil
}

// Encode returns a top-level field with its modifications.
func (d *Document) Encode(top string) (json.RawMessage, error) {
	tree, ok := d.trees[top]
	if !ok {
		return d.fields[top], nil
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(tree); err != nil {
		return nil, fmt.Errorf("%s: %w", top, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Show returns a value for a message, shortened to 64 bytes.
func Show(value any) string {
	const maxShown = 64
	text, ok := value.(string)
	if !ok {
		raw, err := json.Marshal(value)
		if err != nil {
			return "?"
		}
		text = string(raw)
		if len(text) <= maxShown {
			return text
		}
	}
	return strconv.Quote(phase.Truncate(text, maxShown))
}
