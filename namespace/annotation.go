package namespace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
)

// The bounds of what an operator may declare in one annotation, in bytes.
const (
	maxDeclaration = 8 << 10 // of the whole value
	maxWho         = 512     // of whom to ask, which may be the name of a service account
	maxWhy         = 1 << 10 // of a reason
	maxSource      = 512     // of a resource type or a group
	maxMoment      = 64      // of a time
)

// member is one member of the JSON object that a declaration is: a string.
type member struct {
	name     string
	value    *string
	limit    int // the most bytes of the value
	optional bool
}

// check returns what is wrong with the value. What people declare is shown in
// terminals and logs, one line each, so it has only characters that are seen.
func (m member) check() error {
	switch v := *m.value; {
	case v == "" && m.optional:
		return nil
	case strings.TrimSpace(v) == "" && m.optional:
		return fmt.Errorf("%s must say something, or be left out", m.name)
	case strings.TrimSpace(v) == "":
		return fmt.Errorf("%s is required", m.name)
	case len(v) > m.limit:
		return fmt.Errorf("%s is too long: it may have %d bytes and has %d", m.name, m.limit, len(v))
	case !utf8.ValidString(v):
		return fmt.Errorf("%s must be valid UTF-8", m.name)
	case strings.ContainsFunc(v, hidden):
		return fmt.Errorf("%s must be one line of characters that can be seen", m.name)
	}
	return nil
}

// hidden reports whether r cannot be seen, or hides others. Joiners are letters'
// companions in several scripts.
func hidden(r rune) bool { return !unicode.IsGraphic(r) && !unicode.Is(unicode.Join_Control, r) }

// fitting returns what a member may say of s: a request must not fail for the name of
// who sent it.
func fitting(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if hidden(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return strings.TrimSpace(s)
}

// readAnnotation reads the annotation of that key into members. It is the reverse of
// writeAnnotation.
func readAnnotation(key, text string, members []member) error {
	if err := checkDeclared(key); err != nil {
		return err
	}
	return readMembers(text, members)
}

// readMembers reads the JSON object in text into members. It is strict: an object of
// strings, each of the members at most once, and nothing else, neither inside nor
// after it. Names are told apart by case.
func readMembers(text string, members []member) error {
	if len(text) > maxDeclaration {
		return fmt.Errorf("it may have %d bytes and has %d", maxDeclaration, len(text))
	}
	if !utf8.ValidString(text) {
		return errors.New("must be valid UTF-8")
	}
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return notObject(members)
	}
	seen := make([]bool, len(members))
	for d.More() {
		if err := readMember(d, members, seen); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return notObject(members)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object")
	}
	return checkMembers(members)
}

// readMember reads the next member.
func readMember(d *json.Decoder, members []member, seen []bool) error {
	t, err := d.Token()
	name, _ := t.(string)
	if err != nil {
		return notObject(members)
	}
	i := slices.IndexFunc(members, func(m member) bool { return m.name == name })
	switch {
	case i < 0:
		return fmt.Errorf("unknown member %s: there are %s", quoted(cut(name)), listed(members))
	case seen[i]:
		return fmt.Errorf("%s is there twice", name)
	}
	seen[i] = true
	value, err := d.Token()
	if err != nil {
		return notObject(members)
	}
	s, ok := value.(string)
	if !ok {
		return fmt.Errorf("%s must be a string", name)
	}
	*members[i].value = s
	return nil
}

func notObject(members []member) error {
	return fmt.Errorf("must be a JSON object with %s", listed(members))
}

// listed names the members, with a mark on those that may be left out.
func listed(members []member) string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.name
		if m.optional {
			names[i] += " (optional)"
		}
	}
	return strings.Join(names, ", ")
}

func checkMembers(members []member) error {
	for _, m := range members {
		if err := m.check(); err != nil {
			return err
		}
	}
	return nil
}

// writeMembers returns the JSON object that readMembers reads, without optional
// members that are empty.
func writeMembers(members []member) (string, error) {
	if err := checkMembers(members); err != nil {
		return "", err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // people read it
	before := byte('{')
	for _, m := range members {
		if *m.value == "" {
			continue
		}
		out.WriteByte(before)
		out.WriteString(`"` + m.name + `":`)
		if err := encoder.Encode(*m.value); err != nil {
			return "", err
		}
		out.Truncate(out.Len() - 1) // the encoder ends lines
		before = ','
	}
	out.WriteByte('}')
	return out.String(), nil
}

// writeAnnotation returns the annotation of that key with members.
func writeAnnotation(key string, members []member) (string, string, error) {
	err := checkDeclared(key)
	var value string
	if err == nil {
		value, err = writeMembers(members)
	}
	if err != nil {
		return "", "", badDeclaration(key, err)
	}
	return key, value, nil
}

// readTime reads a time of a declaration.
func readTime(name, text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || text[len("2006-01-02T15")] != ':' || strings.Contains(text, ",") { // both of which Parse lets pass
		return time.Time{}, fmt.Errorf("%s must be a time such as 2026-01-02T15:04:05Z", name)
	}
	t = t.UTC()
	if t.IsZero() || t.Year() < 0 || t.Year() > 9999 { // an offset may lead out of the years that can be written
		return time.Time{}, fmt.Errorf("%s is no time at which anything can end", name)
	}
	return t, nil
}

// writeTime is the reverse of readTime. The zero time is empty.
func writeTime(name string, t time.Time) (string, error) {
	if t.IsZero() {
		return "", nil
	}
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return "", fmt.Errorf("%s must be between the years 0 and 9999, got the year %d", name, y)
	}
	return t.UTC().Format(time.RFC3339Nano), nil
}

// namedAnnotations returns a value for each annotation whose key begins with prefix,
// in the order of the keys. What cannot be read is left out, and told in an [*Error]
// of kind [ErrInvalid] with one cause each.
func namedAnnotations[T any](m Meta, prefix string, read func(key, text string) (T, error)) ([]T, error) {
	var keys []string
	for k := range m.Annotations {
		if strings.HasPrefix(k, prefix) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	slices.Sort(keys)
	var all []T
	var vs []Violation
	for _, k := range keys {
		v, err := read(k, m.Annotations[k])
		if err != nil {
			vs = append(vs, unreadable(k, m.Annotations[k], err))
			continue
		}
		all = append(all, v)
	}
	return all, Invalid(Kind, Resource, m.Name, vs)
}

// checkDeclared refuses a key that cannot be that of an annotation.
func checkDeclared(key string) error {
	if wrong := syntax.QualifiedName(key); len(wrong) > 0 {
		return errors.New(wrong[0])
	}
	return nil
}

// unreadable is the violation of a declaration that cannot be read.
func unreadable(key, value string, err error) Violation {
	return invalid(annotationField(key), value, err.Error())
}

func annotationField(key string) string { return "metadata.annotations[" + cut(key) + "]" }

// badDeclaration is the refusal of what cannot become an annotation.
func badDeclaration(key string, err error) error {
	return &Error{
		Kind: ErrInvalid, Resource: Resource,
		Message: "the annotation " + strconv.Quote(cut(key)) + " cannot be declared: " + err.Error(),
		Causes:  []Violation{invalidValue(annotationField(key), "", err.Error())},
	}
}

// shown returns s, which is in quotes when it is none of the names that have only
// harmless characters.
func shown(s string) string {
	if len(syntax.QualifiedName(s)) == 0 {
		return s
	}
	return strconv.Quote(cut(s))
}
