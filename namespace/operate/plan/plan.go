// Package plan tells what would be deleted if a namespace were deleted now. It writes
// nothing.
package plan

import (
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Outcome is what DELETE of a namespace leads to. The zero value is none.
type Outcome string

// The outcomes.
const (
	Terminates Outcome = "terminates" // it becomes Terminating; if nothing holds it, it is removed at once
	Holds      Outcome = "holds"      // it is put on hold, since it has a grace; see Until
	Nothing    Outcome = "nothing"    // it is answered, and stays as it is: Terminating, or on hold with a grace
	Refused    Outcome = "refused"    // see Refusal
)

// Plan is what the deletion of a namespace would do. Make one with [Of].
type Plan struct {
	Name        string               `json:"name"`
	UID         string               `json:"uid"`
	Phase       phase.Phase          `json:"phase"` // Terminating: DELETE changes nothing, Types are what is left
	At          time.Time            `json:"at"`
	Delete      Outcome              `json:"delete"`              // what DELETE would lead to now
	Refusal     string               `json:"refusal,omitempty"`   // why DELETE would be refused; empty: it would not
	Until       time.Time            `json:"until,omitzero"`      // the end of the hold that DELETE would begin; zero: it would begin none
	Unguarded   bool                 `json:"unguarded,omitempty"` // annotations declare something that nothing enforces, see Options
	Protections []declare.Protection `json:"protections,omitempty"`
	Grace       time.Duration        `json:"grace,omitempty"`      // for how long DELETE puts it on hold, once nothing refuses that; nanoseconds in JSON
	Hold        *declare.Hold        `json:"hold,omitempty"`       // it is on hold already, which DELETE waits for if it is to do Nothing
	Finalizers  []finalizer.Name     `json:"finalizers,omitempty"` // each of whose owners must agree
	Own         []finalizer.Name     `json:"own,omitempty"`        // metadata.finalizers, which hold it too
	Types       []Type               `json:"types"`                // what would be deleted, those with content first
	Failures    []Failure            `json:"failures,omitempty"`   // what did not answer: the plan is not complete
}

// Type is one resource type of a plan.
type Type struct {
	Resource string         `json:"resource"`
	Objects  int            `json:"objects"`
	More     bool           `json:"more,omitempty"` // there may be more than these
	Sample   []string       `json:"sample,omitempty"`
	HeldBy   []phase.Holder `json:"heldBy,omitempty"`
}

// Failure is a source that did not answer.
type Failure struct {
	Source string `json:"source"` // a resource type or a group; empty: the look as a whole
	Text   string `json:"text"`
}

// Complete reports whether every source answered.
func (p Plan) Complete() bool { return len(p.Failures) == 0 }

// Objects returns how many objects would be deleted, as far as known.
func (p Plan) Objects() int {
	n := 0
	for _, t := range p.Types {
		n += t.Objects
	}
	return n
}
