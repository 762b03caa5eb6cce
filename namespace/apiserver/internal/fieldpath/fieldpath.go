// Package fieldpath finds quantities in objects of any kind, by declared paths.
package fieldpath

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Path says where in an object something is, such as
// "spec.containers[*].resources.requests['example.com/gpu']": names of fields
// with dots between them, [*] for each element of a list, and a name in quotes
// and brackets where it has dots or brackets of its own. The zero Path is none.
type Path struct {
	text  string
	steps []step
}

// step goes from one value to those in it.
type step struct {
	field string
	each  bool // every element of a list; there is no field
}

const (
	maxText  = 1024 // bytes
	maxSteps = 32
)

// Parse reads a path. It begins with a top-level field other than kind, apiVersion
// and metadata.
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

// cut takes the first step from a text.
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

// IsZero reports whether p is no path.
func (p Path) IsZero() bool { return len(p.steps) == 0 }

// Top returns the top-level field that the path begins with.
func (p Path) Top() string {
	if p.IsZero() {
		return ""
	}
	return p.steps[0].field
}
