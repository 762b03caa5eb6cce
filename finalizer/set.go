// Package finalizer defines the names by which parties hold a namespace, and
// the ordered set of them in spec.finalizers (design document, "Finalizers").
package finalizer

import "slices"

// Name is a qualified name ("example.com/agent") or one of the standard ones: a
// party's promise to clean up before the namespace is removed.
type Name string

// The standard names, valid although they are not qualified.
const (
	Kubernetes         Name = "kubernetes" // the default; added at creation when missing (rule R5)
	Orphan             Name = "orphan"
	ForegroundDeletion Name = "foregroundDeletion"
)

// Set is an ordered list of distinct names with value semantics: no operation
// changes a Set that somebody else holds. The zero Set is empty.
type Set struct{ names []Name }

// NewSet returns the set of names, in their order; of equal names the first stays.
func NewSet(names ...Name) Set {
	var s Set
	for _, n := range names {
		s = s.With(n)
	}
	return s
}

// Has reports whether name is in s.
func (s Set) Has(name Name) bool { return slices.Contains(s.names, name) }

// With returns s with name at its end; s itself when name is in it already.
func (s Set) With(name Name) Set {
	if s.Has(name) {
		return s
	}
	return Set{append(slices.Clip(s.names), name)}
}

// Without returns s without name, the others in their order.
func (s Set) Without(name Name) Set {
	if !s.Has(name) {
		return s
	}
	return Set{slices.DeleteFunc(slices.Clone(s.names), func(n Name) bool { return n == name })}
}

// Len returns the number of names.
func (s Set) Len() int { return len(s.names) }

// Names returns a copy of the names in order; nil when s is empty.
func (s Set) Names() []Name { return append([]Name(nil), s.names...) }

// Equal reports whether both hold the same names in the same order.
func (s Set) Equal(t Set) bool { return slices.Equal(s.names, t.names) }

// IsZero reports whether s is empty; encoding/json's omitzero asks it.
func (s Set) IsZero() bool { return len(s.names) == 0 }
