package phase

import (
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

// ContentLastSeen lists the resource types that had objects when their sources last answered and
// have not been seen empty since. It is True and follows the five other conditions; without such
// types it is absent. Its message is a JSON object of their counts, such as
// {"pods":2,"widgets.example.com":5}. A pass in another process reads it ([LastSeen]) before it
// accepts a waiver (rule R7). The empty name stands for unknown types: no waiver is accepted until
// a pass has seen all content.
const ContentLastSeen ConditionType = "NamespaceContentLastSeen"

// Qualified returns t with the prefix of the party that writes it, such as
// "example.com/agent.NamespaceContentRemaining", or t if qualifier is empty.
func (t ConditionType) Qualified(qualifier string) ConditionType {
	if qualifier == "" {
		return t
	}
	return ConditionType(qualifier) + "." + t
}

// Split is the inverse of [ConditionType.Qualified].
func (t ConditionType) Split() (plain ConditionType, qualifier string) {
	at := strings.LastIndexByte(string(t), '.')
	if at < 0 {
		return t, ""
	}
	return t[at+1:], string(t[:at])
}

// ConditionStatus is True, False or Unknown.
type ConditionStatus string

// The values of ConditionStatus.
const (
	True    ConditionStatus = "True"
	False   ConditionStatus = "False"
	Unknown ConditionStatus = "Unknown"
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

// maxMessage is the limit of a condition's message, in bytes. Longer messages are truncated, so
// that a status can always be written (rule R9).
const maxMessage = 32 << 10

// Conditions replaces a party's conditions in old, the conditions of a namespace, by the result of a
// pass (rule R9). It uses the messages of Kubernetes where Kubernetes has one.
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
		c.Message = Truncate(c.Message, maxMessage)
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
