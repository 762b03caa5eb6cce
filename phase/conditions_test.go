package phase_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/phase"
)

var (
	before = deleted
	after  = deleted.Add(time.Minute)
)

func TestLastTransitionTimeMovesOnlyWithStatus(t *testing.T) {
	t.Parallel()
	pods := func(n int) phase.Observation {
		return phase.Observation{Remaining: []phase.Remaining{{"", "pods", n}}}
	}
	first := phase.Conditions(nil, pods(2), "", before)
	second := phase.Conditions(first, pods(1), "", after)
	require.Equal(t, phase.At(before), second[3].LastTransitionTime, "the message changed, the status did not")
	require.Equal(t, "Some resources are remaining: pods. has 1 resource instances", second[3].Message)
	third := phase.Conditions(second, pods(0), "", after)
	require.Equal(t, phase.At(after), third[3].LastTransitionTime, "the status changed")
	require.Equal(t, phase.At(before), third[0].LastTransitionTime)
	require.Empty(t, cmp.Diff(third, phase.Conditions(third, pods(0), "", after.Add(time.Hour))), "nothing changed")
}

func TestConditionsOfOthersAreKept(t *testing.T) {
	t.Parallel()
	mine := phase.Condition{Type: "example.com/Mine", Status: phase.True, LastTransitionTime: phase.At(before), Message: "m"}
	one := phase.Conditions([]phase.Condition{mine}, phase.Observation{Content: errs("x")}, "", before)
	two := phase.Conditions(one, phase.Observation{}, "a/b", after)
	require.Empty(t, cmp.Diff(one, two[:6]), "existing conditions stay in place")
	require.Len(t, two, 11)
	three := phase.Conditions(two, phase.Observation{}, "", after)
	require.Equal(t, mine, three[0])
	require.Empty(t, cmp.Diff(two[6:], three[6:]))
	require.Equal(t, phase.False, three[3].Status)

	// Wrong order and duplicates written by a client are repaired.
	shuffled := slices.Clone(three)
	slices.Reverse(shuffled[1:6])
	shuffled = append(shuffled, shuffled[2])
	require.Empty(t, cmp.Diff(three, phase.Conditions(shuffled, phase.Observation{}, "", after)))
}

func TestConditionsShareNothing(t *testing.T) {
	t.Parallel()
	old := phase.Conditions(nil, phase.Observation{}, "", before)
	kept := slices.Clone(old)
	failures := errs("b", "a")
	next := phase.Conditions(old, phase.Observation{Content: failures}, "", after)
	for i := range next {
		next[i].Message = "changed"
	}
	require.Empty(t, cmp.Diff(kept, old))
	require.EqualError(t, failures[0], "b", "the caller's list is not sorted in place")
}

func TestConditionEqual(t *testing.T) {
	t.Parallel()
	c := phase.Condition{Type: "T", Status: phase.True, LastTransitionTime: phase.At(before), Reason: "R", Message: "M"}
	d := c
	d.LastTransitionTime = phase.Time{Time: before.In(time.FixedZone("", 3600))}
	require.True(t, c.Equal(d), "the same moment in another zone")
	for _, change := range []func(*phase.Condition){
		func(c *phase.Condition) { c.Type = "" }, func(c *phase.Condition) { c.Status = "" },
		func(c *phase.Condition) { c.LastTransitionTime = phase.At(after) },
		func(c *phase.Condition) { c.Reason = "" }, func(c *phase.Condition) { c.Message = "" },
	} {
		d := c
		change(&d)
		require.False(t, c.Equal(d), "%+v", d)
	}
}

func ExampleConditions() {
	seen := phase.Observation{
		Remaining:  []phase.Remaining{{Group: "example.com", Resource: "widgets", Count: 1}, {Resource: "pods", Count: 2}},
		Finalizers: []phase.Holder{{Finalizer: "example.com/backup", Objects: 1}},
	}
	for _, c := range phase.Conditions(nil, seen, "", time.Now()) {
		if c.Status != phase.False {
			fmt.Printf("%s: %s\n", c.Type, c.Message)
		}
	}
	// Output:
	// NamespaceContentRemaining: Some resources are remaining: pods. has 2 resource instances, widgets.example.com has 1 resource instances
	// NamespaceFinalizersRemaining: Some content in the namespace has finalizers remaining: example.com/backup in 1 resource instances
}

func BenchmarkConditions(b *testing.B) {
	old := phase.Conditions(nil, phase.Observation{}, "", before)
	for name, seen := range map[string]phase.Observation{
		"healthy":   {},
		"remaining": {Remaining: []phase.Remaining{{"", "pods", 3}}, Finalizers: []phase.Holder{{Finalizer: "a/b", Objects: 1}}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				phase.Conditions(old, seen, "", after)
			}
		})
	}
}

func (c counted) Failures() int { return c.n }
