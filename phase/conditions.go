package phase

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// MaxMessage is the greatest length of a condition's message, in bytes. A longer
// one is cut, so that a status can always be written (rule R9).
const MaxMessage = 32 << 10

// Conditions returns the conditions of a namespace after a pass of one party:
// those of old, with the five of the party set to what the pass saw (rule R9).
// Texts are those of Kubernetes.
//
// All five are present, together and in order, and [ContentLastSeen] after them if the pass
// has anything to remember: where the first of them was in
// old, else at the end. Their types are plain for an empty qualifier and else
// qualified by it ([ConditionType.Qualified]). Conditions of other types keep
// their order. LastTransitionTime of each becomes now only if its status
// changed. Old is not changed, and the result shares nothing with it.
func Conditions(old []Condition, seen Observation, qualifier string, now time.Time) []Condition {
	five := seen.conditions()
	ours := append(five[:], seen.lastSeen()...)
	for i := range ours {
		c := &ours[i]
		c.Type = c.Type.Qualified(qualifier)
		c.LastTransitionTime = At(now)
		c.Message = Truncate(c.Message, MaxMessage)
		if before, ok := find(old, c.Type); ok && before.Status == c.Status {
			c.LastTransitionTime = before.LastTransitionTime
		}
	}
	merged := make([]Condition, 0, len(old)+len(ours))
	placed := false
	for _, c := range old {
		if _, replaced := find(ours, c.Type); !replaced && c.Type != ContentLastSeen.Qualified(qualifier) {
			merged = append(merged, c)
		} else if !placed {
			merged = append(merged, ours...)
			placed = true
		}
	}
	if !placed {
		merged = append(merged, ours...)
	}
	return merged
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

// lastSeen returns the condition ContentLastSeen, or none. Types beyond MaxMessage, after
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
		if size += len(quoted) + perType; size > MaxMessage {
			name = ""
		}
		counts[name] = max(counts[name], r.Count)
	}
	if len(counts) == 0 {
		return nil
	}
	message, _ := json.Marshal(counts) // encoding strings and numbers cannot fail
	return []Condition{{Type: ContentLastSeen, Status: True, Reason: ReasonContentSeen, Message: string(message)}}
}

func find(list []Condition, t ConditionType) (Condition, bool) {
	for _, c := range list {
		if c.Type == t {
			return c, true
		}
	}
	return Condition{}, false
}

// conditions returns the five with their plain types and no times.
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
			Reason: ReasonResourcesDiscovered, Message: "All resources successfully discovered" + waived(o.WaivedDiscovery)}
	}
	message := joined(texts(o.Discovery))
	if n := failing(o.Discovery); n > 0 {
		message = fmt.Sprintf("Discovery failed for some groups, %d failing: %v", n, message)
	}
	return Condition{Type: DiscoveryFailure, Status: True, Reason: ReasonDiscoveryFailed, Message: message}
}

// failing counts the failures in errs. An error that stands for several says so, and
// one that is not about single groups says none.
func failing(errs []error) int {
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
			Reason: ReasonParsedGroupVersions, Message: "All legacy kube types successfully parsed"}
	}
	return Condition{Type: GroupVersionParsingFailure, Status: True, Reason: ReasonGroupVersionParsingFailed,
		Message: joined(texts(o.Parsing))}
}

func (o Observation) content() Condition {
	if len(o.Content) == 0 {
		return Condition{Type: ContentFailure, Status: False, Reason: ReasonContentDeleted,
			Message: "All content successfully deleted, may be waiting on finalization" + waived(o.Waived)}
	}
	return Condition{Type: ContentFailure, Status: True, Reason: ReasonContentDeletionFailed,
		Message: fmt.Sprintf("Failed to delete all resource types, %d remaining: %v", len(o.Content), joined(texts(o.Content)))}
}

func (o Observation) contentRemaining() Condition {
	c := Condition{Type: ContentRemaining}
	switch left := o.remaining(); {
	case len(left) > 0:
		c.Status, c.Reason = True, ReasonSomeResourcesRemain
		c.Message = "Some resources are remaining: " + joined(left)
	case o.Partial():
		c.Status, c.Reason = Unknown, ReasonContentUnknown
		c.Message = "No remaining resources were seen, but " + o.gap()
	default:
		c.Status, c.Reason = False, ReasonContentRemoved
		c.Message = "All content successfully removed" + waived(o.Waived, o.WaivedDiscovery)
	}
	return c
}

func (o Observation) finalizersRemaining() Condition {
	c := Condition{Type: FinalizersRemaining}
	switch held := o.held(); {
	case len(held) > 0:
		c.Status, c.Reason = True, ReasonSomeFinalizersRemain
		c.Message = "Some content in the namespace has finalizers remaining: " + joined(held)
	case o.Partial():
		c.Status, c.Reason = Unknown, ReasonFinalizersUnknown
		c.Message = "No remaining finalizers were seen, but " + o.gap()
	default:
		c.Status, c.Reason = False, ReasonContentHasNoFinalizers
		c.Message = "All content-preserving finalizers finished" + waived(o.Waived, o.WaivedDiscovery)
	}
	return c
}

// Bounds of what a condition tells of waived failures.
const (
	maxWaived     = 16
	maxWaivedText = 512
)

// waived tells of failures that are waived, at the end of a message which claims what is
// true but for them; empty if there are none.
func waived(lists ...[]error) string {
	all := texts(slices.Concat(lists...))
	if len(all) == 0 {
		return ""
	}
	told := all[:min(len(all), maxWaived)]
	for i, text := range told {
		told[i] = Truncate(text, maxWaivedText)
	}
	message := "; waived: " + joined(told)
	if more := len(all) - len(told); more > 0 {
		message += fmt.Sprintf(" and %d more", more)
	}
	return message
}

// gap says why the pass may have missed something.
func (o Observation) gap() string {
	switch {
	case !o.Answered():
		return "not every resource type could be discovered, deleted and listed"
	case o.Unasked != 0:
		return "not every resource type was asked: some wait for others to be empty"
	case o.Provisional:
		return "some may still come; it will be looked at again"
	}
	return "some counts were negative"
}
