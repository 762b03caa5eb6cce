package explain

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/phase"
)

// told returns the conditions of that type, of whichever party, that are True.
func (b *builder) told(t phase.ConditionType) []phase.Condition {
	var list []phase.Condition
	for _, c := range b.in.Namespace.Status.Conditions {
		if _, is := split(c.Type); is == t && c.Status == phase.True {
			list = append(list, c)
		}
	}
	return list
}

// split returns the party that wrote a condition of type t, [finalizer.Kubernetes] for a
// plain one, and the plain type.
func split(t phase.ConditionType) (finalizer.Name, phase.ConditionType) {
	if at := strings.LastIndexByte(string(t), '.'); at >= 0 {
		return finalizer.Name(t[:at]), t[at+1:]
	}
	return finalizer.Kubernetes, t
}

// recorded reports whether what the condition tells was recorded, and is known better.
func (b *builder) recorded(c phase.Condition) bool {
	party, _ := split(c.Type)
	return b.current(party)
}

// conditions explains the failures that the conditions tell of and no pass that was
// recorded. Known are the failures that were.
func (b *builder) conditions(known []Failure) {
	nameless := len(b.in.History.Parties) == 0 // they may be of any party
	for _, t := range []struct {
		condition phase.ConditionType
		kind      Kind
		source    string
	}{
		{phase.DiscoveryFailure, DiscoveryFailed, sourceDiscovery},
		{phase.GroupVersionParsingFailure, ParsingFailed, sourceParsing},
		{"NamespaceDeletionGVParsingFailure", ParsingFailed, sourceParsing},
		{phase.ContentFailure, SourceFailed, sourceDeleter},
	} {
		for _, c := range b.told(t.condition) {
			if b.recorded(c) {
				continue
			}
			kind := t.kind
			switch {
			case kind == SourceFailed && strings.Contains(c.Message, deleter.ErrUnexpected.Error()):
				kind = Returning
			case kind == SourceFailed && strings.Contains(c.Message, deleter.ErrUndeclared.Error()):
				kind = Undeclared
			case kind == SourceFailed && (strings.Contains(c.Message, "deadline exceeded") || strings.Contains(c.Message, "did not answer within")):
				kind = SourceSlow
			}
			f := Failure{Kind: kind, Source: t.source, Text: brief(message(c.Message), maxText), First: c.LastTransitionTime.Time}
			f.name(c)
			if nameless && slices.ContainsFunc(known, func(g Failure) bool { return g.Source == f.Source && g.Text == f.Text }) {
				continue
			}
			f.Unwaived = unwaivedIn(f.Text)
			b.failing = append(b.failing, f)
			b.cause(b.failure(f))
		}
	}
}

// unwaivedIn reads "... (not waived: 2 objects were left of it when it last told)".
func unwaivedIn(text string) int {
	_, rest, _ := strings.Cut(text, "(not waived: ")
	digits, _, _ := strings.Cut(rest, " object")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// message strips what a condition's message begins with and says nothing.
func message(s string) string {
	for _, p := range []string{"Failed to delete all resource types, ", "Discovery failed for some groups, "} {
		if rest, ok := strings.CutPrefix(s, p); ok {
			if _, after, ok := strings.Cut(rest, ": "); ok {
				s = after
			}
		}
	}
	s = strings.TrimPrefix(s, "unable to retrieve the complete list of server APIs: ")
	return cmp.Or(s, "it does not say how")
}

// name sets the source that the text of a failure names, and takes it off the text if it
// is what that begins with: "widgets.example.com: list: refused" as this library writes
// it, "metrics.k8s.io/v1beta1: unavailable" or "... for gvr: /v1, Resource=pods" as
// Kubernetes does.
func (f *Failure) name(c phase.Condition) {
	if _, after, ok := strings.Cut(f.Text, "Resource="); ok && f.Kind != DiscoveryFailed {
		end := strings.IndexFunc(after, func(r rune) bool { return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') })
		if end < 0 {
			end = len(after)
		}
		if end > 0 {
			f.Source = after[:end]
			return
		}
	}
	first, rest, ok := strings.Cut(f.Text, ": ")
	group, _, _ := strings.Cut(first, "/") // from its version
	if ok && resource(group) && len(group) <= 2*maxName {
		f.Source, f.Text = group, rest
		return
	}
	if party, _ := split(c.Type); party != finalizer.Kubernetes {
		f.Source += " of " + string(party)
	}
}

// remainingIn reads "Some resources are remaining: pods. has 2 resource instances, ...".
func remainingIn(message string) []Objects {
	var list []Objects
	for _, part := range phrases(message) {
		name, rest, ok := strings.Cut(part, " has ")
		n, ok2 := instances(rest)
		if !ok || !ok2 {
			continue
		}
		list = append(list, Objects{Resource: brief(strings.TrimSuffix(name, "."), 2*maxName), Remaining: n})
	}
	return list
}

// heldIn reads "... finalizers remaining: a/b in 3 resource instances, ...".
func heldIn(message string) []HeldBy {
	var list []HeldBy
	for _, part := range phrases(message) {
		name, rest, ok := strings.Cut(part, " in ")
		n, ok2 := instances(rest)
		if !ok || !ok2 {
			continue
		}
		list = append(list, HeldBy{Holder: phase.Holder{Finalizer: brief(name, 2*maxName), Objects: n}})
	}
	return list
}

func phrases(message string) []string {
	_, list, ok := strings.Cut(message, ": ")
	if !ok {
		return nil
	}
	list, _, _ = strings.Cut(list, ";")
	parts := strings.Split(list, ", ")
	return parts[:min(len(parts), maxTypes)]
}

func instances(s string) (int, bool) {
	digits, ok := strings.CutSuffix(s, " resource instances")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n > 0
}
