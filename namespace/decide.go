package namespace

import (
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Party is a controller that owns one finalizer and deletes one party's content.
type Party struct {
	// Finalizer is the party's token in spec.finalizers.
	Finalizer finalizer.Name
	// Primary parties write the five conditions under their plain names. The owner
	// of [finalizer.Kubernetes] always is; other parties write theirs qualified
	// ("example.com/agent.NamespaceContentRemaining"), so that the conditions of
	// two parties of one namespace never overwrite each other (rule R9).
	Primary bool
}

// Observed is what one pass saw.
type Observed struct {
	phase.Observation
	// Failed is any error that kept the party from a full look, whether or not a
	// condition tells of it; while it is set the finalizer stays (rule R7).
	Failed error
	// Estimate is how long what remains will take to go; zero: not known.
	Estimate time.Duration
}

// Decision is what must be done next.
type Decision struct {
	Status        Status        // the status to write
	StatusChanged bool          // whether it differs from the one read
	Finalize      bool          // the party's finalizer may go (rule R7)
	Finalizers    finalizer.Set // spec.finalizers after that
	Remove        bool          // with that write the namespace is removed (rule R1)
	Done          bool          // nothing (more) to do for this party after the above
	After         time.Duration // when to look again by the estimate; zero: no estimate, back off
}
