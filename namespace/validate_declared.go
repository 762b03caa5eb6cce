package namespace

import (
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/phase"
)

// declarations is the domain of the annotations that this library reads.
const declarations = "nslifecycle.io"

// validateDeclared returns the violations of declarations that n adds to old or changes: an
// unreadable declaration, a hold in the past, or any declaration but a waiver on a terminating
// namespace, where it would have no effect. Unchanged declarations are never a violation.
func validateDeclared(old, n Namespace, now time.Time) []Violation {
	var keys []string
	for k, v := range n.Annotations {
		if !Declares(k) || !utf8.ValidString(v) { // ValidateMeta reports invalid UTF-8
			continue
		}
		if was, ok := old.Annotations[k]; !ok || was != v {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	var vs []Violation
	for _, k := range keys {
		wrong := validateDeclaration(n.Meta, k, now)
		if len(wrong) == 0 && old.Phase() == phase.Terminating && !strings.HasPrefix(k, WaiverPrefix) {
			wrong = []Violation{forbidden(annotationField(k), "the namespace has been terminating since "+
				stamp(old.DeletionTimestamp)+", which no protection, hold or grace stops or delays: leave the annotation out")}
		}
		vs = append(vs, wrong...)
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

// errOver refuses a hold that would delete the namespace at once, bypassing its grace.
var errOver = errors.New("until is over already, the namespace would be deleted at once: leave it out")

// validateDeclaration returns what is wrong with the declaration of key k.
func validateDeclaration(m Meta, k string, now time.Time) []Violation {
	var err error
	switch {
	case strings.HasPrefix(k, ProtectionPrefix):
		_, err = readProtection(k, m.Annotations[k])
	case strings.HasPrefix(k, WaiverPrefix):
		_, err = readWaiver(k, m.Annotations[k])
	case k == HoldAnnotation:
		var h Hold
		if h, _, err = HoldOf(m); err == nil && h.Due(now) {
			err = errOver
		}
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
