package fieldpath

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Document is the fields of one object, decoded as far as paths ask. It is for
// one goroutine.
type Document struct {
	fields map[string]json.RawMessage
	trees  map[string]any
}

// Of returns a document of the top-level fields of an object. They are not changed.
func Of(fields map[string]json.RawMessage) *Document { return &Document{fields: fields} }

// Found is a value and where it was.
type Found struct {
	At    string // such as "spec.containers[1].resources"
	Value any    // as encoding/json decodes into any, numbers as json.Number
}

// Mismatch is a value that a path cannot go through: the object does not have the
// shape that was declared.
type Mismatch struct {
	At   string
	Want string // "an object" or "a list"
}

// Error implements error.
func (m *Mismatch) Error() string { return fmt.Sprintf("%s must be %s", m.At, m.Want) }

// Find returns the values at p, in order. Where a field is missing or null there
// are none; where the object has another shape the error is a [*Mismatch]. The
// objects and lists among them are those of the document: what is changed in them
// is what [Document.Encode] returns.
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

// Encode returns a top-level field as it is now.
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
