package phase

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The parts of messages that this file writes and reads. Except mayGrow they are texts of Kubernetes.
const (
	discoveryFailed  = "Discovery failed for some groups, "
	deletionFailed   = "Failed to delete all resource types, "
	resourcesRemain  = "Some resources are remaining: "
	finalizersRemain = "Some content in the namespace has finalizers remaining: "
	has              = " has "
	in               = " in "
	instances        = " resource instances"
	mayGrow          = "new objects may still appear; the next pass checks again"
)

// Failures returns the failures that the message of DiscoveryFailure, GroupVersionParsingFailure or
// ContentFailure lists, without introduction.
func (c Condition) Failures() string {
	for _, introduction := range []string{discoveryFailed, deletionFailed} {
		if rest, ok := strings.CutPrefix(c.Message, introduction); ok {
			_, list, _ := strings.Cut(rest, ": ")
			return list
		}
	}
	return c.Message
}

// Remaining returns the counts that the message of ContentRemaining lists, sorted.
func (c Condition) Remaining() []Remaining {
	var list []Remaining
	for name, n := range c.counts(resourcesRemain, has) {
		resource, group, _ := strings.Cut(name, ".")
		list = append(list, Remaining{Group: group, Resource: resource, Count: n})
	}
	return list
}

// Holders returns the finalizers that the message of FinalizersRemaining lists, sorted.
func (c Condition) Holders() []Holder {
	var list []Holder
	for name, n := range c.counts(finalizersRemain, in) {
		list = append(list, Holder{Finalizer: name, Objects: n})
	}
	return list
}

// MayGrow reports whether the message of ContentRemaining says that content may still be created
// ([Observation].Provisional).
func (c Condition) MayGrow() bool { return strings.HasSuffix(c.Message, mayGrow) }

// counts yields the names and counts that counted wrote after introduction. It skips others, such as
// the last one of a truncated message.
func (c Condition) counts(introduction, word string) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		list, ok := strings.CutPrefix(c.Message, introduction)
		if !ok {
			return
		}
		for phrase := range strings.SplitSeq(list, ", ") {
			name, rest, _ := strings.Cut(phrase, word)
			digits, ok := strings.CutSuffix(rest, instances)
			n, err := strconv.Atoi(digits)
			if ok && err == nil && n > 0 && !yield(name, n) {
				return
			}
		}
	}
}

// LastSeen returns [Observation].LastSeen of the party's last pass, from the condition
// [ContentLastSeen]. If the condition is unreadable, it returns one entry without a Resource.
func LastSeen(conditions []Condition, qualifier string) []Remaining {
	c, ok := find(conditions, ContentLastSeen.Qualified(qualifier))
	if !ok {
		return nil
	}
	counts := map[string]int{}
	if err := json.Unmarshal([]byte(c.Message), &counts); err != nil || len(counts) == 0 {
		return []Remaining{{Count: 1}}
	}
	var seen []Remaining
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		resource, group, _ := strings.Cut(name, ".")
		seen = append(seen, Remaining{Group: group, Resource: resource, Count: max(counts[name], 1)})
	}
	return seen
}

// lastSeen returns the condition ContentLastSeen, or none. Types that exceed maxMessage, after
// several hundred, share the empty name.
func (o Observation) lastSeen() []Condition {
	const perType = len(`:9223372036854775807,`)
	counts, size := map[string]int{}, len(`{"":9223372036854775807}`)
	for _, r := range o.LastSeen {
		if r.Count <= 0 {
			continue
		}
		name := strings.TrimSuffix(r.Resource+"."+r.Group, ".")
		quoted, _ := json.Marshal(name) // encoding a string cannot fail
		if size += len(quoted) + perType; size > maxMessage {
			name = ""
		}
		counts[name] = max(counts[name], r.Count)
	}
	if len(counts) == 0 {
		return nil
	}
	message, _ := json.Marshal(counts) // encoding strings and numbers cannot fail
	return []Condition{{Type: ContentLastSeen, Status: True, Reason: "ContentSeen", Message: string(message)}}
}

// conditions returns the five conditions, unqualified and without times. Kubernetes does not have
// the reasons ContentUnknown and FinalizersUnknown: it reports that all content is removed even if
// a source did not answer.
func (o Observation) conditions() [5]Condition {
	return [5]Condition{
		o.discovery(),
		o.parsing(),
		o.content(),
		o.contentRemaining(),
		o.finalizersRemaining(),
	}
}

func (o Observation) discovery() Condition {
	if len(o.Discovery) == 0 {
		return Condition{Type: DiscoveryFailure, Status: False,
			Reason: "ResourcesDiscovered", Message: "All resources successfully discovered" + waived(o.WaivedDiscovery)}
	}
	message := joined(texts(o.Discovery))
	if n := failures(o.Discovery); n > 0 {
		message = fmt.Sprintf("%s%d failing: %s", discoveryFailed, n, message)
	}
	return Condition{Type: DiscoveryFailure, Status: True, Reason: "DiscoveryFailed", Message: message}
}

// failures counts the groups whose discovery failed.
func failures(errs []error) int {
	n := 0
	for _, err := range errs {
		if several, ok := err.(interface{ Failures() int }); ok {
			n += several.Failures()
		} else {
			n++
		}
	}
	return n
}

func (o Observation) parsing() Condition {
	if len(o.Parsing) == 0 {
		return Condition{Type: GroupVersionParsingFailure, Status: False,
			Reason: "ParsedGroupVersions", Message: "All legacy kube types successfully parsed"}
	}
	return Condition{Type: GroupVersionParsingFailure, Status: True, Reason: "GroupVersionParsingFailed",
		Message: joined(texts(o.Parsing))}
}

func (o Observation) content() Condition {
	if len(o.Content) == 0 {
		return Condition{Type: ContentFailure, Status: False, Reason: "ContentDeleted",
			Message: "All content successfully deleted, may be waiting on finalization" + waived(o.Waived)}
	}
	return Condition{Type: ContentFailure, Status: True, Reason: "ContentDeletionFailed",
		Message: fmt.Sprintf("%s%d remaining: %s", deletionFailed, len(o.Content), joined(texts(o.Content)))}
}

func (o Observation) contentRemaining() Condition {
	remaining := counted(o.Remaining, has,
		func(r Remaining) (string, int) { return r.Resource + "." + r.Group, r.Count })
	c := Condition{Type: ContentRemaining}
	switch {
	case len(remaining) > 0:
		c.Status, c.Reason = True, "SomeResourcesRemain"
		c.Message = resourcesRemain + joined(remaining)
	case o.Partial():
		c.Status, c.Reason = Unknown, "ContentUnknown"
		c.Message = "No remaining resources were seen, but " + o.gap()
	default:
		c.Status, c.Reason = False, "ContentRemoved"
		c.Message = "All content successfully removed" + waived(o.Waived, o.WaivedDiscovery)
	}
	return c
}

func (o Observation) finalizersRemaining() Condition {
	remaining := counted(o.Finalizers, in,
		func(h Holder) (string, int) { return h.Finalizer, h.Objects })
	c := Condition{Type: FinalizersRemaining}
	switch {
	case len(remaining) > 0:
		c.Status, c.Reason = True, "SomeFinalizersRemain"
		c.Message = finalizersRemain + joined(remaining)
	case o.Partial():
		c.Status, c.Reason = Unknown, "FinalizersUnknown"
		c.Message = "No remaining finalizers were seen, but " + o.gap()
	default:
		c.Status, c.Reason = False, "ContentHasNoFinalizers"
		c.Message = "All content-preserving finalizers finished" + waived(o.Waived, o.WaivedDiscovery)
	}
	return c
}

// gap explains why the observation is partial.
func (o Observation) gap() string {
	switch {
	case !o.Answered():
		return "not every resource type could be discovered, deleted and listed"
	case o.Unasked != 0:
		return "not every resource type gave a full answer: some wait for others to be empty, or were not fully listed"
	case o.Provisional:
		return mayGrow
	}
	return "some counts were negative"
}

// The limits of the waived failures in one condition.
const (
	maxWaived     = 16
	maxWaivedText = 512 // bytes of each
)

// waived returns the end of a message that is healthy only because of waivers, or "".
func waived(lists ...[]error) string {
	all := texts(slices.Concat(lists...))
	if len(all) == 0 {
		return ""
	}
	shown := all[:min(len(all), maxWaived)]
	for i, text := range shown {
		shown[i] = Truncate(text, maxWaivedText)
	}
	message := "; waived: " + joined(shown)
	if more := len(all) - len(shown); more > 0 {
		message += fmt.Sprintf(" and %d more", more)
	}
	return message
}

// texts returns the sorted texts of errs, so that equal failures give equal messages.
func texts(errs []error) []string {
	list := make([]string, 0, len(errs))
	for _, err := range errs {
		text := "unknown error"
		if err != nil && err.Error() != "" {
			text = err.Error()
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return list
}

// counted adds up the counts of each name and returns a sorted phrase for each positive sum. It
// ignores negative counts, and sums do not overflow.
func counted[T any](list []T, word string, count func(T) (name string, n int)) []string {
	sums := make(map[string]int, len(list))
	for _, e := range list {
		name, n := count(e)
		sums[name] += min(max(n, 0), math.MaxInt-sums[name])
	}
	phrases := make([]string, 0, len(sums))
	for name, n := range sums {
		if n > 0 {
			phrases = append(phrases, name+word+strconv.Itoa(n)+instances)
		}
	}
	slices.Sort(phrases)
	return phrases
}

func joined(list []string) string { return strings.Join(list, ", ") }
