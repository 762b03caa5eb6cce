package limitrange

import (
	"fmt"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// The plug-in checks each item of an object against each quantity of each limit. These bounds
// prevent a small LimitRange and a small object from causing much work or long texts.
const (
	maxNames      = 100    // resource names in one item of a LimitRange
	maxPairs      = 10_000 // items of an object times quantities of Container limits
	maxViolations = 100    // distinct violations in one refusal
	maxNote       = 4096   // bytes of the annotation
)

// tooManyNames refuses a limit with more than maxNames names.
func (l limit) tooManyNames() []namespace.Violation {
	names := len(l.allNames())
	if names <= maxNames {
		return nil
	}
	return []namespace.Violation{
		namespace.ForbiddenField(l.at, fmt.Sprintf("names %d resources, at most %d are allowed", names, maxNames)),
	}
}

// tooManyPairs returns the text of a refusal, or "" if items and limits are within maxPairs.
func tooManyPairs(items int, limits []limit) string {
	quantities := 0
	for _, l := range limits {
		if l.kind != container {
			continue
		}
		for _, f := range l.fields() {
			quantities += len(*f.values)
		}
	}
	if items == 0 || quantities <= maxPairs/items {
		return ""
	}
	return fmt.Sprintf("%d items times %d quantities in LimitRanges exceed %d; use fewer items or limit fewer resources",
		items, quantities, maxPairs)
}

// violations are distinct texts, in the order of add.
type violations struct {
	texts []string
	known map[string]bool
	more  bool // some texts were omitted
}

// add appends a text, unless it is empty or known.
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

// String formats the texts as in Kubernetes' refusals.
func (v *violations) String() string {
	switch {
	case v.more:
		return "[" + strings.Join(v.texts, ", ") + ", and more]"
	case len(v.texts) == 1:
		return v.texts[0]
	}
	return "[" + strings.Join(v.texts, ", ") + "]"
}

// note builds the text of the annotation, of about maxNote bytes at most.
type note struct {
	text strings.Builder
	more bool // some defaults were omitted
}

func (n *note) add(names []string, suffix string) {
	if len(names) == 0 || n.more {
		return
	}
	size := len(suffix) + len("; ")
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
	n.text.WriteString(suffix)
}

// String returns "" if the plug-in set no defaults.
func (n *note) String() string {
	switch {
	case n.more && n.text.Len() == 0:
		return "more than can be listed"
	case n.more:
		return n.text.String() + "; and more"
	}
	return n.text.String()
}
