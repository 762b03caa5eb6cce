package phase

// ConditionType names one of the five questions that the conditions answer.
type ConditionType string

// The five conditions, in the order in which they are written. False is healthy.
const (
	DiscoveryFailure           ConditionType = "NamespaceDeletionDiscoveryFailure"
	GroupVersionParsingFailure ConditionType = "NamespaceDeletionGroupVersionParsingFailure"
	ContentFailure             ConditionType = "NamespaceDeletionContentFailure"
	ContentRemaining           ConditionType = "NamespaceContentRemaining"
	FinalizersRemaining        ConditionType = "NamespaceFinalizersRemaining"
)

// ConditionStatus is True, False or Unknown.
type ConditionStatus string

// The values of a condition's status.
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
	LastTransitionTime Time            `json:"lastTransitionTime,omitzero"` // moves only with Status
	Reason             string          `json:"reason,omitempty"`
	Message            string          `json:"message,omitempty"`
}

// Observation is what one pass saw of the content of one party in one
// namespace. The zero Observation is: everything answered, nothing is left.
type Observation struct {
	Discovery  []error     // groups of resource types that could not be discovered
	Parsing    []error     // resource types whose group or version could not be read
	Content    []error     // resource types whose deletion or listing failed
	Remaining  []Remaining // resource types that still have objects
	Finalizers []Held      // finalizers on those objects
}

// Remaining is how many objects of one resource type are left.
type Remaining struct {
	Group    string // empty: the core group
	Resource string // plural and lower case, such as "pods"
	Count    int
}

// Held is how many objects one finalizer holds.
type Held struct {
	Finalizer string
	Count     int
}
