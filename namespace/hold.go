package namespace

import "time"

// The annotations of a delayed deletion.
const (
	// HoldAnnotation says when an Active namespace will be deleted: a [Hold] as JSON.
	HoldAnnotation = "nslifecycle.io/delete-after"
	// GraceAnnotation is a duration ("24h"): DELETE puts the namespace on hold for so
	// long, instead of making it Terminating at once.
	GraceAnnotation = "nslifecycle.io/deletion-grace"
)

// Hold is a deletion that was asked for and has not begun: the namespace is Active, and
// becomes Terminating at Until unless the hold is taken off before.
type Hold struct {
	Until  time.Time `json:"until"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// HoldEvent tells of one namespace on hold.
type HoldEvent struct {
	Type  HoldEventType
	Name  string    // empty in a [HoldsSynced]
	UID   string    // the incarnation
	Until time.Time // of a [HoldSet]
	Token string    // where to resume after this event; empty: nowhere yet
}

// HoldEventType is the kind of a [HoldEvent]. The zero value is none.
type HoldEventType uint8

// The kinds of hold events.
const (
	HoldSet     HoldEventType = iota + 1 // the namespace is on hold, or its hold has changed
	HoldOver                             // it no longer is: restored, terminating or gone
	HoldsSynced                          // everything up to Token has been delivered; no namespace is named
)
