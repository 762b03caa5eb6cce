package explain

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// condition is a condition of the namespace, assigned to the party that wrote it.
type condition struct {
	phase.Condition
	party finalizer.Name
	plain phase.ConditionType // without the party
}

func conditionsOf(ns namespace.Namespace) []condition {
	var list []condition
	for _, c := range ns.Status.Conditions {
		one := condition{c, finalizer.Kubernetes, c.Type}
		if at := strings.LastIndexByte(string(c.Type), '.'); at >= 0 {
			one.party, one.plain = finalizer.Name(c.Type[:at]), c.Type[at+1:]
		}
		list = append(list, one)
	}
	return list
}

// failureConditions lists the conditions that report failures, in the order of their causes.
var failureConditions = []struct {
	condition phase.ConditionType
	kind      Kind
	source    string // unless the message names one
}{
	{phase.DiscoveryFailure, DiscoveryFailed, sourceDiscovery},
	{phase.GroupVersionParsingFailure, ParsingFailed, sourceParsing},
	{"NamespaceDeletionGVParsingFailure", ParsingFailed, sourceParsing},
	{phase.ContentFailure, SourceFailed, sourceDeleter},
}

// failure reads a condition that reports a failure of that kind.
func (c condition) failure(kind Kind, source string) Failure {
	switch says := func(text string) bool { return strings.Contains(c.Message, text) }; {
	case kind != SourceFailed:
	case says(deleter.ErrUnexpected.Error()):
		kind = Returning
	case says(deleter.ErrUndeclared.Error()):
		kind = Undeclared
	case says("deadline exceeded"), says("did not answer within"):
		kind = SourceSlow
	}
	f := Failure{Kind: kind, Text: shorten(withoutPreamble(c.Message), maxText), First: c.LastTransitionTime.Time}
	f.Source = f.cutSource()
	if f.Source == "" {
		f.Source = source
		if c.party != finalizer.Kubernetes {
			f.Source += " of " + string(c.party)
		}
	}
	_, rest, _ := strings.Cut(f.Text, "(not waived: ")
	digits, _, _ := strings.Cut(rest, " object")
	n, _ := strconv.Atoi(digits) // zero if the text has no such number
	f.Unwaived = max(n, 0)
	return f
}

// withoutPreamble strips the standard words that begin the message of a condition.
func withoutPreamble(s string) string {
	for _, p := range []string{"Failed to delete all resource types, ", "Discovery failed for some groups, "} {
		if rest, ok := strings.CutPrefix(s, p); ok {
			if _, after, ok := strings.Cut(rest, ": "); ok {
				s = after
			}
		}
	}
	s = strings.TrimPrefix(s, "unable to retrieve the complete list of server APIs: ")
	return cmp.Or(s, "the condition gives no reason")
}

// cutSource returns the source that the text of a failure names, and cuts it off the
// beginning: "widgets.example.com: list: refused" as this library writes it,
// "metrics.k8s.io/v1beta1: unavailable" or "... for gvr: /v1, Resource=pods" as Kubernetes
// does.
func (f *Failure) cutSource() string {
	if _, after, ok := strings.Cut(f.Text, "Resource="); ok && f.Kind != DiscoveryFailed {
		end := strings.IndexFunc(after, func(r rune) bool { return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') })
		if end < 0 {
			end = len(after)
		}
		if end > 0 {
			return after[:end]
		}
	}
	first, rest, ok := strings.Cut(f.Text, ": ")
	group, _, _ := strings.Cut(first, "/") // from its version
	if !ok || !isResource(group) || len(group) > 2*maxName {
		return ""
	}
	f.Text = rest
	return group
}

// isResource reports whether source looks like a resource type or a group.
func isResource(source string) bool {
	if source == "" || strings.HasPrefix(source, "-") || source == sourceDiscovery || source == sourceParsing {
		return false
	}
	return !strings.ContainsFunc(source, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-')
	})
}

// remaining reads "Some resources are remaining: pods. has 2 resource instances, ...".
func (c condition) remaining() []Objects {
	var list []Objects
	for name, n := range c.instances(" has ") {
		list = append(list, Objects{Resource: strings.TrimSuffix(name, "."), Remaining: n, Since: c.LastTransitionTime.Time})
	}
	return list
}

// holders reads "... finalizers remaining: a/b in 3 resource instances, ...".
func (c condition) holders() []HeldBy {
	var list []HeldBy
	for name, n := range c.instances(" in ") {
		list = append(list, HeldBy{phase.Holder{Finalizer: name, Objects: n}, c.LastTransitionTime.Time})
	}
	return list
}

// instances yields the names and counts that a message lists.
func (c condition) instances(separator string) func(yield func(string, int) bool) {
	return func(yield func(string, int) bool) {
		_, list, _ := strings.Cut(c.Message, ": ")
		list, _, _ = strings.Cut(list, ";")
		parts := strings.Split(list, ", ")
		for _, part := range parts[:min(len(parts), maxTypes)] {
			name, rest, _ := strings.Cut(part, separator)
			digits, ok := strings.CutSuffix(rest, " resource instances")
			n, err := strconv.Atoi(digits)
			if ok && err == nil && n > 0 && !yield(shorten(name, 2*maxName), n) {
				return
			}
		}
	}
}

// arriving reports whether the condition says that content may still arrive.
func (c condition) arriving() bool {
	return c.plain == phase.ContentRemaining && c.Status == phase.Unknown && strings.Contains(c.Message, "new objects may still appear")
}

// has reports whether any of the conditions of a party meets is.
func has(list []condition, party finalizer.Name, is func(condition) bool) bool {
	return slices.ContainsFunc(list, func(c condition) bool { return c.party == party && is(c) })
}
