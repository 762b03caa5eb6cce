package namespace

import (
	"fmt"
	"strings"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
	"github.com/nslifecycle/nslifecycle/phase"
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
// characters of a path segment except dots; a group may have dots.
func (t ResourceType) Validate() error {
	if err := checkSegment("resource name", t.Name); err != nil {
		return err
	}
	if strings.Contains(t.Name, ".") {
		return fmt.Errorf("resource name %q: must not contain dots; the group goes into Group", t.Name)
	}
	if t.Group == "" {
		return nil
	}
	return checkSegment("resource group", t.Group)
}

func checkSegment(field, s string) error {
	if problems := syntax.PathSegment(s); len(problems) > 0 {
		return fmt.Errorf("%s %q: %s", field, phase.Truncate(s, 100), strings.Join(problems, ", "))
	}
	return nil
}
