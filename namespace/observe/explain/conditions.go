package explain

import (
	"cmp"
	"slices"
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

// conditionsOf returns the conditions of ns. Those with plain types belong to primary.
func conditionsOf(ns namespace.Namespace, primary finalizer.Name) []condition {
	list := make([]condition, 0, len(ns.Status.Conditions))
	for _, c := range ns.Status.Conditions {
		plain, party := c.Type.Split()
		list = append(list, condition{c, cmp.Or(finalizer.Name(party), primary), plain})
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
	f := Failure{Kind: kind, Text: shorten(c.failures(), maxText), First: c.LastTransitionTime.Time}
	f.Source = f.cutSource()
	if f.Source == "" {
		f.Source = source
		if _, party := c.Type.Split(); party != "" {
			f.Source += " of " + party
		}
	}
	f.Unwaived = deleter.UnwaivedObjects(f.Text)
	return f
}

// failures returns the text of the failures that the condition reports.
func (c condition) failures() string {
	text := strings.TrimPrefix(c.Failures(), "unable to retrieve the complete list of server APIs: ") // client-go's text
	return cmp.Or(text, "the condition gives no reason")
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

func (c condition) remaining() []Objects {
	var list []Objects
	for _, r := range atMost(maxTypes, c.Remaining()) {
		name := namespace.ResourceType{Group: r.Group, Name: r.Resource}.String()
		list = append(list, Objects{Resource: shorten(name, 2*maxName), Remaining: r.Count, Since: c.LastTransitionTime.Time})
	}
	return list
}

func (c condition) holders() []HeldBy {
	var list []HeldBy
	for _, h := range atMost(maxTypes, c.Holders()) {
		h.Finalizer = shorten(h.Finalizer, 2*maxName)
		list = append(list, HeldBy{h, c.LastTransitionTime.Time})
	}
	return list
}

func atMost[E any](limit int, list []E) []E { return list[:min(len(list), limit)] }

// arriving reports whether the condition says that content may still arrive.
func (c condition) arriving() bool {
	return c.plain == phase.ContentRemaining && c.Status == phase.Unknown && c.MayGrow()
}

// has reports whether any of the conditions of a party meets is.
func has(list []condition, party finalizer.Name, is func(condition) bool) bool {
	return slices.ContainsFunc(list, func(c condition) bool { return c.party == party && is(c) })
}
