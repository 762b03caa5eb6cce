package limitrange

import (
	"fmt"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// What a small LimitRange and a small object make together is bounded: each item of
// an object is held against, and given defaults for, each name of each limit.
const (
	maxNames      = 100    // of one item of a LimitRange
	maxPairs      = 10_000 // of an item of an object and a name that is limited for it
	maxViolations = 100    // different ones that a refusal tells
	maxNote       = 4096   // bytes of the annotation
)

// tooMany refuses a limit with more names than one may have.
func (l limit) tooMany() []namespace.Violation {
	names := map[string]bool{}
	for _, a := range l.all() {
		for name := range a {
			names[name] = true
		}
	}
	if len(names) <= maxNames {
		return nil
	}
	return []namespace.Violation{{
		Type: namespace.FieldForbidden, Field: l.at,
		Message: fmt.Sprintf("Forbidden: it names %d resources, at most %d are allowed", len(names), maxNames),
	}}
}

// all returns every map of quantities that a limit has.
func (l limit) all() []amounts {
	return []amounts{l.min, l.max, l.fallback, l.fallbackRequest, l.ratio}
}

// effort says why an object and the limits are too much together; "": they are not.
func effort(items int, limits []limit) string {
	names := 0
	for _, l := range limits {
		if l.kind != container {
			continue
		}
		for _, a := range l.all() {
			names += len(a)
		}
	}
	if items == 0 || names <= maxPairs/items {
		return ""
	}
	return fmt.Sprintf("%d items under LimitRanges with %d quantities for each are too many: together they may make %d; use fewer items, or limit less",
		items, names, maxPairs)
}

// violations are different texts, in the order in which they were found.
type violations struct {
	texts []string
	known map[string]bool
	more  bool
}

// add takes a text, but for "".
func (v *violations) add(text string) {
	switch {
	case text == "" || v.known[text]:
	case len(v.texts) == maxViolations:
		v.more = true
	default:
		if v.known == nil {
			v.known = map[string]bool{}
		}
		v.known[text] = true
		v.texts = append(v.texts, text)
	}
}

// String lists them as a refusal does.
func (v *violations) String() string {
	switch {
	case v.more:
		return "[" + strings.Join(v.texts, ", ") + ", and more]"
	case len(v.texts) == 1:
		return v.texts[0]
	}
	return "[" + strings.Join(v.texts, ", ") + "]"
}

// note is the text of the annotation. What goes beyond its bound is left out.
type note struct {
	text strings.Builder
	more bool
}

func (n *note) add(names []string, what string) {
	if len(names) == 0 || n.more {
		return
	}
	size := len(what) + len("; ")
	for _, name := range names {
		size += len(name) + len(", ")
	}
	if n.more = n.text.Len()+size > maxNote; n.more {
		return
	}
	if n.text.Len() > 0 {
		n.text.WriteString("; ")
	}
	n.text.WriteString(strings.Join(names, ", "))
	n.text.WriteString(what)
}

// String returns "" if nothing was told.
func (n *note) String() string {
	switch {
	case n.more && n.text.Len() == 0:
		return "more than can be listed"
	case n.more:
		return n.text.String() + "; and more"
	}
	return n.text.String()
}
