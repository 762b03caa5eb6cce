// Package explain reports why a namespace still exists and how to proceed.
//
// [Explain] is a pure function from everything known about a namespace to a [Diagnosis].
// The conditions of the namespace suffice, including those that a stock Kubernetes wrote.
// Three sources improve the answer: a [Recorder] beside the controller (progress, counted
// failures, names of objects), package parties (owners of finalizers) and package audit
// (actions of operators). An [Explainer] gathers them all for one name.
//
// A diagnosis lists the causes in the order in which to act on them, each with a remedy.
// It reads as text ([Diagnosis.Text]) and as JSON; package debug shows it on a page.
// DESIGN.md explains the order.
//
// Nothing in this package writes to a namespace or a store.
package explain

import (
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/internal/show"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Input is everything that [Explain] may use. A missing part makes the diagnosis poorer,
// not wrong.
type Input struct {
	Name      string              // default: the name of Namespace
	Namespace namespace.Namespace // zero: no namespace has the name
	History   History             // from [Recorder.History]
	Parties   []parties.Party     // announced parties; nil: not known
	Records   []audit.Record      // of the name, the oldest first
	Unread    error               // why Namespace could not be read
	Notes     []string            // facts that could not be found out
	Unguarded bool                // see [Options]
	Primary   finalizer.Name      // see [Options]
	Now       time.Time
}

// Diagnosis reports why a namespace still exists and how to proceed. Its strings are as found:
// [Diagnosis.Text] escapes them, other readers must do so themselves.
type Diagnosis struct {
	Name     string      `json:"name"`
	UID      string      `json:"uid,omitempty"`
	Phase    phase.Phase `json:"phase,omitempty"` // empty: the namespace does not exist, or its phase is not known
	Stage    phase.Stage `json:"stage,omitempty"`
	Since    time.Time   `json:"since,omitzero"` // when the phase began
	At       time.Time   `json:"at"`
	Summary  string      `json:"summary"`            // the state and the first cause, in one sentence
	Causes   []Cause     `json:"causes,omitempty"`   // the one to act on first
	Progress *Progress   `json:"progress,omitempty"` // nil: no progress is known, or deleted content reappears
	Holders  []Holder    `json:"holders,omitempty"`  // finalizers of the namespace, in their order
	Objects  []Objects   `json:"objects,omitempty"`  // remaining content by resource type
	Failures []Failure   `json:"failures,omitempty"` // recorded failures by source and text, the latest first
	Passes   []Pass      `json:"passes,omitempty"`   // the latest recorded passes, the oldest first
	Next     *Next       `json:"next,omitempty"`
	Notes    []string    `json:"notes,omitempty"` // facts that could not be found out
}

// Cause is one reason why the namespace still exists.
type Cause struct {
	Kind    Kind      `json:"kind"`
	Source  string    `json:"source,omitempty"` // resource type, group, finalizer or protection
	Summary string    `json:"summary"`          // the fact, in one sentence
	Detail  string    `json:"detail,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Remedy  Remedy    `json:"remedy"`
}

// Remedy is the next step for a cause. Its commands are for kubectl, which needs package apiserver or
// a Kubernetes cluster; on another host, call the method of [registry.Registry] that does the same.
type Remedy struct {
	Text    string `json:"text"`
	Command string `json:"command,omitempty"` // for a POSIX shell
	// Template is a command or a Go call with <PLACEHOLDERS>. It neither runs nor compiles
	// until they are filled in.
	Template string `json:"template,omitempty"`
}

// Progress measures a deletion.
type Progress struct {
	Removed   int       `json:"removed"`             // objects, as far as known
	Known     bool      `json:"known"`               // Remaining is known; an empty count proves nothing while a source has not answered
	Remaining int       `json:"remaining"`           // objects of the namespace, and objects left by a forced drop
	AtLeast   bool      `json:"atLeast,omitempty"`   // more than Remaining may remain
	Percent   int       `json:"percent"`             // removed share; an upper bound if AtLeast; 100 only if nothing remains
	PerSecond float64   `json:"perSecond,omitempty"` // recent rate of removals
	End       time.Time `json:"end,omitzero"`        // expected at that rate, or later if AtLeast; zero: not known
	Passes    int       `json:"passes,omitempty"`    // recorded passes
}

// Holder is a finalizer of the namespace and the state of its owner.
type Holder struct {
	Finalizer finalizer.Name `json:"finalizer"`
	Object    bool           `json:"object,omitempty"` // it is in metadata.finalizers
	Since     time.Time      `json:"since,omitzero"`
	Asked     bool           `json:"asked"` // announced parties are known; otherwise the next four fields mean nothing
	Known     bool           `json:"known"` // its owner has announced itself
	Alive     bool           `json:"alive"`
	LastSeen  time.Time      `json:"lastSeen,omitzero"`
	LastPass  time.Time      `json:"lastPass,omitzero"` // end of its owner's last recorded pass
	Contact   string         `json:"contact,omitempty"`
}

// Objects is the remaining content of one resource type.
type Objects struct {
	Party     finalizer.Name `json:"party,omitempty"` // whose pass counted it; empty: read from a condition
	Resource  string         `json:"resource"`
	Remaining int            `json:"remaining"`
	Deleting  int            `json:"deleting"` // of those, the ones marked for deletion
	Sample    []string       `json:"sample,omitempty"`
	HeldBy    []HeldBy       `json:"heldBy,omitempty"`
	Waiting   bool           `json:"waiting,omitempty"`   // not deleted yet: earlier types are not empty
	AtLeast   bool           `json:"atLeast,omitempty"`   // more than Remaining may remain
	Returning bool           `json:"returning,omitempty"` // reappears as fast as it is deleted
	Since     time.Time      `json:"since,omitzero"`      // when the count last went down
	Counted   time.Time      `json:"counted,omitzero"`    // when the count was taken
	Old       bool           `json:"old,omitempty"`       // the count predates the last pass, or its controller has stopped reporting
}

// HeldBy is a finalizer on objects of one resource type.
type HeldBy struct {
	phase.Holder
	Since time.Time `json:"since,omitzero"`
}

// Failure is one way in which a source failed, once or repeatedly.
type Failure struct {
	Kind     Kind      `json:"kind"`
	Source   string    `json:"source"` // resource type, group, or another part of a pass
	Text     string    `json:"text"`
	Count    int       `json:"count"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Unwaived int       `json:"unwaived,omitempty"` // objects at the last answer of the source, which make its waiver ineffective
}

// Pass is one recorded pass over the namespace.
type Pass struct {
	Start     time.Time      `json:"start"`
	Took      time.Duration  `json:"took"` // nanoseconds in JSON
	Party     finalizer.Name `json:"party,omitempty"`
	Outcome   string         `json:"outcome"`
	Deleted   int            `json:"deleted"`
	Remaining int            `json:"remaining"`
	Error     string         `json:"error,omitempty"`
}

// Next is the next pass over the namespace.
type Next struct {
	At     time.Time `json:"at"` // at the latest; in the past if the pass runs, is queued, or is overdue
	Reason string    `json:"reason"`
}

// The reasons of a [Next] that began in the past.
const (
	nextRunning = "running"
	nextQueued  = "queued"
)

// maxCauses bounds a diagnosis; causes of the lowest rank are dropped.
const maxCauses = 64

// Explain diagnoses a namespace. It is a pure function and does not modify in.
func Explain(in Input) Diagnosis {
	f := gather(in)
	d := Diagnosis{
		Name: f.name, UID: f.uid, Phase: f.phase, Stage: f.stage, Since: f.since, At: in.Now.UTC(),
		Objects: f.listed(), Failures: f.history.failures, Passes: f.history.passes, Notes: f.Notes, Progress: f.progress,
	}
	for _, h := range f.holders {
		d.Holders = append(d.Holders, h.Holder)
	}
	d.Causes = f.causes()
	d.conclude()
	d.Summary = d.Name + " is " + d.state() + ": " + d.Causes[0].Summary
	if f.phase == phase.Terminating {
		d.Next = f.next()
	}
	return d
}

// state returns the state of the namespace in two words.
func (d *Diagnosis) state() string {
	if len(d.Causes) == 0 {
		return "not known"
	}
	return d.Causes[0].Kind.state(d.Phase)
}

// conclude corrects the progress by the first cause: no end is predicted for a stuck
// namespace, and content that reappears makes no progress.
func (d *Diagnosis) conclude() {
	p := d.Progress
	if p != nil && d.state() == stuck {
		p.End = time.Time{}
	}
	for i := range d.Causes {
		c := &d.Causes[i]
		switch {
		case c.Kind == Returning:
			d.Progress, p = nil, nil
		case c.Kind != Moving || p == nil || p.End.IsZero():
		case p.AtLeast:
			c.Summary += ", at least another " + show.Duration(p.End.Sub(d.At))
		default:
			c.Summary += ", done in about " + show.Duration(p.End.Sub(d.At))
		}
	}
}
