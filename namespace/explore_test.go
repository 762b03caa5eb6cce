package namespace_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// explored is the result of a breadth-first search: every reachable state and the first path to it.
type explored struct {
	states []state
	number map[state]int32
	from   []int32  // the previous state
	by     []string // the step from there
	back   [][]int32
}

// explore visits every reachable state. It stops at the first step that breaks safety and returns the
// path to it.
func explore(m *model, start state) (*explored, error) {
	e := &explored{number: map[state]int32{}}
	e.visit(start, -1, "begin")
	for at := 0; at < len(e.states); at++ {
		for _, t := range m.next(e.states[at]) {
			if t.broken != nil {
				return e, fmt.Errorf("%w\n%s%s", t.broken, e.story(int32(at)), t.name)
			}
			to := e.visit(t.to, int32(at), t.name)
			if t.progress {
				e.back[to] = append(e.back[to], int32(at))
			}
		}
	}
	return e, nil
}

func (e *explored) visit(s state, from int32, by string) int32 {
	if n, ok := e.number[s]; ok {
		return n
	}
	n := int32(len(e.states))
	e.number[s] = n
	e.states = append(e.states, s)
	e.from = append(e.from, from)
	e.by = append(e.by, by)
	e.back = append(e.back, nil)
	return n
}

func (e *explored) story(at int32) string {
	if at < 0 {
		return ""
	}
	return e.story(e.from[at]) + e.by[at] + "\n"
}

// stuck returns the path to a state with a terminating namespace that healthy steps alone cannot
// remove, or nil.
func (e *explored) stuck() error {
	reaches := make([]bool, len(e.states))
	var queue []int32
	for i, s := range e.states {
		if !s.ns.terminating() {
			reaches[i] = true
			queue = append(queue, int32(i))
		}
	}
	for len(queue) > 0 {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, before := range e.back[at] {
			if !reaches[before] {
				reaches[before] = true
				queue = append(queue, before)
			}
		}
	}
	for i, ok := range reaches {
		if !ok {
			return fmt.Errorf("R12: no removal can be reached any more\n%s", e.story(int32(i)))
		}
	}
	return nil
}

// The scenarios differ in the parties and in the budgets. Their product has too many states.
var scenarios = []struct {
	name string
	who  [2]int
	left budget
}{
	{"two parties and a crash", [2]int{0, 1}, budget{contents: 2, incarnations: 1, crashes: 1}},
	{"two replicas of one party and protections", [2]int{0, 0}, budget{incarnations: 2, writes: 1, crashes: 1, declarations: 2}},
	{"two parties, a late one and protections", [2]int{0, 1}, budget{incarnations: 1, writes: 1, declarations: 2}},
	{"two parties and a recreation", [2]int{0, 1}, budget{contents: 1, incarnations: 2}},
	{"two parties, a late one and a crash", [2]int{0, 1}, budget{incarnations: 1, writes: 1, crashes: 1}},
	{"two replicas of one party", [2]int{0, 0}, budget{contents: 1, incarnations: 2, crashes: 1}},
	{"two parties, a late one and a failure", [2]int{0, 1}, budget{contents: 1, incarnations: 1, writes: 1, failures: 1}},
	{"two replicas of one party and a failure", [2]int{0, 0}, budget{contents: 2, incarnations: 1, writes: 1, failures: 1}},
}

// The search covers every interleaving of the steps of passes, of a client and of a crash.
func TestR1_R3_R4_R6_R7_R8_R11_R12_Exploration(t *testing.T) {
	t.Parallel()
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			if underRace && sc.left.failures > 0 {
				t.Skip("too many states for the race detector, which has nothing to find here: one goroutine explores")
			}
			started := time.Now()
			e, err := explore(newModel(sc.who), state{left: sc.left})
			require.NoError(t, err)
			removed := 0
			for _, s := range e.states {
				if s.seenUID == sc.left.incarnations && s.ns.uid == 0 {
					removed++
				}
			}
			t.Logf("%d states, %d of them after the last removal, in %v", len(e.states), removed, time.Since(started).Round(time.Millisecond))
			require.Greater(t, len(e.states), 1000, "the model has lost its steps")
			require.Positive(t, removed)
			require.NoError(t, e.stuck())
		})
	}
}

// Packing a namespace keeps everything that a step depends on.
func TestModelPacks(t *testing.T) {
	t.Parallel()
	e, err := explore(newModel([2]int{0, 1}), state{left: budget{contents: 1, incarnations: 1, failures: 1, declarations: 1}})
	require.NoError(t, err)
	for _, s := range e.states {
		if s.ns.uid != 0 {
			require.Equal(t, s.ns, pack(s.ns.unpack()))
		}
	}
}

// exploreAll explores every scenario with a changed model, up to the first failure.
func exploreAll(change func(*model)) error {
	for _, sc := range scenarios {
		m := newModel(sc.who)
		change(m)
		e, err := explore(m, state{left: sc.left})
		if err == nil {
			err = e.stuck()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// The search detects each broken rule.
func TestExplorationFindsMutants(t *testing.T) {
	t.Parallel()
	sees := func(change func(*namespace.Observed)) func(*model) {
		return func(m *model) {
			m.decide = func(ns namespace.Namespace, party namespace.Party, seen namespace.Observed, now time.Time) namespace.Decision {
				change(&seen)
				return namespace.Decide(ns, party, seen, now)
			}
		}
	}
	decides := func(change func(namespace.Namespace, *namespace.Decision)) func(*model) {
		return func(m *model) {
			m.decide = func(ns namespace.Namespace, party namespace.Party, seen namespace.Observed, now time.Time) namespace.Decision {
				d := namespace.Decide(ns, party, seen, now)
				change(ns, &d)
				return d
			}
		}
	}
	updates := func(change func(n *namespace.Namespace, asked namespace.Namespace)) func(*model) {
		return func(m *model) {
			m.update = func(old, updated namespace.Namespace) namespace.Namespace {
				n := namespace.PrepareUpdate(old, updated)
				change(&n, updated)
				return n
			}
		}
	}
	tests := []struct {
		name   string
		change func(*model)
		want   string
	}{
		{"finalizes although a source failed", sees(func(o *namespace.Observed) { o.Discovery, o.Failed = nil, nil }), "R7:"},
		{"finalizes although something remains", sees(func(o *namespace.Observed) { o.Remaining = nil }), "R7:"},
		{"ignores that objects are held", sees(func(o *namespace.Observed) {
			if len(o.Finalizers) > 0 {
				o.Observation = phase.Observation{}
			}
		}), "R7:"},
		{"ignores the incarnation", sees(func(o *namespace.Observed) { o.UID = "" }), "R8:"},
		{"takes every finalizer", decides(func(_ namespace.Namespace, d *namespace.Decision) {
			if d.Finalize {
				d.Finalizers = finalizer.Set{}
			}
		}), "R4:"},
		{"never finalizes", decides(func(_ namespace.Namespace, d *namespace.Decision) { d.Finalize = false }), "R12:"},
		{"finalizes only as the last party", decides(func(ns namespace.Namespace, d *namespace.Decision) {
			d.Finalize = d.Finalize && ns.Spec.Finalizers.Len() == 1
		}), "R12:"},
		{"removes in spite of a finalizer", func(m *model) {
			m.removable = func(n namespace.Namespace) bool { return !n.DeletionTimestamp.IsZero() }
		}, "R1:"},
		{"removes an Active namespace", func(m *model) {
			m.removable = func(n namespace.Namespace) bool { return n.Spec.Finalizers.Len() < 2 }
		}, "R1:"},
		{"never removes", func(m *model) { m.removable = func(namespace.Namespace) bool { return false } }, "R12:"},
		{"an update writes spec.finalizers", updates(func(n *namespace.Namespace, asked namespace.Namespace) { n.Spec = asked.Spec }), "R4:"},
		{"an update takes the deletion back", updates(func(n *namespace.Namespace, asked namespace.Namespace) {
			n.DeletionTimestamp = asked.DeletionTimestamp
		}), "R3:"},
		{"deletes a protected namespace", func(m *model) { m.deletable = func(namespace.Namespace) error { return nil } }, "protection:"},
		{"refuses to delete a terminating, protected namespace", func(m *model) {
			deletable := m.deletable
			m.deletable = func(n namespace.Namespace) error {
				n.DeletionTimestamp = phase.Time{}
				return deletable(n)
			}
		}, "R3:"},
		{"never removes a protected namespace", func(m *model) {
			m.removable = func(n namespace.Namespace) bool { return namespace.Removable(n) && n.Annotations[protection] == "" }
		}, "R12:"},
		{"deletion is not fenced", func(m *model) { m.unfenced = true }, "R8:"},
		{"creation is not gated", func(m *model) { m.ungated = true }, "R6:"},
		{"finalize does not compare", func(m *model) { m.unswapped = true }, "R4:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := exploreAll(tt.change)
			require.Error(t, err, "the search did not detect it")
			require.True(t, strings.HasPrefix(err.Error(), tt.want), "%v", err)
		})
	}
}
