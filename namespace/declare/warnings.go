package declare

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Warnings returns warnings for the client of a write that replaced old by next, one line
// each: the namespace was put on hold or restored, a grace leaves it writable, a protection
// was removed, or an annotation of this library's domain is unknown and has no effect. A zero
// old means that next was created. For a terminating next there are no warnings.
func Warnings(old, next namespace.Namespace) []string {
	if next.Phase() == phase.Terminating {
		return nil
	}
	var all []string
	for _, text := range []string{
		holdWarning(old.Meta, next.Meta), graceWarning(old.Meta, next.Meta), protectionWarning(old.Meta, next.Meta),
	} {
		if text != "" {
			all = append(all, text)
		}
	}
	return append(all, unknownWarnings(old.Meta, next.Meta)...)
}

func holdWarning(old, next namespace.Meta) string {
	before, wasHeld := readableHold(old)
	after, isHeld := readableHold(next)
	switch {
	case wasHeld && !isHeld:
		return fmt.Sprintf("%s is no longer on hold: it will not be deleted at %s", subject(next), before.Until.Format(time.RFC3339))
	case !isHeld || wasHeld && before.Until.Equal(after.Until):
		return ""
	}
	now := "DELETE it"
	if _, ok := next.Annotations[GraceAnnotation]; ok {
		now = "remove " + GraceAnnotation + " and DELETE it again"
	}
	return fmt.Sprintf("%s is not deleted yet: it is on hold until %s and stays writable until then; to restore it, remove the annotation %s; to delete it now, %s",
		subject(next), after.Until.Format(time.RFC3339), HoldAnnotation, now)
}

func readableHold(m namespace.Meta) (Hold, bool) {
	h, ok, err := HoldOf(m)
	return h, ok && err == nil
}

func graceWarning(old, next namespace.Meta) string {
	grace, err := GraceOf(next)
	if err != nil || grace == 0 || old.Annotations[GraceAnnotation] == next.Annotations[GraceAnnotation] {
		return ""
	}
	return fmt.Sprintf("%s has a grace: DELETE puts it on hold for %v; until then it stays Active and its content can be created and changed",
		subject(next), grace)
}

func protectionWarning(old, next namespace.Meta) string {
	var names []string
	for _, key := range keysWith(old, ProtectionPrefix) {
		if _, kept := next.Annotations[key]; !kept {
			names = append(names, strings.TrimPrefix(key, ProtectionPrefix))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%s is no longer protected from deletion by %s%s",
		subject(next), strings.Join(names[:min(len(names), maxNamed)], ", "), andMore(len(names)))
}

// unknownWarnings reports added annotations of this library's domain that have no meaning.
func unknownWarnings(old, next namespace.Meta) []string {
	var keys []string
	for key := range next.Annotations {
		if _, before := old.Annotations[key]; !before && inDomain(key) && !Declares(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var all []string
	for i, key := range keys[:min(len(keys), maxNamed)] {
		text := fmt.Sprintf("the annotation %s is unknown and has no effect; known are %s, %s, %sNAME and %sNAME",
			strconv.Quote(key), HoldAnnotation, GraceAnnotation, ProtectionPrefix, WaiverPrefix)
		if i == maxNamed-1 {
			text += andMore(len(keys))
		}
		all = append(all, text)
	}
	return all
}

// andMore counts the entries of a list of n beyond the first maxNamed.
func andMore(n int) string {
	if n <= maxNamed {
		return ""
	}
	return fmt.Sprintf(" and %d more", n-maxNamed)
}

// inDomain reports whether key belongs to this library's domain or a subdomain of it.
func inDomain(key string) bool {
	prefix, _, qualified := strings.Cut(strings.ToLower(key), "/")
	return qualified && (prefix == domain || strings.HasSuffix(prefix, "."+domain))
}
