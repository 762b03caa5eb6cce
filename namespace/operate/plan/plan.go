// Package plan predicts the deletion of a namespace: whether DELETE would be accepted, and
// which objects it would delete. It writes nothing.
package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Outcome is the predicted outcome of DELETE. The zero value is none.
type Outcome string

// The outcomes.
const (
	Terminates Outcome = "terminates" // the namespace becomes Terminating, or is removed at once if it has no finalizer
	Holds      Outcome = "holds"      // the namespace has a grace, so its deletion is put on hold until Until
	Nothing    Outcome = "nothing"    // the namespace does not change: it is Terminating, or on hold with a grace
	Refused    Outcome = "refused"    // DELETE is refused; see Refusal
)

// Plan is the predicted deletion of a namespace. Create one with [Of].
type Plan struct {
	Name        string               `json:"name"`
	UID         string               `json:"uid"`
	Phase       phase.Phase          `json:"phase"` // Terminating: DELETE changes nothing, and Types lists the remaining content
	At          time.Time            `json:"at"`
	Delete      Outcome              `json:"delete"`              // the outcome of DELETE now
	Refusal     string               `json:"refusal,omitempty"`   // the reason for Refused
	Until       time.Time            `json:"until,omitzero"`      // the end of the hold that DELETE would begin, or zero
	Unguarded   bool                 `json:"unguarded,omitempty"` // the host ignores declarations in the annotations, see Options
	Protections []declare.Protection `json:"protections,omitempty"`
	Grace       time.Duration        `json:"grace,omitempty"`      // the length of the hold that DELETE begins, once it is not refused; nanoseconds in JSON
	Hold        *declare.Hold        `json:"hold,omitempty"`       // the current hold; DELETE waits for it if the outcome is Nothing
	Finalizers  []finalizer.Name     `json:"finalizers,omitempty"` // spec.finalizers, each of which its owner must remove
	// MetadataFinalizers is metadata.finalizers, whose owners must remove them too.
	MetadataFinalizers []finalizer.Name `json:"metadataFinalizers,omitempty"`
	Types              []Type           `json:"types"`              // the types that would be deleted, those with objects first
	Failures           []Failure        `json:"failures,omitempty"` // sources that did not answer; with any, the plan is incomplete
}

// Type is one resource type of a plan.
type Type struct {
	Resource string         `json:"resource"`
	Objects  int            `json:"objects"`
	More     bool           `json:"more,omitempty"` // Objects is a lower bound
	Sample   []string       `json:"sample,omitempty"`
	HeldBy   []phase.Holder `json:"heldBy,omitempty"`
}

// Failure is a source that did not answer.
type Failure struct {
	Source string `json:"source"` // a resource type or a group; empty: the inspection as a whole
	Text   string `json:"text"`
}

// Complete reports whether every source answered.
func (p Plan) Complete() bool { return len(p.Failures) == 0 }

// Objects returns the number of objects that would be deleted, as far as known.
func (p Plan) Objects() int {
	n := 0
	for _, t := range p.Types {
		n += t.Objects
	}
	return n
}

// Namespaces reads namespaces, as registry.Registry does.
type Namespaces interface {
	Get(ctx context.Context, name string) (namespace.Namespace, error)
}

// Inspector reports the content of a namespace without deleting it, as [*deleter.Composed]
// does.
type Inspector interface {
	Inspect(ctx context.Context, target deleter.Target) (deleter.Report, error)
}

var _ Inspector = (*deleter.Composed)(nil)

// Options tunes [Of]. Zero fields take the defaults.
type Options struct {
	// Immortal lists the namespaces that cannot be deleted, as in the options of the
	// registry. Nil means [namespace.DefaultImmortal], an empty list none.
	Immortal []string
	// Unguarded declares that the host ignores the annotations of this library, as stock
	// Kubernetes does. The plan then lists protections, graces and holds, and does not apply
	// them.
	Unguarded bool
}

func (o Options) withDefaults() Options {
	if o.Immortal == nil {
		o.Immortal = namespace.DefaultImmortal()
	}
	return o
}

// Of returns the plan for the current namespace: the outcome of DELETE, the finalizers that
// hold the namespace, and the objects that would be deleted or, if it is terminating, that
// remain. It only reads.
//
// The prediction follows from the namespace and the options. Admission plugins or webhooks may
// still refuse DELETE, and the user may lack permission. Failures lists the sources that did
// not answer, or that cannot inspect an Active namespace ([deleter.Viewer]). Of locks nothing,
// so later changes are not in the plan. If another incarnation takes the name meanwhile, the
// sources fail (rule R8).
//
// The errors are those of Get, such as [namespace.ErrNotFound]; [namespace.ErrInvalid] for
// an invalid name; and the cause of a context that ended.
func Of(ctx context.Context, namespaces Namespaces, inspector Inspector, name string, options *Options) (Plan, error) {
	if wrong := namespace.ValidateName(name); len(wrong) > 0 {
		return Plan{}, &namespace.Error{Kind: namespace.ErrInvalid, Resource: namespace.Resource, Name: name,
			Message: fmt.Sprintf("plan: namespace %.80q: the name is invalid: %s", name, strings.Join(wrong, "; "))}
	}
	var o Options
	if options != nil {
		o = *options
	}
	n, err := namespaces.Get(ctx, name)
	if err != nil {
		return Plan{}, fmt.Errorf("plan: read namespace %q: %w", name, err)
	}
	p := of(n, o.withDefaults(), time.Now())
	report, err := inspector.Inspect(ctx, deleter.Target{Namespace: name, UID: n.UID, DeletedAt: n.DeletionTimestamp.Time})
	if ctx.Err() != nil {
		return Plan{}, fmt.Errorf("plan: inspect namespace %q: %w", name, context.Cause(ctx))
	}
	p.addContent(report, err)
	return p, nil
}

// of returns the part of the plan that follows from the namespace.
func of(n namespace.Namespace, o Options, at time.Time) Plan {
	p := Plan{
		Name: n.Name, UID: n.UID, Phase: n.Phase(), At: at.UTC().Round(0), Types: []Type{},
		Finalizers: n.Spec.Finalizers.Names(), MetadataFinalizers: n.Finalizers.Names(),
	}
	// Unreadable protections protect too: the refusal lists them.
	p.Protections, _ = declare.Protections(n.Meta)
	if p.Phase == phase.Terminating {
		p.Delete = Nothing
		return p
	}
	if hold, held, err := declare.HoldOf(n.Meta); held && err == nil {
		p.Hold = &hold
	}
	if o.Unguarded {
		p.Unguarded = declares(n)
		n.Annotations = nil
	}
	if err := p.delete(n, o.Immortal, at); err != nil {
		p.Delete, p.Refusal = Refused, err.Error()
	}
	return p
}

// declares reports whether any annotation of n is a declaration.
func declares(n namespace.Namespace) bool {
	for key := range n.Annotations {
		if declare.Declares(key) {
			return true
		}
	}
	return false
}

// delete sets the outcome of DELETE of n, which is Active. It returns the error with which DELETE
// would be refused.
func (p *Plan) delete(n namespace.Namespace, immortal []string, at time.Time) error {
	refused := declare.ValidateDelete(n, namespace.Preconditions{}, immortal...)
	next, err := declare.PrepareDelete(n, "", at)
	switch {
	case err != nil:
		return cmp.Or(refused, err)
	case next.Phase() == phase.Terminating:
		p.Delete = Terminates
	case next.Annotations[declare.HoldAnnotation] == n.Annotations[declare.HoldAnnotation]:
		p.Delete = Nothing
	default:
		p.Delete = Holds
		p.Grace, _ = declare.GraceOf(n.Meta) // PrepareDelete has validated it
		if hold, _, _ := declare.HoldOf(next.Meta); refused == nil {
			p.Until = hold.Until
		}
	}
	return refused
}

// addContent adds the content of the namespace.
func (p *Plan) addContent(report deleter.Report, err error) {
	for f := range report.Failures() {
		p.fail(f.Source(), f.Err)
	}
	for _, r := range report.Results {
		if r.Err != nil && r.Remaining == 0 {
			continue
		}
		t := Type{Resource: r.Resource.String(), Objects: r.Remaining, More: r.More || r.Err != nil, Sample: r.Sample, HeldBy: r.Holders}
		p.Types = append(p.Types, t)
	}
	if err != nil && len(p.Failures) == 0 {
		p.fail("", err)
	}
	slices.SortStableFunc(p.Types, func(a, b Type) int {
		switch empty := a.Objects == 0; {
		case empty == (b.Objects == 0):
			return strings.Compare(a.Resource, b.Resource)
		case empty:
			return 1
		}
		return -1
	})
}

func (p *Plan) fail(source string, err error) {
	p.Failures = append(p.Failures, Failure{Source: source, Text: err.Error()})
}
