// Package selector holds label and field selectors: the conditions by which
// lists and watches of namespaces and content are narrowed, in the syntax of
// Kubernetes (design document, "REST API").
//
// Selectors are immutable values. The zero [Labels] and the zero [Fields] match
// everything. All methods are safe for concurrent use.
package selector

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// MaxLength is the most bytes that a selector in text form may have.
const MaxLength = 64 << 10

// MaxRequirements is the most requirements that a selector may have; one that is
// repeated counts once. Every object is held against all of them, on every change
// once for every watch, while the values of a set are found in the time of a search.
const MaxRequirements = 1000

// Labels selects objects by their labels. Every requirement must hold.
type Labels struct{ requirements []requirement }

// operator is what a requirement asks of one label.
type operator uint8

const (
	exists operator = iota + 1
	absent
	in
	notIn
	greater
	less
)

// requirement is one condition on one label.
type requirement struct {
	key    string
	op     operator
	values []string // sorted and distinct for in and notIn; one for greater and less
	bound  int64    // for greater and less
}

// ParseLabels reads a label selector:
//
//	a=1, b==2, c!=3      equal, equal, not equal (or absent)
//	d in (x,y)           one of
//	e notin (x,y)        none of (or absent)
//	f, !g                present, absent
//	h>5, i<7             present, an integer, and greater or less
//
// An empty text selects everything. More than [MaxRequirements] different
// requirements are refused. The error is a [*namespace.Error] of kind
// [namespace.ErrBadRequest].
func ParseLabels(text string) (Labels, error) {
	if err := checkText("label selector", text); err != nil {
		return Labels{}, err
	}
	p := parser{lexer: lexer{text: text}}
	requirements, err := p.selector()
	if err != nil {
		if errors.Is(err, errTooMany) {
			return Labels{}, tooMany("label selector")
		}
		return Labels{}, badRequest("unable to parse requirement: " + err.Error())
	}
	slices.SortStableFunc(requirements, func(a, b requirement) int { return strings.Compare(a.key, b.key) })
	return Labels{requirements}, nil
}

// Matches reports whether an object with these labels is selected.
func (l Labels) Matches(labels map[string]string) bool {
	for i := range l.requirements {
		if !l.requirements[i].matches(labels) {
			return false
		}
	}
	return true
}

// Empty reports whether l selects everything.
func (l Labels) Empty() bool { return len(l.requirements) == 0 }

// String returns the selector in the form that [ParseLabels] reads, ordered by key.
func (l Labels) String() string {
	var b strings.Builder
	for i, r := range l.requirements {
		if i > 0 {
			b.WriteByte(',')
		}
		r.write(&b)
	}
	return b.String()
}

func (r *requirement) matches(labels map[string]string) bool {
	value, ok := labels[r.key]
	switch r.op {
	case exists:
		return ok
	case absent:
		return !ok
	case in:
		return ok && r.has(value)
	case notIn:
		return !ok || !r.has(value)
	case greater, less:
		n, err := strconv.ParseInt(value, 10, 64)
		if !ok || err != nil {
			return false
		}
		if r.op == greater {
			return n > r.bound
		}
		return n < r.bound
	}
	return false
}

func (r *requirement) has(value string) bool {
	_, found := slices.BinarySearch(r.values, value)
	return found
}

func (r *requirement) write(b *strings.Builder) {
	if r.op == absent {
		b.WriteByte('!')
	}
	b.WriteString(r.key)
	switch r.op {
	case in, notIn:
		r.writeSet(b)
	case greater:
		b.WriteString(">" + r.values[0])
	case less:
		b.WriteString("<" + r.values[0])
	}
}

func (r *requirement) writeSet(b *strings.Builder) {
	if len(r.values) == 1 {
		if r.op == notIn {
			b.WriteByte('!')
		}
		b.WriteString("=" + r.values[0])
		return
	}
	if r.op == notIn {
		b.WriteString(" notin (")
	} else {
		b.WriteString(" in (")
	}
	b.WriteString(strings.Join(r.values, ","))
	b.WriteByte(')')
}
