package namespace

// Ref names one incarnation of a namespace.
type Ref struct {
	Name string
	UID  string
}

// TerminationEvent tells of one namespace on its way out. The place where
// namespaces are kept yields them to controllers (package controller, interface
// Namespaces); it knows nothing of the controllers.
type TerminationEvent struct {
	Type  TerminationEventType
	Name  string // empty in an [EventSynced]
	UID   string // the incarnation; empty in an [EventSynced]
	Token string // where to resume after this event; empty: nowhere yet
}

// TerminationEventType is the kind of a [TerminationEvent]. The zero value is none.
type TerminationEventType uint8

// The kinds of termination events.
const (
	EventTerminating TerminationEventType = iota + 1 // the namespace is terminating
	EventRemoved                                     // the namespace is gone
	EventSynced                                      // everything up to Token has been delivered; no namespace is named
)
