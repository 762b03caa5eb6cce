package phase

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// ConditionType names a condition.
type ConditionType string

// The five conditions of each party, in the order in which they are written. False is healthy.
const (
	DiscoveryFailure           ConditionType = "NamespaceDeletionDiscoveryFailure"
	GroupVersionParsingFailure ConditionType = "NamespaceDeletionGroupVersionParsingFailure"
	ContentFailure             ConditionType = "NamespaceDeletionContentFailure"
	ContentRemaining           ConditionType = "NamespaceContentRemaining"
	FinalizersRemaining        ConditionType = "NamespaceFinalizersRemaining"
)

// ContentLastSeen lists the resource types that had objects when their sources last answered and have
// not been seen empty since. It is True and follows the five other conditions; without such types it is
// absent. Its message is a JSON object of their counts, such as {"pods":2,"widgets.example.com":5}. A pass
// in another process reads it ([LastSeen]) before it accepts a waiver (rule R7). The empty name stands for
// unknown types: no waiver is accepted until a pass has seen all content.
const ContentLastSeen ConditionType = "NamespaceContentLastSeen"

// Qualified returns t with the prefix of the party that writes it, such as
// "example.com/agent.NamespaceContentRemaining", or t if qualifier is empty.
func (t ConditionType) Qualified(qualifier string) ConditionType {
	if qualifier == "" {
		return t
	}
	return ConditionType(qualifier) + "." + t
}

// ConditionStatus is True, False or Unknown.
type ConditionStatus string

// The values of ConditionStatus.
const (
	True    ConditionStatus = "True"
	False   ConditionStatus = "False"
	Unknown ConditionStatus = "Unknown"
)

// The reasons of the conditions. Kubernetes does not have ContentUnknown, FinalizersUnknown and
// ContentSeen: it reports that all content is removed even if a source did not answer.
const (
	ReasonResourcesDiscovered       = "ResourcesDiscovered"
	ReasonDiscoveryFailed           = "DiscoveryFailed"
	ReasonParsedGroupVersions       = "ParsedGroupVersions"
	ReasonGroupVersionParsingFailed = "GroupVersionParsingFailed"
	ReasonContentDeleted            = "ContentDeleted"
	ReasonContentDeletionFailed     = "ContentDeletionFailed"
	ReasonContentRemoved            = "ContentRemoved"
	ReasonSomeResourcesRemain       = "SomeResourcesRemain"
	ReasonContentUnknown            = "ContentUnknown"
	ReasonContentHasNoFinalizers    = "ContentHasNoFinalizers"
	ReasonSomeFinalizersRemain      = "SomeFinalizersRemain"
	ReasonFinalizersUnknown         = "FinalizersUnknown"
	ReasonContentSeen               = "ContentSeen"
)

// Condition is one entry of status.conditions, in the JSON form of Kubernetes
// v1/NamespaceCondition.
type Condition struct {
	Type               ConditionType   `json:"type"`
	Status             ConditionStatus `json:"status"`
	LastTransitionTime Time            `json:"lastTransitionTime"` // of the last change of Status
	Reason             string          `json:"reason,omitempty"`
	Message            string          `json:"message,omitempty"`
}

// Equal reports whether c and d are equal. It compares times as moments.
func (c Condition) Equal(d Condition) bool {
	return c.Type == d.Type && c.Status == d.Status && c.Reason == d.Reason && c.Message == d.Message &&
		c.LastTransitionTime.Equal(d.LastTransitionTime)
}

// MaxMessage is the limit of a condition's message, in bytes. Longer messages are truncated, so
// that a status can always be written (rule R9).
const MaxMessage = 32 << 10

// Conditions replaces a party's conditions in old, the conditions of a namespace, by the result of a
// pass (rule R9). It uses the messages of Kubernetes.
//
// The five conditions stand together and in order, followed by [ContentLastSeen] if it applies,
// in the place of the first of them in old, or at the end. Their types are qualified by qualifier
// ([ConditionType.Qualified]). Conditions of other types keep their order. LastTransitionTime
// becomes now only if the status changes. The result shares nothing with old.
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

func find(list []Condition, t ConditionType) (Condition, bool) {
	for _, c := range list {
		if c.Type == t {
			return c, true
		}
	}
	return Condition{}, false
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

// lastSeen returns the condition ContentLastSeen, or none. Types that exceed MaxMessage, after
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

// conditions returns the five conditions, unqualified and without times.
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
	if n := failures(o.Discovery); n > 0 {
		message = fmt.Sprintf("Discovery failed for some groups, %d failing: %v", n, message)
	}
	return Condition{Type: DiscoveryFailure, Status: True, Reason: ReasonDiscoveryFailed, Message: message}
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
	remaining := counted(o.Remaining, "%s has %d resource instances",
		func(r Remaining) (string, int) { return r.Resource + "." + r.Group, r.Count })
	c := Condition{Type: ContentRemaining}
	switch {
	case len(remaining) > 0:
		c.Status, c.Reason = True, ReasonSomeResourcesRemain
		c.Message = "Some resources are remaining: " + joined(remaining)
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
	remaining := counted(o.Finalizers, "%s in %d resource instances",
		func(h Holder) (string, int) { return h.Finalizer, h.Objects })
	c := Condition{Type: FinalizersRemaining}
	switch {
	case len(remaining) > 0:
		c.Status, c.Reason = True, ReasonSomeFinalizersRemain
		c.Message = "Some content in the namespace has finalizers remaining: " + joined(remaining)
	case o.Partial():
		c.Status, c.Reason = Unknown, ReasonFinalizersUnknown
		c.Message = "No remaining finalizers were seen, but " + o.gap()
	default:
		c.Status, c.Reason = False, ReasonContentHasNoFinalizers
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
		return "not every resource type was asked: some wait for others to be empty"
	case o.Provisional:
		return "new objects may still appear; the next pass checks again"
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
func counted[T any](list []T, phrase string, count func(T) (name string, n int)) []string {
	sums := make(map[string]int, len(list))
	for _, e := range list {
		name, n := count(e)
		sums[name] += min(max(n, 0), math.MaxInt-sums[name])
	}
	phrases := make([]string, 0, len(sums))
	for name, n := range sums {
		if n > 0 {
			phrases = append(phrases, fmt.Sprintf(phrase, name, n))
		}
	}
	slices.Sort(phrases)
	return phrases
}

func joined(list []string) string { return strings.Join(list, ", ") }
