package selector

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// lexer cuts the text of a label selector into words and marks. The empty token
// is the end.
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

// selector reads all requirements, each once.
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
	if err := checkKey(key); err != nil {
		return requirement{}, err
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
		if err := checkValue(key, v); err != nil {
			return r, err
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

// set reads "(a,b)". An empty place is the empty value.
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
