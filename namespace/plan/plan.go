// Package plan tells what would be deleted if a namespace were deleted now. It writes
// nothing.
package plan

import (
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// Plan is what the deletion of a namespace would do.
type Plan struct {
	Name        string                 `json:"name"`
	UID         string                 `json:"uid"`
	At          time.Time              `json:"at"`
	Refusal     string                 `json:"refusal,omitempty"` // why DELETE would be refused now; empty: it would not
	Protections []namespace.Protection `json:"protections,omitempty"`
	Grace       time.Duration          `json:"grace,omitempty"` // for so long it would be on hold first
	Finalizers  []finalizer.Name       `json:"finalizers,omitempty"`
	Types       []Type                 `json:"types"`              // what would be deleted, those with content first
	Failures    []Failure              `json:"failures,omitempty"` // what did not answer: the plan is not complete
}

// Type is one resource type of a plan.
type Type struct {
	Resource string   `json:"resource"`
	Objects  int      `json:"objects"`
	Sample   []string `json:"sample,omitempty"`
	HeldBy   []HeldBy `json:"heldBy,omitempty"`
}

// HeldBy is a finalizer that would hold objects.
type HeldBy struct {
	Finalizer string `json:"finalizer"`
	Objects   int    `json:"objects"`
}

// Failure is a source that did not answer.
type Failure struct {
	Source string `json:"source"`
	Text   string `json:"text"`
}
