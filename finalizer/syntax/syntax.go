// Package syntax validates names, label keys, label values and path segments. Each function
// returns the problems of a value in the words of Kubernetes, or nil if the value is valid. It does
// not allocate for a valid value.
package syntax

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The length limits, in bytes.
const (
	MaxLabel     = 63  // a DNS label, a label value, the name part of a qualified name
	MaxSubdomain = 253 // a DNS subdomain
)

const (
	labelForm     = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
	subdomainForm = labelForm + `(\.` + labelForm + `)*`
	keyForm       = `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
	valueForm     = `(` + keyForm + `)?`

	// The doubled space after the first example is in Kubernetes' text.
	labelText = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'," +
		" and must start and end with an alphanumeric character" +
		" (e.g. 'my-name',  or '123-abc', regex used for validation is '" + labelForm + "')"
	subdomainText = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'," +
		" and must start and end with an alphanumeric character" +
		" (e.g. 'example.com', regex used for validation is '" + subdomainForm + "')"
	keyText = "must consist of alphanumeric characters, '-', '_' or '.'," +
		" and must start and end with an alphanumeric character" +
		" (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '" + keyForm + "')"
	valueText = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'," +
		" and must start and end with an alphanumeric character" +
		" (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '" + valueForm + "')"
)

// Label checks a DNS label (RFC 1123), the form of a namespace's name.
func Label(s string) []string {
	var problems []string
	if len(s) > MaxLabel {
		problems = append(problems, tooLong(MaxLabel, "characters"))
	}
	switch {
	case isLabel(s):
	case isSubdomain(s):
		problems = append(problems, "must not contain dots")
	default:
		problems = append(problems, labelText)
	}
	return problems
}

// Subdomain checks a DNS subdomain (RFC 1123), the form of the names of most content: labels joined
// by dots.
func Subdomain(s string) []string {
	var problems []string
	if len(s) > MaxSubdomain {
		problems = append(problems, tooLong(MaxSubdomain, "characters"))
	}
	if !isSubdomain(s) {
		problems = append(problems, subdomainText)
	}
	return problems
}

// QualifiedName checks a name with an optional prefix, "name" or "example.com/name", the form of
// label keys, annotation keys and finalizers.
func QualifiedName(s string) []string {
	prefix, name, qualified := strings.Cut(s, "/")
	if !qualified {
		name = s
	} else if strings.Contains(name, "/") {
		return []string{"a valid label key " + keyText + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"}
	}
	var problems []string
	if qualified && prefix == "" {
		problems = append(problems, "prefix part must be non-empty")
	} else if qualified {
		if len(prefix) > MaxSubdomain {
			problems = append(problems, "prefix part "+tooLong(MaxSubdomain, "bytes"))
		}
		if !isSubdomain(prefix) {
			problems = append(problems, "prefix part "+subdomainText)
		}
	}
	if name == "" {
		problems = append(problems, "name part must be non-empty")
	} else if len(name) > MaxLabel {
		problems = append(problems, "name part "+tooLong(MaxLabel, "bytes"))
	}
	if !isKey(name) {
		problems = append(problems, "name part "+keyText)
	}
	return problems
}

// LabelValue checks the value of a label. It may be empty.
func LabelValue(s string) []string {
	var problems []string
	if len(s) > MaxLabel {
		problems = append(problems, tooLong(MaxLabel, "bytes"))
	}
	if s != "" && !isKey(s) {
		problems = append(problems, valueText)
	}
	return problems
}

// PathSegment checks one segment of a URL path or a storage key.
func PathSegment(s string) []string {
	switch {
	case s == "":
		return []string{"must not be empty"}
	case len(s) > MaxSubdomain:
		return []string{tooLong(MaxSubdomain, "bytes") + ", has " + strconv.Itoa(len(s))}
	case s == "." || s == "..":
		return []string{"may not be '" + s + "'"}
	case !utf8.ValidString(s):
		return []string{"must be valid UTF-8"}
	}
	var problems []string
	for _, c := range "/%" {
		if strings.ContainsRune(s, c) {
			problems = append(problems, "may not contain '"+string(c)+"'")
		}
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		problems = append(problems, "may not contain control characters")
	}
	return problems
}

// tooLong takes the unit since Kubernetes writes both "characters" and "bytes". It counts bytes.
func tooLong(limit int, unit string) string {
	return "must be no more than " + strconv.Itoa(limit) + " " + unit
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

func isAlphanumeric(c byte) bool { return isLower(c) || 'A' <= c && c <= 'Z' }

func isLabel(s string) bool {
	if s == "" || !isLower(s[0]) || !isLower(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if !isLower(s[i]) && s[i] != '-' {
			return false
		}
	}
	return true
}

func isSubdomain(s string) bool {
	for more := true; more; {
		var label string
		label, s, more = strings.Cut(s, ".")
		if !isLabel(label) {
			return false
		}
	}
	return true
}

// isKey reports whether s is the name part of a qualified name.
func isKey(s string) bool {
	if s == "" || !isAlphanumeric(s[0]) || !isAlphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}
