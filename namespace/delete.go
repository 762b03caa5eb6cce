package namespace

import (
	"fmt"
	"slices"
)

// Preconditions restrict a deletion to one incarnation, or to one version, of an
// object. Empty fields are not checked.
type Preconditions struct {
	UID             string
	ResourceVersion string
}

// Check returns nil when the object m of a resource ("namespaces") is the one
// that p asks for, and an [*Error] of kind [ErrConflict] otherwise.
func (p Preconditions) Check(resource string, m Meta) error {
	for _, c := range []struct{ field, want, is string }{
		{"UID", p.UID, m.UID},
		{"ResourceVersion", p.ResourceVersion, m.ResourceVersion},
	} {
		if c.want == "" || c.want == c.is {
			continue
		}
		return &Error{Kind: ErrConflict, Resource: resource, Name: m.Name, Message: fmt.Sprintf(
			"Operation cannot be fulfilled on %s %s: Precondition failed: %s in precondition: %s, %s in object meta: %s",
			resource, quoted(m.Name), c.field, cut(c.want), c.field, c.is)}
	}
	return nil
}

// ValidateDelete reports whether the deletion of n may be asked for: its name is
// not among the immortal ones (an [*Error] of kind [ErrForbidden]), and it is the one that p
// asks for ([ErrConflict]).
func ValidateDelete(n Namespace, p Preconditions, immortal ...string) error {
	if slices.Contains(immortal, n.Name) {
		return &Error{Kind: ErrForbidden, Resource: Resource, Name: n.Name,
			Message: fmt.Sprintf("%s %q is forbidden: this namespace may not be deleted", Resource, n.Name)}
	}
	return p.Check(Resource, n.Meta)
}
