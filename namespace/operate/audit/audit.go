// Package audit keeps what operators did to namespaces beyond creating and deleting
// them: protections, holds and waivers set and removed, finalizers dropped by force,
// and the content left then. A record never changes. The log keeps the latest declarations of
// a name ([MaxDeclared], [MaxDeclaredBytes]). The number of other records grows with the
// actions of operators, not of controllers; they stay until [Log.Forget] removes old ones.
//
// What is not here: a finalize request that drops finalizers is what controllers make
// all the time, so it leaves no record. Let nobody but them make it; package force is
// the way for everybody else.
//
// A [Log] keeps them in the store of the registry, so that they are there for every
// process, and outlive the namespaces that they tell of.
package audit

import (
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
)

// Action is what was done. The zero value is none.
type Action string

// The actions.
const (
	Declared Action = "declared" // a protection, hold, grace or waiver was set, changed or removed
	Forcing  Action = "forcing"  // finalizers are about to be dropped by force; the inventory is in this record
	Forced   Action = "forced"   // they were dropped
	Refused  Action = "refused"  // they could not be dropped; Detail says why
	Sweeping Action = "sweeping" // what was left is about to be removed
	Swept    Action = "swept"    // it was, as far as Detail says; the inventory, if any, is what is left still
	Retired  Action = "retired"  // a resource type was taken off the record of stored types

	// Unreadable is what [Log.List] has in the place of a record that is damaged: with the
	// ID and the time that its key tells, no UID, and Detail says why. Nobody writes it.
	Unreadable Action = "unreadable"
)

// Types is in the place of a namespace's name in records about resource types. No
// namespace can have this name.
const Types = ".types"

// Record is one entry. It is a value; nobody changes it once written.
type Record struct {
	ID        string    `json:"id"`   // set by the log
	Time      time.Time `json:"time"` // by the clock of whoever wrote it
	Action    Action    `json:"action"`
	Namespace string    `json:"namespace"`          // of a Retired: Types
	UID       string    `json:"uid"`                // the incarnation
	Resource  string    `json:"resource,omitempty"` // that was Retired, such as "widgets.example.com"
	// By is on whose behalf it was done: whom a server has authenticated ([WithActor]),
	// else the claim of the caller, empty if there was none. Who is named in Changes is a
	// claim in any case.
	By         string           `json:"by,omitempty"`
	Reason     string           `json:"reason,omitempty"`
	Finalizers []finalizer.Name `json:"finalizers,omitempty"` // that were dropped
	Changes    []Change         `json:"changes,omitempty"`    // of declarations; long ones are cut
	// Follows is the ID of the record that this one goes on with: of the Forcing that a
	// Forced or Refused ends, that a Sweeping or Swept is about, or that was left without
	// an end when another Forcing began.
	Follows string `json:"follows,omitempty"`
	Detail  string `json:"detail,omitempty"`
	// Objects and Failures count what Inventory holds; set by the log, so that a listing,
	// which leaves inventories out, tells of them.
	Objects   int        `json:"objects,omitempty"`
	Failures  int        `json:"failures,omitempty"`
	Inventory *Inventory `json:"inventory,omitempty"`
}

// Change is one annotation that was changed.
type Change struct {
	Key string `json:"key"`
	Old string `json:"old,omitempty"` // empty: there was none
	New string `json:"new,omitempty"` // empty: it was removed
}

// Inventory is everything that was left in a namespace.
type Inventory struct {
	Objects  []Object  `json:"objects,omitempty"`
	Failures []Failure `json:"failures,omitempty"` // sources that did not answer: the inventory is not complete
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
