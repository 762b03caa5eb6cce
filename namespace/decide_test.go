package namespace_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

type decider func(namespace.Namespace, namespace.Party, namespace.Observed, time.Time) namespace.Decision

// rules check a decision. Each returns the broken rule, or "".
var rules = map[string]func(question, namespace.Decision) string{
	"R1": func(q question, d namespace.Decision) string {
		last := q.ns.Finalizers.IsZero() && d.Finalizers.IsZero()
		return differs("Remove", d.Finalize && last && !q.ns.DeletionTimestamp.IsZero(), d.Remove)
	},
	"R2": func(q question, d namespace.Decision) string {
		if d.StatusChanged && d.Status.Phase != phase.Of(q.ns.DeletionTimestamp.Time) {
			return "the status to write has the phase " + string(d.Status.Phase)
		}
		return ""
	},
	"R3": func(q question, d namespace.Decision) string {
		if q.ns.DeletionTimestamp.IsZero() {
			return differs("anything to do for an active namespace", false, d.StatusChanged || d.Finalize || d.Remove || !d.Done)
		}
		return ""
	},
	"R4": func(q question, d namespace.Decision) string {
		want := q.ns.Spec.Finalizers
		if d.Finalize {
			want = want.Without(q.party.Finalizer)
		}
		if !want.Equal(d.Finalizers) {
			return fmt.Sprintf("Finalizers are %v and should be %v", d.Finalizers.Names(), want.Names())
		}
		return ""
	},
	"R7": func(q question, d namespace.Decision) string {
		may := q.concerned() && !q.partial() && !q.remains() && !q.held()
		if wrong := differs("Finalize", may, d.Finalize); wrong != "" {
			return wrong
		}
		if wrong := differs("Done", may || !q.concerned(), d.Done); wrong != "" {
			return wrong
		}
		after := time.Duration(0)
		if q.concerned() && !may && !q.failed() {
			after = max(q.seen.Estimate, 0)
		}
		return differs("After", after, d.After)
	},
	"R8": func(q question, d namespace.Decision) string {
		if q.seen.UID == "" || q.seen.UID == q.ns.UID {
			return ""
		}
		return differs("anything to do for another incarnation", false, d.StatusChanged || d.Finalize || d.Remove || !d.Done)
	},
	"R9": func(q question, d namespace.Decision) string {
		same := slices.Equal(q.ns.Status.Conditions, d.Status.Conditions) && q.ns.Status.Phase == d.Status.Phase
		if !q.concerned() {
			return differs("whether the status stays", true, same)
		}
		ours := typesOf[q.party]
		for i, want := range q.statuses() {
			if wrong := conditionWrong(q, d.Status.Conditions, ours[i], want); wrong != "" {
				return wrong
			}
		}
		for _, c := range q.ns.Status.Conditions {
			if !slices.Contains(ours[:], c.Type) && !slices.Contains(d.Status.Conditions, c) {
				return "the condition " + string(c.Type) + " of somebody else was not kept"
			}
		}
		return differs("StatusChanged", !same, d.StatusChanged)
	},
}

// typesOf has the condition types of each party.
var typesOf = func() map[namespace.Party][5]phase.ConditionType {
	all := map[namespace.Party][5]phase.ConditionType{}
	for _, party := range deciders {
		types := [5]phase.ConditionType{phase.DiscoveryFailure, phase.GroupVersionParsingFailure, phase.ContentFailure,
			phase.ContentRemaining, phase.FinalizersRemaining}
		if !party.Primary && party.Finalizer != finalizer.Kubernetes {
			for i, t := range types {
				types[i] = phase.ConditionType(party.Finalizer) + "." + t
			}
		}
		all[party] = types
	}
	return all
}()

func conditionWrong(q question, list []phase.Condition, t phase.ConditionType, want phase.ConditionStatus) string {
	moved := phase.At(now)
	for _, was := range q.ns.Status.Conditions {
		if was.Type == t && was.Status == want {
			moved = was.LastTransitionTime
		}
	}
	times := 0
	for _, is := range list {
		if is.Type != t {
			continue
		}
		times++
		if is.Status != want || is.LastTransitionTime != moved || is.Reason == "" || is.Message == "" {
			return fmt.Sprintf("the condition %+v should have status %s and time %v", is, want, moved)
		}
	}
	if times != 1 {
		return fmt.Sprintf("the condition %s is there %d times", t, times)
	}
	return ""
}

func differs[T comparable](what string, want, is T) string {
	if want == is {
		return ""
	}
	return fmt.Sprintf("%s is %v and should be %v", what, is, want)
}

// ask passes every stride-th question to decide and returns the first failure of each rule.
func ask(decide decider, stride int) (asked int, wrong map[string]string) {
	wrong = map[string]string{}
	seen := observations()
	i := 0
	for ns := range stored() {
		for _, party := range deciders {
			for _, s := range seen {
				if i++; i%stride != 0 {
					continue
				}
				asked++
				q := question{ns, party, s}
				d := decide(ns, party, s, now)
				for rule, check := range rules {
					if wrong[rule] == "" {
						if text := check(q, d); text != "" {
							wrong[rule] = text + "\n" + q.String()
						}
					}
				}
			}
		}
	}
	return asked, wrong
}

var asked = sync.OnceValues(func() (int, map[string]string) {
	if underRace {
		return ask(namespace.Decide, 7)
	}
	return ask(namespace.Decide, 1)
})

func requireRule(t *testing.T, rule string) {
	t.Helper()
	t.Parallel()
	n, wrong := asked()
	t.Logf("%d states", n)
	require.Empty(t, wrong[rule])
}

func TestR1_DecisionRemovesWhenNothingHoldsIt(t *testing.T)             { requireRule(t, "R1") }
func TestR2_DecisionWritesTheDerivedPhase(t *testing.T)                 { requireRule(t, "R2") }
func TestR3_DecisionLeavesActiveAlone(t *testing.T)                     { requireRule(t, "R3") }
func TestR4_DecisionTakesItsOwnFinalizerOnly(t *testing.T)              { requireRule(t, "R4") }
func TestR7_DecisionFinalizesOnlyEmptyNamespaces(t *testing.T)          { requireRule(t, "R7") }
func TestR8_DecisionIgnoresOtherIncarnations(t *testing.T)              { requireRule(t, "R8") }
func TestR9_DecisionReportsTheObservationInEveryCondition(t *testing.T) { requireRule(t, "R9") }

// Each rule detects a decision that breaks it.
func TestDecisionRulesFindMutants(t *testing.T) {
	t.Parallel()
	after := func(change func(ns namespace.Namespace, party namespace.Party, d *namespace.Decision)) decider {
		return func(ns namespace.Namespace, party namespace.Party, seen namespace.Observed, at time.Time) namespace.Decision {
			d := namespace.Decide(ns, party, seen, at)
			change(ns, party, &d)
			return d
		}
	}
	before := func(change func(ns *namespace.Namespace, seen *namespace.Observed)) decider {
		return func(ns namespace.Namespace, party namespace.Party, seen namespace.Observed, at time.Time) namespace.Decision {
			change(&ns, &seen)
			return namespace.Decide(ns, party, seen, at)
		}
	}
	tests := []struct {
		name   string
		decide decider
		rule   string
	}{
		{"removes although metadata.finalizers hold", before(func(ns *namespace.Namespace, _ *namespace.Observed) { ns.Finalizers = finalizer.Set{} }), "R1"},
		{"never removes", after(func(_ namespace.Namespace, _ namespace.Party, d *namespace.Decision) { d.Remove = false }), "R1"},
		{"keeps a wrong phase", after(func(ns namespace.Namespace, _ namespace.Party, d *namespace.Decision) {
			d.Status.Phase = ns.Status.Phase
		}), "R2"},
		{"ends active namespaces", before(func(ns *namespace.Namespace, _ *namespace.Observed) { ns.DeletionTimestamp = phase.At(earlier) }), "R3"},
		{"takes all finalizers", after(func(_ namespace.Namespace, _ namespace.Party, d *namespace.Decision) { d.Finalizers = finalizer.Set{} }), "R4"},
		{"turns their order", after(func(_ namespace.Namespace, _ namespace.Party, d *namespace.Decision) {
			names := d.Finalizers.Names()
			slices.Reverse(names)
			d.Finalizers = finalizer.NewSet(names...)
		}), "R4"},
		{"forgets discovery", before(func(_ *namespace.Namespace, s *namespace.Observed) { s.Discovery = nil }), "R7"},
		{"forgets parsing", before(func(_ *namespace.Namespace, s *namespace.Observed) { s.Parsing = nil }), "R7"},
		{"forgets failed content", before(func(_ *namespace.Namespace, s *namespace.Observed) { s.Content = nil }), "R7"},
		{"forgets other failures", before(func(_ *namespace.Namespace, s *namespace.Observed) { s.Failed = nil }), "R7"},
		{"forgets what was not asked", before(func(_ *namespace.Namespace, s *namespace.Observed) { s.Unasked = 0 }), "R7"},
		{"forgets what remains", before(func(_ *namespace.Namespace, s *namespace.Observed) { s.Remaining = nil }), "R7"},
		{"forgets what is held", before(func(_ *namespace.Namespace, s *namespace.Observed) { s.Finalizers = nil }), "R7"},
		{"trusts the estimate after a failure", after(func(_ namespace.Namespace, _ namespace.Party, d *namespace.Decision) {
			if !d.Done {
				d.After = time.Second
			}
		}), "R7"},
		{"ignores the incarnation", before(func(_ *namespace.Namespace, s *namespace.Observed) { s.UID = "" }), "R8"},
		{"claims success after a failure", after(func(_ namespace.Namespace, _ namespace.Party, d *namespace.Decision) {
			for i, c := range d.Status.Conditions {
				if c.Status == phase.Unknown {
					d.Status.Conditions[i].Status = phase.False
				}
			}
		}), "R9"},
		{"drops conditions", after(func(_ namespace.Namespace, _ namespace.Party, d *namespace.Decision) {
			d.Status.Conditions = d.Status.Conditions[:min(5, len(d.Status.Conditions))]
		}), "R9"},
		{"moves every time", after(func(_ namespace.Namespace, _ namespace.Party, d *namespace.Decision) {
			for i := range d.Status.Conditions {
				d.Status.Conditions[i].LastTransitionTime = phase.At(now)
			}
		}), "R9"},
		{"writes for no reason", after(func(_ namespace.Namespace, _ namespace.Party, d *namespace.Decision) { d.StatusChanged = true }), "R9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, wrong := ask(tt.decide, 7)
			require.NotEmpty(t, wrong[tt.rule], "%s did not notice; others said %v", tt.rule, wrong)
		})
	}
}

// Decide does not change its arguments, and its result shares nothing with them.
func TestDecideSharesNothing(t *testing.T) {
	t.Parallel()
	ns := full()
	kept := ns.DeepCopy()
	seen := namespace.Observed{Observation: phase.Observation{Content: []error{errLooks}}}
	for _, party := range []namespace.Party{{Finalizer: "openshift.com/origin"}, {Finalizer: finalizer.Kubernetes}, {Finalizer: "not/there"}} {
		d := namespace.Decide(ns, party, seen, now)
		require.Equal(t, kept, ns)
		for i := range d.Status.Conditions {
			d.Status.Conditions[i].Message = "changed"
		}
		require.Equal(t, kept, ns)
	}
}

// A failure outside of the observation is reported as a content failure.
func TestR9_OtherFailureIsReported(t *testing.T) {
	t.Parallel()
	ns := namespace.MarkDeleted(namespace.PrepareCreate(namespace.Namespace{Meta: namespace.Meta{Name: "x"}}, "", "u", earlier), earlier)
	d := namespace.Decide(ns, namespace.Party{Finalizer: finalizer.Kubernetes}, namespace.Observed{Failed: errLooks}, now)
	require.False(t, d.Finalize)
	require.Equal(t, "Failed to delete all resource types, 1 remaining: a look failed", d.Status.Conditions[2].Message)
	require.True(t, strings.HasPrefix(d.Status.Conditions[3].Message, "No remaining resources were seen, but "))
}

// The inputs of Decide: every small stored namespace, party and observation.

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

// stored yields namespaces with finalizers of both kinds, in both phases, with earlier conditions, and
// with a wrong status.phase.
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

// observations yields the possible observations of a pass, of the stored incarnation and of another.
func observations() []namespace.Observed {
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

// deciders are the parties: two of the three, one of them also as primary, and one without a
// finalizer.
var deciders = []namespace.Party{
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

// concerned reports whether the party has anything to decide.
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

// status returns the expected status of the five conditions, in order.
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
