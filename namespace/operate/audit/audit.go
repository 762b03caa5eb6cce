// Package audit records the actions of operators on namespaces, other than creating and
// deleting them: protections, holds and waivers set and removed, and finalizers dropped by
// force with the content that remained. A record never changes. The log keeps the latest
// declarations of a name ([MaxDeclared], [MaxDeclaredBytes]). The number of other records
// grows with the actions of operators, not of controllers; [Log.Forget] removes old ones.
//
// Finalize requests leave no record, because controllers make them all the time. Permit them
// to controllers only. Operators drop finalizers with package force.
//
// A [Log] keeps the records in the store of the registry. Every process can read them, and
// they outlive their namespaces.
package audit

import (
	"context"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
)

// Action is the kind of a record. The zero value is none.
type Action string

// The actions.
const (
	Declared Action = "declared" // a protection, hold, grace or waiver was set, changed or removed
	Forcing  Action = "forcing"  // force is about to drop finalizers; the record has the inventory
	Forced   Action = "forced"   // force dropped them
	Refused  Action = "refused"  // force could not drop them; Detail says why
	Sweeping Action = "sweeping" // a sweep of remaining objects begins
	Swept    Action = "swept"    // it ended; Detail has the counts, the inventory lists objects that still remain
	Retired  Action = "retired"  // a resource type was removed from the record of stored types

	// Unreadable stands for a damaged record in [Log.List]. It has the ID and time of its
	// key, no UID, and the defect in Detail.
	Unreadable Action = "unreadable"
)

// Types replaces the name of a namespace in records about resource types. No namespace can
// have this name.
const Types = ".types"

// Record is one entry of the log.
type Record struct {
	ID        string    `json:"id"`   // set by the log
	Time      time.Time `json:"time"` // by the clock of the writer
	Action    Action    `json:"action"`
	Namespace string    `json:"namespace"`          // Types, if Action is Retired
	UID       string    `json:"uid"`                // the incarnation
	Resource  string    `json:"resource,omitempty"` // the Retired type, such as "widgets.example.com"
	// By is the operator: the user that a server authenticated ([WithActor]), otherwise the
	// unverified name that the caller gave, if any. Names inside Changes are never verified.
	By         string           `json:"by,omitempty"`
	Reason     string           `json:"reason,omitempty"`
	Finalizers []finalizer.Name `json:"finalizers,omitempty"` // the dropped ones
	Changes    []Change         `json:"changes,omitempty"`    // changed declarations; long values are cut
	// Follows is the ID of a Forcing: the one that this record completes, sweeps or resumes.
	Follows string `json:"follows,omitempty"`
	Detail  string `json:"detail,omitempty"`
	// Objects and Failures count the entries of Inventory. The log sets them, so that a
	// listing without inventories has the counts.
	Objects   int        `json:"objects,omitempty"`
	Failures  int        `json:"failures,omitempty"`
	Inventory *Inventory `json:"inventory,omitempty"`
}

// Change is one changed annotation.
type Change struct {
	Key string `json:"key"`
	Old string `json:"old,omitempty"` // empty: it did not exist
	New string `json:"new,omitempty"` // empty: it was removed
}

// Inventory lists the remaining content of a namespace.
type Inventory struct {
	Objects  []Object  `json:"objects,omitempty"`
	Failures []Failure `json:"failures,omitempty"` // sources that did not answer; with any, the inventory is incomplete
}

// Object is one object of an inventory.
type Object struct {
	Resource   string   `json:"resource"` // such as "widgets.example.com"
	Name       string   `json:"name"`
	UID        string   `json:"uid,omitempty"`
	Finalizers []string `json:"finalizers,omitempty"`
}

// Failure is a source that did not answer.
type Failure struct {
	Source string `json:"source"`
	Text   string `json:"text"`
}

type actorKey struct{}

// WithActor returns a context for actions on behalf of the named user. Records written with
// it have that name. Only a server that authenticated the user may call it.
func WithActor(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, actorKey{}, name)
}

// Actor returns the name set by [WithActor], or an empty string. It omits unprintable
// characters, and bytes beyond [MaxBy], so that the name is valid as [Record].By.
func Actor(ctx context.Context) string {
	name, _ := ctx.Value(actorKey{}).(string)
	return declare.Printable(name, MaxBy)
}
