package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Namespaces is where the namespaces are kept. registry.Registry is one.
type Namespaces interface {
	Get(ctx context.Context, name string) (namespace.Namespace, error)
}

// Inspector tells what is in a namespace without deleting anything. [*deleter.Composed] is
// one.
type Inspector interface {
	Inspect(ctx context.Context, target deleter.Target) (deleter.Report, error)
}

var _ Inspector = (*deleter.Composed)(nil)

// Options tunes [Of]. Zero fields take the defaults.
type Options struct {
	// Immortal are the names of namespaces that cannot be deleted, as the registry has
	// them. Nil is the registry's default: "default", "kube-system", "kube-public"; empty
	// and not nil is none.
	Immortal []string
	// Unguarded says that the namespaces are kept by a host which does not look at the
	// annotations of this library, such as a stock Kubernetes: protections, graces and
	// holds are in the plan, and nothing comes of them.
	Unguarded bool
}

// Of returns the plan for a namespace as it is now: what DELETE would lead to, whose
// finalizers hold it, and what would be deleted. What it says of DELETE follows from the
// namespace and the options: links of an admission chain, or webhooks, may refuse it all
// the same, and the host may keep users from it. It reads only. Sources that do not
// answer, or that cannot look at a namespace that is Active ([deleter.Viewer]), are in the
// plan as failures: it says what it does not know. Of a terminating namespace it tells
// what is left.
//
// Nothing is locked: what happens after the look is not in the plan. If the name goes to
// another incarnation meanwhile, the sources refuse to tell of it (rule R8).
//
// The errors are those of Get, such as [namespace.ErrNotFound]; [namespace.ErrInvalid]
// for a name or arguments that make no sense; and the cause of a context that ended.
func Of(ctx context.Context, namespaces Namespaces, looker Inspector, name string, options *Options) (Plan, error) {
	switch {
	case ctx == nil || namespaces == nil || looker == nil:
		return Plan{}, invalid(name, "the context, the namespaces and the looker are required")
	case len(namespace.ValidateName(name)) > 0:
		return Plan{}, invalid(name, "no namespace can have this name: %s", strings.Join(namespace.ValidateName(name), "; "))
	}
	var o Options
	if options != nil {
		o = *options
	}
	if o.Immortal == nil {
		o.Immortal = []string{"default", "kube-system", "kube-public"}
	}
	n, err := namespaces.Get(ctx, name)
	if err != nil {
		return Plan{}, fmt.Errorf("plan: read namespace %q: %w", name, err)
	}
	p := of(n, o, time.Now())
	report, err := looker.Inspect(ctx, deleter.Target{Namespace: name, UID: n.UID, DeletedAt: n.DeletionTimestamp.Time})
	if ctx.Err() != nil {
		return Plan{}, fmt.Errorf("plan: look at namespace %q: %w", name, context.Cause(ctx))
	}
	p.see(report, err)
	return p, nil
}

func invalid(name, format string, args ...any) error {
	return &namespace.Error{Kind: namespace.ErrInvalid, Resource: namespace.Resource, Name: name,
		Message: fmt.Sprintf("plan: namespace %.80q: ", name) + fmt.Sprintf(format, args...)}
}

// of is what the namespace itself tells.
func of(n namespace.Namespace, o Options, at time.Time) Plan {
	p := Plan{
		Name: n.Name, UID: n.UID, Phase: n.Phase(), At: at.UTC().Round(0), Types: []Type{},
		Finalizers: n.Spec.Finalizers.Names(), Own: n.Finalizers.Names(),
	}
	// Protections that cannot be read protect all the same: the refusal names them.
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

// delete tells what DELETE of n, which is Active, would lead to; the error would be the
// answer.
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
		p.Grace, _ = declare.GraceOf(n.Meta) // PrepareDelete has read it, and has made the hold
		if hold, _, _ := declare.HoldOf(next.Meta); refused == nil {
			p.Until = hold.Until
		}
	}
	return refused
}

// see adds what is in the namespace.
func (p *Plan) see(report deleter.Report, err error) {
	for _, errs := range [][]error{report.Discovery, report.Parsing, {report.Failed}} {
		for _, err := range errs {
			p.fail(deleter.SourceOf(err), err)
		}
	}
	for _, r := range report.Results {
		p.fail(r.Resource.String(), r.Err)
		if r.Err != nil && r.Remaining == 0 {
			continue
		}
		t := Type{Resource: r.Resource.String(), Objects: r.Remaining, More: r.More || r.Err != nil, Sample: r.Sample, HeldBy: r.Holders}
		p.Types = append(p.Types, t)
	}
	if len(p.Failures) == 0 {
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
	if err == nil {
		return
	}
	p.Failures = append(p.Failures, Failure{Source: source, Text: err.Error()})
}
