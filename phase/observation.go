package phase

import "slices"

// Observation is the result of one pass over the content of one party in one namespace. The
// zero Observation means that every source answered and no content is left.
type Observation struct {
	// Discovery lists failed discoveries of groups of resource types. An error with a method
	// Failures() int counts as that many groups; zero means that discovery failed as a whole.
	Discovery  []error
	Parsing    []error     // resource types with a malformed group or version
	Content    []error     // resource types whose deletion or listing failed
	Remaining  []Remaining // resource types that still have objects
	Finalizers []Holder    // finalizers of those objects
	// LastSeen lists the resource types that had objects when their sources last answered,
	// including the types of Remaining. An entry without a Resource stands for unknown types.
	LastSeen []Remaining
	// Unasked counts the resource types without a full answer: not called, since they are
	// deleted after others that still have objects; counted negative; or listed incompletely
	// without an object.
	Unasked int
	// Provisional reports that content may still be created, so the observation is not
	// final and a party must observe again before it removes its finalizer (rule R7).
	Provisional bool
	// Waived and WaivedDiscovery list failures that an operator has waived. The conditions
	// mention them, and they do not block finalization.
	Waived, WaivedDiscovery []error
}

// Remaining counts the remaining objects of one resource type.
type Remaining struct {
	Group    string // empty: the core group
	Resource string // plural and lower case, such as "pods"
	Count    int
}

// Holder is a finalizer that holds objects.
type Holder struct {
	Finalizer string   `json:"finalizer"`
	Objects   int      `json:"objects"`
	Sample    []string `json:"sample,omitempty"` // names of some of the objects, sorted
}

// Answered reports whether no call failed, except waived ones.
func (o Observation) Answered() bool {
	return len(o.Discovery)+len(o.Parsing)+len(o.Content) == 0
}

// Partial reports whether the pass may have missed content: a call failed, a resource type gave
// no full answer, content may still be created, or a count is negative.
func (o Observation) Partial() bool {
	return !o.Answered() || o.Unasked != 0 || o.Provisional ||
		slices.ContainsFunc(o.Remaining, func(r Remaining) bool { return r.Count < 0 }) ||
		slices.ContainsFunc(o.Finalizers, func(h Holder) bool { return h.Objects < 0 })
}

// Empty reports whether the observation is not Partial and no content is left. A party removes
// its finalizer only then (rule R7).
func (o Observation) Empty() bool {
	return !o.Partial() &&
		!slices.ContainsFunc(o.Remaining, func(r Remaining) bool { return r.Count != 0 }) &&
		!slices.ContainsFunc(o.Finalizers, func(h Holder) bool { return h.Objects != 0 })
}
