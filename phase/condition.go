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

// ContentLastSeen is True while resource types are not known to be empty that had objects when their
// sources last answered. It follows the five, only if there are such types. Its message is a JSON object of
// their counts, such as {"pods":2,"widgets.example.com":5}: the memory of the passes, which the pass of
// another process reads ([LastSeen]) before it lets a waiver count (rule R7). The empty name stands
// for types that are not known: no waiver counts until a pass has seen all content.
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
