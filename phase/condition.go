package phase

// ConditionType names a question that a condition answers.
type ConditionType string

// The five conditions, in the order in which they are written. False is healthy.
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

// Qualified returns t as the party with this qualifier writes it:
// "example.com/agent.NamespaceContentRemaining"; t itself for the empty one.
func (t ConditionType) Qualified(qualifier string) ConditionType {
	if qualifier == "" {
		return t
	}
	return ConditionType(qualifier) + "." + t
}

// ConditionStatus is True, False or Unknown.
type ConditionStatus string

// The values of a condition's status.
const (
	True    ConditionStatus = "True"
	False   ConditionStatus = "False"
	Unknown ConditionStatus = "Unknown"
)

// The reasons of the conditions. Those of status Unknown are this library's own:
// upstream claims that all is removed although a source did not answer.
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
	LastTransitionTime Time            `json:"lastTransitionTime"` // moves only with Status
	Reason             string          `json:"reason,omitempty"`
	Message            string          `json:"message,omitempty"`
}

// Equal reports whether c and d say the same, their times being the same moment.
func (c Condition) Equal(d Condition) bool {
	return c.Type == d.Type && c.Status == d.Status && c.Reason == d.Reason && c.Message == d.Message &&
		c.LastTransitionTime.Equal(d.LastTransitionTime)
}
