package finalizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
)

// Set is an immutable ordered list of distinct names. It may be copied by assignment and is safe
// for concurrent use. The zero Set is empty.
//
// Its JSON form is a list of strings. The empty Set encodes as []; a field with the option
// omitzero omits it, as Kubernetes does. Decoding accepts null for the empty Set and drops
// repeated names.
type Set struct{ names []Name }

// NewSet returns the set of names, in order and without repetitions.
func NewSet(names ...Name) Set {
	if len(names) == 0 {
		return Set{}
	}
	s := Set{make([]Name, 0, len(names))}
	seen := indexOf(nil, len(names))
	for _, n := range names {
		if !seen.has(s.names, n) {
			s.names = append(s.names, n)
			seen.add(n)
		}
	}
	return s
}

// Has reports whether name is in s.
func (s Set) Has(name Name) bool { return slices.Contains(s.names, name) }

// With returns s with name appended, or s if it has name.
func (s Set) With(name Name) Set {
	if s.Has(name) {
		return s
	}
	names := make([]Name, len(s.names), len(s.names)+1)
	copy(names, s.names)
	return Set{append(names, name)}
}

// Without returns s without name, or s if it does not have name.
func (s Set) Without(name Name) Set {
	i := slices.Index(s.names, name)
	switch {
	case i < 0:
		return s
	case len(s.names) == 1:
		return Set{}
	}
	names := make([]Name, 0, len(s.names)-1)
	names = append(names, s.names[:i]...)
	return Set{append(names, s.names[i+1:]...)}
}

// Diff returns the names that only t has, in the order of t, and the names that only s has, in the
// order of s.
func (s Set) Diff(t Set) (added, removed []Name) { return t.minus(s), s.minus(t) }

func (s Set) minus(t Set) []Name {
	var names []Name
	in := indexOf(t.names, len(t.names))
	for _, n := range s.names {
		if !in.has(t.names, n) {
			names = append(names, n)
		}
	}
	return names
}

// Len returns the number of names.
func (s Set) Len() int { return len(s.names) }

// All returns an iterator over the indexes and names.
func (s Set) All() iter.Seq2[int, Name] { return slices.All(s.names) }

// Names returns a copy of the names, or nil if s is empty.
func (s Set) Names() []Name {
	if len(s.names) == 0 {
		return nil
	}
	return slices.Clone(s.names)
}

// Equal reports whether s and t have the same names in the same order.
func (s Set) Equal(t Set) bool { return slices.Equal(s.names, t.names) }

// IsZero reports whether s is empty. The option omitzero of encoding/json calls it.
func (s Set) IsZero() bool { return len(s.names) == 0 }

// MarshalJSON implements json.Marshaler.
func (s Set) MarshalJSON() ([]byte, error) {
	if len(s.names) == 0 {
		return []byte("[]"), nil
	}
	// The outer encoder decides whether to escape < and >. It can add escapes, but not remove them.
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s.names); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// UnmarshalJSON implements json.Unmarshaler. It replaces the names of s.
func (s *Set) UnmarshalJSON(data []byte) error {
	var names []Name
	if err := json.Unmarshal(data, &names); err != nil {
		return fmt.Errorf("finalizers must be a list of strings: %w", err)
	}
	*s = NewSet(names...)
	return nil
}

// index makes lookups in a long list fast, since a client may send a very long one. For a short list
// it is nil, and the list itself is searched.
type index map[Name]struct{}

func indexOf(names []Name, size int) index {
	const short = 32
	if size <= short {
		return nil
	}
	in := make(index, size)
	for _, n := range names {
		in.add(n)
	}
	return in
}

func (in index) add(n Name) {
	if in != nil {
		in[n] = struct{}{}
	}
}

func (in index) has(names []Name, n Name) bool {
	if in == nil {
		return slices.Contains(names, n)
	}
	_, ok := in[n]
	return ok
}
