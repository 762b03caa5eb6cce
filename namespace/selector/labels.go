package selector

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
)

// Labels selects objects by their labels. Every requirement must hold.
type Labels struct{ requirements []requirement }

// operator is the comparison of a requirement.
type operator uint8

const (
	exists operator = iota + 1
	absent
	in
	notIn
	greater
	less
)

// requirement is a condition on one label.
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
// An empty text selects everything. The error, also for more than [MaxRequirements] different
// requirements, is a [*namespace.Error] of kind [namespace.ErrBadRequest].
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

// lexer splits a label selector into words and marks. The empty token is the end.
type lexer struct {
	text string
	pos  int
}

const (
	marks = "=!<>(),"
	space = " \t\r\n"
)

func (l *lexer) next() string {
	for l.pos < len(l.text) && strings.IndexByte(space, l.text[l.pos]) >= 0 {
		l.pos++
	}
	rest := l.text[l.pos:]
	if rest == "" {
		return ""
	}
	end := strings.IndexAny(rest, marks+space)
	switch {
	case end < 0:
		end = len(rest)
	case strings.HasPrefix(rest, "=="), strings.HasPrefix(rest, "!="):
		end = 2
	case end == 0:
		end = 1
	}
	l.pos += end
	return rest[:end]
}

// word reports whether token is a key, a value or an operator's name.
func word(token string) bool {
	return token != "" && strings.IndexByte(marks, token[0]) < 0
}

// parser reads requirements with one token of lookahead.
type parser struct {
	lexer
	ahead   string
	hasNext bool
}

func (p *parser) peek() string {
	if !p.hasNext {
		p.ahead, p.hasNext = p.next(), true
	}
	return p.ahead
}

func (p *parser) take() string {
	token := p.peek()
	p.hasNext = false
	return token
}

var errTooMany = errors.New("too many requirements")

// selector reads all requirements and drops repeated ones.
func (p *parser) selector() ([]requirement, error) {
	if p.peek() == "" {
		return nil, nil
	}
	var all []requirement
	seen := map[string]bool{}
	for {
		r, err := p.requirement()
		if err != nil {
			return nil, err
		}
		var text strings.Builder
		r.write(&text)
		if known := text.String(); !seen[known] {
			if len(all) == MaxRequirements {
				return nil, errTooMany
			}
			seen[known] = true
			all = append(all, r)
		}
		switch token := p.take(); token {
		case "":
			return all, nil
		case ",":
		default:
			return nil, fmt.Errorf("found '%s', expected: ',' or the end", token)
		}
	}
}

func (p *parser) requirement() (requirement, error) {
	op := exists
	if p.peek() == "!" {
		p.take()
		op = absent
	}
	key := p.take()
	if !word(key) {
		return requirement{}, fmt.Errorf("found '%s', expected: a label key", key)
	}
	if problems := syntax.QualifiedName(key); len(problems) > 0 {
		return requirement{}, fmt.Errorf("key: Invalid value: %.80q: %s", key, strings.Join(problems, "; "))
	}
	if next := p.peek(); op == absent || next == "" || next == "," {
		return requirement{key: key, op: op}, nil
	}
	return p.comparison(key)
}

// comparison reads the operator and the values that follow a key.
func (p *parser) comparison(key string) (requirement, error) {
	r := requirement{key: key}
	var err error
	switch token := p.take(); token {
	case "=", "==":
		r.op, r.values = in, []string{p.value()}
	case "!=":
		r.op, r.values = notIn, []string{p.value()}
	case "in":
		r.op = in
		r.values, err = p.set()
	case "notin":
		r.op = notIn
		r.values, err = p.set()
	case ">", "<":
		r.op = greater
		if token == "<" {
			r.op = less
		}
		return p.bound(r)
	default:
		return r, fmt.Errorf("found '%s', expected: in, notin, =, ==, !=, >, <", token)
	}
	if err != nil {
		return r, err
	}
	for _, v := range r.values {
		if problems := syntax.LabelValue(v); len(problems) > 0 {
			return r, fmt.Errorf("values[%s]: Invalid value: %.80q: %s", key, v, strings.Join(problems, "; "))
		}
	}
	return r, nil
}

// value reads one value, which may be empty.
func (p *parser) value() string {
	if word(p.peek()) {
		return p.take()
	}
	return ""
}

// set reads "(a,b)". A missing value is the empty value.
func (p *parser) set() ([]string, error) {
	if token := p.take(); token != "(" {
		return nil, fmt.Errorf("found '%s', expected: '('", token)
	}
	var values []string
	for {
		values = append(values, p.value())
		switch token := p.take(); token {
		case ",":
		case ")":
			slices.Sort(values)
			return slices.Compact(values), nil
		default:
			return nil, fmt.Errorf("found '%s', expected: ',' or ')'", token)
		}
	}
}

func (p *parser) bound(r requirement) (requirement, error) {
	text := p.value()
	bound, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return r, fmt.Errorf("for '>' and '<' the value must be an integer, found '%s'", text)
	}
	r.bound, r.values = bound, []string{strconv.FormatInt(bound, 10)}
	return r, nil
}
