package registry

import (
	"encoding/json"
	"slices"
	"strings"
)

// kindOf returns how objects of a type are read and selected.
func kindOf(t ResourceType) kind[Object] {
	k := objectKind
	if len(t.Fields) == 0 {
		return k
	}
	k.fields = slices.Concat(k.fields, t.Fields)
	k.field = func(o Object, field string) string {
		if slices.Contains(objectKind.fields, field) {
			return objectKind.field(o, field)
		}
		return o.text(field)
	}
	return k
}

// text returns the JSON scalar at a path, as text.
func (o Object) text(path string) string {
	name, rest, deeper := strings.Cut(path, ".")
	value := []byte(o.Fields[name])
	for deeper {
		name, rest, deeper = strings.Cut(rest, ".")
		value = member(value, name)
	}
	return scalarText(value)
}

// member returns a field of the JSON object in data, the last one of that name;
// nil when it is none, or has no such field.
func member(data []byte, name string) (value []byte) {
	if eachField(data, func(n string, v []byte) error {
		if n == name {
			value = v
		}
		return nil
	}) != nil {
		return nil
	}
	return value
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

// maxField bounds the path of a selectable field, in bytes.
const maxField = 253

// checkFields refuses fields that cannot be selected.
func (t ResourceType) checkFields() error {
	for i, field := range t.Fields {
		why := fieldPathFault(field)
		switch {
		case slices.Contains(objectKind.fields, field):
			why = "can be selected of every type"
		case slices.Contains(t.Fields[:i], field):
			why = "is there twice"
		}
		if why != "" {
			return invalidOption("resource type %q: the field %q %s", t.Name(), clip(field), why)
		}
	}
	return nil
}

func fieldPathFault(path string) string {
	if len(path) > maxField {
		return "is longer than a path may be"
	}
	first, _, _ := strings.Cut(path, ".")
	if reserved(first) {
		return "is no field that objects differ in: name one outside of metadata, kind and apiVersion"
	}
	for segment := range strings.SplitSeq(path, ".") {
		if segment == "" {
			return "has an empty name in its path"
		}
		for i := range len(segment) {
			switch c := segment[i]; {
			case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', i > 0 && (c >= '0' && c <= '9' || c == '-'):
			default:
				return "must be names of letters, digits, '-' and '_', with dots between them"
			}
		}
	}
	return ""
}
