package namespace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/phase"
)

// Warnings returns warnings for the client of a write that replaced old by next, one line
// each: the namespace was put on hold or restored, a grace leaves it writable, a protection
// was removed, or an annotation of this library's domain is unknown and has no effect. A zero
// old means that next was created. For a terminating next there are no warnings.
func Warnings(old, next Namespace) []string {
	if next.Phase() == phase.Terminating {
		return nil
	}
	var all []string
	add := func(text string) {
		if text != "" {
			all = append(all, text)
		}
	}
	add(holdWarning(old.Meta, next.Meta))
	add(graceWarning(old.Meta, next.Meta))
	add(protectionWarning(old.Meta, next.Meta))
	return append(all, unknownWarnings(old.Meta, next.Meta)...)
}

func subject(m Meta) string { return Resource + " " + quoted(m.Name) }

func holdWarning(old, next Meta) string {
	was, before, unreadable := HoldOf(old)
	before = before && unreadable == nil
	is, after, unreadable := HoldOf(next)
	after = after && unreadable == nil
	switch {
	case before && !after:
		return fmt.Sprintf("%s is on hold no longer: it will not be deleted at %s", subject(next), was.Until.Format(time.RFC3339))
	case !after || before && was.Until.Equal(is.Until):
		return ""
	}
	now := "DELETE it"
	if _, ok := next.Annotations[GraceAnnotation]; ok {
		now = "take off " + GraceAnnotation + " and DELETE it again"
	}
	return fmt.Sprintf("%s is not deleted yet: it is on hold until %s and stays writable until then; to restore it take off the annotation %s, to delete it now %s",
		subject(next), is.Until.Format(time.RFC3339), HoldAnnotation, now)
}

func graceWarning(old, next Meta) string {
	grace, err := GraceOf(next)
	if err != nil || grace == 0 || old.Annotations[GraceAnnotation] == next.Annotations[GraceAnnotation] {
		return ""
	}
	return fmt.Sprintf("%s has a grace: DELETE puts it on hold for %v, in which it stays Active and its content can be created and changed",
		subject(next), grace)
}

func protectionWarning(old, next Meta) string {
	var names []string
	for key := range old.Annotations {
		if name, ok := strings.CutPrefix(key, ProtectionPrefix); ok {
			if _, still := next.Annotations[key]; !still {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("%s is protected from deletion no longer by %s%s",
		subject(next), strings.Join(names[:min(len(names), maxTold)], ", "), more(len(names)))
}

// unknownWarnings warns of added annotations in this library's domain that the library does
// not read.
func unknownWarnings(old, next Meta) []string {
	var keys []string
	for key := range next.Annotations {
		if _, before := old.Annotations[key]; !before && inDomain(key) && !Declares(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var all []string
	for i, key := range keys[:min(len(keys), maxTold)] {
		text := fmt.Sprintf("the annotation %s is unknown and has no effect; known are %s, %s, %sNAME and %sNAME",
			strconv.Quote(key), HoldAnnotation, GraceAnnotation, ProtectionPrefix, WaiverPrefix)
		if i == maxTold-1 {
			text += more(len(keys))
		}
		all = append(all, text)
	}
	return all
}

// more counts the entries of a list beyond the named ones.
func more(n int) string {
	if n <= maxTold {
		return ""
	}
	return fmt.Sprintf(" and %d more", n-maxTold)
}

// inDomain reports whether the key of an annotation is in this library's domain or in a
// subdomain.
func inDomain(key string) bool {
	domain, _, qualified := strings.Cut(strings.ToLower(key), "/")
	return qualified && (domain == declarations || strings.HasSuffix(domain, "."+declarations))
}
