package namespace

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ResourceType names a type of content, such as "pods" or "widgets.example.com".
type ResourceType struct {
	Group string // empty: the core group
	Name  string // plural and lower case, such as "pods"
}

// String returns "pods" or "widgets.example.com".
func (t ResourceType) String() string {
	if t.Group == "" {
		return t.Name
	}
	return t.Name + "." + t.Group
}

// Compare orders resource types by name, then by group.
func (t ResourceType) Compare(u ResourceType) int {
	if c := strings.Compare(t.Name, u.Name); c != 0 {
		return c
	}
	return strings.Compare(t.Group, u.Group)
}

// Validate returns nil, or an error that names the field and the rule. A name may have any
// printable characters except dots and slashes; a group may have dots.
func (t ResourceType) Validate() error {
	if err := checkPathSegment("resource name", t.Name); err != nil {
		return err
	}
	if strings.Contains(t.Name, ".") {
		return fmt.Errorf("resource name %q: must not contain dots; the group goes into Group", t.Name)
	}
	if t.Group == "" {
		return nil
	}
	return checkPathSegment("resource group", t.Group)
}

// maxPathSegment is the longest DNS name and Kubernetes object name, in bytes.
const maxPathSegment = 253

// checkPathSegment returns an error if s could not be one segment of a path or a storage key.
func checkPathSegment(field, s string) error {
	var rule string
	switch {
	case s == "":
		return errors.New(field + ": must not be empty")
	case len(s) > maxPathSegment:
		return fmt.Errorf("%s: must be no more than %d bytes, has %d", field, maxPathSegment, len(s))
	case !utf8.ValidString(s):
		rule = "must be valid UTF-8"
	case s == "." || s == "..":
		rule = "must not be a path"
	case strings.ContainsFunc(s, func(r rune) bool { return r == '/' || unicode.IsControl(r) }):
		rule = "must not contain slashes or control characters"
	default:
		return nil
	}
	return fmt.Errorf("%s %q: %s", field, s, rule)
}
