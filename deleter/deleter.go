// Package deleter empties namespaces: it deletes all content of one party in
// one namespace, resource type by resource type, and reports what remains.
package deleter

import (
	"context"
	"time"
)

// Resource is a resource type.
type Resource struct {
	Group string // empty: the core group
	Name  string // plural and lower case, such as "pods"
}

// String returns "pods" or "widgets.example.com".
func (r Resource) String() string {
	if r.Group == "" {
		return r.Name
	}
	return r.Name + "." + r.Group
}

// Target is one incarnation of a namespace. Nothing that is done for it may
// touch another incarnation of the same name (rule R8).
type Target struct {
	Namespace string
	UID       string    // the incarnation
	DeletedAt time.Time // when the namespace became Terminating
}

// Deleter deletes all content of one party in one namespace.
//
// Delete asks for the deletion of everything there is and reports what remains
// after that. It returns nil only if every source answered; the error carries
// every cause and the report is as full as it can be in either case. Previous is
// the report of the pass before for the same target, or the zero Report: types
// that it knows to be empty for good are not asked again.
//
// Delete is idempotent and safe for concurrent use, also for one target.
type Deleter interface {
	Delete(ctx context.Context, target Target, previous Report) (Report, error)
}

// Waiter is what a [Deleter] may offer beyond: waiting for the moment at which
// another pass is worth while.
type Waiter interface {
	// Wait returns nil as soon as something that report saw remaining has gone, also
	// if that was before the call; [ErrNotSupported] at once when no source with
	// remaining content can tell; ctx's cause when ctx ends.
	Wait(ctx context.Context, target Target, report Report) error
}

// Report is what one pass over the content of one namespace did and saw. A
// Report is a value: it is not changed after Delete returned it.
type Report struct {
	Results   []Result   // one for each resource type that was asked, sorted by resource
	Clean     []Resource // types that are empty for good in this incarnation, sorted
	Discovery []error    // groups of resource types that could not be discovered
	Parsing   []error    // resource types whose group or version could not be read
	Err       error      // what failed beyond the above and beyond the results
}

// Result is what was done to and seen of one resource type.
type Result struct {
	Resource  Resource
	Deleted   int           // objects whose deletion was asked for and which are gone, as far as known
	Remaining int           // objects left
	Holders   []Holder      // which finalizers hold how many of them, sorted by finalizer
	Sample    []string      // names of some of them, sorted
	Estimate  time.Duration // until graceful deletion of them should be over; zero: not known
	Err       error         // what failed; then Remaining may be too low
	Waiting   bool          // not asked: an earlier wave is not empty yet
	Seen      string        // the source's mark of the listing, for [Notifier]
}

// Holder is a finalizer that holds objects.
type Holder struct {
	Finalizer string
	Objects   int
	Sample    []string // names of some of them, sorted
}
