package namespace_test

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Every small state: what is stored, who asks, and what was seen.

var (
	now      = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	earlier  = now.Add(-time.Hour)
	three    = []finalizer.Name{finalizer.Kubernetes, "openshift.com/origin", "example.com/agent"}
	errLooks = errors.New("a look failed")
)

// sequences yields every ordered subset of names.
func sequences(names []finalizer.Name) []finalizer.Set {
	all := []finalizer.Set{{}}
	for at := 0; at < len(all); at++ {
		for _, n := range names {
			if !all[at].Has(n) {
				all = append(all, all[at].With(n))
			}
		}
	}
	return all
}

// stored yields namespaces: finalizers of both kinds, both phases, conditions
// from before, and a status.phase that disagrees.
func stored() iter.Seq[namespace.Namespace] {
	foreign := phase.Condition{Type: "example.com/Foreign", Status: phase.True, LastTransitionTime: phase.At(earlier)}
	failing := phase.Observation{Content: []error{errLooks}, Remaining: []phase.Remaining{{Resource: "pods", Count: 3}}}
	previous := [][]phase.Condition{
		nil,
		append([]phase.Condition{foreign}, phase.Conditions(nil, phase.Observation{}, "", earlier)...),
		phase.Conditions(phase.Conditions(nil, failing, "openshift.com/origin", earlier), failing, "", earlier),
	}
	return func(yield func(namespace.Namespace) bool) {
		for _, spec := range sequences(three) {
			for _, meta := range []finalizer.Set{{}, finalizer.NewSet("example.com/audit")} {
				for i, conditions := range previous {
					for _, deleted := range []bool{false, true} {
						n := namespace.Namespace{
							TypeMeta: namespace.TypeMeta{Kind: "Namespace", APIVersion: "v1"},
							Meta: namespace.Meta{Name: "x", UID: "uid-1", ResourceVersion: "7", Finalizers: meta,
								CreationTimestamp: phase.At(earlier), Labels: map[string]string{namespace.NameLabel: "x"}},
							Spec:   namespace.Spec{Finalizers: spec},
							Status: namespace.Status{Phase: phase.Active, Conditions: conditions},
						}
						if deleted {
							n.DeletionTimestamp = phase.At(earlier)
							if i < 2 { // else the stored phase is wrong
								n.Status.Phase = phase.Terminating
							}
						}
						if !yield(n) {
							return
						}
					}
				}
			}
		}
	}
}

// sightings yields everything that a pass may have seen: of the right incarnation
// and of another.
func sightings() []namespace.Observed {
	var all []namespace.Observed
	failure := func(is bool) []error {
		if is {
			return []error{errLooks}
		}
		return nil
	}
	for bits := range 1 << 5 {
		for _, remaining := range [][]phase.Remaining{nil, {{Resource: "pods", Count: 1}}, {{Resource: "pods"}}, {{Resource: "pods", Count: -1}}} {
			for _, held := range [][]phase.Holder{nil, {{Finalizer: "a/b", Objects: 1}}} {
				seen := namespace.Observed{
					Observation: phase.Observation{
						Discovery: failure(bits&1 != 0), Parsing: failure(bits&2 != 0), Content: failure(bits&4 != 0),
						Remaining: remaining, Finalizers: held, Unasked: bits >> 3 & 1,
					},
					Estimate: time.Duration(len(all)%3-1) * time.Second,
				}
				if bits&16 != 0 {
					seen.Failed = errLooks
				}
				for _, uid := range []string{[]string{"", "uid-1"}[len(all)/2%2], "uid-2"} {
					seen.UID = uid
					all = append(all, seen)
				}
			}
		}
	}
	return all
}

// askers are those who ask for a decision: two of the three, one of them also as
// primary, and one that never held anything.
var askers = []namespace.Party{
	{Finalizer: finalizer.Kubernetes}, {Finalizer: "openshift.com/origin"},
	{Finalizer: "example.com/agent", Primary: true}, {Finalizer: "example.com/stranger"},
}

type question struct {
	ns    namespace.Namespace
	party namespace.Party
	seen  namespace.Observed
}

func (q question) String() string {
	return fmt.Sprintf("deleted %t, spec.finalizers %v, metadata.finalizers %v, %d conditions, status %s, asked by %s, seen %+v",
		!q.ns.DeletionTimestamp.IsZero(), q.ns.Spec.Finalizers.Names(), q.ns.Finalizers.Names(), len(q.ns.Status.Conditions), q.ns.Status.Phase,
		q.party.Finalizer, q.seen)
}

// concerned tells whether there is anything for the party to decide.
func (q question) concerned() bool {
	return !q.ns.DeletionTimestamp.IsZero() && (q.seen.UID == "" || q.seen.UID == q.ns.UID) && q.ns.Spec.Finalizers.Has(q.party.Finalizer)
}

func (q question) failed() bool {
	return len(q.seen.Discovery)+len(q.seen.Parsing)+len(q.seen.Content) > 0 || q.seen.Failed != nil
}

func (q question) partial() bool {
	return q.failed() || q.seen.Unasked > 0 || len(q.seen.Remaining) > 0 && q.seen.Remaining[0].Count < 0
}

func (q question) remains() bool { return len(q.seen.Remaining) > 0 && q.seen.Remaining[0].Count > 0 }

func (q question) held() bool { return len(q.seen.Finalizers) > 0 }

// status returns what the five conditions must say, in order.
func (q question) statuses() [5]phase.ConditionStatus {
	is := func(b bool) phase.ConditionStatus {
		if b {
			return phase.True
		}
		return phase.False
	}
	unlessPartial := func(b bool) phase.ConditionStatus {
		if !b && q.partial() {
			return phase.Unknown
		}
		return is(b)
	}
	otherwise := q.seen.Failed != nil && len(q.seen.Discovery)+len(q.seen.Parsing)+len(q.seen.Content) == 0
	return [5]phase.ConditionStatus{
		is(len(q.seen.Discovery) > 0), is(len(q.seen.Parsing) > 0), is(len(q.seen.Content) > 0 || otherwise),
		unlessPartial(q.remains()), unlessPartial(q.held()),
	}
}
