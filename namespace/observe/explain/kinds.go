package explain

import "slices"

// Kind is what sort of thing a cause is.
type Kind string

// The kinds, in the order of their rank: what comes first explains what comes after.
// DESIGN.md says why.
const (
	// Of namespaces that are not terminating.
	Protected      Kind = "protected"       // a protection refuses its deletion
	OnHold         Kind = "on-hold"         // it will be deleted when its hold is over
	NotTerminating Kind = "not-terminating" // nobody has asked for its deletion
	Forced         Kind = "forced"          // finalizers were dropped by force, and something was left
	Gone           Kind = "gone"            // it was removed: its passes or records remain
	NotFound       Kind = "not-found"       // no such namespace exists, and no record of an earlier one

	// What somebody has to do something about.
	OwnerMissing    Kind = "owner-missing"    // the owner of a finalizer was there once
	Unattended      Kind = "unattended"       // nobody works on it
	Removable       Kind = "removable"        // nothing holds it, and yet it is there
	StorageFailed   Kind = "storage-failed"   // the place where namespaces are kept does not take the result
	DiscoveryFailed Kind = "discovery-failed" // resource types could not be discovered
	ParsingFailed   Kind = "parsing-failed"   // a resource type could not be read
	Undeclared      Kind = "type-undeclared"  // the controller does not declare a resource type that is stored
	SourceFailed    Kind = "source-failed"    // a resource type could not be listed or deleted
	SourceSlow      Kind = "source-slow"      // it does not answer in time
	Returning       Kind = "content-returns"  // content comes back as fast as it is deleted
	Held            Kind = "object-held"      // a finalizer holds objects
	Conflicts       Kind = "conflict-storm"   // others write faster than the pass
	Stalled         Kind = "stalled"          // objects have not got less for long, and nobody says why
	OwnerUnknown    Kind = "owner-unknown"    // the owner of a finalizer never announced itself
	Queued          Kind = "queued"           // it waits for a worker for long

	// What goes on by itself.
	OwnerAtWork Kind = "owner-at-work" // the owner of a finalizer is there, and not done yet
	Stopping    Kind = "stopping"      // objects are being deleted gracefully
	Moving      Kind = "moving"        // content is deleted, and there is much
	Settling    Kind = "settling"      // content may still come, so it is looked at again
	Ordered     Kind = "ordered"       // a type waits for others to be empty
	Remaining   Kind = "remaining"     // content is left, nobody knows why
	Starting    Kind = "starting"      // its deletion has just begun
	Waived      Kind = "waived"        // a failure counts for nothing by an operator's word, or why it does not
	Unknown     Kind = "unknown"
)

var ranks = []Kind{
	Protected, OnHold, NotTerminating, Gone, NotFound,
	OwnerMissing, Unattended, Removable, StorageFailed, DiscoveryFailed, ParsingFailed, Undeclared, SourceFailed, SourceSlow,
	Returning, Held, Conflicts, Stalled, OwnerUnknown, Queued,
	OwnerAtWork, Stopping, Moving, Settling, Ordered, Remaining, Starting, Forced, Waived, Unknown,
}

// Kinds returns all kinds in the order of their rank.
func Kinds() []Kind { return slices.Clone(ranks) }

// rank returns the place of k among all kinds.
func (k Kind) rank() int {
	if at := slices.Index(ranks, k); at >= 0 {
		return at
	}
	return len(ranks)
}

// stuck reports whether somebody has to do something about it.
func (k Kind) stuck() bool {
	r := k.rank()
	return r >= OwnerMissing.rank() && r <= Queued.rank()
}

// hides reports whether such a failure may hide content from a pass.
func (k Kind) hides() bool {
	switch k {
	case DiscoveryFailed, ParsingFailed, Undeclared, SourceFailed, SourceSlow:
		return true
	}
	return false
}

// saysSince reports whether the summary of such a cause tells for how long.
func (k Kind) saysSince() bool {
	switch k {
	case NotTerminating, Forced, Gone, OwnerMissing, Unattended, Queued, Starting:
		return true
	}
	return false
}
