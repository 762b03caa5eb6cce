// Package explain answers why a namespace is still there, and what to do.
//
// [Explain] is a pure function: it makes a [Diagnosis] of whatever is known. The
// conditions of the namespace alone will do, also those that a stock Kubernetes wrote;
// a [Recorder] beside the controller adds what it saw (progress, failures with their
// counts, the objects by name), package parties adds who owns the finalizers, package
// audit what operators did. An [Explainer] gathers all of that for one name.
//
// A diagnosis names the true cause first: DESIGN.md says how causes are ranked. Every
// cause has a remedy. It reads as text ([Diagnosis.Text]), as JSON, and as a page of
// its own ([Diagnosis.HTML]).
//
// Nothing here writes anything, to the namespace or elsewhere.
package explain

import (
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Input is everything that a diagnosis is made of. Whatever is missing makes it poorer,
// never wrong: the conditions of the namespace alone will do.
type Input struct {
	Name      string              // of the namespace; empty: that of Namespace
	Namespace namespace.Namespace // as it is now; zero: there is none of that name
	History   History             // what a [Recorder] saw of it; zero: nothing
	Parties   []parties.Party     // what agents announced; nil: not known
	Records   []audit.Record      // of that name, the oldest first
	Unread    string              // why Namespace could not be read; empty: it was, or there is none
	Notes     []string            // what else could not be found out
	Unguarded bool                // see [Options]
	Now       time.Time
}

// Diagnosis is why a namespace is still there, and what to do. Its strings are as they
// were found: only [Diagnosis.Text] and [Diagnosis.HTML] make them safe to be shown.
type Diagnosis struct {
	Name     string      `json:"name"`
	UID      string      `json:"uid,omitempty"`
	Phase    phase.Phase `json:"phase,omitempty"` // empty: there is no such namespace
	Stage    phase.Stage `json:"stage,omitempty"`
	Since    time.Time   `json:"since,omitzero"` // when that phase began
	At       time.Time   `json:"at"`
	Summary  string      `json:"summary"`            // one sentence
	Causes   []Cause     `json:"causes,omitempty"`   // what keeps it; the true cause first
	Progress *Progress   `json:"progress,omitempty"` // nil: there is none, as of content that comes back
	Holders  []Holder    `json:"holders,omitempty"`  // finalizers of the namespace, in their order
	Objects  []Objects   `json:"objects,omitempty"`  // what is left, by type
	Failures []Failure   `json:"failures,omitempty"` // by source and text, the last one first
	Passes   []Pass      `json:"passes,omitempty"`   // the latest, the oldest first
	Next     *Next       `json:"next,omitempty"`
	Notes    []string    `json:"notes,omitempty"` // what could not be found out, so that this is poorer
}

// Cause is one thing that keeps the namespace, and what to do about it.
type Cause struct {
	Kind    Kind      `json:"kind"`
	Source  string    `json:"source,omitempty"` // the resource type, group, finalizer or protection
	Summary string    `json:"summary"`          // one sentence
	Detail  string    `json:"detail,omitempty"`
	Since   time.Time `json:"since,omitzero"` // zero: not known
	Remedy  Remedy    `json:"remedy"`
}

// Remedy is what to do about a cause.
type Remedy struct {
	Text    string `json:"text"`
	Command string `json:"command,omitempty"` // for a shell; empty: there is none
	// Template is another command, or call, with <PLACEHOLDERS>: it neither runs nor
	// compiles before they are filled in. Empty: there is none.
	Template string `json:"template,omitempty"`
}

// Progress is how far a deletion has come.
type Progress struct {
	Removed int `json:"removed"` // so far, as far as known
	// Known reports whether Remaining is known. A pass that saw no objects proves nothing
	// while sources have not answered or were not asked.
	Known     bool      `json:"known"`
	Remaining int       `json:"remaining"`         // objects of the namespace, or objects left by a forced drop
	AtLeast   bool      `json:"atLeast,omitempty"` // there may be more than Remaining
	Percent   int       `json:"percent"`           // percentage of removed objects; an upper bound if AtLeast, zero unless Known; 100: none remain
	PerSecond float64   `json:"perSecond,omitempty"`
	End       time.Time `json:"end,omitzero"`     // by that rate, and later if AtLeast; zero: cannot be told
	Passes    int       `json:"passes,omitempty"` // so far, as far as recorded
}

// Holder is a finalizer of the namespace, and who owns it.
type Holder struct {
	Finalizer finalizer.Name `json:"finalizer"`
	Object    bool           `json:"object,omitempty"` // it is one of metadata.finalizers
	Since     time.Time      `json:"since,omitzero"`
	Asked     bool           `json:"asked"` // what agents announced is known; otherwise the next four tell nothing
	Known     bool           `json:"known"` // its owner announced itself, now or once
	Alive     bool           `json:"alive"` // and is there
	LastSeen  time.Time      `json:"lastSeen,omitzero"`
	LastPass  time.Time      `json:"lastPass,omitzero"` // when its owner last ended a pass, as far as recorded
	Contact   string         `json:"contact,omitempty"`
}

// Objects is what is left of one resource type.
type Objects struct {
	Party     finalizer.Name `json:"party,omitempty"` // whose passes counted it; empty: not known
	Resource  string         `json:"resource"`
	Remaining int            `json:"remaining"`
	Deleting  int            `json:"deleting"`
	Sample    []string       `json:"sample,omitempty"`
	HeldBy    []HeldBy       `json:"heldBy,omitempty"`
	Waiting   bool           `json:"waiting,omitempty"`   // not asked: it comes after something that is not empty
	AtLeast   bool           `json:"atLeast,omitempty"`   // there was too much to count
	Returning bool           `json:"returning,omitempty"` // it is deleted again and again, and does not get less
	Since     time.Time      `json:"since,omitzero"`      // for how long the count has not gone down
	Counted   time.Time      `json:"counted,omitzero"`    // when; zero: not known
	Old       bool           `json:"old,omitempty"`       // that was before the last pass, or nobody tells any more: it may be otherwise now
}

// HeldBy is a finalizer that holds objects.
type HeldBy struct {
	phase.Holder
	Since time.Time `json:"since,omitzero"`
}

// Failure is what failed in the same way once or several times.
type Failure struct {
	Kind   Kind      `json:"kind"`   // the cause that it is
	Source string    `json:"source"` // the resource type, the group, or what else was asked
	Text   string    `json:"text"`
	Count  int       `json:"count"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	// Unwaived is how many objects were left of the source when it last told, or at least
	// so many, so that a waiver of it does not count; zero: nobody waives it, or it counts.
	Unwaived int `json:"unwaived,omitempty"`
}

// Pass is one pass over the namespace.
type Pass struct {
	Start     time.Time      `json:"start"`
	Took      time.Duration  `json:"took"` // nanoseconds in JSON
	Party     finalizer.Name `json:"party,omitempty"`
	Outcome   string         `json:"outcome"`
	Deleted   int            `json:"deleted"`
	Remaining int            `json:"remaining"`
	Error     string         `json:"error,omitempty"`
}

// Next is when the namespace will be looked at again.
type Next struct {
	At     time.Time `json:"at"` // at the latest; in the past: it runs or is queued since then, or is overdue
	Reason string    `json:"reason"`
}
