package namespace

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/phase"
)

// Violation is one field that breaks one rule.
type Violation struct {
	Type    string // one of the types below, or "NamespaceTerminating"
	Field   string // the path, such as "spec.finalizers[0]"
	Message string // such as `Invalid value: "x": must not contain dots`
}

// The types of violations of a field, as Kubernetes names them.
const (
	FieldRequired     = "FieldValueRequired"
	FieldInvalid      = "FieldValueInvalid"
	FieldNotSupported = "FieldValueNotSupported"
	FieldForbidden    = "FieldValueForbidden"
	FieldDuplicate    = "FieldValueDuplicate"
	FieldTooLong      = "FieldValueTooLong"
)

// Invalid returns the refusal of an object: an [*Error] of kind [ErrInvalid] with
// every violation and upstream's message, such as
//
//	Namespace "x" is invalid: metadata.name: Invalid value: "x": must not contain dots
//
// Several violations stand in brackets. Kind is "Namespace", or with its group
// "Widget.example.com". Invalid returns nil when there are no violations.
func Invalid(kind, resource, name string, violations []Violation) error {
	if len(violations) == 0 {
		return nil
	}
	return &Error{
		Kind:     ErrInvalid,
		Resource: resource,
		Name:     name,
		Message:  fmt.Sprintf("%s %s is invalid: %s", kind, quoted(name), aggregate(violations)),
		Causes:   violations,
	}
}

// aggregate lists each different violation once.
func aggregate(violations []Violation) string {
	seen := make(map[string]bool, len(violations))
	var list []string
	for _, v := range violations {
		text := v.Field + ": " + v.Message
		if !seen[text] {
			seen[text] = true
			list = append(list, text)
		}
	}
	if len(list) == 1 {
		return list[0]
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// quoted returns the beginning of s in quotes.
func quoted(s string) string { return strconv.Quote(phase.Truncate(s, 1024)) }

// InvalidField returns the violation of a rule by the value of a field.
func InvalidField(field, value, rule string) Violation {
	return Violation{FieldInvalid, field, "Invalid value: " + quoted(value) + ": " + rule}
}

// invalidValue is invalid for values that are not text or too long to repeat;
// shown may be empty.
func invalidValue(field, shown, text string) Violation {
	if shown != "" {
		text = shown + ": " + text
	}
	return Violation{FieldInvalid, field, "Invalid value: " + text}
}

func invalidEach(field, value string, texts []string) []Violation {
	list := make([]Violation, 0, len(texts))
	for _, t := range texts {
		list = append(list, InvalidField(field, value, t))
	}
	return list
}

func required(field, text string) Violation {
	if text != "" {
		text = ": " + text
	}
	return Violation{FieldRequired, field, "Required value" + text}
}

// ForbiddenField returns the violation of a field that may not be set or changed.
func ForbiddenField(field, rule string) Violation {
	return Violation{FieldForbidden, field, "Forbidden: " + rule}
}

func tooLong(field string, limit int) Violation {
	return Violation{FieldTooLong, field, fmt.Sprintf("Too long: may not be more than %d bytes", limit)}
}

func immutable(field, value string) Violation {
	return InvalidField(field, value, "field is immutable")
}

// text refuses a string that is not valid UTF-8: it could not be stored as it is.
func text(field, value string) []Violation {
	if utf8.ValidString(value) {
		return nil
	}
	return []Violation{invalidValue(field, "", "must be valid UTF-8")}
}

// moment refuses a time that has no JSON form.
func moment(field string, t phase.Time) []Violation {
	if t.IsZero() {
		return nil
	}
	if _, err := t.MarshalJSON(); err != nil {
		return []Violation{invalidValue(field, "", err.Error())}
	}
	return nil
}

func indexed(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }
