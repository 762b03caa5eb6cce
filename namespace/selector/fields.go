package selector

import (
	"fmt"
	"slices"
	"strings"
)

// Fields selects objects by their fields. Every term must hold.
type Fields struct{ terms []term } // distinct, and sorted by field

type term struct {
	field, value string
	not          bool
}

// ParseFields reads a field selector, such as "metadata.name=x,status.phase!=Active". In a value, '\',
// ',' and '=' are escaped by '\'. An empty text selects everything. [Fields.Check] checks the names of
// the fields. The error, also for more than [MaxRequirements] different terms, is a
// [*namespace.Error] of kind [namespace.ErrBadRequest].
func ParseFields(text string) (Fields, error) {
	if err := checkText("field selector", text); err != nil {
		return Fields{}, err
	}
	var f Fields
	seen := map[term]bool{}
	for _, part := range split(text) {
		if part == "" {
			continue
		}
		t, err := parseTerm(part)
		if err != nil {
			return Fields{}, badRequest(fmt.Sprintf("invalid field selector: %v", err))
		}
		if seen[t] {
			continue
		}
		if len(f.terms) == MaxRequirements {
			return Fields{}, tooMany("field selector")
		}
		seen[t] = true
		f.terms = append(f.terms, t)
	}
	f.sort()
	return f, nil
}

func (f Fields) sort() {
	slices.SortStableFunc(f.terms, func(a, b term) int { return strings.Compare(a.field, b.field) })
}

// Matches reports whether an object is selected. The function value returns a field of the object,
// or "" if it is not set. It is called once for each field.
func (f Fields) Matches(value func(field string) string) bool {
	var v string
	for i, t := range f.terms {
		if i == 0 || t.field != f.terms[i-1].field {
			v = value(t.field)
		}
		if (v == t.value) == t.not {
			return false
		}
	}
	return true
}

// And returns a selector that also requires a field to have a value, which is not escaped. The error
// is [namespace.ErrBadRequest] for invalid UTF-8 and for more than [MaxLength] bytes.
func (f Fields) And(field, value string) (Fields, error) {
	if err := checkText("value in a field selector", value); err != nil {
		return Fields{}, err
	}
	required := term{field: field, value: value}
	g := Fields{append([]term{required}, f.terms...)}
	for i, t := range f.terms {
		if t == required {
			g.terms = slices.Delete(g.terms, i+1, i+2)
			break
		}
	}
	g.sort()
	return g, nil
}

// Empty reports whether f selects everything.
func (f Fields) Empty() bool { return len(f.terms) == 0 }

// Exactly returns the value that f requires of field, and whether f requires one.
func (f Fields) Exactly(field string) (value string, ok bool) {
	for _, t := range f.terms {
		if t.field == field && !t.not {
			return t.value, true
		}
	}
	return "", false
}

// Check returns [namespace.ErrBadRequest] if f names a field other than the known ones.
func (f Fields) Check(known ...string) error {
	for _, t := range f.terms {
		if !slices.Contains(known, t.field) {
			return badRequest("field label not supported: " + t.field)
		}
	}
	return nil
}

// String returns the selector in the form that [ParseFields] reads.
func (f Fields) String() string {
	var b strings.Builder
	for i, t := range f.terms {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(t.field)
		if t.not {
			b.WriteByte('!')
		}
		b.WriteByte('=')
		b.WriteString(escaper.Replace(t.value))
	}
	return b.String()
}

var escaper = strings.NewReplacer(`\`, `\\`, `,`, `\,`, `=`, `\=`)

// split splits at unescaped commas.
func split(text string) []string {
	var parts []string
	start := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++ // skip the escaped character
		case ',':
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return append(parts, text[start:])
}

// parseTerm reads "field=value", "field==value" or "field!=value".
func parseTerm(text string) (term, error) {
	equal := strings.IndexByte(text, '=')
	if equal < 0 {
		return term{}, fmt.Errorf("%q: expected field=value or field!=value", text)
	}
	t := term{field: text[:equal]}
	value := text[equal+1:]
	if field, ok := strings.CutSuffix(t.field, "!"); ok {
		t.field, t.not = field, true
	} else {
		value = strings.TrimPrefix(value, "=")
	}
	if t.field == "" || strings.ContainsAny(t.field, `\!`) {
		return term{}, fmt.Errorf("%q: %q is not the name of a field", text, t.field)
	}
	var err error
	t.value, err = unescape(value)
	return t, err
}

func unescape(text string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch c {
		case '=':
			return "", fmt.Errorf(`%q: '=' in a value must be written \=`, text)
		case '\\':
			i++
			if i == len(text) || strings.IndexByte(`\,=`, text[i]) < 0 {
				return "", fmt.Errorf(`%q: after '\' only '\', ',' and '=' may follow`, text)
			}
			c = text[i]
		}
		b.WriteByte(c)
	}
	return b.String(), nil
}
