package namespace

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// declarations is the domain of the annotations that this library reads.
const declarations = "nslifecycle.io"

// validateDeclared refuses declarations of m that nobody could read: protections,
// waivers, holds and graces. Those that old has, in the same words, are none of the
// doing of this request, and never stand in its way.
func validateDeclared(old, m Meta) []Violation {
	var keys []string
	for k, v := range m.Annotations {
		if !Declares(k) || !utf8.ValidString(v) { // which ValidateMeta tells
			continue
		}
		if was, ok := old.Annotations[k]; !ok || was != v {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	var vs []Violation
	for _, k := range keys {
		vs = append(vs, validateDeclaration(m, k)...)
	}
	return vs
}

// Declares reports whether k is the key of an annotation that declares something about a
// namespace: a [Protection], a [Waiver], a [Hold] or a grace. It does so whatever the case
// of the letters, although only keys in lower case count.
func Declares(k string) bool {
	slash := strings.IndexByte(k, '/')
	from := slash - len(declarations)
	if from < 0 || !strings.EqualFold(k[from:slash], declarations) {
		return false
	}
	switch {
	case from == 0:
		return strings.EqualFold(k, HoldAnnotation) || strings.EqualFold(k, GraceAnnotation)
	default:
		return strings.EqualFold(k[:slash+1], ProtectionPrefix) || strings.EqualFold(k[:slash+1], WaiverPrefix)
	}
}

// validateDeclaration returns what is wrong with the declaration of key k.
func validateDeclaration(m Meta, k string) []Violation {
	var err error
	switch {
	case strings.HasPrefix(k, ProtectionPrefix):
		_, err = readProtection(k, m.Annotations[k])
	case strings.HasPrefix(k, WaiverPrefix):
		_, err = readWaiver(k, m.Annotations[k])
	case k == HoldAnnotation:
		_, _, err = HoldOf(m)
	case k == GraceAnnotation:
		_, err = GraceOf(m)
	default: // it would be taken for one, and do nothing
		return []Violation{invalid("metadata.annotations", k, "the key must be in lower case: "+lowered(k))}
	}
	var refused *Error
	if errors.As(err, &refused) {
		return refused.Causes
	}
	if err != nil {
		return []Violation{unreadable(k, m.Annotations[k], err)}
	}
	return nil
}

// lowered returns the key of a declaration as it must be written. The names of
// protections and waivers are their own matter.
func lowered(k string) string {
	domain, name, _ := strings.Cut(k, "/")
	if len(domain) == len(declarations) {
		name = strings.ToLower(name)
	}
	return quoted(strings.ToLower(domain) + "/" + name)
}
